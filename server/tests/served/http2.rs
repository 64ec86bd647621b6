//! HTTP/2 from callers that break its rules or use up what it allows. Frames are built by hand where no client would
//! build them; the `h2` crate is the well-behaved caller.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    AGENT, KEY, connect, create_agent, get_deal, process::Running, read_response, send,
};
use bytes::Bytes;
use dealkit_server::Sandbox;
use http::Request;

const SHORT: Duration = Duration::from_millis(300);

/// How late an event may be on a busy machine.
const LATE: Duration = Duration::from_secs(5);

// ---- frames by hand ------------------------------------------------------------------------------------

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HPACK: header fields as literals without indexing and without Huffman coding.
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(&mut block, name);
        string(&mut block, value);
    }
    block
}

fn string(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(u8::try_from(length).unwrap());
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        block.push(u8::try_from(length).unwrap());
    }
    // Each character as one byte, so that a field can be written with `\u{ff}`.
    block.extend(
        text.chars()
            .map(|character| u8::try_from(character).unwrap()),
    );
}

const PATH: &str = "/v1/deals/d_1";
const GET: [(&str, &str); 5] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "h"),
    (":path", PATH),
    ("x-service-key", KEY),
];
const POST: [(&str, &str); 6] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "h"),
    (":path", "/v1/agents"),
    ("x-service-key", KEY),
    ("content-type", "application/json"),
];

/// A request without a body.
fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields(&GET))
}

/// A request with these fields and without a body.
fn request(list: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(list))
}

/// The fields of a request for a deal, with some more.
fn get_with(more: &[(&str, &str)]) -> Vec<u8> {
    request(&[&GET[..], more].concat())
}

fn get_without(name: &str) -> Vec<u8> {
    request(
        &GET.into_iter()
            .filter(|field| field.0 != name)
            .collect::<Vec<_>>(),
    )
}

fn get_but(name: &str, value: &str) -> Vec<u8> {
    request(&GET.map(|field| {
        if field.0 == name {
            (name, value)
        } else {
            field
        }
    }))
}

/// The head of a request with a body.
fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    frame(
        HEADERS,
        END_HEADERS,
        stream,
        &fields(&[&POST[..], more].concat()),
    )
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A connection that has exchanged settings.
fn open(address: SocketAddr, settings: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    stream.set_nodelay(true).unwrap();
    let beginning = [
        PREFACE,
        &frame(SETTINGS, 0, 0, settings),
        &frame(SETTINGS, ACK, 0, &[]),
    ]
    .concat();
    stream.write_all(&beginning).unwrap();
    while !matches!(
        read_frame(&mut stream),
        Ok(Frame {
            kind: SETTINGS,
            flags: ACK,
            ..
        })
    ) {}
    stream
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(Frame {
        kind,
        flags,
        stream: u32::from_be_bytes(id) & 0x7fff_ffff,
        payload,
    })
}

fn code(frame: &Frame) -> u32 {
    let at = if frame.kind == GOAWAY { 4 } else { 0 };
    u32::from_be_bytes(frame.payload[at..at + 4].try_into().unwrap())
}

/// The status at the beginning of a block of header fields: the only part of HPACK that is decoded here.
fn status(block: &[u8]) -> u16 {
    match block[0] {
        0x88 => 200,
        0x89 => 204,
        0x8c => 400,
        0x8d => 404,
        // `:status` from the static table, with a literal value: three digits in Huffman code.
        0x48 | 0x08 => {
            let bits = block[2..5]
                .iter()
                .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let mut left = 24;
            (0..3).fold(0, |status, _| {
                let five = bits >> (left - 5) & 0x1f;
                let (digit, length) = if five < 3 {
                    (five, 5)
                } else {
                    ((bits >> (left - 6) & 0x3f) - 0x16, 6)
                };
                left -= length;
                status * 10 + u16::try_from(digit).unwrap()
            })
        }
        other => panic!("{other:x}"),
    }
}

/// The outcome for a caller. Responses to other streams and to pings, and window updates, are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Stream 1 was answered, and not reset before the end of the response.
    Answered(u16),
    /// Stream 1 was reset with this code.
    Reset(u32),
    /// The connection was closed with this code.
    Goaway(u32),
    /// The connection ended without GOAWAY.
    Ended,
}
use Outcome::{Answered, Ended, Goaway, Reset};

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const ENHANCE_YOUR_CALM: u32 = 11;

