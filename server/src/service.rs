//! From a request to its response, without a socket: the contract's checks, in the contract's order.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use dealkit::{UnknownFields, internal::wire};
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};

use crate::{
    contract::{
        auth::{self, InvalidServiceKey, ServiceKey},
        checks::{self, check_content, check_length, check_target},
        operations::Input,
        problem::{self, ProblemType, Refusal},
        request_id,
        response::empty,
        route::{self, Endpoint, MatchedPath},
    },
    sandbox::{
        Fault, InvalidFault, NotSeen, PendingFault, Reading, RecordedRequest, UnknownReading,
        access::Access,
        admin::{self, AdminCall},
        fault::{FAULT_HEADER, Play},
        faults::Picked,
        rate_limit::{Bucket, Quota},
        reading::READING_HEADER,
        rewrite,
        world::{NoWorld, World, Worlds},
    },
    state::{
        agent::CreatedAgent,
        seed::{SeedDeal, SeedError},
    },
};

/// The contract as a function: [`handle`](Service::handle) takes a request and returns the response.
///
/// It knows nothing about sockets, so that the contract can be tested (and embedded) without any. Clones share their
/// store. It is also a tower service, and so the transport of a client in a test, with faults and a journal: both ways
/// have an example below.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) worlds: Worlds,
    pub(crate) access: Access,
    /// The certificate of the issuer that the server made for its own.
    pub(crate) ca_pem: Option<String>,
    pub(crate) max_body_bytes: usize,
}

/// Whose request it is: the world that it is in, or, where its key has none, the first one, and why.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) world: Arc<World>,
    refused: Option<NoWorld>,
    /// What a rate limit leaves to the world.
    quota: Option<Quota>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

/// What a request asks for. Its body may still be wrong.
#[derive(Debug)]
enum Asked<'r> {
    /// An operation of /v1 on the id in the path.
    Endpoint(Endpoint, Cow<'r, str>),
    /// One under /__sandbox/.
    Admin(AdminCall<'r>),
    /// Which methods the path has: the value of `Allow`.
    Options(String),
}

/// A request whose head was checked.
#[derive(Debug)]
pub(crate) struct Checked<'r> {
    asked: Result<Asked<'r>, Refusal>,
    form: Form,
}

impl Checked<'_> {
    /// Whether the response depends on the body.
    pub(crate) fn needs_body(&self) -> bool {
        matches!(self.asked, Ok(Asked::Endpoint(..) | Asked::Admin(_)))
    }

    /// What has to happen before the request is responded to, if anything.
    pub(crate) fn wait(&self) -> Option<impl Future<Output = ()>> {
        match &self.asked {
            Ok(Asked::Admin(call)) => call.wait(),
            _ => None,
        }
    }
}

/// What every response to a request has in common.
#[derive(Debug)]
struct Form {
    request_id: HeaderValue,
    is_head: bool,
    readings: Vec<Reading>,
    quota: Option<Quota>,
}

impl Form {
    fn of(caller: &Caller, head: &Parts, readings: Vec<Reading>) -> Self {
        Self {
            request_id: request_id::of(&head.headers),
            is_head: head.method == Method::HEAD,
            readings,
            quota: caller.quota,
        }
    }
}

impl Service {
    /// The key that requests must carry, unless another one was accepted since.
    pub(crate) fn service_key(&self) -> &ServiceKey {
        &self.world().key
    }

    /// Whether there is a page for people.
    pub(crate) fn has_page(&self) -> bool {
        matches!(self.0.access, Access::Open | Access::Token(_))
    }

