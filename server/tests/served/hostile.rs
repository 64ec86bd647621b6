//! Malformed and hostile bytes on a TCP socket. Each case in the tables lists the responses and the state of the connection.
//! [`Case::check`] also checks that there are no other responses, that exactly the agents with a 201 exist, and that the server
//! still serves other clients.

use std::{
    io::{Read, Write},
    net::Shutdown,
    time::Duration,
};

use crate::support::{
    AGENT, KEY, assert_closed, connect, create_agent, get_deal, post_head, read_response, send,
};
use dealkit_server::Sandbox;

/// The state of the connection after the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The connection serves the next request.
    Stays,
    /// The server closes the connection normally, and later requests get no response.
    Closes,
    /// Like `Closes`, but the last response has no `Connection: close`.
    Ends,
    /// Like `Closes`, and the last response comes from hyper, without a body: hyper could not parse a request.
    Malformed,
}
use Then::{Closes, Ends, Malformed, Stays};

struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    responses: &'static [u16],
    then: Then,
}

fn case(
    name: &'static str,
    bytes: impl AsRef<[u8]>,
    responses: &'static [u16],
    then: Then,
) -> Case {
    let bytes = bytes.as_ref().to_vec();
    Case {
        name,
        bytes,
        responses,
        then,
    }
}

/// Builds a request whose response contains the request's id, so that it can be recognized.
fn probe() -> String {
    get("x-request-id: probe\r\n")
}

impl Case {
    /// Sends the bytes in pieces of this size, and checks the responses and the connection.
    fn check(&self, sandbox: &Sandbox, piece: usize) {
        let Self {
            name,
            bytes,
            responses,
            then,
        } = self;
        println!("{name}"); // Shown when something below fails.
        let agents_before = sandbox.agents().len();
        let mut stream = connect(sandbox);
        stream.set_nodelay(true).unwrap();
        // Send a further request on the same connection. It gets a response only if the connection stays open.
        let all = [bytes, probe().as_bytes()].concat();
        for part in all.chunks(piece) {
            if stream.write_all(part).is_err() {
                assert_ne!(*then, Stays, "{name}: ended while being sent to");
                break;
            }
        }
        let mut created = 0;
        for (number, status) in responses.iter().enumerate() {
            let response = read_response(&mut stream, false);
            let shown = String::from_utf8_lossy(&response.body);
            // hyper may reject a large head because of its target, or after reading all of it.
            let is_too_large = *status == 431 && matches!(response.status, 414 | 431);
            assert!(
                response.status == *status || is_too_large,
                "{name}: response {number}: {} {shown}",
                response.status
            );
            let is_last = number + 1 == responses.len();
            if *then == Malformed && is_last {
                assert!(response.body.is_empty() || is_too_large, "{name}");
            } else if *status != 100 {
                response.check_invariants(name, false);
                assert_ne!(response.header("x-request-id"), Some("probe"), "{name}");
            }
            let says_close = response.header("connection") == Some("close");
            let should = is_last && matches!(then, Closes | Malformed);
            assert_eq!(says_close, should, "{name}: response {number}");
            created += usize::from(*status == 201);
        }
        if *then == Stays {
            let response = read_response(&mut stream, false);
            assert_eq!(
                (response.status, response.header("x-request-id")),
                (200, Some("probe")),
                "{name}: a response too many, or the next request is not answered"
            );
        } else {
            let mut rest = Vec::new();
            stream
                .read_to_end(&mut rest)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                rest.is_empty(),
                "{name}: {}",
                String::from_utf8_lossy(&rest)
            );
        }
        assert_eq!(
            sandbox.agents().len() - agents_before,
            created,
            "{name}: agents"
        );
        assert_serves_others(sandbox, name);
    }
}

fn assert_serves_others(sandbox: &Sandbox, after: &str) {
    let response = send(sandbox, probe());
    assert_eq!(
        (response.status, response.header("x-request-id")),
        (200, Some("probe")),
        "after {after}"
    );
}

