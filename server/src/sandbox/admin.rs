//! The control interface: the operations under /__sandbox/.

use std::{
    borrow::Cow, fmt::Display, ops::RangeInclusive, str::FromStr, sync::Arc, time::Duration,
};

use bytes::Bytes;
use dealkit::{Agent, internal::wire};
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tokio::time::timeout;

use crate::sandbox::{
    access::{Access, Audience},
    docs,
    fault::Fault,
    journal::RecordedRequest,
    namespace::{Namespace, Namespaces, SettingsChange},
    verify::{self, VerifyError},
};
use crate::{
    contract::{
        auth,
        operations::{store_full_rejection, unknown_deal_rejection},
        problem::{ProblemType, Rejection},
        response::{empty_response, response},
        route::{MatchedPath, Route, matches_template},
    },
    state::{
        agent::CreatedAgent,
        deals_file::DealsWriter,
        seed::{SeedDeal, SeedError},
        store::StoreLimit,
    },
};

/// Path prefix of the control interface.
pub(crate) const PREFIX: &str = "/__sandbox/";

/// Default and maximum number of entries on a page of a list.
const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: usize = 1_000;

/// Maximum size of a page's entries in bytes. A larger entry is alone on its page.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// Maximum size of all deals in one response.
const MAX_EXPORT_BYTES: usize = 64 * 1024 * 1024;

/// The path of the list of requests, which supports the query parameter `wait`.
const REQUESTS_PATH: &str = "/__sandbox/requests";

/// Maximum of the parameter `wait`, in seconds.
const MAX_WAIT: f64 = 300.0;

