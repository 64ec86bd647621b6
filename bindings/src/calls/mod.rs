//! Single calls: requests and options, blocking and asyncio callers, service keys, and tracing.

pub(crate) mod background_call;
pub(crate) mod blocking_call;
pub(crate) mod call;
pub(crate) mod key_source;
pub(crate) mod ledger_options;
pub(crate) mod mailbox;
pub(crate) mod observer;
pub(crate) mod resolve_requests;
pub(crate) mod runtime;
pub(crate) mod sent_call;
pub(crate) mod shared_state;