/// Starts a sandbox whose timeouts exceed any test, so that connections end only because of the sent bytes.
fn sandbox() -> Sandbox {
    let long = Duration::from_secs(120);
    Sandbox::builder()
        .head_timeout(long)
        .body_timeout(long)
        .start()
        .unwrap()
}

fn check_all(cases: &[Case]) {
    let sandbox = sandbox();
    for case in cases {
        case.check(&sandbox, usize::MAX);
    }
    // The division into packets must not matter.
    for case in cases.iter().filter(|case| case.bytes.len() < 4_096) {
        case.check(&sandbox, 1);
    }
}

// ---- building blocks -----------------------------------------------------------------------------------

const CHUNKED: &str = "transfer-encoding: chunked\r\n";

/// Builds a request for a deal with additional headers.
fn get(headers: &str) -> String {
    get_deal("d_1").replace("\r\n\r\n", &format!("\r\n{headers}\r\n"))
}

/// Builds a request for a deal with another target.
fn target(target: &str) -> String {
    get_deal("d_1").replace("/v1/deals/d_1", target)
}

/// Builds a request for a deal with another request line.
fn first_line(line: &str) -> String {
    get_deal("d_1").replace("GET /v1/deals/d_1 HTTP/1.1\r\n", line)
}

/// Builds a request to create an agent with these headers and exactly this body.
fn post(headers: &str, body: &str) -> String {
    post_head(headers) + body
}

fn length() -> String {
    format!("content-length: {}\r\n", AGENT.len())
}

/// Builds a chunked body: the agent as one chunk with this size line, and the last chunk.
fn sized(size: &str) -> String {
    format!("{size}\r\n{AGENT}\r\n0\r\n\r\n")
}

fn chunk() -> String {
    format!("{:x}", AGENT.len())
}

fn chunked(body: &str) -> String {
    post(CHUNKED, body)
}

/// Converts each character to one byte, so that a case can contain `\u{ff}`.
fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|character| u8::try_from(character).unwrap())
        .collect()
}

// ---- the end of a request ----------------------------------------------------------------------------

#[test]
#[rustfmt::skip] // A table: one case a line.
fn content_length() {
    let with = |value: String| post(&format!("content-length:{value}\r\n"), AGENT);
    let n = AGENT.len();
    check_all(&[
        case("CL with space around", with(format!(" \t {n} \t")), &[201], Stays),
        case("CL with leading zeros", with(format!(" 000{n}")), &[201], Stays),
        // RFC 9112 permits duplicate equal values.
        case("CL doubled, equal", post(&length().repeat(2), AGENT), &[201], Stays),
        case("CL doubled, different", post(&(length() + "content-length: 5\r\n"), AGENT), &[400], Malformed),
        case("CL as a list, equal", with(format!(" {n}, {n}")), &[400], Malformed),
        case("CL with a plus", with(format!(" +{n}")), &[400], Malformed),
        case("CL negative", with(" -1".to_owned()), &[400], Malformed),
        case("CL empty", with(String::new()), &[400], Malformed),
        case("CL beyond 64 bits", with(" 18446744073709551616".to_owned()), &[400], Malformed),
        case("CL that wraps around to the length", with(format!(" {}", (1_u128 << 64) + n as u128)), &[400], Malformed),
        // The value overflows hyper's counter. hyper reports that the head is too large.
        case("CL of 2^64 - 1", with(format!(" {}", u64::MAX)), &[431], Malformed),
        case("CL of 2^63", with(format!(" {}", 1_u64 << 63)), &[413], Closes),
        case("GET with a body", get("content-length: 3\r\n") + "abc", &[200], Stays),
        case("body that is a request", get(&format!("content-length: {}\r\n", probe().len())) + &probe(), &[200], Stays),
        case("no CL and no TE: what follows is a request", post("", AGENT), &[400, 400], Malformed),
    ]);
}

