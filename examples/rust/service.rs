//! A service of your own, with axum: `Json<CreateAgent>` checks every rule while it is read, and models can be
//! returned as responses directly.
//!
//! Reads the service's address and key from `DEALKIT_BASE_URL` and `DEALKIT_SERVICE_KEY`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dealkit::{Agent, Client, CreateAgent, Deal, Error};
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

/// A body that breaks the rules is refused before this is called, with a 422 that names every violation.
async fn create_agent(
    State(client): State<Client>,
    Json(request): Json<CreateAgent>,
) -> Result<(StatusCode, Json<Agent>), Failure> {
    let agent = client.agents().create(request).await?;
    Ok((StatusCode::CREATED, Json(agent)))
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
