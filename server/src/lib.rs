#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! # Where things are
//!
//! [`Sandbox`] is the server as a value, [`Service`] the same without a socket, and [`cli`] the command. Inside,
//! `listener` accepts connections, `conn` serves one and ends it in time (`idle_timer`), and `service` checks
//! one request and answers it: `route` is the table of what there is, `operations` does it, and `store`
//! remembers. `seed` and [`generate`] bring deals. `sandbox_api` is what exists for developers: faults, readings, the
//! journal, and the interface under `/__sandbox/`.

mod access_log;
mod agent;
mod auth;
mod body;
pub mod cli;
mod config;
mod conn;
mod crowd;
pub mod generate;
mod idle_timer;
pub mod json;
mod json_error;
mod listener;
mod media_type;
mod operations;
mod preface;
mod problem;
mod recording;
mod request_id;
mod route;
mod sandbox;
mod sandbox_api;
mod seed;
mod service;
mod split_mix;
mod store;
mod turns;
mod worker;

pub use agent::CreatedAgent;
pub use auth::{InvalidServiceKey, ServiceKey};
pub use config::{Config, LogFormat};
pub use sandbox::{Sandbox, SandboxBuilder, StartError};
pub use sandbox_api::{Cut, Fault, How, InvalidFault, Reading, RecordedRequest, UnknownReading};
pub use seed::{SeedDeal, SeedError};
pub use service::Service;
