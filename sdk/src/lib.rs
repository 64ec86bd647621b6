//! A client for the Agent and Deal API: register real-estate agents, read deals.
//!
//! # Quickstart
//!
#![cfg_attr(feature = "client", doc = "```no_run")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! use dealkit::{AgentProfile, Client, CreateAgent, Role};
//!
//! # async fn quickstart() -> Result<(), dealkit::Error> {
//! let client = Client::builder()
//!     .base_url("https://deals.example.com")
//!     .service_key("my-key")
//!     .build()?; // or Client::from_env()
//!
//! let agent = client
//!     .agents()
//!     .create(
//!         CreateAgent::builder()
//!             .email("ada@example.com")
//!             .first_name("Ada")
//!             .last_name("Lovelace")
//!             .profile(AgentProfile::new().tier("A"))
//!             .role(Role::Agent)
//!             .build()?, // every violation at once
//!     )
//!     .await?;
//! println!("created agent {}", agent.id);
//!
//! let deal = client.deals().retrieve("d_1").await?;
//! println!("deal {} is {:?}", deal.id, deal.status);
//! # Ok(()) }
//! ```
//!
//! # Where to go from here
//!
//! | for | see |
//! |---|---|
//! | configuration, defaults, limits, TLS, proxies | [`Client`], [`ClientBuilder`] |
//! | keys that change while a program runs | [`KeyProvider`], [`ClientBuilder::service_key_file`] |
//! | retries and rates | [`RetryPolicy`], [`ClientBuilder::rate_limit`] |
//! | the request for an agent, its rules, null and absent | [`CreateAgent`], [`AgentProfile`] |
//! | creating one agent, once even if a program runs twice | [`Agents::create`], [`Call::once`](Call#method.once) |
//! | creating many agents, in a job that survives a crash | [`Agents::create_many`], [`CreateMany::ledger`](CreateMany#method.ledger) |
//! | reading one deal, or many at a time | [`Deals::retrieve`], [`Deals::retrieve_many`] |
//! | options of one call, the whole response, the request without sending it | [`Call`], [`CallOptions`], [`Response`] |
//! | stopping and cancelling a job | [`CancelHandle`] |
//! | failures, what the service may have done, what it said | [`Error`], [`ErrorKind`], [`Outcome`], [`Problem`] |
//! | the models, every digit of their numbers, and building them | [`Deal`], [`Agent`], [`Decimal`], [`Json`], [`builder`] |
//! | a trait to replace the client in tests | [`Operations`] |
//!
//! The modules:
//!
//! | module | feature | |
//! |---|---|---|
//! | [`builder`] | | the states of the builders of models, for code that names their types |
//! | [`bulk`] | `client` | the parts of jobs of many calls, for generic code, and for inputs that arrive one at a time |
//! | [`ledger`] | `client`; most of it `ledger` | the local log of idempotency keys: look up, resolve, back up |
#![cfg_attr(
    feature = "blocking",
    doc = "| [`blocking`] | `blocking` | the same client, for programs without an async runtime |"
)]
#![cfg_attr(
    feature = "arrow",
    doc = "| [`arrow`] | `arrow` | deals as tables of Apache Arrow |"
)]
#![cfg_attr(
    feature = "test-util",
    doc = "| [`test_util`] | `test-util` | errors and results made by hand, and a stub of the client, for your tests |"
)]
#![cfg_attr(
    feature = "metrics",
    doc = "| [`opentelemetry`](https://docs.rs/opentelemetry) | `metrics` | the crate behind the metrics, in the version that dealkit uses |"
)]
//! | `chrono`, `rust_decimal`; `bytes`, `http` | ; `client` | the crates whose types appear in this interface |
//!
//! # Models
//!
//! A model is read from JSON, and built in a test, in one expression:
//!
//! ```
//! use dealkit::{Agent, AgentProfileResponse, AssignedRole, Deal, DealStatus, Role, RoleAssignment};
//!
//! let deal = Deal::from_json(r#"{"id": "d_1", "status": "CLOSED", "sides": [{"side_percentage": 10.10}]}"#)?;
//! assert_eq!(deal.sides[0].side_percentage.unwrap().to_string(), "10.10");
//! assert_eq!(deal.id, "d_1");
//! let closed = match deal.status {
//!     Some(DealStatus::Closed) => true,
//!     Some(status) => status == "SETTLED", // undocumented
//!     None => false,
//! };
//! assert!(closed);
//!
//! let agent = Agent::builder()
//!     .id("a_1")
//!     .email("ada@example.com")
//!     .first_name("Ada")
//!     .last_name("Lovelace")
//!     .profile(AgentProfileResponse::default())
//!     .role_assignments([RoleAssignment::builder().role(Role::Agent).build()])
//!     .build();
//! assert_eq!(agent.role_assignments[0].role, AssignedRole::Agent);
//! // Personal data never shows in Debug:
//! assert!(!format!("{agent:?}").contains("Lovelace"));
//! # Ok::<(), dealkit::DecodeError>(())
//! ```
//!
//! # Features
//!
//! | feature | default | what for |
//! |---|---|---|
//! | `client` | yes | the HTTP client, with TLS from rustls; without it, the crate provides only models, values and rules, also for `wasm32-unknown-unknown` |
//! | `rustls` | yes | ring as the cryptography of TLS, which requires a C compiler to build; without this feature, the program installs a cryptography provider, such as aws-lc or graviola |
//! | `blocking` | no | [`dealkit::blocking`](blocking), for programs without an async runtime |
//! | `ledger` | no | [`dealkit::ledger`](ledger), jobs that survive a crash; compiles SQLite, which requires a C compiler |
//! | `ledger-postgres` | no | ledgers in PostgreSQL, too, for jobs on many machines |
//! | `metrics` | no | metrics of calls, attempts and waits for the OpenTelemetry meter provider of the program |
//! | `arrow` | no | `dealkit::arrow`, deals as tables of Apache Arrow |
//! | `test-util` | no | [`dealkit::test_util`](test_util), errors and results made by hand, and a stub of the client, for your tests |
//!
//! # Logs, traces, metrics
//!
//! Calls are logged and traced through [`tracing`](https://docs.rs/tracing), with target `dealkit`. Each call has a span, and
//! an event at its end: at INFO, or at WARN if the call failed. There are further events at WARN for each retry and for each
//! pause that the service asks for, at INFO with the names of the fields of a response that were [skipped](Unreadable::Skip),
//! and at DEBUG for each last attempt. Fields have OpenTelemetry's names for HTTP (`http.request.method`, `url.template`,
//! `http.response.status_code`, `error.type`). The names of all other fields begin with `dealkit.`: `attempts`, `outcome`,
//! `effect`, `request_id`, `unreadable` and `pointers` and, in seconds, `duration`, the `wait` that the duration includes, and
//! the `delay` that follows an attempt.
#![cfg_attr(
    feature = "client",
    doc = "[`ClientBuilder::propagate`] propagates a trace to the service."
)]
//!
//! With the feature `metrics`, each client measures its calls with the global meter provider that the program has set
//! (`opentelemetry::global::set_meter_provider`) before it builds the client. The metrics have the names and attributes of the
//! Python package's metrics: `http.client.request.duration` and, all beginning with `dealkit.client.`, `attempts`, `calls`, `wait`,
//! `unreadable`, `retries_left` and `in_flight`. The guide has alerts for them.
//!
#![cfg_attr(feature = "metrics", doc = "```no_run")]
#![cfg_attr(not(feature = "metrics"), doc = "```ignore")]
//! use dealkit::{Client, opentelemetry::global};
//! use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
//!
//! # fn example() -> Result<(), dealkit::Error> {
//! let exporter = InMemoryMetricExporter::default(); // in your program, such as the one of `opentelemetry-otlp`
//! let reader = PeriodicReader::builder(exporter).build();
//! global::set_meter_provider(SdkMeterProvider::builder().with_reader(reader).build());
//! let client = Client::from_env()?;
//! # let _ = client;
//! # Ok(()) }
//! ```
//!
//! # Secrets and personal data
//!
//! The service key never shows in a `Debug`, an error text, a log or a trace, and neither does personal
//! data: the `Debug` of every model hides names, addresses and the like, and errors name the fields of the
//! specification and no others. One exception: the title and detail of an error response, which the service writes
//! and error texts repeat, may contain values that were sent. `Serialize` writes everything.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Some pages link to items of these features. `make docs` checks every link, with all features.
#![cfg_attr(
    not(all(feature = "blocking", feature = "ledger", feature = "test-util")),
    allow(rustdoc::broken_intra_doc_links)
)]
#![forbid(unsafe_code)]

