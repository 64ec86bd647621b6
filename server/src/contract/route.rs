//! The table of routes, and the lookup of an operation by method and path.

use std::borrow::Cow;

use dealkit::{
    Agent, Deal,
    internal::{schema::Model, wire},
};
use http::{Method, header};
use percent_encoding::percent_decode_str;

use crate::contract::{
    operations::{self, Operation},
    problem::{ProblemType, Rejection},
};

/// A route: a method, a path template, and the operation.
#[derive(Debug)]
pub(crate) struct Route<O: 'static> {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) operation: O,
}

/// An operation of /v1, and the model of its success response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) run: Operation,
    pub(crate) success_model: &'static Model,
}

/// The routes of /v1: the single source for the header `Allow`, the message of a 404, and the access log.
pub(crate) static ROUTES: &[Route<Endpoint>] = &[
    Route {
        method: Method::POST,
        path: wire::AGENTS_PATH,
        operation: Endpoint {
            run: operations::create_agent,
            success_model: Agent::SCHEMA,
        },
    },
    Route {
        method: Method::GET,
        path: wire::DEAL_PATH,
        operation: Endpoint {
            run: operations::retrieve_deal,
            success_model: Deal::SCHEMA,
        },
    },
];

impl<O> Route<O> {
    /// Returns true if the route handles the method. A GET route also handles HEAD.
    fn accepts_method(&self, method: &Method) -> bool {
        self.method == method || (self.method == Method::GET && method == Method::HEAD)
    }

    pub(crate) fn has_body(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }
}

/// A request path that matches a route in a table.
#[derive(Debug)]
pub(crate) struct MatchedPath<'p, O: 'static> {
    table: &'static [Route<O>],
    pub(crate) template: &'static str,
    /// The decoded value of `{id}`; empty in a path without an id.
    pub(crate) id: Cow<'p, str>,
}

impl<'p, O> MatchedPath<'p, O> {
    /// Finds the path in the table.
    ///
    /// # Errors
    /// If no route matches the path.
    pub(crate) fn parse(table: &'static [Route<O>], path: &'p str) -> Result<Self, Rejection> {
        let matched_path = table.iter().find_map(|route| {
            let template = route.path;
            let id = extract_id(path, template)?;
            Some(Self {
                table,
                template,
                id,
            })
        });
        matched_path.ok_or_else(|| {
            let routes = table.iter();
            let routes = routes.map(|route| format!("{} {}", route.method, route.path));
            let routes = routes.collect::<Vec<_>>().join(", ");
            let detail = format!("This server has {routes}. Check the base URL and the path.");
            Rejection::new(ProblemType::UNKNOWN_PATH, detail)
        })
    }

    fn routes(&self) -> impl Iterator<Item = &'static Route<O>> + use<O> {
        let template = self.template;
        self.table
            .iter()
            .filter(move |route| route.path == template)
    }

    /// Returns the path's route for this method.
    ///
    /// # Errors
    /// If the path does not allow the method.
    pub(crate) fn route(&self, method: &Method) -> Result<&'static Route<O>, Rejection> {
        self.routes()
            .find(|route| route.accepts_method(method))
            .ok_or_else(|| {
                let allow = self.allow();
                let detail = format!("This path allows these methods: {allow}.");
                Rejection::new(ProblemType::METHOD_NOT_ALLOWED, detail).header(header::ALLOW, allow)
            })
    }

    /// Returns the value of the header `Allow`.
    pub(crate) fn allow(&self) -> String {
        list_methods(self.routes()).join(", ")
    }
}

/// Lists the methods of routes, including OPTIONS, which every path allows.
fn list_methods<'r, O: 'static>(routes: impl Iterator<Item = &'r Route<O>>) -> Vec<&'r str> {
    let mut names = Vec::new();
    for route in routes {
        let head = (route.method == Method::GET).then_some("HEAD");
        for name in [route.method.as_str()].into_iter().chain(head) {
            // Several routes may have the same method.
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.push("OPTIONS");
    names
}

/// Checks that a fault's method and path template can match a request to /v1. A segment in braces matches any segment.
///
/// # Errors
/// If no request can match. The message names the invalid field and lists the allowed values.
pub(crate) fn check_fault_filter(method: Option<&str>, path: Option<&str>) -> Result<(), String> {
    let matches_either_way = |segment: &str, expected: &str| {
        matches_segment(segment, expected) || matches_segment(expected, segment)
    };
    let routes = ROUTES
        .iter()
        .filter(|route| path.is_none_or(|path| matches_path(path, route.path, matches_either_way)));
    if routes.clone().next().is_none() {
        let paths: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
        return Err(format!("path: expected one of {}", paths.join(", ")));
    }
    let methods = list_methods(routes);
    match method {
        Some(method) if !methods.contains(&method) => {
            Err(format!("method: expected one of {}", methods.join(", ")))
        }
        _ => Ok(()),
    }
}

/// Returns true if the paths have the same number of segments, and each pair of segments satisfies `matches`.
fn matches_path<'p>(
    path: &'p str,
    template: &str,
    mut matches: impl FnMut(&'p str, &str) -> bool,
) -> bool {
    let mut segments = path.split('/').zip(template.split('/'));
    path.split('/').count() == template.split('/').count()
        && segments.all(|(segment, expected)| matches(segment, expected))
}

/// Returns true if the path has the template's segments. A segment in braces matches any segment.
pub(crate) fn matches_template(path: &str, template: &str) -> bool {
    matches_path(path, template, matches_segment)
}

/// Returns true if a segment equals the template's segment. A segment in braces in the template matches any segment that is not
/// empty.
fn matches_segment(segment: &str, expected: &str) -> bool {
    let is_wildcard = expected.starts_with('{') && expected.ends_with('}');
    segment == expected || (is_wildcard && !segment.is_empty())
}

/// Returns the path's template for logs, which must not contain ids.
pub(crate) fn path_template(path: &str) -> &'static str {
    MatchedPath::parse(ROUTES, path).map_or("(unknown)", |path| path.template)
}

/// Returns the id in `path` if `path` matches `template`. The id is empty if the template has no `{id}`.
///
/// Splits the path at `/` before decoding each segment once. An id can therefore contain an encoded slash (`%2F`). An invalid
/// escape (`%zz`) is taken literally. A segment that does not decode to UTF-8 matches nothing.
fn extract_id<'p>(path: &'p str, template: &str) -> Option<Cow<'p, str>> {
    let mut id = Cow::Borrowed("");
    let is_match = matches_path(path, template, |segment, expected| {
        let Ok(segment) = percent_decode_str(segment).decode_utf8() else {
            return false;
        };
        if expected != "{id}" {
            return segment == expected;
        }
        id = segment;
        !id.is_empty()
    });
    is_match.then_some(id)
}
