//! Request processing without sockets: runs the checks in the specified order, then the operation.

use std::{borrow::Cow, fmt, io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use dealkit::{UnknownFields, internal::wire};
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};

use crate::{
    contract::{
        auth::{self, InvalidServiceKey, ServiceKey},
        checks::{self, check_content, check_length, check_target},
        operations::Input,
        problem::{self, ProblemType, Rejection},
        request_id,
        response::empty_response,
        route::{self, Endpoint, MatchedPath},
    },
    sandbox::{
        Fault, InvalidFault, PendingFault, RecordedRequest, RequestPattern, UnknownVariant,
        Variant, VerifyError, WaitTimeout,
        access::Access,
        admin::{self, AdminCall},
        fault::{FAULT_HEADER, ResolvedFault},
        namespace::{Namespace, NamespaceError, Namespaces},
        pending_faults::FaultSelection,
        rate_limit::{Bucket, Quota},
        request_pattern::RequestParts,
        variant::VARIANT_HEADER,
        variant_rewrite, verify,
    },
    state::{
        agent::CreatedAgent,
        deals_file,
        seed::{SeedDeal, SeedError},
    },
};

/// The server without sockets: [`handle`](Service::handle) takes a request and returns the response.
///
/// Clones share their state. `Service` is also a tower service, so it can be the transport of a client in a test, with faults and
/// a journal. There are examples of both uses below.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) namespaces: Namespaces,
    pub(crate) access: Access,
    /// The CA certificate of a self-signed certificate, in PEM.
    pub(crate) ca_pem: Option<String>,
    pub(crate) max_body_bytes: usize,
}

/// The client of a request, identified by its service key.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The key's namespace, or the default namespace if the key has none.
    pub(crate) namespace: Arc<Namespace>,
    namespace_error: Option<NamespaceError>,
    /// The state of the namespace's rate limit.
    quota: Option<Quota>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

/// The operation of a request.
#[derive(Debug)]
enum Target<'r> {
    /// An operation of /v1, and the id in the path.
    Endpoint(Endpoint, Cow<'r, str>),
    /// An operation under /__sandbox/.
    Admin(AdminCall<'r>),
    /// An OPTIONS request, and the value of `Allow`.
    Options(String),
}

/// The result of the checks of a request's head.
#[derive(Debug)]
pub(crate) struct CheckedHead<'r> {
    target: Result<Target<'r>, Rejection>,
    context: ResponseContext,
}

impl CheckedHead<'_> {
    /// Returns true if the response depends on the body.
    pub(crate) fn needs_body(&self) -> bool {
        matches!(self.target, Ok(Target::Endpoint(..) | Target::Admin(_)))
    }

    /// Returns a future to await before responding, if the request waits for other requests.
    pub(crate) fn wait_for_requests(&self) -> Option<impl Future<Output = ()>> {
        match &self.target {
            Ok(Target::Admin(call)) => call.wait_for_requests(),
            _ => None,
        }
    }
}

/// The parts of a response that do not depend on the operation.
#[derive(Debug)]
struct ResponseContext {
    request_id: HeaderValue,
    is_head: bool,
    variants: Vec<Variant>,
    quota: Option<Quota>,
}

impl ResponseContext {
    fn new(caller: &Caller, head: &Parts, variants: Vec<Variant>) -> Self {
        Self {
            request_id: request_id::from_headers_or_new(&head.headers),
            is_head: head.method == Method::HEAD,
            variants,
            quota: caller.quota,
        }
    }
}

impl Service {
    /// Returns the initial service key, which `accept_keys` may have replaced.
    pub(crate) fn service_key(&self) -> &ServiceKey {
        &self.default_namespace().key
    }

    /// Returns true if browsers can load the sandbox's page.
    pub(crate) fn has_page(&self) -> bool {
        matches!(self.0.access, Access::Open | Access::Token(_))
    }

