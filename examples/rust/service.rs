//! A service of your own, with axum: an extractor that checks every rule and says which ones a request breaks, and models
//! that are returned as responses directly.
//!
//! Reads the service's address and key from `DEALKIT_BASE_URL` and `DEALKIT_SERVICE_KEY`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

use axum::{
    Json, Router,
    extract::{FromRequest, Path, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dealkit::{Agent, Client, CreateAgent, Deal, Error, UnknownFields};
use serde_json::json;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Router::new()
        .route("/v1/agents", post(create_agent))
        .route("/v1/deals/{id}", get(retrieve_deal))
        .with_state(Client::from_env()?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service).await?;
    Ok(())
}

async fn create_agent(
    State(client): State<Client>,
    NewAgent(request): NewAgent,
) -> Result<(StatusCode, Json<Agent>), Failure> {
    let agent = client.agents().create(request).await?;
    Ok((StatusCode::CREATED, Json(agent)))
}

/// The body of a request that keeps every rule. `Json<CreateAgent>` checks the same rules, but refuses a body with one
/// text; this refuses it with problem details, whose `errors` have the `pointer`, `code` and `detail` of each violation.
struct NewAgent(CreateAgent);

impl<S: Send + Sync> FromRequest<S> for NewAgent {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
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
    State(client): State<Client>,
    Path(id): Path<String>,
) -> Result<Json<Deal>, Failure> {
    Ok(Json(client.deals().retrieve(id).await?))
}

/// What the caller of this service learns about a failed call: only its kind.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        eprintln!("{}", self.0);
        if self.0.is_not_found() {
            StatusCode::NOT_FOUND.into_response()
        } else {
            StatusCode::BAD_GATEWAY.into_response()
        }
    }
}
