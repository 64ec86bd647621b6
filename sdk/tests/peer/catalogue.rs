//! A catalogue of faults of a service or its network: the script of each, and the error that a client must report.

use std::time::Duration;

use dealkit::{ErrorKind, Outcome};

use super::{Http1, Http2, Protocol, Script, Step, VALID_BODY, answer};

/// Time limit of an attempt against a silent or slow service.
pub(crate) const SHORT: Duration = Duration::from_millis(500);

/// Pause between two bytes of a slow response, which takes longer than all time limits here.
const BYTE_PAUSE: Duration = Duration::from_millis(100);

/// Maximum body length of the clients in the catalogue's tests.
pub(crate) const LIMIT: u64 = 1024;

/// A fault. All connections perform the same script.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) script: Script,
    /// True if the time limit ends the attempt.
    pub(crate) slow: bool,
    pub(crate) expected: Expected,
}

/// The expected error of a call with the default retry policy.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: ErrorKind,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    /// The body in the error.
    pub(crate) body: ExpectedBody,
}

#[derive(Clone, Debug)]
pub(crate) enum ExpectedBody {
    Nothing,
    Exactly(Vec<u8>),
    /// A part of these bytes, from the start, but not all.
    PrefixOf(Vec<u8>),
}

impl Fault {
    fn new(name: &'static str, script: Script, kind: ErrorKind, outcome: Outcome) -> Self {
        let expected = Expected {
            kind,
            outcome,
            status: None,
            body: ExpectedBody::Nothing,
        };
        Self {
            name,
            script,
            slow: kind == ErrorKind::Timeout,
            expected,
        }
    }

    /// The connection breaks before the head of the response, so the outcome is unknown.
    fn broken(name: &'static str, script: Script) -> Self {
        Self::new(name, script, ErrorKind::Interrupted, Outcome::Unknown)
    }

    /// The service reports that it did not process the request.
    fn not_processed(name: &'static str, script: Script) -> Self {
        Self::new(name, script, ErrorKind::Interrupted, Outcome::NotSent)
    }

    /// The connection breaks in the body of a 200.
    fn broken_body(name: &'static str, script: Script, body: &[u8]) -> Self {
        Self::new(name, script, ErrorKind::Interrupted, Outcome::Succeeded).with(200, body)
    }

    fn silent(name: &'static str, script: Script) -> Self {
        Self::new(name, script, ErrorKind::Timeout, Outcome::Unknown)
    }

    /// The service is silent. Over HTTP/2, the client sends a PING, and abandons the connection before the call's time limit.
    fn dead(protocol: Protocol, name: &'static str, script: Script) -> Self {
        let mut fault = Self::silent(name, script);
        if protocol == Http2 {
            fault.expected.kind = ErrorKind::Interrupted;
        }
        fault
    }

    fn silent_body(name: &'static str, script: Script, body: &[u8]) -> Self {
        Self::new(name, script, ErrorKind::Timeout, Outcome::Succeeded).with(200, body)
    }

    /// The whole response arrives, but cannot be used.
    fn answered(name: &'static str, step: Step, kind: ErrorKind, body: &[u8]) -> Self {
        let Step::Answer(status, ..) = &step else {
            panic!("{step:?} is not a response")
        };
        let status = *status;
        Self::new(
            name,
            vec![Step::ReadRequest, step],
            kind,
            outcome_of(status),
        )
        .with(status, body)
    }

    fn with(mut self, status: u16, body: &[u8]) -> Self {
        self.expected.status = Some(status);
        self.expected.body = ExpectedBody::Exactly(body.to_vec());
        self
    }
}

/// Returns the contract's outcome of a call whose response has this status.
pub(crate) fn outcome_of(status: u16) -> Outcome {
    match status {
        200..=299 => Outcome::Succeeded,
        307 | 308 => Outcome::Rejected,
        408 => Outcome::Unknown,
        400..=499 => Outcome::Rejected,
        _ => Outcome::Unknown,
    }
}

/// Returns the faults of this protocol.
pub(crate) fn faults(protocol: Protocol) -> Vec<Fault> {
    let mut faults = both(protocol);
    faults.extend(match protocol {
        Http1 => http1(),
        Http2 => http2(),
    });
    faults
}

fn head(length: usize) -> Step {
    let id = ("x-request-id", "r-1".to_owned());
    Step::Head(200, vec![("content-length", length.to_string()), id])
}