/// An operation's function, and its audience.
type Operation = (fn(&AdminCall<'_>, &[u8]) -> AdminResult, Audience);

type AdminResult = Result<Response<Bytes>, Rejection>;

macro_rules! routes {
    ($( $method:ident $path:literal $audience:ident $run:expr; )+) => {
        static ROUTES: &[Route<Operation>] = &[$( Route {
            method: Method::$method,
            path: $path,
            operation: ($run, Audience::$audience),
        } ),+];
    };
}

routes! {
    GET "/__sandbox/health" Public |_, _| {
        Ok(response(StatusCode::OK, wire::JSON, r#"{"status":"ok"}"#))
    };
    GET "/__sandbox/openapi.json" Public |_, _| {
        Ok(response(StatusCode::OK, wire::JSON, wire::OPENAPI))
    };
    GET "/__sandbox/ca.pem" Public ca_pem;
    GET "/__sandbox/docs" Browsers |call, _| Ok(docs::page_response(&call.namespace.key));
    GET "/__sandbox/docs/{id}" Browsers page_file;
    GET "/__sandbox/requests" Authorized list_requests;
    DELETE "/__sandbox/requests" Authorized |call, _| {
        call.namespace.journal.clear();
        no_content()
    };
    GET "/__sandbox/faults" Authorized list_faults;
    POST "/__sandbox/faults" Authorized add_fault;
    DELETE "/__sandbox/faults" Authorized |call, _| {
        call.namespace.faults.clear();
        no_content()
    };
    DELETE "/__sandbox/faults/{id}" Authorized remove_fault;
    POST "/__sandbox/verify" Authorized verify_requests;
    POST "/__sandbox/release" Authorized |call, _| {
        let body = json!({"released": call.namespace.release()}).to_string();
        Ok(response(StatusCode::OK, wire::JSON, body))
    };
    GET "/__sandbox/agents" Authorized list_agents;
    GET "/__sandbox/deals" Authorized list_deals;
    GET "/__sandbox/deals.json" Authorized export_deals;
    GET "/__sandbox/deals/{id}" Authorized get_deal;
    PUT "/__sandbox/deals/{id}" Authorized put_deal;
    POST "/__sandbox/reload" Authorized |call, _| {
        let reload_result = call.namespaces.reload_deals(&call.namespace);
        reload_result.map_err(|error| match error {
            SeedError::StoreFull => store_full_rejection(StoreLimit::Bytes),
            error => Rejection::new(ProblemType::INVALID_DEALS_FILE, error.to_string()),
        })?;
        no_content()
    };
    PUT "/__sandbox/keys" Authorized accept_keys;
    POST "/__sandbox/reset" Authorized |call, _| {
        call.namespace.reset();
        no_content()
    };
    POST "/__sandbox/namespace" Authorized create_namespace;
    PUT "/__sandbox/namespace" Authorized change_settings;
    DELETE "/__sandbox/namespace" Authorized delete_namespace;
}

/// A permitted call of an operation.
#[derive(Debug)]
pub(crate) struct AdminCall<'r> {
    run: fn(&Self, &[u8]) -> AdminResult,
    template: &'static str,
    namespaces: &'r Namespaces,
    namespace: Arc<Namespace>,
    ca_pem: Option<&'r str>,
    id: Cow<'r, str>,
    query: Query,
}

impl<'r> AdminCall<'r> {
    /// Resolves a request under [`PREFIX`] to an operation, and checks that the client may use it.
    pub(crate) fn authorize(
        access: &Access,
        namespaces: &'r Namespaces,
        ca_pem: Option<&'r str>,
        head: &'r Parts,
    ) -> Result<Self, Rejection> {
        let path = MatchedPath::parse(ROUTES, head.uri.path());
        let matched_route = path.and_then(|path| Ok((path.route(&head.method)?, path)));
        // Unknown paths need access too: clients without access must not learn which paths exist.
        let audience = |(route, _): &(&Route<Operation>, _)| route.operation.1;
        access.check(
            matched_route
                .as_ref()
                .map_or(Audience::Authorized, audience),
            head,
        )?;
        let (route, path) = matched_route?;
        let (run, audience) = route.operation;
        let (namespace, query) = match audience {
            Audience::Authorized => {
                let query = Query::parse(head.uri.query().unwrap_or_default())?;
                let header = head.headers.get(&auth::HEADER).map(HeaderValue::as_bytes);
                (
                    namespaces.find_for_admin_call(query.namespace.as_deref(), header)?,
                    query,
                )
            }
            Audience::Public | Audience::Browsers => {
                (Arc::clone(&namespaces.default), Query::default())
            }
        };
        Ok(Self {
            run,
            template: path.template,
            namespaces,
            namespace,
            ca_pem,
            id: path.id,
            query,
        })
    }

    /// Returns a future to await before the operation runs, if the call waits for requests.
    pub(crate) fn wait_for_requests(&self) -> Option<impl Future<Output = ()>> {
        if self.template != REQUESTS_PATH {
            return None;
        }
        let limit = self.query.wait?;
        Some(async move {
            let matches = |request: &RecordedRequest| self.query.matches(request);
            let enough_requests = self
                .namespace
                .journal
                .wait_until_recorded(self.query.count, matches);
            let _ = timeout(limit, enough_requests).await;
        })
    }

    /// Runs the operation. Returns the response without a request id.
    pub(crate) fn run(&self, body: &[u8]) -> Result<Response<Bytes>, Rejection> {
        let mut response = (self.run)(self, body)?;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let nosniff = HeaderValue::from_static("nosniff");
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        Ok(response)
    }
}

fn ca_pem(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let pem = call.ca_pem.map(str::to_owned).ok_or_else(|| {
        let detail = "This server was not started with --tls self-signed.";
        Rejection::new(ProblemType::UNKNOWN_PATH, detail)
    })?;
    Ok(response(
        StatusCode::OK,
        "application/pem-certificate-chain",
        pem,
    ))
}

fn page_file(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    docs::file_response(&call.id).ok_or_else(|| {
        Rejection::new(
            ProblemType::UNKNOWN_PATH,
            "The page is at /__sandbox/docs; it has no such file.",
        )
    })
}

fn list_requests(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let limit = call.query.limit.unwrap_or(DEFAULT_PAGE_SIZE);
    // One more than the limit, to know whether there is a next page.
    let max = call.query.count.max(limit + 1);
    let matches = |request: &RecordedRequest| call.query.matches(request);
    let requests = call.namespace.journal.find(max, matches);
    let entries = requests.iter().map(|request| {
        let path_template = request.path_template();
        let entry = RequestEntry {
            request,
            path_template,
        };
        (request.number, entry)
    });
    let waits = call.query.wait.is_some();
    let timed_out = waits.then_some(requests.len() < call.query.count);
    Ok(build_page("requests", limit, entries, timed_out))
}

fn list_faults(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let faults = call.namespace.faults.list();
    let later_faults = faults
        .iter()
        .filter(|fault| fault.id > call.query.after_number);
    // One page shows all faults by default: there are at most 1,000.
    let entries = later_faults.map(|fault| (fault.id, fault));
    let limit = call.query.limit.unwrap_or(MAX_PAGE_SIZE);
    Ok(build_page("faults", limit, entries, None))
}

fn add_fault(call: &AdminCall<'_>, body: &[u8]) -> AdminResult {
    let invalid = |detail: String| Rejection::new(ProblemType::INVALID_FAULT, detail);
    let id = Fault::from_json(body)
        .and_then(|fault| call.namespace.faults.add(fault))
        .map_err(|error| invalid(error.to_string()))?;
    let body = json!({"id": id}).to_string();
    Ok(response(StatusCode::CREATED, wire::JSON, body))
}

fn remove_fault(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let id = call.id.parse::<u64>();
    if id.is_ok_and(|id| call.namespace.faults.remove(id)) {
        return no_content();
    }
    Err(Rejection::new(
        ProblemType::UNKNOWN_FAULT,
        "It was never added, or has happened as often as it should. GET /__sandbox/faults lists the current ones.",
    ))
}

fn verify_requests(call: &AdminCall<'_>, body: &[u8]) -> AdminResult {
    let invalid = |detail: String| Rejection::new(ProblemType::INVALID_PATTERN, detail);
    let (times, pattern) = verify::parse(body).map_err(invalid)?;
    match verify::verify(&call.namespace.journal, times, &pattern) {
        Ok(()) => no_content(),
        Err(VerifyError::InvalidPattern(detail)) => Err(invalid(detail)),
        Err(error) => {
            let detail = error.to_string();
            Err(Rejection::new(ProblemType::VERIFICATION_FAILED, detail))
        }
    }
}

/// Creates a namespace with an unused key.
fn create_namespace(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let namespace = call.namespaces.create_with_new_key()?;
    let body = json!({"service_key": namespace.key.reveal()});
    Ok(response(StatusCode::CREATED, wire::JSON, body.to_string()))
}

fn change_settings(call: &AdminCall<'_>, body: &[u8]) -> AdminResult {
    let invalid = |detail: String| Rejection::new(ProblemType::INVALID_SETTINGS, detail);
    let change = SettingsChange::parse(body).map_err(invalid)?;
    call.namespace.change_settings(change);
    no_content()
}

fn delete_namespace(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    if call.namespaces.delete(&call.namespace) {
        return no_content();
    }
    Err(Rejection::new(
        ProblemType::UNKNOWN_NAMESPACE,
        "Name a namespace by its key, in the header x-service-key or as ?namespace=. The namespace of the server's own key \
         cannot be deleted: POST /__sandbox/reset empties it.",
    ))
}

fn accept_keys(call: &AdminCall<'_>, body: &[u8]) -> AdminResult {
    let invalid = |detail| Rejection::new(ProblemType::INVALID_KEYS, detail);
    if !Arc::ptr_eq(&call.namespace, &call.namespaces.default) {
        return Err(invalid(
            "Namespaces are identified by their keys: only the server's own keys can change.",
        ));
    }
    let keys: Result<Vec<String>, _> = serde_json::from_slice(body);
    // The error of serde_json is dropped, because it can contain a key.
    let is_accepted = keys.is_ok_and(|keys| call.namespace.accept_keys(keys).is_ok());
    if is_accepted {
        return no_content();
    }
    Err(invalid(
        "Send a JSON array of service keys, each of 1 to 1,024 visible ASCII characters.",
    ))
}

fn list_agents(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    #[derive(Serialize)]
    struct AgentEntry<'p> {
        agent: Agent,
        /// The request body, byte for byte.
        sent: &'p RawValue,
    }
    let limit = call.query.limit.unwrap_or(DEFAULT_PAGE_SIZE);
    // One more than the limit, to know whether there is a next page.
    let agents = (call.namespace.store).agents_after(call.query.after_number, limit + 1);
    let entries = agents.iter().filter_map(|(number, sent)| {
        let entry = AgentEntry {
            agent: CreatedAgent::from_stored(*number, sent)?.agent,
            sent: serde_json::from_slice(sent).ok()?,
        };
        Some((*number, entry))
    });
    Ok(build_page("agents", limit, entries, None))
}

fn list_deals(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let limit = call.query.limit.unwrap_or(DEFAULT_PAGE_SIZE);
    let deals = (call.namespace.store).deals_after(call.query.after_id.as_deref(), limit + 1);
    // The JSON stays raw, so that the deals are sent byte for byte.
    let entries = deals.iter().filter_map(|(id, json)| {
        let json: &RawValue = serde_json::from_slice(json).ok()?;
        Some((id, json))
    });
    Ok(build_page("deals", limit, entries, None))
}

/// Responds with a file of deals: all of them, or with `limit` up to that number and the size of a page.
fn export_deals(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let (max_count, max_bytes) = match call.query.limit {
        Some(limit) => (limit, MAX_PAGE_BYTES),
        None => (usize::MAX, MAX_EXPORT_BYTES),
    };
    let mut writer = DealsWriter::new(Vec::new());
    let (mut count, mut size) = (0, 0);
    let after_id = call.query.after_id.as_deref();
    let export_result = call.namespace.store.try_for_each_deal(after_id, |json| {
        size += json.len();
        if count == max_count || (count > 0 && size > max_bytes) {
            return Err(());
        }
        count += 1;
        // Writing to memory cannot fail.
        writer.write_deal(json).map_err(drop)
    });
    if export_result.is_err() && call.query.limit.is_none() {
        return Err(invalid_query(
            "There are more than 64 MiB of deals: get them in parts, with ?limit=1000 and then ?after=ID, the last id of the part.",
        ));
    }
    let array = writer.finish().unwrap_or_default();
    Ok(response(StatusCode::OK, wire::JSON, array))
}

fn get_deal(call: &AdminCall<'_>, _: &[u8]) -> AdminResult {
    let deal = call.namespace.store.find_deal(&call.id);
    let deal = deal.ok_or_else(unknown_deal_rejection)?;
    Ok(response(StatusCode::OK, wire::JSON, deal))
}

fn put_deal(call: &AdminCall<'_>, body: &[u8]) -> AdminResult {
    let invalid = |detail: String| Rejection::new(ProblemType::INVALID_DEAL, detail);
    let deal = SeedDeal::from(body)
        .check("the deal")
        .map_err(|error| invalid(error.to_string()))?;
    if *deal.0 != *call.id {
        return Err(invalid(
            "the deal: /id: expected the id that the path ends with".to_owned(),
        ));
    }
    call.namespace
        .store
        .insert_deal(deal)
        .map_err(store_full_rejection)?;
    no_content()
}

fn no_content() -> AdminResult {
    Ok(empty_response(StatusCode::NO_CONTENT))
}

/// Builds a page of a list: up to `limit` entries, the key of the last entry as `next` if there are more, and `timed_out` if
/// the call waited for requests.
fn build_page(
    name: &str,
    limit: usize,
    entries: impl Iterator<Item = (impl Serialize, impl Serialize)>,
    timed_out: Option<bool>,
) -> Response<Bytes> {
    let (mut text, mut count, mut last) = (String::new(), 0, None);
    let mut next = None;
    for (key, entry) in entries {
        let entry = to_json(&entry);
        if count == limit || (count > 0 && text.len() + entry.len() > MAX_PAGE_BYTES) {
            next = last;
            break;
        }
        let comma = if count > 0 { "," } else { "" };
        text += &format!("{comma}{entry}");
        (count, last) = (count + 1, Some(key));
    }
    let timed_out = timed_out.map(|timed_out| format!(r#","timed_out":{timed_out}"#));
    let (next, timed_out) = (to_json(&next), timed_out.unwrap_or_default());
    let page = format!(r#"{{"{name}":[{text}],"next":{next}{timed_out}}}"#);
    response(StatusCode::OK, wire::JSON, page)
}

/// Serializes a value that contains only strings, numbers, lists and maps with string keys. Such a serialization cannot fail.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A request in the journal, with its path template.
#[derive(Serialize)]
struct RequestEntry<'r> {
    #[serde(flatten)]
    request: &'r RecordedRequest,
    path_template: &'static str,
}

/// The query parameters: paging of all lists, and filters of the list of requests.
#[derive(Debug, Default)]
struct Query {
    namespace: Option<String>,
    limit: Option<usize>,
    /// The page begins after the entry with this id.
    after_id: Option<String>,
    /// The page begins after the entry with this number: `after` as a number.
    after_number: u64,
    method: Option<String>,
    path: Option<String>,
    status: Option<u16>,
    is_held: bool,
    wait: Option<Duration>,
    /// The number of requests to wait for.
    count: usize,
}

impl Query {
    fn parse(query: &str) -> Result<Self, Rejection> {
        let mut parameters = Self {
            count: 1,
            ..Self::default()
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                // Ignored: forms send empty fields too.
                _ if value.is_empty() => {}
                "namespace" => parameters.namespace = Some(value.into_owned()),
                "limit" => parameters.limit = Some(parse_number(&name, &value, 1..=MAX_PAGE_SIZE)?),
                "after" => {
                    parameters.after_number = value.parse().unwrap_or_default();
                    parameters.after_id = Some(value.into_owned());
                }
                "wait" => {
                    let seconds = parse_number(&name, &value, 0.0..=MAX_WAIT)?;
                    parameters.wait = Some(Duration::from_secs_f64(seconds));
                }
                "method" => parameters.method = Some(value.into_owned()),
                "path" => parameters.path = Some(value.into_owned()),
                "status" => parameters.status = Some(parse_number(&name, &value, 100..=999)?),
                "held" => parameters.is_held = parse_bool(&name, &value)?,
                "count" => parameters.count = parse_number(&name, &value, 1..=MAX_PAGE_SIZE)?,
                _ => {
                    return Err(invalid_query(
                        "The parameters are namespace, limit, after, wait, method, path, status, held and count.",
                    ));
                }
            }
        }
        Ok(parameters)
    }

    /// Returns true if the request matches the filters. A call that waits ignores requests without a response, unless
    /// the call waits for held requests.
    fn matches(&self, request: &RecordedRequest) -> bool {
        let status = request.status.map(|status| status.as_u16());
        let method = request.method.as_str();
        request.number > self.after_number
            && match self.is_held {
                true => request.is_held,
                false => request.is_done || self.wait.is_none(),
            }
            && (self.method.as_ref()).is_none_or(|only| only.eq_ignore_ascii_case(method))
            && (self.path.as_ref()).is_none_or(|only| matches_template(&request.path, only))
            && self.status.is_none_or(|only| status == Some(only))
    }
}

/// Parses a number in this range.
fn parse_number<T: FromStr + PartialOrd + Display>(
    name: &str,
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, Rejection> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    let (min, max) = (range.start(), range.end());
    number.ok_or_else(|| invalid_query(format!("{name}: expected a number from {min} to {max}")))
}

/// Parses `true` or `false`.
fn parse_bool(name: &str, value: &str) -> Result<bool, Rejection> {
    let value = value.parse();
    value.map_err(|_| invalid_query(format!("{name}: expected true or false")))
}

fn invalid_query(detail: impl Into<String>) -> Rejection {
    Rejection::new(ProblemType::INVALID_QUERY, detail)
}
