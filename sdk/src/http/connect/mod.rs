//! Connections: pools, TLS, proxies, and why one could not be made.

pub(crate) mod cause;
pub(crate) mod connect_failure;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod proxy;
#[cfg(feature = "rustls-no-provider")]
pub(crate) mod tls;
#[cfg(feature = "rustls-no-provider")]
pub(crate) mod tls_failure;
