//! Replacement of `claim.rs` if the feature `ledger` is off: no call has a claim then.

use crate::error::call::Error;

/// A type without values.
pub(crate) enum Claim {}

impl Claim {
    pub(crate) async fn ensure_claimed(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn check_lease(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) async fn wait_until_lease_ends(&self) {
        match *self {}
    }
}
