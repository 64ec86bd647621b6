//! Patterns that select requests: the matcher of faults and of `verify`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use dealkit::{
    Json,
    internal::{json_kind::JsonKind, scalar},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{
    contract::route::{self, matches_template},
    sandbox::fields::{self, JsonField},
};

const EXPECTED_BODY: &str = "an object, whose fields the body of a request must have";
const EXPECTED_HEADERS: &str =
    "an object with header names, and for each its value, or true for any value";

/// The requests to /v1 that a test expects: see [`Service::verify`](crate::Service::verify). Without further conditions, it matches
/// every request.
///
/// ```
/// use dealkit_server::RequestPattern;
/// use serde_json::json;
///
/// RequestPattern::new()
///     .method("POST")
///     .path("/v1/agents")
///     .header("x-tenant", "7")
///     .body(json!({"email": "ada@example.com", "profile": {"tier": "A"}}));
/// RequestPattern::new().path("/v1/deals/{id}").header_exists("traceparent");
/// ```
#[derive(Clone, Default, PartialEq, Serialize)]
#[must_use = "a pattern has no effect until it is verified"]
pub struct RequestPattern {
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// By name, in lower case.
    #[serde(rename = "request_header", skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, HeaderPattern>,
    #[serde(rename = "request_body", skip_serializing_if = "Option::is_none")]
    body: Option<Json>,
}

/// The expected value of a header.
#[derive(Clone, PartialEq)]
enum HeaderPattern {
    Exists,
    Equals(String),
}

impl Serialize for HeaderPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Exists => serializer.serialize_bool(true),
            Self::Equals(value) => serializer.serialize_str(value),
        }
    }
}

impl fmt::Debug for RequestPattern {
    /// Omits the values of headers and the content of the body, which may be secrets or personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header_names: BTreeSet<_> = self.headers.keys().collect();
        f.debug_struct("RequestPattern")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &header_names)
            .field("body", &self.body)
            .finish()
    }
}

/// The parts of a request that a pattern examines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestParts<'r> {
    pub(crate) method: &'r Method,
    pub(crate) path: &'r str,
    pub(crate) headers: &'r HeaderMap,
    /// `None` if the body has not arrived yet. It is then ignored.
    pub(crate) body: Option<&'r [u8]>,
}

/// The names of the fields of a pattern, which differ between a fault and a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldNames {
    pub(crate) headers: &'static str,
    pub(crate) body: &'static str,
}

impl RequestPattern {
    /// Creates a pattern that matches every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Matches only requests with this method, such as `"POST"` or `Method::POST`.
    pub fn method(mut self, method: impl AsRef<str>) -> Self {
        self.method = Some(method.as_ref().to_owned());
        self
    }

    /// Matches only requests to this path, such as `/v1/deals/d_1`. A segment in braces, as in `/v1/deals/{id}`, matches any
    /// segment.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Matches only requests that have this header with this value. Names are case-insensitive. Each call adds a header.
    pub fn header(mut self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        let value = HeaderPattern::Equals(value.into());
        self.headers
            .insert(name.as_ref().to_ascii_lowercase(), value);
        self
    }

    /// Matches only requests that have this header, with any value.
    pub fn header_exists(mut self, name: impl AsRef<str>) -> Self {
        self.headers
            .insert(name.as_ref().to_ascii_lowercase(), HeaderPattern::Exists);
        self
    }

    /// Matches only requests whose body contains this JSON object: every field of it, at every depth. Arrays must have the same
    /// length, and numbers the same value. Other fields of the body are ignored.
    pub fn body(mut self, object: impl Into<Json>) -> Self {
        self.body = Some(object.into());
        self
    }

    pub(crate) fn read_method(&mut self, field: &JsonField<'_>) -> Result<(), String> {
        self.method = field.read_string("a method, such as POST")?;
        Ok(())
    }

    pub(crate) fn read_path(&mut self, field: &JsonField<'_>) -> Result<(), String> {
        self.path = field.read_string("a path, such as /v1/deals/{id}")?;
        Ok(())
    }

