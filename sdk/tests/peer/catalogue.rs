//! Every fault that a service, or the network in front of it, is made to show: its script, and what a client must
//! report.

use std::time::Duration;

use dealkit::{ErrorKind, Outcome};

use super::{FINE, Http1, Http2, Protocol, Script, Step, answer};

/// The deadline of an attempt against a service that is silent or slow.
pub(crate) const SHORT: Duration = Duration::from_millis(500);

/// The pause between two bytes of a service that drips: the rest takes longer than any deadline here.
const DRIP: Duration = Duration::from_millis(100);

/// The largest body that the clients of the catalogue read.
pub(crate) const LIMIT: u64 = 1024;

/// A fault; the script is the same for every connection.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) script: Script,
    /// Whether the deadline is what ends an attempt.
    pub(crate) slow: bool,
    pub(crate) expected: Expected,
}

/// The result of the call, with the default policy.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: ErrorKind,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    /// How much of the body is kept.
    pub(crate) body: Kept,
}

#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Nothing,
    Exactly(Vec<u8>),
    /// The beginning of these bytes, and not all of them.
    SomeOf(Vec<u8>),
}

impl Fault {
    fn new(name: &'static str, script: Script, kind: ErrorKind, outcome: Outcome) -> Self {
        let expected = Expected {
            kind,
            outcome,
            status: None,
            body: Kept::Nothing,
        };
        Self {
            name,
            script,
            slow: kind == ErrorKind::Timeout,
            expected,
        }
    }

    /// The connection breaks before a head has arrived: nobody knows what the service did.
    fn broken(name: &'static str, script: Script) -> Self {
        Self::new(name, script, ErrorKind::Interrupted, Outcome::Unknown)
    }

    /// The service says that it did not process the request.
    fn not_taken(name: &'static str, script: Script) -> Self {
        Self::new(name, script, ErrorKind::Interrupted, Outcome::NotSent)
    }

    /// The connection breaks in the body of a 200.
    fn broken_body(name: &'static str, script: Script, kept: &[u8]) -> Self {
        Self::new(name, script, ErrorKind::Interrupted, Outcome::Succeeded).with(200, kept)
    }

    fn silent(name: &'static str, script: Script) -> Self {
        Self::new(name, script, ErrorKind::Timeout, Outcome::Unknown)
    }

    /// The service gives no sign of life. Over HTTP/2, a call asks for one, and gives up the connection before its
    /// deadline.
    fn dead(protocol: Protocol, name: &'static str, script: Script) -> Self {
        let mut fault = Self::silent(name, script);
        if protocol == Http2 {
            fault.expected.kind = ErrorKind::Interrupted;
        }
        fault
    }

    fn silent_body(name: &'static str, script: Script, kept: &[u8]) -> Self {
        Self::new(name, script, ErrorKind::Timeout, Outcome::Succeeded).with(200, kept)
    }

    /// The whole response arrives, but is unusable.
    fn answered(name: &'static str, step: Step, kind: ErrorKind, kept: &[u8]) -> Self {
        let Step::Answer(status, ..) = &step else {
            panic!("{step:?} is no answer")
        };
        let status = *status;
        Self::new(name, vec![Step::Hear, step], kind, outcome_of(status)).with(status, kept)
    }

    fn with(mut self, status: u16, kept: &[u8]) -> Self {
        self.expected.status = Some(status);
        self.expected.body = Kept::Exactly(kept.to_vec());
        self
    }
}

/// The contract's outcome for a call that ends with a response of this status.
pub(crate) fn outcome_of(status: u16) -> Outcome {
    match status {
        200..=299 => Outcome::Succeeded,
        307 | 308 => Outcome::Rejected,
        408 => Outcome::Unknown,
        400..=499 => Outcome::Rejected,
        _ => Outcome::Unknown,
    }
}

/// The faults of this protocol.
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

/// Only HTTP/1.1 has to say how the body ends.
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
    use Step::{End, Hear, Mute, Reset, Silence, Sync};
    let begun = &br#"{"id":"x"#[..];
    let long = vec![b' '; 5000];
    let slowly = |step: Step| Step::Slowly(DRIP, Box::new(step));
    vec![
        Fault::broken("reset after the request is read", vec![Hear, Reset]),
        Fault::broken("end before the head", vec![Hear, End]),
        Fault::broken("garbage", vec![Hear, raw([0xfe; 64]), End]),
        Fault::broken_body(
            "reset in the body",
            vec![Hear, head(100), part(begun), Sync, Reset],
            begun,
        ),
        Fault::broken_body(
            "end in the body",
            vec![Hear, head(100), part(begun), Sync, End],
            begun,
        ),
        Fault::broken_body("end after the head", vec![Hear, head(100), End], b""),
        Fault::dead(protocol, "silence after accepting", vec![Silence]),
        Fault::silent("silence after the request", vec![Hear]),
        Fault::dead(protocol, "silence from the first byte on", vec![Mute, Hear]),
        Fault::dead(
            protocol,
            "drip in the head",
            vec![
                Hear,
                slowly(Step::Head(200, vec![("x-long", "x".repeat(200))])),
                End,
            ],
        ),
        Fault::silent_body("silence after the head", vec![Hear, head(100)], b""),
        Fault::silent_body(
            "silence in the body",
            vec![Hear, head(100), part(begun)],
            begun,
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
                // Its length is that of the data that has come.
                fault.expected.body = Kept::SomeOf(long.clone());
            }
            fault
        },
        {
            let script = vec![Hear, head_without_length(protocol), last(&long), End];
            let mut fault = Fault::new(
                "a body over the limit, without a length",
                script,
                ErrorKind::TooLarge,
                Outcome::Succeeded,
            );
            fault.expected.status = Some(200);
            fault.expected.body = Kept::SomeOf(long);
            fault
        },
        Fault::broken(
            "a head too large",
            vec![
                Hear,
                Step::Head(
                    200,
                    (0..300).map(|_| ("x-more", "x".repeat(2000))).collect(),
                ),
                last(FINE.as_bytes()),
                End,
            ],
        ),
    ]
}