/// Creates a head without Content-Length. In HTTP/1.1, the end of the connection then ends the body.
fn head_without_length(protocol: Protocol) -> Step {
    let close = vec![("connection", "close".to_owned())];
    Step::Head(200, if protocol == Http1 { close } else { Vec::new() })
}

fn part(bytes: &[u8]) -> Step {
    Step::Body(bytes.to_vec(), false)
}

fn last(bytes: &[u8]) -> Step {
    Step::Body(bytes.to_vec(), true)
}

fn raw(bytes: impl AsRef<[u8]>) -> Step {
    Step::Raw(bytes.as_ref().to_vec())
}

fn both(protocol: Protocol) -> Vec<Fault> {
    use Step::{End, Mute, ReadRequest, Reset, Silence, Sync};
    let partial_body = &br#"{"id":"x"#[..];
    let long = vec![b' '; 5000];
    let slowly = |step: Step| Step::Slowly(BYTE_PAUSE, Box::new(step));
    vec![
        Fault::broken("reset after the request is read", vec![ReadRequest, Reset]),
        Fault::broken("end before the head", vec![ReadRequest, End]),
        Fault::broken(
            "malformed response",
            vec![ReadRequest, raw([0xfe; 64]), End],
        ),
        Fault::broken_body(
            "reset in the body",
            vec![ReadRequest, head(100), part(partial_body), Sync, Reset],
            partial_body,
        ),
        Fault::broken_body(
            "end in the body",
            vec![ReadRequest, head(100), part(partial_body), Sync, End],
            partial_body,
        ),
        Fault::broken_body("end after the head", vec![ReadRequest, head(100), End], b""),
        Fault::dead(protocol, "silence after accepting", vec![Silence]),
        Fault::silent("silence after the request", vec![ReadRequest]),
        Fault::dead(
            protocol,
            "silence from the first byte on",
            vec![Mute, ReadRequest],
        ),
        Fault::dead(
            protocol,
            "drip in the head",
            vec![
                ReadRequest,
                slowly(Step::Head(200, vec![("x-long", "x".repeat(200))])),
                End,
            ],
        ),
        Fault::silent_body("silence after the head", vec![ReadRequest, head(100)], b""),
        Fault::silent_body(
            "silence in the body",
            vec![ReadRequest, head(100), part(partial_body)],
            partial_body,
        ),
        Fault::answered("no content", answer(204, ""), ErrorKind::Decode, b""),
        Fault::answered(
            "success and an empty body",
            answer(200, ""),
            ErrorKind::Decode,
            b"",
        ),
        Fault::answered(
            "success and HTML",
            answer(200, "<p>Hello</p>"),
            ErrorKind::Decode,
            b"<p>Hello</p>",
        ),
        {
            let answer = answer(200, &" ".repeat(5000));
            let name = "a body over the limit, with a length";
            let mut fault = Fault::answered(name, answer, ErrorKind::TooLarge, b"");
            if protocol == Http2 {
                // Over HTTP/2, the error contains the data received so far.
                fault.expected.body = ExpectedBody::PrefixOf(long.clone());
            }
            fault
        },
        {
            let script = vec![ReadRequest, head_without_length(protocol), last(&long), End];
            let mut fault = Fault::new(
                "a body over the limit, without a length",
                script,
                ErrorKind::TooLarge,
                Outcome::Succeeded,
            );
            fault.expected.status = Some(200);
            fault.expected.body = ExpectedBody::PrefixOf(long);
            fault
        },
        Fault::broken(
            "a head too large",
            vec![
                ReadRequest,
                Step::Head(
                    200,
                    (0..300).map(|_| ("x-more", "x".repeat(2000))).collect(),
                ),
                last(VALID_BODY.as_bytes()),
                End,
            ],
        ),
    ]
}