    /// Responds to a request. Performs all checks except the timeout of the body. Does not apply faults or record the request in
    /// the journal; servers with sockets and the tower service do.
    ///
    /// If the URI contains the host, the request needs no header `Host`, which HTTP clients add when they send a request.
    ///
    /// ```
    /// use dealkit::Client;
    /// use dealkit_server::Sandbox;
    ///
    /// let service = Sandbox::builder().service()?;
    /// let client = Client::builder().base_url("http://localhost:8080").service_key("sandbox-key").build()?;
    /// let response = service.handle(client.deals().retrieve("d_1").into_request()?);
    /// assert_eq!(response.status(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (mut head, body) = request.into_parts();
        checks::add_host(&mut head);
        self.process(&self.identify_caller(&head), &head, &body)
    }

    /// Checks a request and runs its operation.
    pub(crate) fn process(&self, caller: &Caller, head: &Parts, body: &[u8]) -> Response<Bytes> {
        let max = self.0.max_body_bytes;
        let body = match body.len() <= max {
            true => Ok(body),
            false => Err(checks::body_too_large_rejection(max)),
        };
        self.respond(caller, self.check_head(caller, head), body)
    }

    /// From now on, accepts only these service keys. This simulates a key rotation: first accept the old and the new key, then
    /// only the new one. Requests in flight are not affected. The token of the control interface stays the same.
    ///
    /// ```
    /// use dealkit_server::Sandbox;
    ///
    /// let sandbox = Sandbox::builder().start()?;
    /// sandbox.accept_keys(["sandbox-key", "next-key"])?;
    /// sandbox.accept_keys(["next-key"])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a key is invalid. In that case, nothing changes.
    pub fn accept_keys<K: Into<String>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), InvalidServiceKey> {
        self.default_namespace().accept_keys(keys)
    }

    /// Returns the agents created so far, in the order of creation, with their requests.
    pub fn agents(&self) -> Vec<CreatedAgent> {
        let agents = self.default_namespace().store.agents_after(0, usize::MAX);
        agents
            .iter()
            .filter_map(|(number, sent)| CreatedAgent::from_stored(*number, sent))
            .collect()
    }

    /// Adds a deal, or replaces the deal with the same id.
    ///
    /// # Errors
    /// If the deal is not strict JSON or invalid, or the store is full.
    pub fn insert_deal(&self, deal: impl Into<SeedDeal>) -> Result<(), SeedError> {
        let deal = deal.into().check("deal")?;
        let insert_result = self.default_namespace().store.insert_deal(deal);
        insert_result.map_err(|_| SeedError::StoreFull)
    }

    /// Saves the present deals to a file, a JSON array with each deal as it is served, byte for byte.
    /// [`SandboxBuilder::deals_file`](crate::SandboxBuilder::deals_file) and the flag `--deals` read such a file.
    ///
    /// # Errors
    /// If the file cannot be written. In that case, an existing file stays unchanged.
    pub fn save_deals(&self, path: impl AsRef<Path>) -> io::Result<()> {
        deals_file::save(&self.default_namespace().store, path.as_ref())
    }

    /// Reads the files of [`SandboxBuilder::deals_file`](crate::SandboxBuilder::deals_file) again, and replaces all deals, as if the
    /// sandbox had been started now. Agents, faults and requests stay. [`reset`](Self::reset) restores these deals from now on.
    ///
    /// ```
    /// use dealkit_server::Sandbox;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let file = folder.path().join("deals.json");
    /// Sandbox::builder().start()?.save_deals(&file)?; // the samples
    /// let sandbox = Sandbox::builder().deals_file(&file).start()?;
    /// std::fs::write(&file, r#"[{"id": "won", "status": "CLOSED"}]"#)?;
    /// sandbox.reload_deals()?;
    ///
    /// std::fs::write(&file, r#"[{"status": "OPEN"}]"#)?;
    /// let error = sandbox.reload_deals().unwrap_err().to_string();
    /// assert!(error.ends_with("deals.json: index 0: /id: a required field is missing"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the sandbox has no file of deals, a file cannot be read, or deals are invalid. In that case, nothing changes.
    pub fn reload_deals(&self) -> Result<(), SeedError> {
        self.0.namespaces.reload_deals(self.default_namespace())
    }

    /// Adds a fault. It applies to the next request to /v1, or to the requests that it selects.
    ///
    /// If several faults match a request, the first one applies. A fault that has reached its limit is removed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dealkit::Client;
    /// use dealkit_server::{Fault, Sandbox};
    ///
    /// let sandbox = Sandbox::builder().start()?;
    /// let client = Client::builder().base_url(sandbox.url()).service_key(sandbox.service_key()).build()?;
    /// sandbox.fail_next(Fault::status(503).retry_after(0).times(2))?;
    ///
    /// let response = client.deals().retrieve("d_1").with_response().await?;
    /// assert_eq!(response.attempts(), 3); // the first two failed
    /// let statuses: Vec<_> = sandbox.requests().iter().map(|request| request.status.unwrap().as_u16()).collect();
    /// assert_eq!(statuses, [503, 503, 200]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the fault is invalid, or no request can have its method and path. The message contains the allowed values.
    pub fn fail_next(&self, fault: Fault) -> Result<(), InvalidFault> {
        self.default_namespace().faults.add(fault).map(drop)
    }

    /// Returns the pending faults, in the order of addition.
    ///
    /// ```
    /// use dealkit_server::{Fault, Sandbox};
    ///
    /// let sandbox = Sandbox::builder().start()?;
    /// sandbox.fail_next(Fault::status(503).path("/v1/deals/{id}"))?;
    /// assert_eq!(sandbox.faults()[0].fault, Fault::status(503).path("/v1/deals/{id}"));
    ///
    /// let error = sandbox.fail_next(Fault::status(503).path("/v1/deal/{id}")).unwrap_err();
    /// assert!(error.to_string().starts_with("path: expected one of "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn faults(&self) -> Vec<PendingFault> {
        self.default_namespace().faults.list()
    }

    /// Removes all pending faults.
    pub fn clear_faults(&self) {
        self.default_namespace().faults.clear();
    }

    /// Returns the latest requests to /v1, up to 1,000 and 16 MiB, in the order in which they were recorded.
    ///
    /// A request is recorded when its response is ready, before its client receives the response, or when its connection is cut. A
    /// held or delayed request is recorded on arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.default_namespace().journal.find(usize::MAX, |_| true)
    }

    /// Checks that exactly `times` of the [`requests`](Self::requests) match the pattern.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dealkit::{AgentProfile, CreateAgent, Client};
    /// use dealkit_server::{RequestPattern, Sandbox};
    /// use serde_json::json;
    ///
    /// let sandbox = Sandbox::builder().start()?;
    /// let client = Client::builder().base_url(sandbox.url()).service_key(sandbox.service_key()).build()?;
    /// let ada = CreateAgent::builder().email("ada@example.com").first_name("Ada").last_name("Lovelace");
    /// client.agents().create(ada.profile(AgentProfile::new()).build()?).await?;
    ///
    /// let creates = RequestPattern::new().method("POST").path("/v1/agents");
    /// sandbox.verify(1, creates.clone().body(json!({"email": "ada@example.com"})))?;
    /// let error = sandbox.verify(1, creates.body(json!({"email": "bob@example.com"}))).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "expected 1 request: POST /v1/agents with a body; found 0\n\
    ///      These requests have arrived:\n  \
    ///      1. POST /v1/agents 201: differs in body /email"
    /// );
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If another number of requests match. The message lists the requests that arrived and what differs, without values. Also if
    /// no request can match, because of its path for example.
    pub fn verify(&self, times: usize, pattern: RequestPattern) -> Result<(), VerifyError> {
        verify::verify(&self.default_namespace().journal, times, &pattern)
    }

    /// Waits until at least `count` requests to /v1 that satisfy `matches` have got a response or lost their connection, and
    /// returns them. This is for tests of background work. It works on any Tokio runtime. Earlier requests count too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dealkit::Client;
    /// use dealkit_server::Sandbox;
    ///
    /// let sandbox = Sandbox::builder().start()?;
    /// let client = Client::builder().base_url(sandbox.url()).service_key(sandbox.service_key()).build()?;
    /// let job = tokio::spawn(async move { client.deals().retrieve("d_1").await });
    ///
    /// let limit = Duration::from_secs(10);
    /// let requests = sandbox.wait_for(1, limit, |request| request.path == "/v1/deals/d_1").await?;
    /// assert_eq!(requests[0].status.unwrap(), 200);
    /// # job.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If fewer requests match after the time limit.
    pub async fn wait_for(
        &self,
        count: usize,
        limit: Duration,
        matches: impl Fn(&RecordedRequest) -> bool,
    ) -> Result<Vec<RecordedRequest>, WaitTimeout> {
        let journal = &self.default_namespace().journal;
        let matches = |request: &RecordedRequest| request.is_done && matches(request);
        journal.wait_for(count, limit, matches).await
    }

    /// Waits until [`Fault::hold`] holds at least `count` requests at the same time, and returns all held requests. It works on
    /// any Tokio runtime.
    ///
    /// # Errors
    /// If fewer requests are held after the time limit. They stay held.
    pub async fn wait_for_held(
        &self,
        count: usize,
        limit: Duration,
    ) -> Result<Vec<RecordedRequest>, WaitTimeout> {
        let journal = &self.default_namespace().journal;
        journal
            .wait_for(count, limit, |request| request.is_held)
            .await
    }

    /// Releases all requests held by [`Fault::hold`], so that they are processed, and returns their number. If the fault is still
    /// pending, it holds later requests too.
    ///
    /// A held request that is never released ends without a response when its client disconnects, or the sandbox is reset or
    /// dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dealkit::Client;
    /// use dealkit_server::{Fault, Sandbox};
    ///
    /// let sandbox = Sandbox::builder().start()?;
    /// let client = Client::builder().base_url(sandbox.url()).service_key(sandbox.service_key()).build()?;
    /// sandbox.fail_next(Fault::hold())?;
    /// let call = tokio::spawn(async move { client.deals().retrieve("d_1").await });
    ///
    /// sandbox.wait_for_held(1, Duration::from_secs(30)).await?;
    /// assert!(!call.is_finished());
    /// assert_eq!(sandbox.release(), 1);
    /// assert_eq!(call.await??.id, "d_1");
    /// # Ok(()) }
    /// ```
    pub fn release(&self) -> usize {
        self.default_namespace().release()
    }

    /// Calls the control interface under `/__sandbox/` without a socket and without its access control. Bindings to other languages
    /// use this method, so that their programs can control embedded and remote servers in the same way. `target` is the rest of the
    /// path, and the query.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dealkit_server::Sandbox;
    /// use http::Method;
    ///
    /// let service = Sandbox::builder().service()?;
    /// let listed = service.control(Method::GET, "agents?limit=10", b"").await;
    /// assert_eq!(listed.body(), r#"{"agents":[],"next":null}"#);
    /// # Ok(()) }
    /// ```
    pub async fn control(&self, method: Method, target: &str, body: &[u8]) -> Response<Bytes> {
        let head = Request::builder()
            .method(method)
            .uri(format!("http://localhost{}{target}", admin::PREFIX))
            .header(header::CONTENT_TYPE, wire::JSON)
            .body(());
        let (head, ()) = head.unwrap_or_default().into_parts();
        let call = AdminCall::authorize(
            &Access::Open,
            &self.0.namespaces,
            self.0.ca_pem.as_deref(),
            &head,
        );
        if let Some(wait) = call.as_ref().ok().and_then(AdminCall::wait_for_requests) {
            wait.await;
        }
        let result = call.and_then(|call| call.run(body));
        result.unwrap_or_else(|rejection| {
            rejection.into_response(&request_id::from_headers_or_new(&head.headers))
        })
    }

    /// Clears the journal.
    pub fn clear_requests(&self) {
        self.default_namespace().journal.clear();
    }

    /// Restores the initial state: removes all agents, added deals, faults and recorded requests, drops held requests without a
    /// response, and accepts the initial key. The next agent's id is `a_1`.
    pub fn reset(&self) {
        self.default_namespace().reset();
    }

    /// Finds the namespace of a request's key, and counts the request towards its rate limit. A request to the control interface
    /// gets the default namespace.
    pub(crate) fn identify_caller(&self, head: &Parts) -> Caller {
        let namespaces = &self.0.namespaces;
        let mut keys = head.headers.get_all(&auth::HEADER).iter();
        let namespace = match (keys.next(), keys.next()) {
            (Some(key), None) if !is_admin_request(head) => {
                namespaces.find_or_create(key.as_bytes())
            }
            _ => Err(NamespaceError::UnknownKey),
        };
        let bucket = namespace
            .as_ref()
            .ok()
            .and_then(|namespace| namespace.bucket.as_ref());
        Caller {
            quota: bucket.map(Bucket::take_token),
            namespace_error: namespace.as_ref().err().copied(),
            namespace: namespace.unwrap_or_else(|_| Arc::clone(&namespaces.default)),
        }
    }

    /// Returns the namespace of the server's own key.
    fn default_namespace(&self) -> &Namespace {
        &self.0.namespaces.default
    }

    /// Selects the fault for a request: the fault in its header, or a pending one. `body` is `None` until it has arrived.
    pub(crate) fn select_fault(
        &self,
        caller: &Caller,
        head: &Parts,
        body: Option<&[u8]>,
    ) -> FaultSelection {
        if is_admin_request(head) {
            return FaultSelection::default();
        }
        let faults = &caller.namespace.faults;
        match self.parse_fault_header(head) {
            Ok(None) => faults.select(RequestParts {
                method: &head.method,
                path: head.uri.path(),
                headers: &head.headers,
                body,
            }),
            Ok(Some(fault)) => faults.hold_if_needed(Arc::new(fault)),
            // `check_head` rejects the invalid header.
            Err(_) => FaultSelection::default(),
        }
    }

    /// Completes the response of a fault. An error without a body gets problem details.
    pub(crate) fn fault_response(
        &self,
        caller: &Caller,
        head: &Parts,
        fault_response: &Response<Bytes>,
    ) -> Response<Bytes> {
        let context = ResponseContext::new(caller, head, Vec::new());
        let (status, mut response) = (fault_response.status(), fault_response.clone());
        let is_error = status.is_client_error() || status.is_server_error();
        if is_error && !fault_response.headers().contains_key(header::CONTENT_TYPE) {
            response = problem::fault_response(status, &context.request_id);
            let headers = fault_response.headers().clone();
            response.headers_mut().extend(headers);
        }
        complete_response(response, &context, None)
    }

    /// Returns a header of the control interface. Returns `None` if the control interface is turned off.
    fn sandbox_header<'r>(&self, head: &'r Parts, name: &str) -> Option<&'r HeaderValue> {
        let header = head.headers.get(name);
        header.filter(|_| !matches!(self.0.access, Access::Off))
    }

    /// Returns the variants in the request's header, or else the default variants.
    fn select_variants(
        &self,
        default: &[Variant],
        head: &Parts,
    ) -> Result<Vec<Variant>, Rejection> {
        let Some(names) = self.sandbox_header(head, VARIANT_HEADER) else {
            return Ok(default.to_vec());
        };
        let names = names.to_str().map_err(|_| UnknownVariant);
        names.and_then(Variant::parse_list).map_err(|error| {
            let detail = format!("The header {VARIANT_HEADER}: {error}.");
            Rejection::new(ProblemType::INVALID_VARIANT, detail)
        })
    }

    /// Returns the fault in the request's header, if any.
    fn parse_fault_header(&self, head: &Parts) -> Result<Option<ResolvedFault>, Rejection> {
        let Some(fault) = self.sandbox_header(head, FAULT_HEADER) else {
            return Ok(None);
        };
        self.0.access.check_fault_header(head)?;
        let fault = ResolvedFault::from_header(fault.as_bytes()).map_err(|error| {
            let detail = format!("The header {FAULT_HEADER}: {error}.");
            Rejection::new(ProblemType::INVALID_FAULT, detail)
        })?;
        Ok(Some(fault))
    }

    /// Performs checks 1 to 6, as far as they depend on the head only.
    pub(crate) fn check_head<'r>(&'r self, caller: &Caller, head: &'r Parts) -> CheckedHead<'r> {
        let default = caller.namespace.settings().variants.clone();
        let (variants, target) = match self.select_variants(&default, head) {
            Ok(variants) => (variants, self.resolve_target(caller, head)),
            Err(rejection) => (default, Err(rejection)),
        };
        let context = ResponseContext::new(caller, head, variants);
        CheckedHead { target, context }
    }

    fn resolve_target<'r>(
        &'r self,
        caller: &Caller,
        head: &'r Parts,
    ) -> Result<Target<'r>, Rejection> {
        check_target(head)
            .map_err(|detail| Rejection::new(ProblemType::MALFORMED_REQUEST, detail))?;
        if is_admin_request(head) {
            let call = AdminCall::authorize(
                &self.0.access,
                &self.0.namespaces,
                self.0.ca_pem.as_deref(),
                head,
            )?;
            check_length(head, self.0.max_body_bytes)?;
            return Ok(Target::Admin(call));
        }
        self.parse_fault_header(head)?;
        let path = MatchedPath::parse(route::ROUTES, head.uri.path())?;
        if head.method == Method::OPTIONS {
            return Ok(Target::Options(path.allow()));
        }
        let route = path.route(&head.method)?;
        check_key(caller, head)?;
        if route.has_body() {
            check_content(head)?;
        }
        check_length(head, self.0.max_body_bytes)?;
        Ok(Target::Endpoint(route.operation, path.id))
    }

    /// Performs checks 6 to 11 unless a check of the head has failed, then runs the operation.
    pub(crate) fn respond(
        &self,
        caller: &Caller,
        CheckedHead { target, context }: CheckedHead<'_>,
        body: Result<&[u8], Rejection>,
    ) -> Response<Bytes> {
        let mut model = None;
        let result = target.and_then(|target| match target {
            Target::Endpoint(endpoint, id) => {
                let input = Input {
                    id: &id,
                    body: body?,
                    unknown_fields: match caller.namespace.settings().strict {
                        true => UnknownFields::Reject,
                        false => UnknownFields::Ignore,
                    },
                };
                model = Some(endpoint.success_model);
                (endpoint.run)(&caller.namespace.store, &input)
            }
            Target::Admin(call) => call.run(body?),
            Target::Options(allow) => {
                let mut response = empty_response(StatusCode::NO_CONTENT);
                // Method names are always a valid header value.
                if let Ok(allow) = HeaderValue::try_from(allow) {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                Ok(response)
            }
        });
        let response =
            result.unwrap_or_else(|rejection| rejection.into_response(&context.request_id));
        complete_response(response, &context, model)
    }
}