#[test]
#[rustfmt::skip] // A table: one case a line.
fn content_length_and_transfer_encoding() {
    let both = CHUNKED.to_owned() + &length();
    let other = length() + CHUNKED;
    let smuggled = get_deal("smuggled");
    let in_chunk = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
    // Transfer-Encoding takes precedence and the connection closes, as RFC 9112, section 6.3, requires.
    check_all(&[
        case("CL+TE", post(&other, &sized(&chunk())), &[201], Closes),
        case("TE+CL", post(&both, &sized(&chunk())), &[201], Closes),
        case("CL.TE: the length hides a request", post(&format!("content-length: {}\r\n{CHUNKED}", 5 + smuggled.len()), &format!("0\r\n\r\n{smuggled}")), &[400], Closes),
        case("CL.TE: one byte is left over", post(&format!("content-length: 6\r\n{CHUNKED}"), "0\r\n\r\nG"), &[400], Closes),
        case("TE.CL: the chunk hides a request", post(&format!("{CHUNKED}content-length: 4\r\n"), &in_chunk), &[400], Closes),
        case("TE.CL: on a GET", get(&format!("{CHUNKED}content-length: 4\r\n")) + &in_chunk, &[200], Closes),
        case("CL 0 + TE", post(&format!("content-length: 0\r\n{CHUNKED}"), &sized(&chunk())), &[201], Closes),
        case("two CL that differ + TE", post(&format!("content-length: 1\r\ncontent-length: 2\r\n{CHUNKED}"), &sized(&chunk())), &[400], Malformed),
        case("CL that is none + TE", post(&format!("content-length: x\r\n{CHUNKED}"), &sized(&chunk())), &[400], Malformed),
        // `Connection: keep-alive` does not change that.
        case("CL+TE, keep-alive", post(&format!("connection: keep-alive\r\n{other}"), &sized(&chunk())), &[201], Closes),
    ]);
}

#[test]
#[rustfmt::skip] // A table: one case a line.
fn transfer_encoding() {
    let te = |value: &str| {
        latin1(&post(
            &format!("transfer-encoding:{value}\r\n"),
            &sized(&chunk()),
        ))
    };
    let te_and_length = |line: &str| latin1(&post(&format!("{line}\r\n{}", length()), AGENT));
    check_all(&[
        case("TE in other case", te(" ChUnKeD"), &[201], Stays),
        case("TE with space after", te(" chunked \t "), &[201], Stays),
        // The server rejects codings that other servers interpret differently or that need decoding.
        case("TE gzip, chunked", te(" gzip, chunked"), &[400], Closes),
        case("TE identity, chunked", te(" identity, chunked"), &[400], Closes),
        case("TE chunked, chunked", te(" chunked, chunked"), &[400], Closes),
        case("TE twice", post(&CHUNKED.repeat(2), &sized(&chunk())), &[400], Closes),
        case("TE with a comma before", te(" ,chunked"), &[400], Closes),
        // If chunked is not the last coding, the body has no defined end, so hyper rejects the request.
        case("TE chunked, identity", te(" chunked, identity"), &[400], Malformed),
        case("TE with a parameter", te(" chunked;q=1"), &[400], Malformed),
        case("TE xchunked", te(" xchunked"), &[400], Malformed),
        case("TE identity + CL", te_and_length("transfer-encoding: identity"), &[400], Malformed),
        case("TE empty + CL", te_and_length("transfer-encoding:"), &[400], Malformed),
        case("TE after a NUL + CL", te_and_length("transfer-encoding: \0chunked"), &[400], Malformed),
        case("TE, space before the colon + CL", te_and_length("transfer-encoding : chunked"), &[400], Malformed),
        case("TE folded into another header + CL", te_and_length("x: y\r\n transfer-encoding: chunked"), &[400], Malformed),
        case("TE behind a bare CR + CL", te_and_length("x: y\rtransfer-encoding: chunked"), &[400], Malformed),
        // A different header name, so Content-Length applies.
        case("TE with an underscore + CL", te_and_length("transfer_encoding: chunked"), &[201], Stays),
        case("TE in HTTP/1.0", post(CHUNKED, &sized(&chunk())).replace("HTTP/1.1", "HTTP/1.0"), &[400], Malformed),
        case("TE + CL in HTTP/1.0", post(&(CHUNKED.to_owned() + &length()), AGENT).replace("HTTP/1.1", "HTTP/1.0"), &[400], Malformed),
        case("TE on a GET", get(CHUNKED) + "0\r\n\r\n", &[200], Stays),
    ]);
}

