#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! # Modules and types
//!
//! [`Sandbox`] is an embedded server, [`Service`] is the same without a socket, and [`cli`] is the command.

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
    AfterCut, Cut, Fault, InvalidFault, PendingFault, RecordedRequest, RequestPattern,
    UnknownVariant, Variant, VerifyError, WaitTimeout,
};
pub use server::{Sandbox, StartError};
pub use service::Service;
#[doc(hidden)]
pub use state::generate;
pub use state::{
    agent::CreatedAgent,
    seed::{SeedDeal, SeedError},
};
