//! A service of your own, with axum: an extractor that checks every rule and
//! says which ones a request breaks, and models as responses.
//!
//! Takes the service's URL and key from `DEALKIT_BASE_URL` and
//! `DEALKIT_SERVICE_KEY`, and the ledger file, which all processes of this
//! service share, from `DEALKIT_LEDGER`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

use std::io;

use axum::{
    Json, Router,
    extract::{FromRequest, Path, Request, State},
    http::{
        StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use dealkit::{
    Agent, Client, CreateAgent, Created, Deal, Error, ErrorKind, Outcome,
    UnknownFields, ledger::Ledger,
};
use serde_json::json;
#[cfg(unix)]
use tokio::signal::unix;
use tokio::{net::TcpListener, signal, task::JoinError};
use tokio_util::task::TaskTracker;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Log the warnings of dealkit, such as an outcome that the ledger could not
    // record.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(io::stderr)
        .init();
    let ledger = std::env::var("DEALKIT_LEDGER").ok();
    let ledger = ledger.filter(|path| !path.is_empty());
    let shared = Shared {
        client: Client::from_env()?,
        ledger: Ledger::sqlite(ledger.as_deref().unwrap_or("agents.ledger")),
        creates: TaskTracker::new(),
    };
    let creates = shared.creates.clone();
    let shutdown = shutdown_signal()?;
    let service = Router::new()
        .route("/v1/agents", post(create_agent))
        .route("/v1/agents/{key}", put(create_agent_once))
        .route("/v1/deals/{id}", get(retrieve_deal))
        .with_state(shared);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let server = axum::serve(listener, service);
    server.with_graceful_shutdown(shutdown).await?;
    // Creates whose callers have disconnected end at their timeouts.
    creates.close();
    creates.wait().await;
    Ok(())
}

/// Waits for Ctrl-C or, as containers are stopped, for SIGTERM.
fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut signals = unix::signal(unix::SignalKind::terminate())?;
    let terminated = async move {
        #[cfg(unix)]
        signals.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    };
    Ok(async {
        tokio::select! {
            _ = signal::ctrl_c() => {}
            () = terminated => {}
        }
    })
}

/// State shared by all requests.
#[derive(Clone)]
struct Shared {
    client: Client,
    ledger: Ledger,
    /// The creates in flight, for which this service waits before it ends.
    creates: TaskTracker,
}

async fn create_agent(
    State(shared): State<Shared>,
    NewAgent(request): NewAgent,
) -> Result<(StatusCode, Json<Agent>), Failure> {
    let call = shared.client.agents().create(request);
    // axum drops this handler if the caller disconnects. The task continues.
    let agent = shared.creates.spawn(call.send()).await??;
    Ok((StatusCode::CREATED, Json(agent)))
}

/// Creates the agent with the caller's idempotency key. Repeated requests with
/// the same key create no further agent.
async fn create_agent_once(
    State(shared): State<Shared>,
    Path(key): Path<String>,
    NewAgent(request): NewAgent,
) -> Result<impl IntoResponse, Failure> {
    let create = shared.client.agents().create(request);
    // For `dealkit ledger show`. Keys are not personal data.
    let label: String = key.chars().take(80).collect();
    let once = create.once(&shared.ledger, key).key_name("request");
    let call = once.label(label).resend_corrected().into_future();
    // If the caller disconnects, the task continues, and the ledger records its
    // outcome.
    let created = shared.creates.spawn(call).await??;
    let status = match created {
        Created::Now(_) => StatusCode::CREATED,
        Created::Already { .. } => StatusCode::OK,
    };
    Ok((status, Json(json!({"id": created.agent_id()}))))
}

/// A valid request body. `Json<CreateAgent>` checks the same rules, but rejects
/// an invalid body with a single message. This type rejects it with problem
/// details, whose `errors` contain `pointer`, `code` and `detail` of each
/// violation.
struct NewAgent(CreateAgent);

impl<S: Send + Sync> FromRequest<S> for NewAgent {
    type Rejection = Response;

    async fn from_request(
        request: Request,
        state: &S,
    ) -> Result<Self, Response> {
        let body = Json::<dealkit::Json>::from_request(request, state).await;
        let Json(body) = body.map_err(IntoResponse::into_response)?;
        let checked = CreateAgent::from_json(&body, UnknownFields::Ignore);
        checked.map(Self).map_err(|error| {
            let problem = json!({
                "title": "The agent breaks rules",
                "status": 422,
                "errors": error.violations(),
            });
            let problem_json = [(CONTENT_TYPE, "application/problem+json")];
            (
                StatusCode::UNPROCESSABLE_ENTITY,
                problem_json,
                problem.to_string(),
            )
                .into_response()
        })
    }
}

async fn retrieve_deal(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Json<Deal>, Failure> {
    Ok(Json(shared.client.deals().retrieve(id).await?))
}

/// The response to a failed call.
struct Failure(Response);

impl From<JoinError> for Failure {
    /// The task of a create has panicked, or this service is stopping.
    fn from(_: JoinError) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR.into_response())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        eprintln!("{error}");
        let (kind, outcome) = (error.kind(), error.outcome());
        let is_recorded = kind == ErrorKind::AlreadyAttempted;
        let rejects_agent = is_recorded || error.is_unprocessable_entity();
        Self(if error.is_not_found() {
            StatusCode::NOT_FOUND.into_response()
        } else if error.is_in_flight() {
            // Another request is creating the agent.
            (StatusCode::CONFLICT, [(RETRY_AFTER, "1")]).into_response()
        } else if kind == ErrorKind::IdempotencyKeyReused {
            // The agent exists, with other data. The API cannot change it.
            let existing = json!({"id": error.created_agent_id()});
            (StatusCode::CONFLICT, Json(existing)).into_response()
        } else if error.may_have_acted() {
            // The agent may exist. The operator of the API behind this service
            // can look up the request id.
            let unknown = json!({"request_id": error.request_id()});
            (StatusCode::ACCEPTED, Json(unknown)).into_response()
        } else if error.is_rate_limited() || error.is_throttled() {
            // Zero would mean "immediately".
            let wait = error.retry_after().unwrap_or_default();
            let seconds = wait.as_secs_f64().ceil().max(1.0).to_string();
            let wait = [(RETRY_AFTER, seconds)];
            (StatusCode::SERVICE_UNAVAILABLE, wait).into_response()
        } else if outcome == Outcome::Rejected && rejects_agent {
            // There is no agent. The caller can send the corrected agent with
            // the same key.
            StatusCode::UNPROCESSABLE_ENTITY.into_response()
        } else {
            StatusCode::BAD_GATEWAY.into_response()
        })
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.0
    }
}
