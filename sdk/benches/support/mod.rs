//! What the benchmarks share: a service with fixed responses, a network with a distance, and turns.

pub(crate) mod distance;
pub(crate) mod rounds;
pub(crate) mod service;