fn outcome(stream: &mut TcpStream) -> Outcome {
    let mut answered = None;
    loop {
        let frame = match read_frame(stream) {
            Ok(frame) => frame,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("it hangs"),
            Err(_) => return Ended,
        };
        if let (HEADERS, 1) = (frame.kind, frame.stream) {
            answered = Some(status(&frame.payload));
        }
        match (frame.kind, frame.stream) {
            (GOAWAY, _) => return Goaway(code(&frame)),
            (RST_STREAM, 1) => return Reset(code(&frame)),
            (HEADERS | DATA, 1) if frame.flags & END_STREAM != 0 => {
                return Answered(answered.unwrap());
            }
            _ => {}
        }
    }
}

// ---- another caller meanwhile --------------------------------------------------------------------------

/// Signals that something is over, even if it failed.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `attack` while another caller uses the server.
///
/// The other caller must be served all the time and afterwards, and the server must use no more than `mib` of memory.
fn beside_another_caller<T>(server: &Running, mib: usize, attack: impl FnOnce() -> T) -> T {
    let before = server.memory("VmHWM");
    let address = server.address;
    let is_over = AtomicBool::new(false);
    let served = AtomicUsize::new(0);
    let outcome = thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut stream = connect(address);
            let mut slowest = Duration::ZERO;
            for request in [get_deal("d_1"), create_agent(AGENT)].iter().cycle() {
                let asked = Instant::now();
                stream.write_all(request.as_bytes()).unwrap();
                assert!(matches!(
                    read_response(&mut stream, false).status,
                    200 | 201
                ));
                slowest = slowest.max(asked.elapsed());
                served.fetch_add(1, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    return slowest;
                }
            }
            slowest
        });
        while served.load(Ordering::Relaxed) == 0 && !caller.is_finished() {
            thread::yield_now();
        }
        let outcome = {
            let _over = Over(&is_over);
            attack()
        };
        let slowest = caller.join().unwrap();
        assert!(
            slowest < Duration::from_secs(2),
            "the slowest response took {slowest:?}"
        );
        outcome
    });
    assert_eq!(send(address, get_deal("d_1").as_bytes()).status, 200);
    let mut stream = open(address, &[]);
    stream.write_all(&get(1)).unwrap();
    assert_eq!(self::outcome(&mut stream), Answered(200));
    let taken = server.memory("VmHWM").saturating_sub(before);
    assert!(taken < mib << 20, "{} MiB", taken >> 20);
    outcome
}

/// Writes until everything is written, or the other side has closed or has stopped reading.
fn flood(stream: &mut TcpStream, bytes: &[u8]) {
    stream
        .set_write_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let _ = stream.write_all(bytes);
}

// ---- rules ---------------------------------------------------------------------------------------------