    pub(crate) fn read_headers(&mut self, field: &JsonField<'_>) -> Result<(), String> {
        self.headers.clear();
        if field.kind() == JsonKind::Null {
            return Ok(());
        }
        let headers = fields::split_object(field.json);
        for header in headers.ok_or_else(|| field.expected(EXPECTED_HEADERS))? {
            let value = match header.kind() {
                JsonKind::Boolean if header.json == "true" => HeaderPattern::Exists,
                JsonKind::String => {
                    HeaderPattern::Equals(header.read_string("text")?.unwrap_or_default())
                }
                _ => {
                    return Err(format!(
                        "{}: expected {EXPECTED_HEADERS}, found {} for {}",
                        field.name,
                        header.kind().name(),
                        header.name
                    ));
                }
            };
            self.headers.insert(header.name.to_ascii_lowercase(), value);
        }
        Ok(())
    }

    pub(crate) fn read_body(&mut self, field: &JsonField<'_>) -> Result<(), String> {
        self.body = field.read_json();
        match field.kind() {
            JsonKind::Null | JsonKind::Object => Ok(()),
            _ => Err(field.expected(EXPECTED_BODY)),
        }
    }

    /// Checks that a request to /v1 can match. The message names the invalid field and the allowed values.
    pub(crate) fn check(&self, names: FieldNames) -> Result<(), String> {
        let is_path_byte = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        if !self.path.iter().all(|path| path.bytes().all(is_path_byte)) {
            return Err(
                "path: expected a path as it is sent, without a query, such as /v1/deals/{id}"
                    .to_owned(),
            );
        }
        route::check_fault_filter(self.method.as_deref(), self.path.as_deref())?;
        for (name, value) in &self.headers {
            if HeaderName::try_from(name).is_err() {
                return Err(format!("{}: expected names of headers", names.headers));
            }
            if let HeaderPattern::Equals(value) = value
                && HeaderValue::try_from(value).is_err()
            {
                let field = names.headers;
                return Err(format!(
                    "{field}: expected visible ASCII as the value of {name}"
                ));
            }
        }
        match &self.body {
            Some(body) if JsonKind::from_json(body.as_str()) != JsonKind::Object => {
                Err(format!("{}: expected {EXPECTED_BODY}", names.body))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the pattern depends on the request's body.
    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Returns the name of a header whose value the pattern compares, if `is_secret` is true for that name.
    pub(crate) fn find_header_value(&self, is_secret: impl Fn(&str) -> bool) -> Option<&str> {
        let mut values = self.headers.iter();
        let (name, _) = values.find(|(name, value)| {
            matches!(value, HeaderPattern::Equals(_)) && is_secret(name.as_str())
        })?;
        Some(name)
    }

    /// Returns the size of the pattern's strings and body, for the memory budget.
    pub(crate) fn byte_len(&self) -> usize {
        let strings = [&self.method, &self.path].into_iter().flatten();
        let headers = self.headers.iter().map(|(name, value)| match value {
            HeaderPattern::Exists => name.len(),
            HeaderPattern::Equals(value) => name.len() + value.len(),
        });
        let body = self.body.as_ref().map_or(0, |body| body.as_str().len());
        strings.map(String::len).sum::<usize>() + headers.sum::<usize>() + body
    }

    pub(crate) fn matches(&self, request: RequestParts<'_>) -> bool {
        self.has_method(request)
            && self.has_path(request)
            && self.different_headers(request).next().is_none()
            && self.different_body_fields(request).is_empty()
    }

    /// Returns the parts of the request that differ from the pattern: `method`, `header x-tenant`, `body /email`. Contains no
    /// values, and no names except the pattern's.
    pub(crate) fn differences(&self, request: RequestParts<'_>) -> Vec<String> {
        let mut differences = Vec::new();
        if !self.has_method(request) {
            differences.push("method".to_owned());
        }
        if !self.has_path(request) {
            differences.push("path".to_owned());
        }
        let headers = self.different_headers(request);
        differences.extend(headers.map(|name| format!("header {name}")));
        let body_fields = self.different_body_fields(request).into_iter();
        differences
            .extend(body_fields.map(|pointer| format!("body {pointer}").trim_end().to_owned()));
        differences
    }

    fn has_method(&self, request: RequestParts<'_>) -> bool {
        (self.method.as_ref()).is_none_or(|only| only == request.method.as_str())
    }

    fn has_path(&self, request: RequestParts<'_>) -> bool {
        (self.path.as_ref()).is_none_or(|only| matches_template(request.path, only))
    }

    fn different_headers<'p>(
        &'p self,
        request: RequestParts<'p>,
    ) -> impl Iterator<Item = &'p String> {
        let different = self.headers.iter().filter(move |(name, expected)| {
            let mut values = request.headers.get_all(name.as_str()).iter();
            !values.any(|value| match expected {
                HeaderPattern::Exists => true,
                HeaderPattern::Equals(expected) => value.as_bytes() == expected.as_bytes(),
            })
        });
        different.map(|(name, _)| name)
    }

    fn different_body_fields(&self, request: RequestParts<'_>) -> Vec<String> {
        let mut pointers = Vec::new();
        if let (Some(expected), Some(body)) = (&self.body, request.body) {
            let body = serde_json::from_slice::<&RawValue>(body).ok();
            compare(
                expected.as_str(),
                body.map(RawValue::get),
                "",
                &mut pointers,
            );
        }
        pointers
    }

    /// Describes the matching requests, without values: `1 request: POST /v1/agents with header x-tenant and a body`.
    pub(crate) fn describe(&self, count: usize) -> String {
        let noun = if count == 1 { "request" } else { "requests" };
        let path = self.path.as_deref().map(route::path_template);
        let line: Vec<_> = self.method.as_deref().into_iter().chain(path).collect();
        let headers = self.headers.keys().map(|name| format!("header {name}"));
        let body = self.body.as_ref().map(|_| "a body".to_owned());
        let conditions: Vec<_> = headers.chain(body).collect();
        let mut text = format!("{count} {noun}");
        if !line.is_empty() {
            text += &format!(": {}", line.join(" "));
        }
        if !conditions.is_empty() {
            text += &format!(" with {}", conditions.join(" and "));
        }
        text
    }
}

/// Adds the JSON pointer of each part of `expected` that `actual` does not contain. Both are JSON text.
fn compare(expected: &str, actual: Option<&str>, pointer: &str, differences: &mut Vec<String>) {
    let kind = JsonKind::from_json(expected);
    let actual = actual.filter(|actual| JsonKind::from_json(actual) == kind);
    match (kind, actual) {
        (JsonKind::Object, Some(actual)) => {
            let (expected, actual) = (parse_fields(expected), parse_fields(actual));
            for (name, expected) in expected {
                let actual = actual.get(&name).map(|json| json.get());
                let name = name.replace('~', "~0").replace('/', "~1");
                compare(
                    expected.get(),
                    actual,
                    &format!("{pointer}/{name}"),
                    differences,
                );
            }
        }
        (JsonKind::Array, Some(actual)) => {
            let (expected, actual) = (parse_items(expected), parse_items(actual));
            if expected.len() != actual.len() {
                differences.push(pointer.to_owned());
                return;
            }
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare(
                    expected.get(),
                    Some(actual.get()),
                    &format!("{pointer}/{index}"),
                    differences,
                );
            }
        }
        (_, Some(actual)) if is_equal_scalar(kind, expected, actual) => {}
        _ => differences.push(pointer.to_owned()),
    }
}

fn parse_fields(object: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(object).unwrap_or_default()
}

fn parse_items(array: &str) -> Vec<&RawValue> {
    serde_json::from_str(array).unwrap_or_default()
}

/// Compares two values of the same kind, other than objects and arrays: numbers by value, strings by content.
fn is_equal_scalar(kind: JsonKind, left: &str, right: &str) -> bool {
    let parse_string = |text| serde_json::from_str::<String>(text).ok();
    left == right
        || match kind {
            JsonKind::Number => {
                let left = scalar::parse_decimal(left);
                left.is_some() && left == scalar::parse_decimal(right)
            }
            JsonKind::String => {
                let left = parse_string(left);
                left.is_some() && left == parse_string(right)
            }
            _ => false,
        }
}