#[cfg(all(feature = "client", target_family = "wasm"))]
compile_error!(
    "dealkit's client needs sockets and a clock, which this target lacks: build dealkit with `default-features = false`, for \
     its models, values and rules"
);

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "client")]
pub mod bulk;
#[cfg(feature = "client")]
mod calls;
#[cfg(feature = "client")]
mod client;
mod error;
mod json;
#[cfg(feature = "client")]
pub mod ledger;
mod model;
#[cfg(feature = "client")]
mod operations;
mod rules;
mod specification;
#[cfg(feature = "test-util")]
pub mod test_util;
#[cfg(feature = "client")]
mod transport;
mod value;

/// Items that the sandbox server and the Python bindings use, which are always of the same version as this crate. They are not
/// part of the public interface.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "client")]
    pub use crate::{calls::call::Async, error::call::EFFECTS, transport::key::KeySource};
    pub use crate::{
        json::{document_limits, explain_error, lexer},
        rules::validate,
        specification::{field_names::CREATE_AGENT_FIELD_NAMES, schema, wire},
        value::{json_kind, scalar, text_encoding},
    };
}

/// The crate behind dates and timestamps, in the version that dealkit uses.
pub use chrono;
/// The crate behind metrics, in the version that dealkit uses.
#[cfg(feature = "metrics")]
pub use opentelemetry;
/// The crate behind [`Decimal`], in the version that dealkit uses.
pub use rust_decimal;
#[cfg(feature = "client")]
/// The crates behind methods, statuses, headers and bodies, in the versions that dealkit uses.
pub use {bytes, http};

