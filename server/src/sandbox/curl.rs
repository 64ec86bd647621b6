//! A request of the journal as a curl command that repeats it.

use dealkit::wire;

use crate::contract::auth::ServiceKey;
use crate::sandbox::{journal::RecordedRequest, reached::Reached};

/// Headers that curl sends by itself, or that would not be true of the repeated request.
const OWN: [&str; 7] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept",
    "user-agent",
    "accept-encoding",
];

/// A one-line command for a POSIX shell; `None` if the body is not text, or is not kept whole.
///
/// The journal keeps no secrets. Of these, the command has only the service key: `key` if that is the one that everybody
/// knows, or else the variable in which a shell keeps it. `ca.pem` is the file that `/__sandbox/ca.pem` has.
pub(super) fn curl(
    request: &RecordedRequest,
    key: &ServiceKey,
    reached: &Reached,
) -> Option<String> {
    let host = request
        .headers
        .get("host")
        .map_or(Ok("127.0.0.1:8080"), |host| host.to_str());
    let query = request.query.as_ref().map(|query| format!("?{query}"));
    let url = format!(
        "{}://{}{}{}",
        reached.scheme(),
        host.ok()?,
        request.path,
        query.unwrap_or_default()
    );
    // With -X, curl would wait for the body that a response to HEAD does not have.
    let method = match request.method.as_str() {
        "HEAD" => "--head".to_owned(),
        method => format!("-i -X {}", quoted(method)),
    };
    let trusting = reached.ca_pem.as_ref().map_or("", |_| " --cacert ca.pem");
    let mut command = format!("curl{trusting} --path-as-is {method} {}", quoted(&url));
    for (name, value) in &request.headers {
        // Only browsers send headers that begin with `sec-`.
        if OWN.contains(&name.as_str()) || name.as_str().starts_with("sec-") {
            continue;
        }
        let header = match (name.as_str(), value.to_str().ok()?) {
            (wire::SERVICE_KEY_HEADER, _) if key.is_default() => {
                quoted(&format!("{name}: {}", ServiceKey::DEFAULT))
            }
            (wire::SERVICE_KEY_HEADER, _) => format!("\"{name}: $DEALKIT_SERVICE_KEY\""),
            (_, "<redacted>") => continue,
            (_, value) => quoted(&format!("{name}: {value}")),
        };
        command += &format!(" -H {header}");
    }
    if request.body_bytes > 0 {
        let body = std::str::from_utf8(&request.body).ok()?;
        let is_whole = request.body.len() as u64 == request.body_bytes && !body.contains('\0');
        command += &format!(" --data-raw {}", is_whole.then(|| quoted(body))?);
    }
    Some(command)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
