//! Names that both ends of the connection write: headers, media types, paths.
//!
//! They are stated here once; the client and the sandbox server both read them.

/// The header that carries the caller's key on every request (specification, "Authentication").
pub const SERVICE_KEY_HEADER: &str = "x-service-key";

/// The header that names one request, echoed or made by the service.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The media type of an error body (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The media type of every other body.
pub const JSON: &str = "application/json";

/// The prefix of every path (specification, "Versioning").
pub const API_PREFIX: &str = "/v1";

/// Path of "Create agent", below the base URL.
pub const AGENTS_PATH: &str = "/v1/agents";

/// Path template of "Retrieve a deal", below the base URL.
pub const DEAL_PATH: &str = "/v1/deals/{id}";

/// The contract as an OpenAPI 3.1 document, in JSON.
pub const OPENAPI: &str = include_str!("../contract/openapi.json");

/// The longest service key, in characters.
pub const SERVICE_KEY_MAX: usize = 1024;

/// Whether `key` can be a service key: 1 to 1,024 visible ASCII characters.
///
/// ```
/// assert!(dealkit::wire::is_service_key("sandbox-key"));
/// assert!(!dealkit::wire::is_service_key("two words"));
/// assert!(!dealkit::wire::is_service_key(""));
/// ```
pub fn is_service_key(key: &str) -> bool {
    (1..=SERVICE_KEY_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}
