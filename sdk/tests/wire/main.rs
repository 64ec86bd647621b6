//! Tests of the client over connections: requests, responses, errors and retries.
#![cfg(feature = "client")]

mod as_mocked;
mod blocking;
mod bounds;
#[cfg(feature = "rustls")]
mod child;
#[cfg(feature = "ledger-postgres")]
#[path = "../cluster/mod.rs"]
mod cluster;
mod configuration;
mod create_many;
mod dns;
mod error_answers;
mod faults;
mod idle_connections;
mod keys;
mod ledger;
mod limits;
mod many_in_flight;
mod on_the_wire;
mod once;
mod outcomes;
#[path = "../peer/mod.rs"]
mod peer;
mod post_once;
#[cfg(feature = "rustls")]
mod proxy;
mod rate_limiter;
mod retries;
mod retrieve_many;
mod rows;
mod sharing;
#[cfg(feature = "test-util")]
mod test_util;
#[cfg(feature = "rustls")]
mod tls;
mod transport;
#[path = "../vectors/mod.rs"]
mod vectors;
mod waiting;