#[test]
#[rustfmt::skip] // A table: one case a line.
fn chunks() {
    let n = chunk();
    let trailers = |trailers: &str| chunked(&format!("{n}\r\n{AGENT}\r\n0\r\n{trailers}\r\n"));
    let halves = AGENT.split_at(40);
    check_all(&[
        case("size with many zeros", chunked(&sized(&("0".repeat(30) + &n))), &[201], Stays),
        case("extensions", chunked(&sized(&(n.clone() + ";a=b;c=\"d\";e"))), &[201], Stays),
        // hyper permits white space after a chunk size.
        case("two chunks", chunked(&format!("28\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", halves.0, halves.1.len(), halves.1)), &[201], Stays),
        case("size beyond 64 bits", chunked(&sized("10000000000000052")), &[400], Closes),
        case("size negative", chunked(&sized(&format!("-{n}"))), &[400], Closes),
        case("size with 0x", chunked(&sized(&format!("0x{n}"))), &[400], Closes),
        case("size missing", chunked(&sized("")), &[400], Closes),
        case("size too small", chunked(&sized("51")), &[400], Closes),
        case("size too large", chunked(&format!("{:x}\r\n{AGENT}\r\n0\r\n\r\n", AGENT.len() + 2)), &[400], Closes),
        case("no CRLF after the data", chunked(&format!("{n}\r\n{AGENT}0\r\n\r\n")), &[400], Closes),
        case("only LF after the size", chunked(&format!("{n}\n{AGENT}\r\n0\r\n\r\n")), &[400], Closes),
        case("LF in an extension", chunked(&sized(&format!("{n};a\nb"))), &[400], Closes),
        case("extension of 20 KB", chunked(&sized(&format!("{n};{}", "a".repeat(20_000)))), &[400], Closes),
        // hyper drops everything up to CRLF CRLF as trailers, here a whole request.
        case("only LF at the very end", chunked(&format!("{n}\r\n{AGENT}\r\n0\r\n\n")) + &get_deal("d_2"), &[201], Stays),
        // An empty chunk is the last one, so the body is empty and the rest is parsed as a (malformed) request.
        case("chunk of no bytes in the middle", chunked(&format!("0\r\n\r\n{}", sized(&n))), &[400, 400], Malformed),
        case("a request after the last chunk", chunked(&sized(&n)) + &get_deal("d_2"), &[201, 200], Stays),
        case("trailers that are framing", trailers("content-length: 5\r\ntransfer-encoding: chunked\r\n"), &[201], Stays),
        case("trailers that are routing", trailers("host: evil\r\n:authority: evil\r\n"), &[400], Closes),
        case("trailers that are keys", trailers("x-service-key: a\r\nx-request-id: b\r\nconnection: close\r\n"), &[201], Stays),
        case("trailer folded", trailers("x: y\r\n z\r\n"), &[400], Closes),
        case("trailer of 100 KB", trailers(&format!("x: {}\r\n", "a".repeat(100_000))), &[400], Closes),
        case("2,000 trailers", trailers(&"x: y\r\n".repeat(2_000)), &[400], Closes),
    ]);
}

// ---- heads --------------------------------------------------------------------------------