/// Each on a connection of its own: what follows the settings, and the outcome.
///
/// h2 uses PROTOCOL_ERROR where the RFC has a more specific code, and closes the connection where resetting the stream
/// would do.
#[test]
#[rustfmt::skip] // A table: one case a line.
fn broken_rules() {
    let body = |length: &str| [post(1, &[("content-length", length)]), frame(DATA, END_STREAM, 1, AGENT.as_bytes())].concat();
    let n = AGENT.len().to_string();
    let long = "x".repeat(70_000);
    let many: Vec<_> = (0..1_500).map(|number| (format!("x-{number}"), "y".repeat(40))).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let cases: &[(&str, Vec<u8>, Outcome)] = &[
        ("a request", get(1), Answered(200)),
        ("a body of the declared length", body(&n), Answered(201)),
        // Pseudo-headers.
        ("no :authority", get_without(":authority"), Answered(400)),
        ("no :authority but a host", request(&[&[(":method", "GET"), (":scheme", "http"), (":path", PATH)][..], &[("host", "h"), ("x-service-key", KEY)]].concat()), Answered(400)),
        ("no :method", get_without(":method"), Reset(PROTOCOL_ERROR)),
        ("no :path", get_without(":path"), Reset(PROTOCOL_ERROR)),
        ("no :scheme", get_without(":scheme"), Reset(PROTOCOL_ERROR)),
        ("no pseudo-headers", request(&[("x-service-key", KEY)]), Reset(PROTOCOL_ERROR)),
        ("no fields at all", request(&[]), Reset(PROTOCOL_ERROR)),
        (":path twice", request(&[&[(":path", "/v1/deals/d_2")], &GET[..]].concat()), Reset(PROTOCOL_ERROR)),
        (":method twice", request(&[&[(":method", "GET")], &GET[..]].concat()), Reset(PROTOCOL_ERROR)),
        (":path after a header", get_with(&[(":path", "/v1/deals/d_2")]), Reset(PROTOCOL_ERROR)),
        ("an unknown pseudo-header", request(&[&[(":x", "y")], &GET[..]].concat()), Goaway(PROTOCOL_ERROR)),
        (":status in a request", request(&[&[(":status", "200")], &GET[..]].concat()), Reset(PROTOCOL_ERROR)),
        (":path empty", get_but(":path", ""), Reset(PROTOCOL_ERROR)),
        (":path without a slash", get_but(":path", "v1/deals/d_1"), Reset(PROTOCOL_ERROR)),
        (":path *", get_but(":path", "*"), Answered(400)),
        (":path with a space", get_but(":path", "/v1/deals/d 1"), Reset(PROTOCOL_ERROR)),
        (":path with CRLF", get_but(":path", "/v1/deals/d_1 HTTP/1.1\r\nx: y"), Reset(PROTOCOL_ERROR)),
        (":path with NUL", get_but(":path", "/v1/deals/\0"), Reset(PROTOCOL_ERROR)),
        (":path with \\xff", get_but(":path", "/v1/deals/\u{ff}"), Goaway(PROTOCOL_ERROR)),
        (":path that is a URL", get_but(":path", "http://i/v1/deals/d_1"), Reset(PROTOCOL_ERROR)),
        (":authority with a space", get_but(":authority", "h i"), Reset(PROTOCOL_ERROR)),
        (":method with a space", get_but(":method", "GET /"), Goaway(PROTOCOL_ERROR)),
        (":method empty", get_but(":method", ""), Goaway(PROTOCOL_ERROR)),
        (":method nobody knows", get_but(":method", "FETCH"), Answered(405)),
        (":method CONNECT", get_but(":method", "CONNECT"), Reset(PROTOCOL_ERROR)),
        (":protocol", request(&[&[(":protocol", "websocket")], &GET[..]].concat()), Reset(PROTOCOL_ERROR)),
        // Headers.
        ("a name in capitals", get_with(&[("X-Name", "y")]), Goaway(PROTOCOL_ERROR)),
        ("a name with a space", get_with(&[("x name", "y")]), Goaway(PROTOCOL_ERROR)),
        ("an empty name", get_with(&[("", "y")]), Goaway(PROTOCOL_ERROR)),
        ("a value with CRLF", get_with(&[("x", "y\r\nz: 1")]), Goaway(PROTOCOL_ERROR)),
        ("a value with NUL", get_with(&[("x", "\0")]), Goaway(PROTOCOL_ERROR)),
        ("connection", get_with(&[("connection", "close")]), Reset(PROTOCOL_ERROR)),
        ("keep-alive", get_with(&[("keep-alive", "1")]), Reset(PROTOCOL_ERROR)),
        ("proxy-connection", get_with(&[("proxy-connection", "close")]), Reset(PROTOCOL_ERROR)),
        ("transfer-encoding", get_with(&[("transfer-encoding", "chunked")]), Reset(PROTOCOL_ERROR)),
        ("upgrade", get_with(&[("upgrade", "h2c")]), Reset(PROTOCOL_ERROR)),
        ("te", get_with(&[("te", "gzip")]), Reset(PROTOCOL_ERROR)),
        ("te: trailers", get_with(&[("te", "trailers")]), Answered(200)),
        ("two keys", get_with(&[("x-service-key", KEY)]), Answered(401)),
        ("a header of 70 KB", [frame(HEADERS, END_STREAM, 1, &[]), blocks(1, &fields(&[&GET[..], &[("x", &long)]].concat()))].concat(), Answered(431)),
        ("1,500 headers", [frame(HEADERS, END_STREAM, 1, &[]), blocks(1, &fields(&[&GET[..], &many].concat()))].concat(), Answered(431)),
        // Bodies.
        ("a body longer than declared", body("5"), Reset(PROTOCOL_ERROR)),
        ("a body shorter than declared", body("500"), Reset(PROTOCOL_ERROR)),
        ("a body although none was declared", body("0"), Reset(PROTOCOL_ERROR)),
        ("a length that is none", body("+82"), Reset(PROTOCOL_ERROR)),
        ("two lengths that differ", [post(1, &[("content-length", &n), ("content-length", "5")]), frame(DATA, END_STREAM, 1, AGENT.as_bytes())].concat(), Reset(PROTOCOL_ERROR)),
        ("a length without a body", get_with(&[("content-length", "5")]), Reset(PROTOCOL_ERROR)),
        // Ignored, as all trailers are.
        ("trailers that are pseudo-headers", [post(1, &[]), frame(DATA, 0, 1, AGENT.as_bytes()), frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(&[(":path", "/")]))].concat(), Answered(201)),
        ("trailers that do not end", [post(1, &[]), frame(DATA, 0, 1, AGENT.as_bytes()), frame(HEADERS, END_HEADERS, 1, &fields(&[("x", "y")]))].concat(), Reset(PROTOCOL_ERROR)),
        ("trailers", [post(1, &[]), frame(DATA, 0, 1, AGENT.as_bytes()), frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields(&[("x", "y")]))].concat(), Answered(201)),
        ("padding longer than its frame", [post(1, &[]), frame(DATA, END_STREAM | PADDED, 1, &[9, 0])].concat(), Goaway(PROTOCOL_ERROR)),
        // Frames where they must not be.
        ("DATA on stream 0", frame(DATA, 0, 0, b"x"), Goaway(PROTOCOL_ERROR)),
        ("DATA on an idle stream", frame(DATA, 0, 1, b"x"), Goaway(PROTOCOL_ERROR)),
        ("DATA after a reset", [post(1, &[]), reset(1, 8), frame(DATA, END_STREAM, 1, b"x")].concat(), Reset(STREAM_CLOSED)),
        ("HEADERS on stream 0", get(0), Goaway(PROTOCOL_ERROR)),
        ("HEADERS on an even stream", get(2), Goaway(PROTOCOL_ERROR)),
        ("HEADERS on a lower stream", [get(3), get(1)].concat(), Goaway(PROTOCOL_ERROR)),
        ("HEADERS that depend on themselves", frame(HEADERS, END_HEADERS | END_STREAM | 0x20, 1, &[&[0, 0, 0, 1, 0][..], &fields(&GET)].concat()), Reset(PROTOCOL_ERROR)),
        ("CONTINUATION first", frame(CONTINUATION, END_HEADERS, 1, &fields(&GET)), Goaway(PROTOCOL_ERROR)),
        ("CONTINUATION of another stream", [frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(CONTINUATION, END_HEADERS, 3, &[])].concat(), Goaway(PROTOCOL_ERROR)),
        ("a frame within a header block", [frame(HEADERS, END_STREAM, 1, &fields(&GET)), frame(PING, 0, 0, &[0; 8])].concat(), Goaway(PROTOCOL_ERROR)),
        ("CONTINUATION", [frame(HEADERS, END_STREAM, 1, &[]), frame(CONTINUATION, END_HEADERS, 1, &fields(&GET))].concat(), Answered(200)),
        ("PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]), Goaway(PROTOCOL_ERROR)),
        ("RST_STREAM of an idle stream", reset(1, 8), Goaway(PROTOCOL_ERROR)),
        ("RST_STREAM of stream 0", reset(0, 8), Goaway(PROTOCOL_ERROR)),
        ("PRIORITY on itself", frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), Reset(PROTOCOL_ERROR)),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[]), Goaway(PROTOCOL_ERROR)),
        ("PING on a stream", frame(PING, 0, 1, &[0; 8]), Goaway(PROTOCOL_ERROR)),
        ("GOAWAY on a stream", frame(GOAWAY, 0, 1, &[0; 8]), Goaway(PROTOCOL_ERROR)),
        ("an unknown frame", [frame(0xfe, 0xff, 77, b"anything"), get(1)].concat(), Answered(200)),
        // Sizes.
        ("a frame beyond 16 KiB", frame(DATA, 0, 1, &[0; 16_385]), Goaway(FRAME_SIZE_ERROR)),
        ("a frame of 16 MiB announced", vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1], Goaway(FRAME_SIZE_ERROR)),
        ("SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, &[0; 5]), Goaway(PROTOCOL_ERROR)),
        ("an acknowledgement with settings", frame(SETTINGS, ACK, 0, &[0; 6]), Goaway(PROTOCOL_ERROR)),
        ("an acknowledgement of nothing", [frame(SETTINGS, ACK, 0, &[]), get(1)].concat(), Goaway(PROTOCOL_ERROR)),
        ("PING of 7 bytes", frame(PING, 0, 0, &[0; 7]), Goaway(PROTOCOL_ERROR)),
        ("RST_STREAM of 3 bytes", [post(1, &[]), frame(RST_STREAM, 0, 1, &[0; 3])].concat(), Goaway(PROTOCOL_ERROR)),
        ("WINDOW_UPDATE of 3 bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Goaway(PROTOCOL_ERROR)),
        ("GOAWAY of 7 bytes", frame(GOAWAY, 0, 0, &[0; 7]), Goaway(PROTOCOL_ERROR)),
        // Settings and windows.
        ("a window beyond 2^31 in settings", frame(SETTINGS, 0, 0, &setting(4, 1 << 31)), Goaway(PROTOCOL_ERROR)),
        ("frames smaller than allowed", frame(SETTINGS, 0, 0, &setting(5, 1)), Goaway(PROTOCOL_ERROR)),
        ("push that is neither on nor off", frame(SETTINGS, 0, 0, &setting(2, 2)), Goaway(PROTOCOL_ERROR)),
        ("an unknown setting", [frame(SETTINGS, 0, 0, &setting(0xf00, 1)), get(1)].concat(), Answered(200)),
        ("a table of 4 GiB", [frame(SETTINGS, 0, 0, &setting(1, u32::MAX)), get(1)].concat(), Answered(200)),
        ("the connection's window beyond 2^31", window(0, 0x7fff_ffff), Goaway(FLOW_CONTROL_ERROR)),
        ("a stream's window beyond 2^31", [post(1, &[]), window(1, 0x7fff_ffff)].concat(), Reset(FLOW_CONTROL_ERROR)),
        ("the connection's window by nothing", window(0, 0), Goaway(PROTOCOL_ERROR)),
        ("a stream's window by nothing", [post(1, &[]), window(1, 0)].concat(), Goaway(PROTOCOL_ERROR)),
        ("the window of an idle stream", window(1, 1), Goaway(PROTOCOL_ERROR)),
        // HPACK.
        ("an index that is not there", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff, 0xff, 0x03]), Goaway(PROTOCOL_ERROR)),
        ("an index of nothing", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x80]), Goaway(PROTOCOL_ERROR)),
        ("a number without an end", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 50]), Goaway(PROTOCOL_ERROR)),
        ("a string longer than its block", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0, 0x7f, 0xff, 0x7f, b'x']), Goaway(PROTOCOL_ERROR)),
        ("a table larger than allowed", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x3f, 0xff, 0xff, 0x7f]), Goaway(PROTOCOL_ERROR)),
        ("bad Huffman code", frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), Goaway(PROTOCOL_ERROR)),
        // The end.
        ("GOAWAY on an idle connection", frame(GOAWAY, 0, 0, &[0; 8]), Goaway(NO_ERROR)),
        ("GOAWAY, then a request", [frame(GOAWAY, 0, 0, &[0; 8]), get(1)].concat(), Answered(200)),
    ];
    let sandbox = Sandbox::builder().head_timeout(Duration::from_secs(120)).start().unwrap();
    let mut wrong = Vec::new();
    for (name, frames, expected) in cases {
        println!("{name}");
        let mut stream = open(sandbox.address(), &[]);
        let _ = stream.write_all(frames);
        let seen = outcome(&mut stream);
        if seen != *expected {
            wrong.push(format!("{name}: {seen:?}, not {expected:?}"));
        }
        // It disturbs neither this connection nor the server.
        if matches!(seen, Reset(_) | Answered(_)) && !name.starts_with("GOAWAY") {
            stream.write_all(&get(5)).unwrap();
            loop {
                match read_frame(&mut stream) {
                    Ok(frame) if (frame.kind, frame.stream) == (HEADERS, 5) => break,
                    Ok(frame) if frame.kind != GOAWAY => {}
                    other => {
                        wrong.push(format!("{name}: takes the connection with it: {other:?}"));
                        break;
                    }
                }
            }
        }
        assert_eq!(send(sandbox.address(), get_deal("d_1").as_bytes()).status, 200, "after {name}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A header block in as many frames as it takes: everything but the first HEADERS frame.
fn blocks(stream: u32, block: &[u8]) -> Vec<u8> {
    let mut pieces = block.chunks(16_384).peekable();
    let mut frames = Vec::new();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() {
            END_HEADERS
        } else {
            0
        };
        frames.extend(frame(CONTINUATION, flags, stream, piece));
    }
    frames
}

// ---- floods --------------------------------------------------------------------------------------------

/// The cost of what one connection can send is bounded: another caller hardly notices.
#[test]
fn floods() {
    let server = Running::quiet(&["--head-timeout", "0.5", "--body-timeout", "0.5"]);
    let rapid_reset: Vec<u8> = (0..10_000)
        .flat_map(|number| [get(2 * number + 1), reset(2 * number + 1, 8)].concat())
        .collect();
    let slow_reset: Vec<u8> = (0..10_000)
        .flat_map(|number| [post(2 * number + 1, &[]), reset(2 * number + 1, 8)].concat())
        .collect();
    // The server resets these itself.
    let made_to_reset: Vec<u8> = (0..10_000)
        .flat_map(|number| {
            [
                post(2 * number + 1, &[]),
                window(2 * number + 1, 0x7fff_ffff),
            ]
            .concat()
        })
        .collect();
    let beyond_the_limit: Vec<u8> = (0..10_000)
        .flat_map(|number| post(2 * number + 1, &[]))
        .collect();
    let header = fields(&[("x", &"y".repeat(1_000))]);
    let continuation = [
        frame(HEADERS, END_STREAM, 1, &fields(&GET)),
        frame(CONTINUATION, 0, 1, &header.repeat(16)).repeat(2_000),
    ];
    let empty_continuation = [
        frame(HEADERS, END_STREAM, 1, &fields(&GET)),
        frame(CONTINUATION, 0, 1, &[]).repeat(50_000),
    ];
    // One field of 4 KB goes into the table, and each byte after it repeats the field.
    let mut bomb = vec![0x40];
    string(&mut bomb, "x");
    string(&mut bomb, &"y".repeat(4_000));
    bomb.extend([0xbe; 11_000]);
    let bombs: Vec<u8> = (0..200)
        .flat_map(|number| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &bomb))
        .collect();
    let floods: &[(&str, Vec<u8>)] = &[
        ("rapid reset", rapid_reset),
        ("reset of requests whose bodies are awaited", slow_reset),
        ("streams that the server must reset", made_to_reset),
        ("streams beyond the limit", beyond_the_limit),
        ("CONTINUATION", continuation.concat()),
        ("empty CONTINUATION", empty_continuation.concat()),
        ("HPACK bombs", bombs),
        (
            "SETTINGS",
            frame(SETTINGS, 0, 0, &setting(4, 65_535)).repeat(50_000),
        ),
        (
            "tables that shrink and grow",
            [
                frame(SETTINGS, 0, 0, &setting(1, 0)),
                frame(SETTINGS, 0, 0, &setting(1, 65_536)),
            ]
            .concat()
            .repeat(25_000),
        ),
        ("PING", frame(PING, 0, 0, &[7; 8]).repeat(50_000)),
        (
            "pongs that nobody asked for",
            frame(PING, ACK, 0, &[7; 8]).repeat(50_000),
        ),
        (
            "PRIORITY",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]).repeat(50_000),
        ),
        (
            "WINDOW_UPDATE",
            [post(1, &[]), window(1, 1).repeat(50_000)].concat(),
        ),
        (
            "empty DATA",
            [post(1, &[]), frame(DATA, 0, 1, &[]).repeat(50_000)].concat(),
        ),
        (
            "padding alone",
            [
                post(1, &[]),
                frame(DATA, PADDED, 1, &[[255].as_slice(), &[0; 255]].concat()).repeat(20_000),
            ]
            .concat(),
        ),
        (
            "DATA in single bytes",
            [post(1, &[]), frame(DATA, 0, 1, b" ").repeat(50_000)].concat(),
        ),
        (
            "DATA beyond the window",
            [post(1, &[]), frame(DATA, 0, 1, &[0; 16_384]).repeat(1_000)].concat(),
        ),
        (
            "unknown frames",
            frame(0xee, 0, 0, &[0; 16_000]).repeat(2_000),
        ),
    ];
    for (name, frames) in floods {
        for reads in [true, false] {
            println!("{name}, responses are read: {reads}");
            beside_another_caller(&server, 64, || {
                let mut stream = open(server.address, &[]);
                let mut reading = stream.try_clone().unwrap();
                let reader = thread::spawn(move || {
                    // Reads to the end, which must come: nothing keeps a connection open beyond its timeouts.
                    reads.then(|| io::copy(&mut reading, &mut io::sink()))
                });
                flood(&mut stream, frames);
                if let Some(Err(error)) = reader.join().unwrap() {
                    assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{name} goes on");
                }
            });
        }
    }
}

