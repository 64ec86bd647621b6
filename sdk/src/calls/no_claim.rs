//! In place of `claim.rs` without the feature `ledger`: no call has a claim.

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

    pub(crate) async fn lease_ended(&self) {
        match *self {}
    }
}
