//! Classification of the errors of rustls: permanent reasons why a secure connection could not be made, with advice.
//!
//! The outcome, and whether a call is retried, depend only on typed values: the variants of `rustls::Error`, and the
//! connector's record that the service asked for a client certificate. The text of an error only adds advice to our message. In
//! one case, the advice depends on the text alone: over HTTP/2, h2 passes on only the text of an alert about the client's
//! certificate. Such a failure still counts as a broken connection with an unknown outcome, but its message has the advice.

use std::error::Error as _;

use rustls::{AlertDescription as Alert, CertificateError, Error, InvalidMessage, OtherError};

use crate::{
    transport::{
        connect::{
            find::find_source, hyper_errors::ended_before_request, tls::SystemCertificatesError,
        },
        redact::{Redactor, shorten},
    },
    value::message::{
        Message,
        Setting::{BaseUrl, Identity, RootCertificates},
    },
};

/// The alerts with which a service rejects the client's certificate or the lack of one.
const CLIENT_CERTIFICATE_ALERTS: [Alert; 9] = [
    Alert::CertificateRequired,
    Alert::BadCertificate,
    Alert::UnsupportedCertificate,
    Alert::CertificateRevoked,
    Alert::CertificateExpired,
    Alert::CertificateUnknown,
    Alert::UnknownCA,
    Alert::AccessDenied,
    // In TLS 1.2, this alert rejects a missing client certificate.
    Alert::HandshakeFailure,
];

/// Returns the permanent reason why a secure connection could not be made, if there is one: the service saw no part of the
/// request, and another attempt would fail as well. `was_asked_for_certificate` is true if the service requested a client
/// certificate when the connection was made.
pub(crate) fn find_permanent_failure(
    error: &reqwest::Error,
    was_asked_for_certificate: bool,
    has_identity: bool,
    redactor: &Redactor,
) -> Option<Message> {
    // In TLS 1.3, the service checks the client's certificate after the client has completed the handshake, and the client may
    // already have begun to send. The service has read nothing of that when it sends the alert.
    if let Some(Error::AlertReceived(alert)) = find_source(error)
        && CLIENT_CERTIFICATE_ALERTS.contains(alert)
        && (was_asked_for_certificate || *alert == Alert::CertificateRequired)
    {
        return Some(describe_client_certificate(
            &format!("{alert:?}"),
            has_identity,
        ));
    }
    if was_asked_for_certificate && ended_before_request(error) {
        // The service closed the connection before the client had begun to send, and its alert is lost.
        return Some(describe_client_certificate(
            "it closed the connection",
            has_identity,
        ));
    }
    if !error.is_connect() {
        return None;
    }
    Some(match find_source(error)? {
        Error::InvalidCertificate(error) => describe_certificate(error, redactor),
        Error::Other(OtherError(error)) => {
            let error = error.downcast_ref::<SystemCertificatesError>()?;
            Message::from(error.to_string()).see(RootCertificates)
        }
        // The first byte of the response is not the first byte of a TLS message.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => Message::from(
            "the port does not speak TLS; should its URL begin with http:// rather than https://?",
        )
        .see(BaseUrl),
        error @ (Error::AlertReceived(
            Alert::ProtocolVersion
            | Alert::UnrecognisedName
            | Alert::NoApplicationProtocol
            | Alert::HandshakeFailure
            | Alert::InsufficientSecurity,
        )
        | Error::PeerIncompatible(_)) => Message::from(format!(
            "the two sides cannot agree on a secure connection ({error}); is the host in the base URL right, and does the \
             service speak HTTPS, with TLS 1.2 or 1.3, and with HTTP/2 if the client speaks nothing else?"
        ))
        .see(BaseUrl),
        _ => return None,
    })
}

/// Returns advice on the client's certificate for a connection that broke, if the error contains the text of an alert about
/// that certificate.
pub(crate) fn advise_by_text(
    error: &reqwest::Error,
    was_asked_for_certificate: bool,
    has_identity: bool,
) -> Option<Message> {
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        let has_text = |alert: &Alert| text == Error::AlertReceived(*alert).to_string();
        if let Some(alert) = CLIENT_CERTIFICATE_ALERTS.into_iter().find(has_text)
            && (was_asked_for_certificate || alert == Alert::CertificateRequired)
        {
            return Some(describe_client_certificate(
                &format!("{alert:?}"),
                has_identity,
            ));
        }
        source = error.source();
    }
    None
}

/// Describes an invalid certificate of the service: advice, and the text of rustls.
fn describe_certificate(error: &CertificateError, redactor: &Redactor) -> Message {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, Other, UnknownIssuer,
    };

    let (problem, setting) = match error {
        UnknownIssuer => {
            return Message::from(
                "the issuer of the service's certificate is not trusted; if the issuer is yours, add its certificate to the \
                 trusted ones, or to the file in SSL_CERT_FILE",
            )
            .see(RootCertificates);
        }
        Expired | ExpiredContext { .. } => (
            "has expired; the service has to renew it, unless this machine's clock is wrong",
            None,
        ),
        NotValidYet | NotValidYetContext { .. } => {
            ("is not valid yet; is this machine's clock right?", None)
        }
        NotValidForName | NotValidForNameContext { .. } => (
            "is not for the host in the base URL; is that host right?",
            Some(BaseUrl),
        ),
        // The trusted issuer has the same name but another key, for example because the issuer was created again.
        BadSignature => (
            "was not signed by the trusted issuer of that name; is the issuer's certificate up to date?",
            Some(RootCertificates),
        ),
        // The type of this error belongs to webpki, so its text is compared. The text only adds advice: any invalid certificate
        // is a permanent failure.
        Other(error) if error.to_string() == "CaUsedAsEndEntity" => (
            "is the certificate of an issuer (CA:TRUE), which `openssl req -x509` creates by default; create it with the \
             option -addext basicConstraints=critical,CA:FALSE, too",
            None,
        ),
        _ => ("cannot be accepted", None),
    };
    let text = match error {
        Other(error) => error.to_string(),
        error => error.to_string(),
    };
    // The text may repeat names in the certificate.
    let text = shorten(&redactor.mask(&text));
    let message = Message::from(format!("the service's certificate {problem} ({text})"));
    match setting {
        Some(setting) => message.see(setting),
        None => message,
    }
}

fn describe_client_certificate(reason: &str, has_identity: bool) -> Message {
    let text = if has_identity {
        format!(
            "the service does not accept the client's certificate ({reason}); is it the right one, has it expired, and does \
             it come with the certificates that lead to its issuer?"
        )
    } else {
        "the service asks for a client certificate, and none is set".to_owned()
    };
    Message::from(text).see(Identity)
}