fn http1() -> Vec<Fault> {
    use Step::{End, PeekRequest, ReadRequest, Reset};
    let partial = "HTTP/1.1 200 OK\r\ncontent-le";
    let chunked = || Step::Head(200, vec![("transfer-encoding", "chunked".to_owned())]);
    let lengths = |lengths: &str| Step::Head(200, vec![("content-length", lengths.to_owned())]);
    let fine = || part(VALID_BODY.as_bytes());
    let mut faults = vec![
        Fault::broken("reset before the request is read", vec![PeekRequest, Reset]),
        Fault::broken("reset in the head", vec![ReadRequest, raw(partial), Reset]),
        Fault::broken(
            "a head that is none",
            vec![
                ReadRequest,
                raw("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"),
                End,
            ],
        ),
        Fault::broken(
            "a length that is none",
            vec![ReadRequest, lengths("many"), fine(), End],
        ),
        Fault::broken_body(
            "end between chunks",
            vec![ReadRequest, chunked(), part(b"3\r\nabc\r\n"), End],
            b"abc",
        ),
        Fault::broken_body(
            "a length that is too long",
            vec![
                ReadRequest,
                lengths(&(VALID_BODY.len() + 1).to_string()),
                fine(),
                End,
            ],
            VALID_BODY.as_bytes(),
        ),
        Fault::new(
            "a length that is too short",
            vec![ReadRequest, lengths("5"), fine(), End],
            ErrorKind::Decode,
            Outcome::Succeeded,
        )
        .with(200, &VALID_BODY.as_bytes()[..5]),
        // The client has not requested to switch protocols.
        Fault::new(
            "switching protocols",
            vec![ReadRequest, answer(101, ""), End],
            ErrorKind::Status,
            outcome_of(101),
        )
        .with(101, b""),
        Fault::broken(
            "end after an interim response",
            vec![ReadRequest, answer(100, ""), End],
        ),
    ];
    faults.push({
        let drip = Step::Slowly(BYTE_PAUSE, Box::new(part(&[b'x'; 200])));
        let mut fault = Fault::silent_body(
            "drip in the body",
            vec![ReadRequest, head(200), drip, End],
            b"",
        );
        fault.expected.body = ExpectedBody::PrefixOf(vec![b'x'; 200]);
        fault
    });
    faults.push({
        let interim = Step::Raw("HTTP/1.1 103 Early\r\n\r\n".repeat(1000).into_bytes());
        Fault::silent("endless interim responses", vec![ReadRequest, interim])
    });
    faults
}

fn http2() -> Vec<Fault> {
    use Step::{End, ReadRequest, Reset};
    const RST_STREAM: u8 = 3;
    const GOAWAY: u8 = 7;
    const INTERNAL_ERROR: u32 = 2;
    const REFUSED_STREAM: u32 = 7;
    // The largest stream identifier: the service may have processed every request.
    const ALL: u32 = 0x7fff_ffff;
    let reset_stream = |code: u32| Step::Frame(RST_STREAM, 0, true, code.to_be_bytes().to_vec());
    let go_away = |last_stream: u32, code: u32, text: &str| {
        let mut payload = last_stream.to_be_bytes().to_vec();
        payload.extend(code.to_be_bytes());
        payload.extend(text.bytes());
        Step::Frame(GOAWAY, 0, false, payload)
    };
    let partial_body = &br#"{"id":"x"#[..];
    // A HEADERS frame without END_HEADERS.
    let partial = || Step::Frame(1, 0, true, vec![0x88]);
    vec![
        Fault::not_processed(
            "RST_STREAM: refused",
            vec![ReadRequest, reset_stream(REFUSED_STREAM)],
        ),
        Fault::broken(
            "RST_STREAM: internal error",
            vec![ReadRequest, reset_stream(INTERNAL_ERROR)],
        ),
        Fault::broken_body(
            "RST_STREAM in the body",
            vec![
                ReadRequest,
                head(100),
                part(partial_body),
                reset_stream(INTERNAL_ERROR),
            ],
            partial_body,
        ),
        Fault::not_processed(
            "GOAWAY that leaves the request out",
            vec![ReadRequest, go_away(0, 0, ""), End],
        ),
        Fault::broken(
            "GOAWAY: internal error",
            vec![ReadRequest, go_away(ALL, INTERNAL_ERROR, "broken"), End],
        ),
        Fault::broken(
            "GOAWAY and then nothing",
            vec![ReadRequest, go_away(ALL, 0, ""), End],
        ),
        Fault::broken_body(
            "GOAWAY in the body",
            vec![
                ReadRequest,
                head(100),
                part(partial_body),
                go_away(ALL, INTERNAL_ERROR, ""),
                End,
            ],
            partial_body,
        ),
        Fault::broken("reset in the head", vec![ReadRequest, partial(), Reset]),
        Fault::broken(
            "a head that is none",
            vec![ReadRequest, Step::Frame(1, 4, true, vec![0xff; 20]), End],
        ),
        Fault::broken_body(
            "a length that is too long",
            vec![
                ReadRequest,
                head(VALID_BODY.len() + 1),
                last(VALID_BODY.as_bytes()),
            ],
            VALID_BODY.as_bytes(),
        ),
        Fault::broken_body(
            "a length that is too short",
            vec![ReadRequest, head(5), last(VALID_BODY.as_bytes())],
            b"",
        ),
    ]
}
