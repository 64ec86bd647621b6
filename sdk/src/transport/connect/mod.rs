//! Connections: pools, TLS, proxies, connect failures, and custom transports.

pub(crate) mod failure;
pub(crate) mod find;
pub(crate) mod h2_errors;
pub(crate) mod hyper_errors;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod proxy;
pub(crate) mod rustls_errors;
pub(crate) mod tls;
pub(crate) mod transport;
