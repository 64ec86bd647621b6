//! A server of the Agent and Deal interface, to develop and test against.
//!
//! It keeps every rule of the contract and stores everything in memory. As a command:
//!
//! ```text
//! dealkit-server --listen 127.0.0.1:8080 --service-key KEY --deals deals.json
//! ```
//!
//! Embedded, for example in a test, it is a [`Sandbox`]:
//!
//! ```
//! use dealkit_server::Sandbox;
//!
//! let sandbox = Sandbox::builder()
//!     .deals([serde_json::json!({"id": "d_1", "status": "CLOSED"})])
//!     .start()?;
//! assert!(sandbox.url().starts_with("http://127.0.0.1:"));
//! assert_eq!(sandbox.service_key(), "sandbox-key");
//! assert!(sandbox.agents().is_empty());
//! # Ok::<(), dealkit_server::StartError>(())
//! ```
//!
//! Without any socket it is a [`Service`]: a function from a request to its answer.
//!
//! # Where things are
//!
//! `listener` accepts connections, `conn` serves one with its deadlines, `service` answers one request with
//! the help of `route`, `auth`, [`json`](mod@json) and `problem`, and `store` remembers. `seed` and
//! [`generate`] bring deals. [`cli`] is the command.

mod access_log;
mod auth;
mod body;
pub mod cli;
mod config;
mod conn;
pub mod generate;
pub mod json;
mod listener;
mod preface;
mod problem;
mod request_id;
mod route;
mod sandbox;
mod seed;
mod service;
mod store;

pub use auth::{InvalidServiceKey, ServiceKey};
pub use config::{Config, Log};
pub use sandbox::{Sandbox, SandboxBuilder, StartError};
pub use seed::{SeedDeal, SeedError};
pub use service::Service;