/// Rapid reset makes the server close the connection, long before the flood is over.
#[test]
fn rapid_reset_is_cut_short() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut stream = open(sandbox.address(), &[]);
    let frames: Vec<u8> = (0..2_000)
        .flat_map(|number| [get(2 * number + 1), reset(2 * number + 1, 8)].concat())
        .collect();
    let mut reading = stream.try_clone().unwrap();
    let reader = thread::spawn(move || {
        loop {
            let frame = read_frame(&mut reading).unwrap();
            if frame.kind == GOAWAY {
                return code(&frame);
            }
        }
    });
    flood(&mut stream, &frames);
    assert_eq!(reader.join().unwrap(), ENHANCE_YOUR_CALM);
}

// ---- callers that do not take or give what they could ----------------------------------------------------

/// A window of zero, or one that is opened one byte at a time: the timeout ends both.
#[test]
fn responses_that_nobody_takes_end_at_the_timeout() {
    let server = Running::quiet(&["--head-timeout", "1"]);
    for opens in [false, true] {
        beside_another_caller(&server, 64, || {
            let began = Instant::now();
            let mut stream = open(server.address, &setting(4, 0));
            let requests: Vec<u8> = (0..100).flat_map(|number| get(2 * number + 1)).collect();
            stream.write_all(&requests).unwrap();
            stream.set_read_timeout(Some(SHORT / 10)).unwrap();
            let mut data = 0;
            let mut goodbye = false;
            loop {
                match read_frame(&mut stream) {
                    Ok(frame) if frame.kind == DATA => data += frame.payload.len(),
                    Ok(frame) => goodbye |= frame.kind == GOAWAY,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if opens {
                            let _ = stream.write_all(&window(1, 1));
                        }
                        assert!(began.elapsed() < LATE, "it goes on");
                    }
                    Err(_) => break,
                }
            }
            assert!(goodbye && began.elapsed() > Duration::from_secs(1));
            assert!(data < 200, "{data} bytes of responses");
        });
    }
}