#[test]
#[rustfmt::skip] // A table: one case a line.
fn lines_and_headers() {
    check_all(&[
        // RFC 9112, section 2.2, permits a lone LF instead of CRLF, and empty lines before a request.
        case("only LF everywhere", get_deal("d_1").replace("\r\n", "\n"), &[200], Stays),
        case("empty lines before", "\r\n\r\n".to_owned() + &get_deal("d_1"), &[200], Stays),
        case("bare CR in a value", get("x: a\rb\r\n"), &[400], Malformed),
        case("space before the colon", get("x : a\r\n"), &[400], Malformed),
        case("folded line", get("x: a\r\n b\r\n"), &[400], Malformed),
        case("header without a name", get(": a\r\n"), &[400], Malformed),
        case("header without a colon", get("nothing\r\n"), &[400], Malformed),
        case("NUL in a value", get("x: a\0b\r\n"), &[400], Malformed),
        case("a pseudo-header of HTTP/2", get(":path: /v1/deals/d_2\r\n"), &[400], Malformed),
        case("\\xff in a value", latin1(&get("x: \u{ff}\r\n")), &[200], Stays),
        case("Host that is a list", get("").replace("host: h", "host: h, i"), &[400], Stays),
        case("Host with a path", get("").replace("host: h", "host: h/v1"), &[400], Stays),
        case("Host with a user", get("").replace("host: h", "host: u@h"), &[400], Stays),
        case("Host with \\xff", latin1(&get("").replace("host: h", "host: \u{ff}")), &[400], Stays),
        case("Host that is empty", get("").replace("host: h", "host:"), &[200], Stays),
        case("key with \\xff", latin1(&get("").replace(KEY, &format!("{KEY}\u{ff}"))), &[401], Stays),
        case("a key of 60 KB", get("").replace(KEY, &"k".repeat(60_000)), &[401], Stays),
        // A proxy would drop a header that `Connection` lists; the server does not.
        case("key named by Connection", get("connection: x-service-key\r\n"), &[200], Stays),
        case("two request ids", get("x-request-id: a\r\nx-request-id: b\r\n"), &[200], Stays),
        case("Connection: close, keep-alive", get("connection: close, keep-alive\r\n"), &[200], Closes),
    ]);
}

#[test]
#[rustfmt::skip] // A table: one case a line.
fn targets() {
    let long = "d".repeat(60_000);
    check_all(&[
        case("absolute form with a user", target("http://u:p@h/v1/deals/d_1"), &[200], Stays),
        case("absolute form, the host as its user", target("http://h@i/v1/deals/d_1"), &[400], Stays),
        case("absolute form, other scheme", target("ftp://h/v1/deals/d_1"), &[400], Stays),
        case("absolute form without an authority", target("http:///v1/deals/d_1"), &[400], Malformed),
        case("authority form", target("h:80"), &[400], Stays),
        case("no slash", target("v1/deals/d_1"), &[400], Malformed),
        case("empty", target(""), &[400], Malformed),
        // The http crate drops a fragment.
        case("fragment", target("/v1/deals/d_1#x"), &[200], Stays),
        case("dots", target("/v1/agents/../deals/d_1"), &[404], Stays),
        case("escaped CRLF", target("/v1/deals/d_1%0d%0ax:%20y"), &[404], Stays),
        case("NUL", target("/v1/deals/\0"), &[400], Malformed),
        case("space", target("/v1/deals/d 1"), &[400], Malformed),
        case("UTF-8", target("/v1/deals/é"), &[404], Stays),
        case("path of 60 KB", target(&format!("/v1/deals/{long}")), &[404], Stays),
        case("query of 60 KB", target(&format!("/v1/deals/d_1?{long}")), &[200], Stays),
        case("path of 64 KB", target(&format!("/v1/deals/{long}{}", "d".repeat(5_536))), &[431], Malformed),
        case("60,000 slashes", target(&"/".repeat(60_000)), &[404], Stays),
        case("60 KB of escapes", target(&format!("/v1/deals/{}", "%41".repeat(20_000))), &[404], Stays),
    ]);
}

