//! The calls on agents.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use crate::{
    calls::{
        call::{Async, Call, read_model},
        service::Service,
    },
    model::{Agent, CreateAgent},
    specification::wire,
    transport::operation::Operation,
    value::{Json, opaque_debug},
};

/// Calls on agents; see [`Client::agents`](crate::Client::agents).
#[derive(Clone)]
pub struct Agents<M = Async> {
    pub(crate) service: Arc<Service>,
    pub(crate) mode: M,
}

impl<M> Agents<M> {
    pub(crate) fn to_async(&self) -> Agents {
        Agents {
            service: Arc::clone(&self.service),
            mode: Async,
        }
    }
}

impl<M: Clone> Agents<M> {
    /// Creates an agent (specification, "Create agent").
    ///
    #[doc = include_str!("create_outcomes.md")]
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
    /// use dealkit::{AgentProfile, CreateAgent};
    ///
    /// let request = CreateAgent::builder()
    ///     .email("ada@example.com")
    ///     .first_name("Ada")
    ///     .last_name("Lovelace")
    ///     .profile(AgentProfile::new().tier("A"))
    ///     .build()?;
    /// let agent = client.agents().create(request).await?;
    /// println!("created {}", agent.id);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`](crate::Error).
    #[doc(alias("post", "register"))]
    pub fn create(&self, request: CreateAgent) -> Call<Agent, M> {
        self.create_json(request.to_json())
    }

    /// Creates an agent from a body that is sent unchanged and unchecked. For requests that [`CreateAgent`] cannot
    /// express, and services that accept more than the rules allow.
    pub fn create_json(&self, body: Json) -> Call<Agent, M> {
        self.create_from_text(body.into_text().into())
    }

    /// Creates an agent from a JSON text, for bindings, which write it themselves.
    #[doc(hidden)]
    pub fn create_from_text(&self, body: Bytes) -> Call<Agent, M> {
        let path = Ok(wire::AGENTS_PATH);
        let read_agent = read_model(Agent::from_json_cancellable, Agent::unreadable);
        Call::new(
            Arc::clone(&self.service),
            create_operation(),
            path,
            read_agent,
        )
        .with_body(body)
        .in_mode(self.mode.clone())
    }
}

/// Returns the operation of a create.
pub(crate) fn create_operation() -> Operation {
    Operation {
        method: Method::POST,
        template: wire::AGENTS_PATH.into(),
    }
}

opaque_debug!(Agents<M>);
