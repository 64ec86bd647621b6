//! Whether anybody still waits for what a thread does with a ledger: neither a lock nor a large ledger then holds it up.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Set once nobody waits any more.
pub(super) type GivenUp = Arc<AtomicBool>;

thread_local! {
    static OF_THIS_THREAD: RefCell<Option<GivenUp>> = const { RefCell::new(None) };
}

/// Has this thread go by the flag from now on.
pub(super) fn go_by(flag: &GivenUp) {
    OF_THIS_THREAD.set(Some(Arc::clone(flag)));
}

/// Whether what this thread is doing is to end as soon as possible.
pub(super) fn is_given_up() -> bool {
    OF_THIS_THREAD.with_borrow(|flag| {
        flag.as_ref()
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    })
}

/// Does something that is done even if nobody waits for it.
pub(super) fn insist<T>(work: impl FnOnce() -> T) -> T {
    let flag = OF_THIS_THREAD.take();
    let done = work();
    OF_THIS_THREAD.set(flag);
    done
}
