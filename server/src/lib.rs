#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! # Where things are
//!
//! [`Sandbox`] is the server as a value, [`Service`] is the same without a socket, and [`cli`] is the command. The folders,
//! from bottom to top; none uses one above it:
//!
//! - `json`: strict JSON
//! - `state`: agents, deals, and where the deals come from
//! - `contract`: the table of routes, what each operation does, the checks, and the bodies of errors
//! - `sandbox`: what developers use: faults, readings, the journal, and the interface under `/__sandbox/`
//! - `config.rs`, and `service.rs`: a request and its response, from all of these
//! - `net`: connections, and their limits
//! - `server.rs`, `health.rs` and `cli.rs`

pub mod cli;
mod config;
mod contract;
mod health;
#[doc(hidden)]
pub mod json;
mod net;
mod sandbox;
mod server;
mod service;
mod state;

pub use config::{LogFormat, SandboxBuilder, Tls};
pub use contract::auth::InvalidServiceKey;
pub use net::{body::SandboxBody, tls::TlsError};
pub use sandbox::{
    Cut, Fault, How, InvalidFault, NotSeen, PendingFault, Reading, RecordedRequest, UnknownReading,
};
pub use server::{Sandbox, StartError};
pub use service::Service;
#[doc(hidden)]
pub use state::generate;
pub use state::{
    agent::CreatedAgent,
    seed::{SeedDeal, SeedError},
};
