//! A connection of the peer: reads requests and writes responses, in HTTP/1.1 and in HTTP/2.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::sleep,
};

use super::{
    Counts, Headers, Http1, Http2, PendingRequest, Protocol, Request, Script, Step, requests::Reply,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE: usize = 24;
const LARGEST_FRAME: usize = 16_384;

pub(crate) struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    counts: Arc<Mutex<Counts>>,
    ask: mpsc::UnboundedSender<PendingRequest>,
    /// The index of the connection, from 0.
    index: usize,
    /// Bytes read but not yet parsed.
    buffer: Vec<u8>,
    /// True if the last request was a POST, or before the first request.
    is_post: bool,
    /// HTTP/1.1: the last request.
    request: Request,
    /// HTTP/2: the stream of the last request.
    stream_id: u32,
    /// HTTP/2: true after the client's preface has been read.
    has_read_preface: bool,
    /// HTTP/2: true after SETTINGS have been sent.
    has_sent_settings: bool,
    /// HTTP/2: true to send no SETTINGS and no acknowledgements.
    is_mute: bool,
}

impl Connection {
    pub(crate) fn new(
        stream: TcpStream,
        protocol: Protocol,
        counts: Arc<Mutex<Counts>>,
        ask: mpsc::UnboundedSender<PendingRequest>,
    ) -> Self {
        let index = {
            let mut counts = counts.lock().unwrap();
            counts.connections += 1;
            counts.received.push(Vec::new());
            counts.connections - 1
        };
        // Disable Nagle's algorithm, so that each write is sent immediately.
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            protocol,
            counts,
            ask,
            index,
            buffer: Vec::new(),
            is_post: true,
            request: Request::default(),
            stream_id: 1,
            has_read_preface: false,
            has_sent_settings: false,
            is_mute: false,
        }
    }

    /// Repeats the script until a step or the client ends the connection.
    pub(crate) async fn perform(mut self, script: Script) {
        loop {
            for step in &script {
                match self.perform_step(step).await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return,
                }
            }
        }
    }

    /// Performs a step. Returns false if the connection has ended.
    async fn perform_step(&mut self, step: &Step) -> io::Result<bool> {
        match step {
            Step::ReadRequest => {
                match self.protocol {
                    Http1 => self.read_http1_request().await?,
                    Http2 => self.read_http2_request().await?,
                }
                self.counts.lock().unwrap().requests += 1;
            }
            Step::PeekRequest if !self.buffer.is_empty() => {}
            Step::PeekRequest => {
                self.stream.peek(&mut [0]).await?;
            }
            Step::Mute => self.is_mute = true,
            Step::Sync if self.protocol == Http1 => {}
            Step::Sync => {
                self.stream.write_all(&frame(PING, 0, 0, &[0; 8])).await?;
                // Buffer the client's next request, which can arrive before the acknowledgement of the PING.
                let mut request = Vec::new();
                loop {
                    let (kind, flags, stream_id, payload) = self.read_frame().await?;
                    match kind {
                        PING if flags & ACK != 0 => break,
                        HEADERS | CONTINUATION | DATA => {
                            request.extend(frame(kind, flags, stream_id, &payload));
                        }
                        _ => {}
                    }
                }
                self.buffer.splice(..0, request);
            }
            Step::Ask => return self.pass_to_test().await,
            Step::Process => self.counts.lock().unwrap().agents += usize::from(self.is_post),
            Step::Slowly(pause, step) => {
                for byte in self.encode(step) {
                    self.stream.write_all(&[byte]).await?;
                    sleep(*pause).await;
                }
            }
            Step::Reset => {
                self.stream.set_zero_linger()?;
                return Ok(false);
            }
            Step::End => {
                self.stream.shutdown().await?;
                // Closing with unread bytes would reset the connection.
                while self.read().await.is_ok() {}
                return Ok(false);
            }
            Step::Silence => {
                while self.read().await.is_ok() {}
                return Ok(false);
            }
            Step::Answer(..) | Step::Head(..) | Step::Body(..) | Step::Raw(_) | Step::Frame(..) => {
                let bytes = self.encode(step);
                self.stream.write_all(&bytes).await?;
                let is_whole = matches!(step, Step::Answer(..));
                self.counts.lock().unwrap().answered += usize::from(is_whole);
            }
        }
        Ok(true)
    }

    /// Passes the request to the test and sends the reply. Returns false if the connection has ended.
    async fn pass_to_test(&mut self) -> io::Result<bool> {
        let (pending, mut receiver) = PendingRequest::new(std::mem::take(&mut self.request));
        if self.ask.send(pending).is_err() {
            return Ok(false);
        }
        let reply = tokio::select! {
            reply = &mut receiver.reply => reply,
            _ = self.read() => return Ok(false),
        };
        drop(receiver);
        let (text, stays_open) = match reply {
            Ok(Reply::Response {
                status,
                headers,
                body,
            }) => (response(status, &headers, &body), true),
            Ok(Reply::Close(text)) => (text, false),
            Err(_) => return Ok(false),
        };
        self.stream.write_all(text.as_bytes()).await?;
        self.counts.lock().unwrap().answered += 1;
        Ok(stays_open)
    }

    /// Reads more bytes into the buffer. Fails at the end of the connection.
    async fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        let count = self.stream.read(&mut chunk).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend(&chunk[..count]);
        let mut counts = self.counts.lock().unwrap();
        counts.received[self.index].extend(&chunk[..count]);
        Ok(())
    }

    async fn read_exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.read().await?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Reads the next HTTP/2 frame: type, flags, stream, payload.
    async fn read_frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        let head = self.read_exactly(9).await?;
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        };
        let payload = self.read_exactly(number(&head[..3]) as usize).await?;
        Ok((head[3], head[4], number(&head[5..]), payload))
    }

    async fn read_http1_request(&mut self) -> io::Result<()> {
        let end = loop {
            if let Some(at) = self
                .buffer
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n")
            {
                break at + 4;
            }
            self.read().await?;
        };
        let original: String = self
            .read_exactly(end)
            .await?
            .into_iter()
            .map(char::from)
            .collect();
        let head = original.to_ascii_lowercase();
        let length = head.split("\r\ncontent-length: ").nth(1);
        let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        let body = self.read_exactly(length).await?;
        self.is_post = head.starts_with("post ");
        let request = Request {
            head: original,
            body,
        };
        self.counts.lock().unwrap().arrived.push(request.clone());
        self.request = request;
        Ok(())
    }

    async fn read_http2_request(&mut self) -> io::Result<()> {
        if !self.has_read_preface {
            self.read_exactly(PREFACE).await?;
            self.has_read_preface = true;
        }
        if !self.has_sent_settings && !self.is_mute {
            self.stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
            self.has_sent_settings = true;
        }
        loop {
            let (kind, flags, stream_id, payload) = self.read_frame().await?;
            match kind {
                HEADERS => {
                    self.stream_id = stream_id;
                    // The first header is the method: in HPACK's static table, entries 2 and 3 are GET and POST. Other
                    // methods are literals with the name of entry 2 or, if repeated, entries of the dynamic table, from
                    // 62.
                    assert!(
                        matches!(payload[0], 0x82 | 0x83 | 0x42 | 0xbe..),
                        "{payload:?}"
                    );
                    self.is_post = payload[0] == 0x83;
                }
                SETTINGS | PING if flags & ACK == 0 && !self.is_mute => {
                    let echo = if kind == PING { &*payload } else { &[] };
                    self.stream.write_all(&frame(kind, ACK, 0, echo)).await?;
                }
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return Ok(());
            }
        }
    }

    fn encode(&self, step: &Step) -> Vec<u8> {
        match (step, self.protocol) {
            (Step::Raw(bytes), _) => bytes.clone(),
            (Step::Frame(kind, flags, on_stream, payload), _) => {
                let stream_id = if *on_stream { self.stream_id } else { 0 };
                frame(*kind, *flags, stream_id, payload)
            }
            (Step::Answer(status, headers, body), Http1) => {
                let mut headers = headers.clone();
                // Responses with these statuses have no body and no Content-Length.
                if !matches!(status, 100..200 | 204 | 304) {
                    headers.push(("content-length", body.len().to_string()));
                }
                let mut bytes = head_http1(*status, &headers);
                bytes.extend(body);
                bytes
            }
            (Step::Answer(status, headers, body), Http2) => {
                let mut bytes = self.head_http2(*status, headers);
                bytes.extend(self.data(body, true));
                bytes
            }
            (Step::Head(status, headers), Http1) => head_http1(*status, headers),
            (Step::Head(status, headers), Http2) => self.head_http2(*status, headers),
            (Step::Body(bytes, _), Http1) => bytes.clone(),
            (Step::Body(bytes, last), Http2) => self.data(bytes, *last),
            _ => panic!("{step:?} has no bytes"),
        }
    }

    fn data(&self, bytes: &[u8], last: bool) -> Vec<u8> {
        let mut frames = Vec::new();
        for chunk in bytes.chunks(LARGEST_FRAME) {
            frames.extend(frame(DATA, 0, self.stream_id, chunk));
        }
        if last {
            frames.extend(frame(DATA, END_STREAM, self.stream_id, &[]));
        }
        frames
    }

    fn head_http2(&self, status: u16, headers: &Headers) -> Vec<u8> {
        // A literal with the name of entry 8 of the static table: `:status`.
        let mut block = vec![0x08];
        block.extend(encode_string(&status.to_string()));
        for (name, value) in headers {
            block.push(0x00);
            block.extend(encode_string(name));
            block.extend(encode_string(value));
        }
        let mut frames = Vec::new();
        let chunks = block.chunks(LARGEST_FRAME);
        let last = chunks.len() - 1;
        for (index, chunk) in chunks.enumerate() {
            let kind = if index == 0 { HEADERS } else { CONTINUATION };
            let flags = if index == last { END_HEADERS } else { 0 };
            frames.extend(frame(kind, flags, self.stream_id, chunk));
        }
        frames
    }
}

fn response(status: u16, headers: &Headers, body: &str) -> String {
    let mut text = format!(
        "HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n" + body
}

fn head_http1(status: u16, headers: &Headers) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Any\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn frame(kind: u8, flags: u8, stream_id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream_id.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes a string for HPACK (RFC 7541, section 5.2), without Huffman coding.
fn encode_string(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match text.len() {
        length @ 0..127 => bytes.push(length as u8),
        length => {
            bytes.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
    }
    bytes.extend(text.bytes());
    bytes
}
