//! The table of routes: every operation that the server has, and which one a path and a method name.

use std::borrow::Cow;

use dealkit::{
    Agent, Deal,
    internal::{schema::Model, wire},
};
use http::{Method, header};
use percent_encoding::percent_decode_str;

use crate::contract::{
    operations::{self, Operation},
    problem::{ProblemType, Refusal},
};

/// One operation: a method, the path that has it, and what carries it out.
#[derive(Debug)]
pub(crate) struct Route<O: 'static> {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) operation: O,
}

/// An operation of /v1, and the model of its successful response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) run: Operation,
    pub(crate) success: &'static Model,
}

/// The operations of /v1. Everything else that names them (`Allow`, the text of a 404, the log) reads them here.
pub(crate) static ROUTES: &[Route<Endpoint>] = &[
    Route {
        method: Method::POST,
        path: wire::AGENTS_PATH,
        operation: Endpoint {
            run: operations::create_agent,
            success: Agent::SCHEMA,
        },
    },
    Route {
        method: Method::GET,
        path: wire::DEAL_PATH,
        operation: Endpoint {
            run: operations::retrieve_deal,
            success: Deal::SCHEMA,
        },
    },
];

impl<O> Route<O> {
    /// A GET route takes HEAD, too.
    fn takes(&self, method: &Method) -> bool {
        self.method == method || (self.method == Method::GET && method == Method::HEAD)
    }

    pub(crate) fn has_body(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }
}

/// A path that a table of routes has.
#[derive(Debug)]
pub(crate) struct MatchedPath<'p, O: 'static> {
    table: &'static [Route<O>],
    pub(crate) template: &'static str,
    /// The value of `{id}`, decoded; empty in a path without an id.
    pub(crate) id: Cow<'p, str>,
}

impl<'p, O> MatchedPath<'p, O> {
    /// Refused is a path that no route of the table has.
    pub(crate) fn parse(table: &'static [Route<O>], path: &'p str) -> Result<Self, Refusal> {
        let found = table.iter().find_map(|route| {
            let template = route.path;
            let id = id_in(path, template)?;
            Some(Self {
                table,
                template,
                id,
            })
        });
        found.ok_or_else(|| {
            let all = table.iter();
            let all = all.map(|route| format!("{} {}", route.method, route.path));
            let all = all.collect::<Vec<_>>().join(", ");
            let detail = format!("This server has {all}. Check the base URL and the path.");
            Refusal::new(ProblemType::UNKNOWN_PATH, detail)
        })
    }

    fn routes(&self) -> impl Iterator<Item = &'static Route<O>> + use<O> {
        let template = self.template;
        self.table
            .iter()
            .filter(move |route| route.path == template)
    }

    /// The route of `method`, which is refused if the path does not have it.
    pub(crate) fn route(&self, method: &Method) -> Result<&'static Route<O>, Refusal> {
        self.routes()
            .find(|route| route.takes(method))
            .ok_or_else(|| {
                let allow = self.allow();
                let detail = format!("This path allows these methods: {allow}.");
                Refusal::new(ProblemType::METHOD_NOT_ALLOWED, detail).header(header::ALLOW, allow)
            })
    }

    /// The methods of the path, as the `Allow` header lists them.
    pub(crate) fn allow(&self) -> String {
        methods(self.routes()).join(", ")
    }
}

/// The methods that routes take. Every path has OPTIONS.
fn methods<'r, O: 'static>(routes: impl Iterator<Item = &'r Route<O>>) -> Vec<&'r str> {
    let methods = routes.flat_map(|route| {
        let head = (route.method == Method::GET).then_some("HEAD");
        [route.method.as_str()].into_iter().chain(head)
    });
    methods.chain(["OPTIONS"]).collect()
}

/// Whether the server has operations with this method, and with a path that matches this one, in which a segment in
/// braces stands for any. If it has none, the error says which field is wrong, and what it has.
pub(crate) fn check_selection(method: Option<&str>, path: Option<&str>) -> Result<(), String> {
    let in_both =
        |segment: &str, expected: &str| fits(segment, expected) || fits(expected, segment);
    let routes = ROUTES
        .iter()
        .filter(|route| path.is_none_or(|path| is_path(path, route.path, in_both)));
    if routes.clone().next().is_none() {
        let paths: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
        return Err(format!("path: expected one of {}", paths.join(", ")));
    }
    let methods = methods(routes);
    match method {
        Some(method) if !methods.contains(&method) => {
            Err(format!("method: expected one of {}", methods.join(", ")))
        }
        _ => Ok(()),
    }
}

/// Whether each segment of a path fits that of another one.
pub(crate) fn is_path<'p>(
    path: &'p str,
    other: &str,
    mut fits: impl FnMut(&'p str, &str) -> bool,
) -> bool {
    let mut segments = path.split('/').zip(other.split('/'));
    path.split('/').count() == other.split('/').count()
        && segments.all(|(segment, expected)| fits(segment, expected))
}

/// Whether a segment is the expected one; one in braces stands for any.
pub(crate) fn fits(segment: &str, expected: &str) -> bool {
    let any = expected.starts_with('{') && expected.ends_with('}');
    segment == expected || (any && !segment.is_empty())
}

/// The path as a log shows it: its template, never the id in it.
pub(crate) fn template(path: &str) -> &'static str {
    MatchedPath::parse(ROUTES, path).map_or("(unknown)", |path| path.template)
}

/// The id in `path`, if `path` matches `template`; it is empty when the template has no `{id}`.
///
/// The path is split at `/` first, and each segment is decoded once afterwards, so that `%2F` belongs to an id and does
/// not end it. An invalid escape (`%zz`) stands for itself. A segment that is not UTF-8 after decoding matches nothing.
fn id_in<'p>(path: &'p str, template: &str) -> Option<Cow<'p, str>> {
    let mut id = Cow::Borrowed("");
    let found = is_path(path, template, |segment, expected| {
        let Ok(segment) = percent_decode_str(segment).decode_utf8() else {
            return false;
        };
        if expected != "{id}" {
            return segment == expected;
        }
        id = segment;
        !id.is_empty()
    });
    found.then_some(id)
}