pub use error::problem::Problem;
pub use json::decode_error::{DecodeError, Expected};
pub use json::unreadable::{Unreadable, UnreadableField};
pub use model::{
    Address, Agent, AgentProfile, AgentProfileResponse, Application, Contact, ContactField,
    CreateAgent, Deal, ListingAgent, ListingContract, Offer, Quote, RoleAssignment, Side, builder,
};
pub use rules::validate::{UnknownFields, ValidationError, Violation, ViolationCode};
pub use value::*;

#[cfg(feature = "ledger")]
pub use bulk::create_once::{CreateOnce, Detached, IdempotencyKey};
#[cfg(feature = "client")]
pub use {
    ::http::{HeaderMap, Method, StatusCode},
    bulk::{
        create_many::{CreateMany, CreateStream},
        many::CancelHandle,
        retrieve_many::{RetrieveMany, RetrieveStream, Retrieved},
        row::{CreateRow, Created, Creation, KeyedRow},
    },
    calls::{
        agents::Agents,
        call::{Call, CallFuture, CallWithResponse},
        deals::Deals,
        options::CallOptions,
        response::{RawResponse, Response},
    },
    client::{
        BASE_URL_VARIABLE, Client, ClientBuilder, SERVICE_KEY_FILE_VARIABLE, SERVICE_KEY_VARIABLE,
    },
    error::{call::Error, kind::ErrorKind},
    operations::Operations,
    transport::{
        connect::transport::TransportNotSent,
        key::{KeyProvider, ServiceKey},
        outcome::Outcome,
        retry::attempts::RetryPolicy,
    },
};