#[test]
#[rustfmt::skip] // A table: one case a line.
fn versions_and_methods() {
    let version = |version: &str| get_deal("d_1").replace("HTTP/1.1", version);
    let method = |method: &str| get_deal("d_1").replace("GET", method);
    check_all(&[
        case("HTTP/0.9", "GET /v1/deals/d_1\r\n", &[400], Malformed),
        case("HTTP/1.0", version("HTTP/1.0"), &[200], Ends),
        case("HTTP/1.0 without a Host", version("HTTP/1.0").replace("host: h\r\n", ""), &[200], Ends),
        case("HTTP/1.2", version("HTTP/1.2"), &[400], Malformed),
        case("HTTP/2.0 without a preface", version("HTTP/2.0"), &[400], Malformed),
        case("HTTP/1.10", version("HTTP/1.10"), &[400], Malformed),
        case("ICY", version("ICY"), &[400], Malformed),
        case("a word too many", version("x HTTP/1.1"), &[400], Malformed),
        case("two spaces", first_line("GET  /v1/deals/d_1 HTTP/1.1\r\n"), &[400], Malformed),
        case("space before the method", method(" GET"), &[400], Malformed),
        case("no method", method(""), &[400], Malformed),
        case("method with an at sign", method("G@T"), &[400], Malformed),
        case("PRI", method("PRI"), &[405], Stays),
        // The bytes after CONNECT may be intended for the tunnel.
        case("CONNECT", "CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n\r\n", &[400], Closes),
        case("CONNECT to a path", method("CONNECT"), &[405], Closes),
        case("method of 60 KB", method(&"M".repeat(60_000)), &[405], Stays),
        case("method of 70 KB", method(&"M".repeat(70_000)), &[431], Malformed),
    ]);
}

#[test]
#[rustfmt::skip] // A table: one case a line.
fn large_heads() {
    let one = |bytes: usize| get(&format!("x: {}\r\n", "a".repeat(bytes)));
    check_all(&[
        case("header of 60 KB", one(60_000), &[200], Stays),
        case("header of 64 KiB", one(65_536), &[431], Malformed),
        case("header of 500 KB", one(500_000), &[431], Malformed),
        case("name of 500 KB", get(&format!("{}: a\r\n", "x".repeat(500_000))), &[431], Malformed),
        case("98 headers", get(&"x: a\r\n".repeat(98)), &[200], Stays),
        case("101 headers", get(&"x: a\r\n".repeat(99)), &[431], Malformed),
        case("20,000 headers", get(&"x: a\r\n".repeat(20_000)), &[431], Malformed),
        case("1,000 empty lines before", "\r\n".repeat(1_000) + &get_deal("d_1"), &[200], Stays),
    ]);
}

// ---- other protocols ------------------------------------------------------------------------------

#[test]
#[rustfmt::skip] // A table: one case a line.
fn other_protocols() {
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x20";
    let proxy_2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x50\0\x50";
    let upgrade = |to: &str| {
        format!(
            "connection: upgrade, http2-settings\r\nupgrade: {to}\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
        )
    };
    let websocket = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n";
    check_all(&[
        case("NULs", [0; 100], &[400], Malformed),
        case("all bytes there are", (0..=255).collect::<Vec<u8>>(), &[400], Malformed),
        case("TLS", tls, &[400], Malformed),
        case("PROXY protocol 2", proxy_2, &[400], Malformed),
        case("nearly the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", &[400], Malformed),
        case("the preface as HTTP/1.1", "PRI * HTTP/1.1\r\nhost: h\r\n\r\n", &[400], Stays),
        case("garbage after a request", get_deal("d_1") + "\0\0\0", &[200, 400], Malformed),
        // The server ignores offers to upgrade.
        case("upgrade to h2c", get(&upgrade("h2c")), &[200], Stays),
        case("upgrade to h2c with a body", post(&(upgrade("h2c") + &length()), AGENT), &[201], Stays),
        case("upgrade to websocket", get(websocket), &[200], Stays),
    ]);
}

