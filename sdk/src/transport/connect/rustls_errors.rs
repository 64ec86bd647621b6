//! What the errors of rustls mean: why a secure connection could not be made, where that is clear and permanent, and what
//! to do about it.

use rustls::{AlertDescription as Alert, CertificateError, Error, InvalidMessage, OtherError};

use crate::{
    transport::{
        connect::{find::find, hyper_errors::was_not_begun, tls::NoSystem},
        redact::{Redactor, short},
    },
    value::words::{
        Setting::{BaseUrl, Http2PriorKnowledge, Identity, RootCertificates},
        Words, words,
    },
};

/// The alerts by which a service objects to the client's certificate, or to there being none.
const OF_CLIENT_CERTIFICATE: [Alert; 9] = [
    Alert::CertificateRequired,
    Alert::BadCertificate,
    Alert::UnsupportedCertificate,
    Alert::CertificateRevoked,
    Alert::CertificateExpired,
    Alert::CertificateUnknown,
    Alert::UnknownCA,
    Alert::AccessDenied,
    // In TLS 1.2.
    Alert::HandshakeFailure,
];

/// The permanent reason why a request failed, if there is one: the service saw no part of the request, and trying again
/// would not help. `was_asked` says whether the service asked for a client certificate when the connection was made.
pub(crate) fn failure(
    error: &reqwest::Error,
    was_asked: bool,
    has_identity: bool,
    redactor: &Redactor,
) -> Option<Words> {
    // In TLS 1.3 the service checks the client's certificate after the client has completed the handshake,
    // and the client may already have begun to send. The service's alert about the certificate is the first
    // and last thing it says: it has read nothing else.
    if let Some(alert) = alert(error)
        && (was_asked || alert == Alert::CertificateRequired)
    {
        return Some(of_client_certificate(&format!("{alert:?}"), has_identity));
    }
    if was_asked && was_not_begun(error) {
        // The service closed the connection before the client had begun to send; its alert is lost.
        return Some(of_client_certificate(
            "it closed the connection",
            has_identity,
        ));
    }
    if !error.is_connect() {
        return None;
    }
    Some(match find(error)? {
        Error::InvalidCertificate(error) => of_certificate(error, redactor),
        Error::Other(OtherError(error)) => {
            let error = error.downcast_ref::<NoSystem>()?;
            words!("{}; or set {}", error.to_string(), RootCertificates)
        }
        // The first byte is not one that TLS begins with.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => words!(
            "the port does not speak TLS; should its URL begin with http:// rather than https://?"
        ),
        error @ (Error::AlertReceived(
            Alert::ProtocolVersion
            | Alert::UnrecognisedName
            | Alert::NoApplicationProtocol
            | Alert::HandshakeFailure
            | Alert::InsufficientSecurity,
        )
        | Error::PeerIncompatible(_)) => words!(
            "the two sides cannot agree on a secure connection ({}); is the host in {} right, and does the service speak \
             HTTPS, with TLS 1.2 or 1.3, and with HTTP/2 if {} is set?",
            error.to_string(),
            BaseUrl,
            Http2PriorKnowledge
        ),
        _ => return None,
    })
}

/// What to do about the service's certificate, and what rustls says of it.
fn of_certificate(error: &CertificateError, redactor: &Redactor) -> Words {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, Other, UnknownIssuer,
    };

    let what = match error {
        UnknownIssuer => {
            return words!(
                "the issuer of the service's certificate is not trusted; if it is yours, add the issuer's certificate \
                 with {} or to the file in SSL_CERT_FILE",
                RootCertificates
            );
        }
        Expired | ExpiredContext { .. } => {
            words!("has expired; the service has to renew it, unless this machine's clock is wrong")
        }
        NotValidYet | NotValidYetContext { .. } => {
            words!("is not valid yet; is this machine's clock right?")
        }
        NotValidForName | NotValidForNameContext { .. } => {
            words!("is not for the host in {}; is that host right?", BaseUrl)
        }
        // An issuer with the same name but another key, such as one that was created anew.
        BadSignature => words!(
            "was not signed by the trusted issuer of that name; is {} up to date?",
            RootCertificates
        ),
        // The type of this error is webpki's.
        Other(error) if error.to_string() == "CaUsedAsEndEntity" => words!(
            "is one of an issuer (CA:TRUE), which is what `openssl req -x509` creates by default; create it with the option \
             -addext basicConstraints=critical,CA:FALSE, too"
        ),
        _ => words!("cannot be accepted"),
    };
    let said = match error {
        Other(error) => error.to_string(),
        error => error.to_string(),
    };
    // It may name what is in the certificate.
    let said = short(&redactor.mask(&said));
    words!("the service's certificate {} ({})", what, said)
}

fn of_client_certificate(said: &str, has_identity: bool) -> Words {
    if has_identity {
        words!(
            "the service does not accept the certificate in {} ({}); is it the right one, has it expired, and does it \
             come with the certificates that lead to its issuer?",
            Identity,
            said.to_owned()
        )
    } else {
        words!(
            "the service asks for a client certificate; set {}",
            Identity
        )
    }
}

/// The service's alert about the client's certificate, if that ended the connection.
fn alert(error: &reqwest::Error) -> Option<Alert> {
    let mut cause = Some(error as &dyn std::error::Error);
    while let Some(error) = cause {
        // Over HTTP/2 only the text is kept.
        let text = error.to_string();
        let said = |alert: &Alert| text == Error::AlertReceived(*alert).to_string();
        if let Some(alert) = OF_CLIENT_CERTIFICATE.into_iter().find(said) {
            return Some(alert);
        }
        cause = error.source();
    }
    None
}