/// As many bodies at once as a connection may have, each almost complete.
///
/// Each has its timeout, and their memory is bounded by the number of streams and the limit of a body.
#[test]
fn slow_bodies_on_all_streams() {
    let server = Running::quiet(&["--body-timeout", "1", "--max-body-bytes", "65536"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Twice the 64 KiB on 128 streams, and 16 MiB for everything else.
    beside_another_caller(&server, 32, || {
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(server.address)
                .await
                .unwrap();
            let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let mut streams = Vec::new();
            for _ in 0..128 {
                sender = sender.ready().await.unwrap();
                let request = Request::post("http://h/v1/agents")
                    .header("x-service-key", KEY)
                    .header("content-type", "application/json")
                    .body(())
                    .unwrap();
                let (response, mut body) = sender.send_request(request, false).unwrap();
                body.send_data(Bytes::from(vec![b' '; 64_000]), false)
                    .unwrap();
                streams.push((response, body));
            }
            for (response, _) in streams {
                assert_eq!(response.await.unwrap().status(), 408);
            }
        });
    });
}

#[test]
fn an_idle_connection_is_told_before_it_ends() {
    let sandbox = Sandbox::builder().head_timeout(SHORT).start().unwrap();
    let mut stream = open(sandbox.address(), &[]);
    let began = Instant::now();
    // Pings are not requests: they do not keep a connection open.
    stream.set_read_timeout(Some(SHORT / 10)).unwrap();
    let goodbye = loop {
        match read_frame(&mut stream) {
            Ok(frame) if frame.kind == GOAWAY => break frame,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        stream.write_all(&frame(PING, 0, 0, &[1; 8])).unwrap();
        assert!(began.elapsed() < SHORT + LATE);
    };
    assert_eq!(code(&goodbye), NO_ERROR);
    assert!(began.elapsed() > SHORT / 2);
}

/// A request is refused before its body has arrived.
///
/// The rest of its stream is discarded, and the connection continues with everything else.
#[tokio::test]
async fn a_refused_body_ends_its_stream_and_not_the_connection() {
    let sandbox = Sandbox::builder().max_body_bytes(1_000).start().unwrap();
    let stream = tokio::net::TcpStream::connect(sandbox.address())
        .await
        .unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for declared in [true, false] {
        let mut request = Request::post("http://h/v1/agents")
            .header("x-service-key", KEY)
            .header("content-type", "application/json");
        if declared {
            request = request.header("content-length", "3000000");
        }
        sender = sender.ready().await.unwrap();
        let request = request.body(()).unwrap();
        let (response, mut body) = sender.send_request(request, false).unwrap();
        body.send_data(Bytes::from(vec![b' '; 2_000]), false)
            .unwrap();
        assert_eq!(response.await.unwrap().status(), 413);

        // Far more than a window: it can be sent only if somebody reads it.
        body.send_data(Bytes::from(vec![b' '; 2_998_000]), true)
            .unwrap();
        while body.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        sender = sender.ready().await.unwrap();
        let request = Request::get("http://h/v1/deals/d_1").header("x-service-key", KEY);
        let (response, _) = sender
            .send_request(request.body(()).unwrap(), true)
            .unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
    }
}

// ---- the end -------------------------------------------------------------------------------------------

/// Large responses in flight when the server is asked to stop arrive complete, to a caller that keeps sending window
/// updates until the last byte.
#[tokio::test]
async fn shutdown_completes_what_is_in_flight() {
    let text = format!(
        r#"{{"id": "big", "external_id": "{}"}}"#,
        "x".repeat(6_000_000)
    );
    for round in 0..5 {
        let sandbox = Sandbox::builder().deals([text.as_str()]).start().unwrap();
        let address = sandbox.address();
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .handshake::<_, Bytes>(stream)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        let mut sender = sender.ready().await.unwrap();
        let mut bodies = Vec::new();
        for _ in 0..8 {
            let request = Request::get(format!("http://{address}/v1/deals/big"))
                .header("x-service-key", KEY)
                .body(())
                .unwrap();
            let (response, _) = sender.send_request(request, true).unwrap();
            bodies.push(response.await.unwrap().into_body());
        }
        // All are in flight, and none is complete.
        let ending = thread::spawn(move || sandbox.shutdown());
        let readers = bodies.into_iter().map(|mut body| {
            tokio::spawn(async move {
                let mut length = 0;
                while let Some(data) = body.data().await {
                    let data = data.unwrap_or_else(|error| panic!("{length} bytes, then {error}"));
                    length += data.len();
                    body.flow_control().release_capacity(data.len()).unwrap();
                }
                length
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            assert_eq!(reader.await.unwrap(), text.len(), "round {round}");
        }
        drop(sender);
        connection.await.unwrap().unwrap();
        ending.join().unwrap();
    }
}