    /// Answers a request whose body has arrived, with all checks except the one for the body's timeout. Faults and the
    /// journal are for callers that wait for their response: a server, and a client whose transport this is.
    ///
    /// A request whose URI names the host needs no header `Host`: an HTTP client would write it when it sends the request.
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
        self.answer(&self.caller(&head), &head, &body)
    }

    pub(crate) fn answer(&self, caller: &Caller, head: &Parts, body: &[u8]) -> Response<Bytes> {
        let max = self.0.max_body_bytes;
        let body = match body.len() <= max {
            true => Ok(body),
            false => Err(checks::body_too_large(max)),
        };
        self.respond(caller, self.check_head(caller, head), body)
    }

    /// Accepts these keys from now on, and no others, as a service does whose keys are rotated: first the old one and the new
    /// one, and then only the new one. A request that is being answered is not affected. The token of the interface under
    /// `/__sandbox/` stays what it was.
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
    /// When one of them is not valid. Nothing has changed then.
    pub fn accept_keys<K: Into<String>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), InvalidServiceKey> {
        self.world().accept_keys(keys)
    }

    /// The agents created so far, in the order of creation: each as the response showed it, and as it was sent.
    pub fn agents(&self) -> Vec<CreatedAgent> {
        let agents = self.world().store.agents_after(0, usize::MAX);
        agents
            .iter()
            .filter_map(|(number, sent)| CreatedAgent::read(*number, sent))
            .collect()
    }

    /// Adds a deal; one with the same id is replaced.
    ///
    /// # Errors
    /// When the deal is not strict JSON or is not a deal, or the store has no room for it.
    pub fn insert_deal(&self, deal: impl Into<SeedDeal>) -> Result<(), SeedError> {
        let deal = deal.into().check("deal")?;
        let inserted = self.world().store.insert_deal(deal);
        inserted.map_err(|_| SeedError::StoreFull)
    }

    /// Makes something go wrong with the next request of /v1, or with the requests that `fault` selects.
    ///
    /// Of several faults that match a request, the one that was added first happens; a fault that has happened as often
    /// as it should is gone.
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
    /// When the fault is invalid, or no request can have its method and path: the error says why, and what is allowed.
    pub fn fail_next(&self, fault: Fault) -> Result<(), InvalidFault> {
        self.world().faults.add(fault).map(drop)
    }

    /// The faults that are still to happen, in the order in which they were added.
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
        self.world().faults.pending()
    }

    /// Removes every fault that is still to happen.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
    }

    /// The latest requests of /v1, in the order of their responses: up to 1,000, and 16 MiB.
    ///
    /// A request is there by the time that its caller has the response.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.world().journal.filtered(usize::MAX, |_| true)
    }

    /// Waits until at least `count` requests of /v1 that are `wanted` were responded to (or their connections broken off), and
    /// returns them: for tests of what works in the background. On any Tokio runtime; those that came before count, too.
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
    /// let within = Duration::from_secs(10);
    /// let requests = sandbox.wait_for(1, within, |request| request.path == "/v1/deals/d_1").await?;
    /// assert_eq!(requests[0].status.unwrap(), 200);
    /// # job.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When there are fewer after that time.
    pub async fn wait_for(
        &self,
        count: usize,
        within: Duration,
        wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> Result<Vec<RecordedRequest>, NotSeen> {
        let journal = &self.world().journal;
        let wanted = |request: &RecordedRequest| request.is_done && wanted(request);
        journal.wait_for(count, within, wanted).await
    }

    /// Waits until at least `count` requests are held by [`Fault::hold`] at the same time, and returns all that are. It works on any
    /// Tokio runtime.
    ///
    /// # Errors
    /// If fewer are held after that time; they stay held.
    pub async fn wait_for_held(
        &self,
        count: usize,
        within: Duration,
    ) -> Result<Vec<RecordedRequest>, NotSeen> {
        let journal = &self.world().journal;
        let held = |request: &RecordedRequest| request.is_held;
        journal.wait_for(count, within, held).await
    }

    /// Releases all requests that are held by [`Fault::hold`], so that each is acted on and gets its response, and returns how many
    /// there were. A request that arrives later is held again if the fault is still pending.
    ///
    /// A held request that is never released ends without a response when its caller disconnects, or the sandbox is reset or
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
    /// assert!(!call.is_finished()); // until it is released
    /// assert_eq!(sandbox.release(), 1);
    /// assert_eq!(call.await??.id, "d_1");
    /// # Ok(()) }
    /// ```
    pub fn release(&self) -> usize {
        self.world().release()
    }

    /// Calls the interface under `/__sandbox/` without a socket: for bindings to other languages, whose programs then work in
    /// the same way with a server that runs elsewhere. It may be called even where it is closed to others. `target` is what
    /// follows in the path, and the query.
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
        let call = AdminCall::admit(
            &Access::Open,
            &self.0.worlds,
            self.0.ca_pem.as_deref(),
            &head,
        );
        if let Some(wait) = call.as_ref().ok().and_then(AdminCall::wait) {
            wait.await;
        }
        let responded = call.and_then(|call| call.run(body));
        responded.unwrap_or_else(|refusal| refusal.into_response(&request_id::of(&head.headers)))
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.world().journal.clear();
    }

    /// Drops every agent, every deal but those that the server started with, every fault, all recorded requests and all held ones
    /// (which get no response), and accepts the key that it started with. Ids begin at `a_1` again.
    pub fn reset(&self) {
        self.world().reset();
    }

    /// Whose request this is. That of a call of the interface is of no matter.
    pub(crate) fn caller(&self, head: &Parts) -> Caller {
        let worlds = &self.0.worlds;
        let mut sent = head.headers.get_all(&auth::HEADER).iter();
        let found = match (sent.next(), sent.next()) {
            (Some(key), None) if !is_admin(head) => worlds.of(key.as_bytes()),
            _ => Err(NoWorld::UnknownKey),
        };
        let bucket = found.as_ref().ok().and_then(|world| world.bucket.as_ref());
        Caller {
            quota: bucket.map(Bucket::take),
            refused: found.as_ref().err().copied(),
            world: found.unwrap_or_else(|_| Arc::clone(&worlds.first)),
        }
    }

    /// The world of the server's own key.
    fn world(&self) -> &World {
        &self.0.worlds.first
    }

    /// Picks the fault that happens to a request: the one in its header, or one from the list.
    pub(crate) fn fault(&self, caller: &Caller, head: &Parts) -> Option<Picked> {
        if is_admin(head) {
            return None;
        }
        let faults = &caller.world.faults;
        match self.asked_fault(head) {
            Ok(None) => faults.pick(&head.method, head.uri.path()),
            Ok(Some(fault)) => Some(faults.picked(Arc::new(fault))),
            // A header that is not a fault is refused by `check_head`.
            Err(_) => None,
        }
    }

    /// The response that a fault makes up, exactly as the fault says; an error without a body gets problem details.
    pub(crate) fn made_up(
        &self,
        caller: &Caller,
        head: &Parts,
        asked: &Response<Bytes>,
    ) -> Response<Bytes> {
        let form = Form::of(caller, head, Vec::new());
        let (status, mut response) = (asked.status(), asked.clone());
        let is_error = status.is_client_error() || status.is_server_error();
        if is_error && !asked.headers().contains_key(header::CONTENT_TYPE) {
            response = problem::made_up(status, &form.request_id);
            response.headers_mut().extend(asked.headers().clone());
        }
        finish(response, &form, None)
    }

    /// A header for the sandbox, which means nothing where the interface was turned off.
    fn sandbox_header<'r>(&self, head: &'r Parts, name: &str) -> Option<&'r HeaderValue> {
        let header = head.headers.get(name);
        header.filter(|_| !matches!(self.0.access, Access::Off))
    }

    fn readings(&self, own: &[Reading], head: &Parts) -> Result<Vec<Reading>, Refusal> {
        let Some(names) = self.sandbox_header(head, READING_HEADER) else {
            return Ok(own.to_vec());
        };
        let names = names.to_str().map_err(|_| UnknownReading);
        names.and_then(Reading::list).map_err(|error| {
            let detail = format!("The header {READING_HEADER}: {error}.");
            Refusal::new(ProblemType::INVALID_READING, detail)
        })
    }

    fn asked_fault(&self, head: &Parts) -> Result<Option<Play>, Refusal> {
        let Some(fault) = self.sandbox_header(head, FAULT_HEADER) else {
            return Ok(None);
        };
        self.0.access.check_fault(head)?;
        let fault = Play::from_header(fault.as_bytes()).map_err(|error| {
            let detail = format!("The header {FAULT_HEADER}: {error}.");
            Refusal::new(ProblemType::INVALID_FAULT, detail)
        })?;
        Ok(Some(fault))
    }

    /// Checks 1 to 6: everything that can be told from the head.
    pub(crate) fn check_head<'r>(&'r self, caller: &Caller, head: &'r Parts) -> Checked<'r> {
        let own = caller.world.settings().readings.clone();
        let (readings, asked) = match self.readings(&own, head) {
            Ok(readings) => (readings, self.admit(caller, head)),
            Err(refusal) => (own, Err(refusal)),
        };
        let form = Form::of(caller, head, readings);
        Checked { asked, form }
    }

    fn admit<'r>(&'r self, caller: &Caller, head: &'r Parts) -> Result<Asked<'r>, Refusal> {
        check_target(head)
            .map_err(|detail| Refusal::new(ProblemType::MALFORMED_REQUEST, detail))?;
        if is_admin(head) {
            let call = AdminCall::admit(
                &self.0.access,
                &self.0.worlds,
                self.0.ca_pem.as_deref(),
                head,
            )?;
            check_length(head, self.0.max_body_bytes)?;
            return Ok(Asked::Admin(call));
        }
        self.asked_fault(head)?;
        let path = MatchedPath::parse(route::ROUTES, head.uri.path())?;
        if head.method == Method::OPTIONS {
            return Ok(Asked::Options(path.allow()));
        }
        let route = path.route(&head.method)?;
        check_key(caller, head)?;
        if route.has_body() {
            check_content(head)?;
        }
        check_length(head, self.0.max_body_bytes)?;
        Ok(Asked::Endpoint(route.operation, path.id))
    }

    /// The response: what the checks of the head have found, or else checks 6 to 11, and the response when all hold.
    pub(crate) fn respond(
        &self,
        caller: &Caller,
        Checked { asked, form }: Checked<'_>,
        body: Result<&[u8], Refusal>,
    ) -> Response<Bytes> {
        let mut model = None;
        let responded = asked.and_then(|asked| match asked {
            Asked::Endpoint(endpoint, id) => {
                let input = Input {
                    id: &id,
                    body: body?,
                    unknown_fields: match caller.world.settings().strict {
                        true => UnknownFields::Reject,
                        false => UnknownFields::Ignore,
                    },
                };
                model = Some(endpoint.success);
                (endpoint.run)(&caller.world.store, &input)
            }
            Asked::Admin(call) => call.run(body?),
            Asked::Options(allow) => {
                let mut response = empty(StatusCode::NO_CONTENT);
                // Method names always make a valid header value.
                if let Ok(allow) = HeaderValue::try_from(allow) {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                Ok(response)
            }
        });
        let response = responded.unwrap_or_else(|refusal| refusal.into_response(&form.request_id));
        finish(response, &form, model)
    }
}

