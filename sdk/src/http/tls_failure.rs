//! Why a secure connection could not be made, where that is clear and lasts.

use rustls::{Error, InvalidMessage};

use super::cause::{TransportError, find};
use crate::{error::TlsFailure, redact::Redactor};

/// What is wrong for good, if that is why the connection failed: trying again would not help.
pub(crate) fn failure(error: &reqwest::Error, redactor: &Redactor) -> Option<TlsFailure> {
    let error: &Error = find(error)?;
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
