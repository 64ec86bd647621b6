//! The operations under /__sandbox/: what the server has seen, what it holds, and what it is to do.

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
    access::{Access, OpenTo},
    docs,
    fault::Fault,
    journal::RecordedRequest,
    world::{Change, World, Worlds},
};
use crate::{
    contract::{
        auth,
        operations::{no_room, unknown_deal},
        problem::{ProblemType, Refusal},
        response::{empty, response},
        route::{MatchedPath, Route, fits, is_path},
    },
    json,
    state::{agent::CreatedAgent, seed::SeedDeal},
};

/// What every path of the interface begins with.
pub(crate) const PREFIX: &str = "/__sandbox/";

/// How long a page of a list is unless the caller asks for another length, and how long it can be.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1_000;

/// How many bytes the entries of a page have, unless it is a single one that has more.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// The list that can be waited for, and for how many seconds.
const REQUESTS: &str = "/__sandbox/requests";
const MAX_WAIT: f64 = 300.0;

/// What carries an operation out, and who may use it.
type Operation = (fn(&AdminCall<'_>, &[u8]) -> Replied, OpenTo);

type Replied = Result<Response<Bytes>, Refusal>;

macro_rules! routes {
    ($( $method:ident $path:literal $open_to:ident $run:expr; )+) => {
        static ROUTES: &[Route<Operation>] = &[$( Route {
            method: Method::$method,
            path: $path,
            operation: ($run, OpenTo::$open_to),
        } ),+];
    };
}

routes! {
    GET "/__sandbox/health" Everybody |_, _| {
        Ok(response(StatusCode::OK, wire::JSON, r#"{"status":"ok"}"#))
    };
    GET "/__sandbox/openapi.json" Everybody |_, _| {
        Ok(response(StatusCode::OK, wire::JSON, wire::OPENAPI))
    };
    GET "/__sandbox/ca.pem" Everybody ca_pem;
    GET "/__sandbox/docs" Browsers |call, _| Ok(docs::page(&call.world.key));
    GET "/__sandbox/docs/{id}" Browsers file;
    GET "/__sandbox/requests" Callers requests;
    DELETE "/__sandbox/requests" Callers |call, _| {
        call.world.journal.clear();
        done()
    };
    GET "/__sandbox/faults" Callers faults;
    POST "/__sandbox/faults" Callers add_fault;
    DELETE "/__sandbox/faults" Callers |call, _| {
        call.world.faults.clear();
        done()
    };
    DELETE "/__sandbox/faults/{id}" Callers remove_fault;
    POST "/__sandbox/release" Callers |call, _| {
        let body = json!({"released": call.world.release()}).to_string();
        Ok(response(StatusCode::OK, wire::JSON, body))
    };
    GET "/__sandbox/agents" Callers agents;
    GET "/__sandbox/deals" Callers deals;
    GET "/__sandbox/deals/{id}" Callers deal;
    PUT "/__sandbox/deals/{id}" Callers put_deal;
    PUT "/__sandbox/keys" Callers accept_keys;
    POST "/__sandbox/reset" Callers |call, _| {
        call.world.reset();
        done()
    };
    POST "/__sandbox/world" Callers begin_world;
    PUT "/__sandbox/world" Callers settings;
    DELETE "/__sandbox/world" Callers end_world;
}

/// A call of an operation, by somebody who may use it.
#[derive(Debug)]
pub(crate) struct AdminCall<'r> {
    run: fn(&Self, &[u8]) -> Replied,
    template: &'static str,
    worlds: &'r Worlds,
    world: Arc<World>,
    ca_pem: Option<&'r str>,
    id: Cow<'r, str>,
    query: Query,
}

impl<'r> AdminCall<'r> {
    /// What a request under [`PREFIX`] asks for, if it is allowed to.
    pub(crate) fn admit(
        access: &Access,
        worlds: &'r Worlds,
        ca_pem: Option<&'r str>,
        head: &'r Parts,
    ) -> Result<Self, Refusal> {
        let path = MatchedPath::parse(ROUTES, head.uri.path());
        let found = path.and_then(|path| Ok((path.route(&head.method)?, path)));
        // A caller who is not let in must not learn what else there is.
        let open_to = |found: &(&Route<Operation>, _)| found.0.operation.1;
        access.check(found.as_ref().map_or(OpenTo::Callers, open_to), head)?;
        let (route, path) = found?;
        let (run, open_to) = route.operation;
        let (world, query) = match open_to {
            OpenTo::Callers => {
                let query = Query::parse(head.uri.query().unwrap_or_default())?;
                let header = head.headers.get(&auth::HEADER).map(HeaderValue::as_bytes);
                (worlds.named(query.world.as_deref(), header)?, query)
            }
            OpenTo::Everybody | OpenTo::Browsers => (Arc::clone(&worlds.first), Query::default()),
        };
        Ok(Self {
            run,
            template: path.template,
            worlds,
            world,
            ca_pem,
            id: path.id,
            query,
        })
    }

    /// What has to happen before the operation runs, if anything: requests that it is asked to wait for.
    pub(crate) fn wait(&self) -> Option<impl Future<Output = ()>> {
        if self.template != REQUESTS {
            return None;
        }
        let within = self.query.wait?;
        Some(async move {
            let selects = |request: &RecordedRequest| self.query.selects(request);
            let enough = self.world.journal.wait(self.query.count, selects);
            let _ = timeout(within, enough).await;
        })
    }

    /// Runs the operation. The response has no request id yet.
    pub(crate) fn run(&self, body: &[u8]) -> Result<Response<Bytes>, Refusal> {
        let mut response = (self.run)(self, body)?;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let nosniff = HeaderValue::from_static("nosniff");
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        Ok(response)
    }
}

fn ca_pem(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let pem = call.ca_pem.map(str::to_owned).ok_or_else(|| {
        let detail = "This server was not started with --tls self-signed.";
        Refusal::new(ProblemType::UNKNOWN_PATH, detail)
    })?;
    Ok(response(
        StatusCode::OK,
        "application/pem-certificate-chain",
        pem,
    ))
}

fn file(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    docs::file(&call.id).ok_or_else(|| {
        Refusal::new(
            ProblemType::UNKNOWN_PATH,
            "The page is at /__sandbox/docs; it has no such file.",
        )
    })
}

fn requests(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let limit = call.query.limit.unwrap_or(PAGE);
    // One more, to know whether there are more.
    let most = call.query.count.max(limit + 1);
    let selects = |request: &RecordedRequest| call.query.selects(request);
    let found = call.world.journal.filtered(most, selects);
    let entries = found.iter().map(|request| {
        let path_template = request.path_template();
        let described = Described {
            request,
            path_template,
        };
        (request.number, described)
    });
    let waits = call.query.wait.is_some();
    let timed_out = waits.then_some(found.len() < call.query.count);
    Ok(page("requests", limit, entries, timed_out))
}

fn faults(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let faults = call.world.faults.pending();
    let later = faults
        .iter()
        .filter(|fault| fault.id > call.query.number_after);
    // There are seldom many, and whoever looks at them wants to see them all.
    let entries = later.map(|fault| (fault.id, fault));
    let limit = call.query.limit.unwrap_or(MAX_PAGE);
    Ok(page("faults", limit, entries, None))
}

fn add_fault(call: &AdminCall<'_>, body: &[u8]) -> Replied {
    let invalid = |detail: String| Refusal::new(ProblemType::INVALID_FAULT, detail);
    let text = json::check(body)
        .map_err(|error| invalid(format!("The body is not strict JSON: {error}")))?;
    let id = Fault::from_json(text)
        .and_then(|fault| call.world.faults.add(fault))
        .map_err(|error| invalid(error.to_string()))?;
    let body = json!({"id": id}).to_string();
    Ok(response(StatusCode::CREATED, wire::JSON, body))
}

fn remove_fault(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let id = call.id.parse::<u64>();
    if id.is_ok_and(|id| call.world.faults.remove(id)) {
        return done();
    }
    Err(Refusal::new(
        ProblemType::UNKNOWN_FAULT,
        "It was never added, or has happened as often as it should. GET /__sandbox/faults lists the current ones.",
    ))
}

/// Begins a world with a key that nobody has used.
fn begin_world(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let world = call.worlds.begin_own()?;
    let body = json!({"service_key": world.key.reveal()});
    Ok(response(StatusCode::CREATED, wire::JSON, body.to_string()))
}

fn settings(call: &AdminCall<'_>, body: &[u8]) -> Replied {
    let invalid = |detail: String| Refusal::new(ProblemType::INVALID_SETTINGS, detail);
    let change: Change = serde_json::from_slice(body).map_err(|_| {
        invalid(r#"Send an object such as {"reading": "sparse", "strict": true}."#.to_owned())
    })?;
    let readings = change.readings().map_err(invalid)?;
    let mut settings = call.world.settings();
    if let Some(readings) = readings {
        settings.readings = readings;
    }
    settings.strict = change.strict.unwrap_or(settings.strict);
    done()
}

fn end_world(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    if call.worlds.end(&call.world) {
        return done();
    }
    Err(Refusal::new(
        ProblemType::UNKNOWN_WORLD,
        "Name a world by its key, in the header x-service-key or as ?world=. That of the server's own key lasts as long as \
         the server: POST /__sandbox/reset empties it.",
    ))
}

fn accept_keys(call: &AdminCall<'_>, body: &[u8]) -> Replied {
    let invalid = |detail| Refusal::new(ProblemType::INVALID_KEYS, detail);
    if !Arc::ptr_eq(&call.world, &call.worlds.first) {
        return Err(invalid(
            "A world is found by its key: only the server's own keys can change.",
        ));
    }
    let keys: Result<Vec<String>, _> = serde_json::from_slice(body);
    // The error would repeat what it found.
    let is_set = keys.is_ok_and(|keys| call.world.accept_keys(keys).is_ok());
    if is_set {
        return done();
    }
    Err(invalid(
        "Send a JSON array of service keys, each of 1 to 1,024 visible ASCII characters.",
    ))
}

fn agents(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    #[derive(Serialize)]
    struct Created<'p> {
        agent: Agent,
        /// As it was sent, byte for byte.
        sent: &'p RawValue,
    }
    let limit = call.query.limit.unwrap_or(PAGE);
    // One more, to know whether there are more.
    let agents = (call.world.store).agents_after(call.query.number_after, limit + 1);
    let entries = agents.iter().filter_map(|(number, sent)| {
        let created = Created {
            agent: CreatedAgent::read(*number, sent)?.agent,
            sent: serde_json::from_slice(sent).ok()?,
        };
        Some((*number, created))
    });
    Ok(page("agents", limit, entries, None))
}

fn deals(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let limit = call.query.limit.unwrap_or(PAGE);
    let deals = (call.world.store).deals_after(call.query.after.as_deref(), limit + 1);
    // Byte for byte as they are stored.
    let entries = deals.iter().filter_map(|(id, text)| {
        let text: &RawValue = serde_json::from_slice(text).ok()?;
        Some((id, text))
    });
    Ok(page("deals", limit, entries, None))
}

fn deal(call: &AdminCall<'_>, _: &[u8]) -> Replied {
    let deal = call.world.store.deal(&call.id);
    let deal = deal.ok_or_else(unknown_deal)?;
    Ok(response(StatusCode::OK, wire::JSON, deal))
}

fn put_deal(call: &AdminCall<'_>, body: &[u8]) -> Replied {
    let invalid = |detail: String| Refusal::new(ProblemType::INVALID_DEAL, detail);
    let deal = SeedDeal::from(body)
        .check("the deal")
        .map_err(|error| invalid(error.to_string()))?;
    if *deal.0 != *call.id {
        return Err(invalid(
            "the deal: /id: expected the id that the path ends with".to_owned(),
        ));
    }
    call.world.store.insert_deal(deal).map_err(no_room)?;
    done()
}

/// The response where there is nothing to say.
fn done() -> Replied {
    Ok(empty(StatusCode::NO_CONTENT))
}

/// A page of a list: as many of the entries as there may be, and after which one the next page begins; and whether the time
/// was over, if it was waited for.
fn page(
    name: &str,
    limit: usize,
    entries: impl Iterator<Item = (impl Serialize, impl Serialize)>,
    timed_out: Option<bool>,
) -> Response<Bytes> {
    let (mut text, mut count, mut last) = (String::new(), 0, None);
    let mut next = None;
    for (key, entry) in entries {
        let entry = written(&entry);
        if count == limit || (count > 0 && text.len() + entry.len() > MAX_PAGE_BYTES) {
            next = last;
            break;
        }
        let comma = if count > 0 { "," } else { "" };
        text += &format!("{comma}{entry}");
        (count, last) = (count + 1, Some(key));
    }
    let timed_out = timed_out.map(|timed_out| format!(r#","timed_out":{timed_out}"#));
    let (next, timed_out) = (written(&next), timed_out.unwrap_or_default());
    let page = format!(r#"{{"{name}":[{text}],"next":{next}{timed_out}}}"#);
    response(StatusCode::OK, wire::JSON, page)
}

/// The value as JSON: strings, numbers, lists and maps with string keys can always be written.
fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A request, and which path it has.
#[derive(Serialize)]
struct Described<'r> {
    #[serde(flatten)]
    request: &'r RecordedRequest,
    path_template: &'static str,
}

/// The parameters of a query: those of every list, and what only requests are selected by.
#[derive(Debug, Default)]
struct Query {
    world: Option<String>,
    limit: Option<usize>,
    /// After which entry the page begins, by its id or its number.
    after: Option<String>,
    number_after: u64,
    method: Option<String>,
    path: Option<String>,
    status: Option<u16>,
    held: bool,
    wait: Option<Duration>,
    /// How many requests are waited for.
    count: usize,
}

impl Query {
    fn parse(query: &str) -> Result<Self, Refusal> {
        let mut parsed = Self {
            count: 1,
            ..Self::default()
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                // A form sends empty fields, too.
                _ if value.is_empty() => {}
                "world" => parsed.world = Some(value.into_owned()),
                "limit" => parsed.limit = Some(number(&name, &value, 1..=MAX_PAGE)?),
                "after" => {
                    parsed.number_after = value.parse().unwrap_or_default();
                    parsed.after = Some(value.into_owned());
                }
                "wait" => {
                    let seconds = number(&name, &value, 0.0..=MAX_WAIT)?;
                    parsed.wait = Some(Duration::from_secs_f64(seconds));
                }
                "method" => parsed.method = Some(value.into_owned()),
                "path" => parsed.path = Some(value.into_owned()),
                "status" => parsed.status = Some(number(&name, &value, 100..=999)?),
                "held" => parsed.held = is_true(&name, &value)?,
                "count" => parsed.count = number(&name, &value, 1..=MAX_PAGE)?,
                _ => {
                    return Err(invalid_query(
                        "The parameters are world, limit, after, wait, method, path, status, held and count.",
                    ));
                }
            }
        }
        Ok(parsed)
    }

    /// Selects the held requests, or all; while a caller waits for them, those that were dealt with.
    fn selects(&self, request: &RecordedRequest) -> bool {
        let status = request.status.map(|status| status.as_u16());
        let method = request.method.as_str();
        request.number > self.number_after
            && match self.held {
                true => request.is_held,
                false => request.is_done || self.wait.is_none(),
            }
            && (self.method.as_ref()).is_none_or(|only| only.eq_ignore_ascii_case(method))
            && (self.path.as_ref()).is_none_or(|only| is_path(&request.path, only, fits))
            && self.status.is_none_or(|only| status == Some(only))
    }
}

/// The number in a parameter, which has to be in this range.
fn number<T: FromStr + PartialOrd + Display>(
    name: &str,
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, Refusal> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    number.ok_or_else(|| invalid_query(format!("{name}: expected a number from {least} to {most}")))
}

/// Parses a parameter that is `true` or `false`.
fn is_true(name: &str, value: &str) -> Result<bool, Refusal> {
    let value = value.parse();
    value.map_err(|_| invalid_query(format!("{name}: expected true or false")))
}

fn invalid_query(detail: impl Into<String>) -> Refusal {
    Refusal::new(ProblemType::INVALID_QUERY, detail)
}