/// Check 4: the key; and whether the world of the key accepts another request now.
fn check_key(caller: &Caller, head: &Parts) -> Result<(), Refusal> {
    match caller.refused {
        None => return caller.quota.map_or(Ok(()), |quota| quota.admit()),
        Some(NoWorld::Full) => return Err(NoWorld::Full.into()),
        Some(NoWorld::UnknownKey) => {}
    }
    let detail = match head.headers.get_all(&auth::HEADER).iter().count() {
        0 => "Send the service key in the header x-service-key.",
        1 => "The key in the header x-service-key is not the key of this server.",
        _ => "Send the header x-service-key once.",
    };
    let refusal = Refusal::new(ProblemType::SERVICE_KEY, detail);
    Err(refusal.header(header::WWW_AUTHENTICATE, "ServiceKey realm=\"dealkit\""))
}

/// What every response has in common: the request id, how the specification is read, and for HEAD the length of the
/// body it does not have.
fn finish(
    mut response: Response<Bytes>,
    form: &Form,
    success: Option<&dealkit::internal::schema::Model>,
) -> Response<Bytes> {
    for reading in &form.readings {
        response = rewrite::response(*reading, response, success);
    }
    response
        .headers_mut()
        .insert(request_id::HEADER.clone(), form.request_id.clone());
    if let Some(quota) = &form.quota {
        quota.add_to(response.headers_mut());
    }
    if form.is_head {
        let length = std::mem::take(response.body_mut()).len();
        // A chunked body has no declared length.
        if !form.readings.contains(&Reading::Chunked) {
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, length.into());
        }
    }
    response
}

/// Whether a request is for the sandbox itself, not for the service that it plays.
pub(crate) fn is_admin(head: &Parts) -> bool {
    head.uri.path().starts_with(admin::PREFIX)
}