/// HTTP/2 is recognized only by the complete preface, in any division into packets.
#[test]
fn an_http_2_preface_cut_or_damaged_at_each_byte() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let sandbox = sandbox();
    for cut in 0..=PREFACE.len() {
        let (first, second) = PREFACE.split_at(cut);
        let mut stream = connect(&sandbox);
        stream.set_nodelay(true).unwrap();
        stream.write_all(first).unwrap();
        assert_serves_others(&sandbox, "the first part of a preface");
        stream.write_all(&[second, SETTINGS].concat()).unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!(frame[3], 4, "cut at {cut}: not SETTINGS: {frame:?}");

        // An incomplete preface is no request.
        let mut stream = connect(&sandbox);
        stream.write_all(first).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        let is_refused = response.is_empty() || response.starts_with(b"HTTP/1.1 400 ");
        assert!(is_refused || cut == PREFACE.len(), "cut at {cut}");
    }
}

// ---- pipelined requests --------------------------------------------------------------------------

#[test]
#[rustfmt::skip] // A table: one case a line.
fn pipelines() {
    let post = create_agent(AGENT);
    let get = get_deal("d_1");
    let early = post_head(&length()).replace(KEY, "wrong");
    check_all(&[
        case("three", get.clone() + &post + &get_deal("d_2"), &[200, 201, 200], Stays),
        case("three with chunks and errors", chunked(&sized(&chunk())) + &get_deal("unknown") + &post, &[201, 404, 201], Stays),
        case("100 requests", get.repeat(100), &[200; 100], Stays),
        case("body, then bytes that are none of its", post.clone() + "garbage\r\n\r\n", &[201, 400], Malformed),
        case("last request, then another", get.replace("host", "connection: close\r\nhost") + &post, &[200], Closes),
        // The bytes after an early response are the unread body.
        case("early response, then another", early + AGENT + &post, &[401], Closes),
        case("malformed, then another", "G@T / HTTP/1.1\r\n\r\n".to_owned() + &post, &[400], Malformed),
    ]);
}

/// A response is sent even if the next request is still arriving.
#[test]
fn a_pipeline_with_an_incomplete_second_request() {
    let sandbox = sandbox();
    let first = create_agent(AGENT);
    let second = get("x-request-id: second\r\n");
    let mut stream = connect(&sandbox);
    stream.set_nodelay(true).unwrap();
    for cut in 0..second.len() {
        let (begun, rest) = second.split_at(cut);
        stream
            .write_all((first.clone() + begun).as_bytes())
            .unwrap();
        assert_eq!(
            read_response(&mut stream, false).status,
            201,
            "cut at {cut}"
        );
        stream.write_all(rest.as_bytes()).unwrap();
        let response = read_response(&mut stream, false);
        assert_eq!(
            (response.status, response.header("x-request-id")),
            (200, Some("second")),
            "cut at {cut}"
        );
    }
    assert_eq!(sandbox.agents().len(), second.len());
}

// ---- 100 Continue --------------------------------------------------------------------------------------

