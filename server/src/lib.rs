#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! # Where things are
//!
//! [`Sandbox`] is the server as a value, [`Service`] is the same without a socket, and [`cli`] is the command.
//! Internally, `listener` accepts connections, `conn` serves a connection and ends it in time (`idle_timer`), and
//! `service` checks and answers a request: `route` is the table of routes, `operations` carries them out, and `store`
//! keeps the state. `seed` and [`generate`] supply the deals. `sandbox_api` is what developers use: faults, readings,
//! the journal, and the interface under `/__sandbox/`.

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