/// Performs check 4: the service key must be known, and its namespace must be within the rate limit.
fn check_key(caller: &Caller, head: &Parts) -> Result<(), Rejection> {
    match caller.namespace_error {
        None => return caller.quota.map_or(Ok(()), |quota| quota.check()),
        Some(NamespaceError::Full) => return Err(NamespaceError::Full.into()),
        Some(NamespaceError::UnknownKey) => {}
    }
    let detail = match head.headers.get_all(&auth::HEADER).iter().count() {
        0 => "Send the service key in the header x-service-key.",
        1 => "The key in the header x-service-key is not the key of this server.",
        _ => "Send the header x-service-key once.",
    };
    let rejection = Rejection::new(ProblemType::SERVICE_KEY, detail);
    Err(rejection.header(header::WWW_AUTHENTICATE, "ServiceKey realm=\"dealkit\""))
}

/// Completes a response: applies the variants, adds the request id and the rate-limit headers, and replaces the body of a HEAD
/// response with its length.
fn complete_response(
    mut response: Response<Bytes>,
    context: &ResponseContext,
    success_model: Option<&dealkit::internal::schema::Model>,
) -> Response<Bytes> {
    for variant in &context.variants {
        response = variant_rewrite::rewrite(*variant, response, success_model);
    }
    response
        .headers_mut()
        .insert(request_id::HEADER.clone(), context.request_id.clone());
    if let Some(quota) = &context.quota {
        quota.add_headers(response.headers_mut());
    }
    if context.is_head {
        let length = std::mem::take(response.body_mut()).len();
        // A chunked body has no declared length.
        if !context.variants.contains(&Variant::Chunked) {
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, length.into());
        }
    }
    response
}

/// Returns true for a request to the control interface.
pub(crate) fn is_admin_request(head: &Parts) -> bool {
    head.uri.path().starts_with(admin::PREFIX)
}