fn http1() -> Vec<Fault> {
    use Step::{End, Glance, Hear, Reset};
    let partial = "HTTP/1.1 200 OK\r\ncontent-le";
    let chunked = || Step::Head(200, vec![("transfer-encoding", "chunked".to_owned())]);
    let lengths = |lengths: &str| Step::Head(200, vec![("content-length", lengths.to_owned())]);
    let fine = || part(FINE.as_bytes());
    let mut faults = vec![
        Fault::broken("reset before the request is read", vec![Glance, Reset]),
        Fault::broken("reset in the head", vec![Hear, raw(partial), Reset]),
        Fault::broken(
            "a head that is none",
            vec![Hear, raw("HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"), End],
        ),
        Fault::broken(
            "a length that is none",
            vec![Hear, lengths("many"), fine(), End],
        ),
        Fault::broken_body(
            "end between chunks",
            vec![Hear, chunked(), part(b"3\r\nabc\r\n"), End],
            b"abc",
        ),
        Fault::broken_body(
            "a length that is too long",
            vec![Hear, lengths(&(FINE.len() + 1).to_string()), fine(), End],
            FINE.as_bytes(),
        ),
        Fault::new(
            "a length that is too short",
            vec![Hear, lengths("5"), fine(), End],
            ErrorKind::Decode,
            Outcome::Succeeded,
        )
        .with(200, &FINE.as_bytes()[..5]),
        // Nobody asked to switch protocols.
        Fault::new(
            "switching protocols",
            vec![Hear, answer(101, ""), End],
            ErrorKind::Status,
            outcome_of(101),
        )
        .with(101, b""),
        Fault::broken(
            "end after an interim response",
            vec![Hear, answer(100, ""), End],
        ),
    ];
    faults.push({
        let drip = Step::Slowly(DRIP, Box::new(part(&[b'x'; 200])));
        let mut fault =
            Fault::silent_body("drip in the body", vec![Hear, head(200), drip, End], b"");
        fault.expected.body = Kept::SomeOf(vec![b'x'; 200]);
        fault
    });
    faults.push({
        let interim = Step::Raw("HTTP/1.1 103 Early\r\n\r\n".repeat(1000).into_bytes());
        Fault::silent("interim responses for ever", vec![Hear, interim])
    });
    faults
}

fn http2() -> Vec<Fault> {
    use Step::{End, Hear, Reset};
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
    let begun = &br#"{"id":"x"#[..];
    // HEADERS announcing that more of them follow.
    let partial = || Step::Frame(1, 0, true, vec![0x88]);
    vec![
        Fault::not_taken(
            "RST_STREAM: refused",
            vec![Hear, reset_stream(REFUSED_STREAM)],
        ),
        Fault::broken(
            "RST_STREAM: internal error",
            vec![Hear, reset_stream(INTERNAL_ERROR)],
        ),
        Fault::broken_body(
            "RST_STREAM in the body",
            vec![Hear, head(100), part(begun), reset_stream(INTERNAL_ERROR)],
            begun,
        ),
        Fault::not_taken(
            "GOAWAY that leaves the request out",
            vec![Hear, go_away(0, 0, ""), End],
        ),
        Fault::broken(
            "GOAWAY: internal error",
            vec![Hear, go_away(ALL, INTERNAL_ERROR, "broken"), End],
        ),
        Fault::broken(
            "GOAWAY and then nothing",
            vec![Hear, go_away(ALL, 0, ""), End],
        ),
        Fault::broken_body(
            "GOAWAY in the body",
            vec![
                Hear,
                head(100),
                part(begun),
                go_away(ALL, INTERNAL_ERROR, ""),
                End,
            ],
            begun,
        ),
        Fault::broken("reset in the head", vec![Hear, partial(), Reset]),
        Fault::broken(
            "a head that is none",
            vec![Hear, Step::Frame(1, 4, true, vec![0xff; 20]), End],
        ),
        Fault::broken_body(
            "a length that is too long",
            vec![Hear, head(FINE.len() + 1), last(FINE.as_bytes())],
            FINE.as_bytes(),
        ),
        Fault::broken_body(
            "a length that is too short",
            vec![Hear, head(5), last(FINE.as_bytes())],
            b"",
        ),
    ]
}