#[test]
#[rustfmt::skip] // A table: one case a line.
fn expectations() {
    let expect = |value: &str| format!("expect: {value}\r\n{}", length());
    check_all(&[
        case("with the body sent at once", post(&expect("100-continue"), AGENT), &[100, 201], Stays),
        case("in other case", post(&expect("100-CoNtInUe"), AGENT), &[100, 201], Stays),
        case("without a body", get("expect: 100-continue\r\n"), &[200], Stays),
        // The server ignores unknown expectations, as RFC 9110 permits.
        case("unknown", post(&expect("200-ok"), AGENT), &[201], Stays),
        case("for HTTP/1.0, which does not know it", post(&expect("100-continue"), AGENT).replace("HTTP/1.1", "HTTP/1.0"), &[201], Ends),
        case("key refused", post(&expect("100-continue"), AGENT).replace(KEY, "wrong"), &[401], Closes),
        case("path refused", post(&expect("100-continue"), AGENT).replace("/v1/agents", "/v2"), &[404], Closes),
        case("length refused", post("expect: 100-continue\r\ncontent-length: 9999999\r\n", AGENT), &[413], Closes),
        case("chunks refused", post(&format!("expect: 100-continue\r\n{CHUNKED}"), "zz\r\n"), &[100, 400], Closes),
    ]);
}

// ---- responses that must be readable ---------------------------------------------------------------------

/// 7 MiB exceed the operating system's buffers: the client can send them only if the server continues reading.
#[test]
fn early_responses_are_readable_after_the_body_is_sent() {
    let sandbox = sandbox();
    let body = vec![b'x'; 7 * 1024 * 1024];
    let length = format!("content-length: {}\r\n", body.len());
    let chunks = post_head(CHUNKED) + &format!("{:x}\r\n", body.len());
    let with = |old: &str, new: &str| chunks.replace(old, new);
    for (name, head, status) in [
        ("key", with(KEY, "wrong"), 401),
        ("path", with("/v1/agents", "/v2"), 404),
        ("method", with("POST", "PUT"), 405),
        ("media type", with("/json", "/xml"), 415),
        ("host", with("host: h\r\n", ""), 400),
        ("declared length", post_head(&length), 413),
        ("length that is found out", chunks.clone(), 413),
        ("length of a GET", get(&length), 413),
    ] {
        let mut stream = connect(&sandbox);
        stream.write_all(head.as_bytes()).unwrap();
        stream
            .write_all(&body)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let response = read_response(&mut stream, false);
        assert_eq!(response.status, status, "{name}");
        assert_eq!(response.header("connection"), Some("close"), "{name}");
        response.check_invariants(name, false);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_closed(&mut stream);
    }
    assert!(sandbox.agents().is_empty());
    assert_serves_others(&sandbox, "early responses");
}

/// If the server closed with unread bytes, the operating system would discard the undelivered part of the response.
#[test]
fn a_large_last_response_arrives_completely() {
    let text = format!(
        r#"{{"id": "big", "external_id": "{}"}}"#,
        "x".repeat(8_000_000)
    );
    let sandbox = Sandbox::builder().deals([text.as_str()]).start().unwrap();
    let last = get_deal("big").replace("host", "connection: close\r\nhost");
    for (name, following) in [
        ("nothing", String::new()),
        ("a byte", "x".to_owned()),
        ("a request", get_deal("big")),
        ("2 MB", "x".repeat(2_000_000)),
    ] {
        let mut stream = connect(&sandbox);
        stream.write_all(last.as_bytes()).unwrap();
        let mut reading = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || stream.write_all(following.as_bytes()));
        let response = read_response(&mut reading, false);
        assert!(
            response.body == text.as_bytes(),
            "{name}: {} bytes",
            response.body.len()
        );
        assert_closed(&mut reading);
        let _ = writing.join().unwrap();
    }
}

/// An incomplete request gets no response.
#[test]
fn incomplete_requests_get_no_response() {
    let sandbox = sandbox();
    let whole = create_agent(AGENT);
    for cut in 0..whole.len() {
        let mut stream = connect(&sandbox);
        stream.write_all(&whole.as_bytes()[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(
            response.is_empty() || response.starts_with(b"HTTP/1.1 400 "),
            "cut at {cut}: {}",
            String::from_utf8_lossy(&response)
        );
    }
    assert!(sandbox.agents().is_empty());
    assert_serves_others(&sandbox, "requests that ended early");
}
