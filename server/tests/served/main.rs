//! The server as its callers see it: the contract's vectors, hostile bytes, the sandbox's interface, the program.
//!
//! One program with many tests, because linking each additional program takes everything below. Tests that change the whole
//! process have their own: `limits.rs`. The test in `soak`, which observes the whole process, runs alone: `make soak-faults`.

mod admin;
mod docs;
mod fault_fields;
mod faults;
mod handler;
mod hostile;
mod http;
mod http2;
mod in_process;
mod json;
mod namespaces;
mod process;
mod rate_limit;
mod raw;
mod readme;
mod sandbox;
mod seed;
mod soak;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod variants;
mod verify;
