//! Which operation a path and a method name.

use std::borrow::Cow;

use dealkit::wire;
use http::Method;
use percent_encoding::percent_decode_str;

/// A path that the server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path<'p> {
    Agents,
    /// The deal's id, decoded.
    Deal(Cow<'p, str>),
}

impl<'p> Path<'p> {
    /// Splits at `/` first and decodes each segment once after, so that `%2F` belongs to an id and does
    /// not end it. An escape that is none (`%zz`) stands for itself. A segment that is not UTF-8 after
    /// decoding makes the whole path unknown.
    pub(crate) fn parse(path: &'p str) -> Option<Self> {
        let mut segments = path
            .strip_prefix('/')?
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().ok());
        let version = segments.next()??;
        let resource = segments.next()??;
        let id = segments.next();
        if version != wire::API_PREFIX.trim_start_matches('/') || segments.next().is_some() {
            return None;
        }
        match (&*resource, id) {
            ("agents", None) => Some(Path::Agents),
            ("deals", Some(Some(id))) if !id.is_empty() => Some(Path::Deal(id)),
            _ => None,
        }
    }

    /// The path with a placeholder for the id, for logs.
    pub(crate) fn template(&self) -> &'static str {
        match self {
            Path::Agents => wire::AGENTS_PATH,
            Path::Deal(_) => wire::DEAL_PATH,
        }
    }

    /// The methods of the path, as the `Allow` header lists them.
    pub(crate) fn allow(&self) -> &'static str {
        match self {
            Path::Agents => "POST, OPTIONS",
            Path::Deal(_) => "GET, HEAD, OPTIONS",
        }
    }

    /// What `method` does here, or `None` when the path does not have it.
    pub(crate) fn operation(self, method: &Method) -> Option<Operation<'p>> {
        match (self, method) {
            (path, &Method::OPTIONS) => Some(Operation::Options(path.allow())),
            (Path::Agents, &Method::POST) => Some(Operation::CreateAgent),
            (Path::Deal(id), &Method::GET | &Method::HEAD) => Some(Operation::RetrieveDeal(id)),
            _ => None,
        }
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'p> {
    CreateAgent,
    RetrieveDeal(Cow<'p, str>),
    /// Which methods are there: the value of `Allow`.
    Options(&'static str),
}
