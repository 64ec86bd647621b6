//! Why a secure connection could not be made, where that is clear and lasts.

use std::{error::Error as StdError, io};

use rustls::{Error, InvalidMessage};

use super::cause::TransportError;
use crate::{error::TlsFailure, redact::Redactor};

/// What is wrong for good, if that is why the connection failed: trying again would not help.
pub(crate) fn failure(error: &reqwest::Error, redactor: &Redactor) -> Option<TlsFailure> {
    let error = find(error)?;
    match error {
        Error::InvalidCertificate(_) => {
            let cause = TransportError::of(error, redactor);
            Some(TlsFailure::NotTrusted(cause.into()))
        }
        // Its first byte is none that TLS begins with.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => Some(TlsFailure::NotTls),
        _ => None,
    }
}

/// The error of rustls among the causes.
fn find<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // What an I/O error wraps is not its source: that is the source of what it wraps.
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(wrapped) => find(wrapped),
        None => find(error.source()?),
    }
}
