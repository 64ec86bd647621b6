//! The lines of a ledger, as specified in `sdk/contract/ledger.md`.

use std::{borrow::Cow, io, time::SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::{
    entries::State,
    error::Cause,
    key_hash::{Hex, KeyHash},
};

/// The name of the format.
const FORMAT: &str = "dealkit-ledger";
/// The version that is written. A version with a larger major number is not read; one with a larger minor
/// number may have unknown fields and types of lines, which do not change the meaning of the others.
const VERSION: &str = "1.1";
const MAJOR: u64 = 1;
/// The beginning of every ledger.
const BEGINNING: &[u8] = br#"{"format":"dealkit-ledger","version":""#;

/// The longest agent identifier that is recorded, in bytes, and below it the longest request id.
pub(super) const LONGEST_ID: usize = 64 * 1024;
const LONGEST_REQUEST_ID: usize = 1024;

/// The first line.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) salt: [u8; 32],
    /// The base URL of the service.
    pub(super) service: String,
    /// The name of the keys, if the job gave one.
    pub(super) keys: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct HeaderFields {
    format: String,
    version: String,
    salt: Hex,
    service: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<String>,
}

/// The part of a header that every version has.
#[derive(Deserialize)]
struct Versioned {
    format: String,
    version: String,
}

impl Header {
    /// The header of a new ledger.
    pub(super) fn new(service: &str, keys: Option<&str>) -> io::Result<Self> {
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Ok(Self {
            salt,
            service: service.to_owned(),
            keys: keys.map(str::to_owned),
        })
    }

    pub(super) fn to_line(&self) -> String {
        written(&HeaderFields {
            format: FORMAT.to_owned(),
            version: VERSION.to_owned(),
            salt: Hex(self.salt),
            service: self.service.clone(),
            keys: self.keys.clone(),
        })
    }

    pub(super) fn parse(line: &[u8]) -> Result<Self, Cause> {
        let version = match serde_json::from_slice::<Versioned>(line) {
            Ok(header) if header.format == FORMAT => header.version,
            _ => return Err(Cause::NotALedger("its first line is not a ledger's header")),
        };
        let major = version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok());
        match major {
            Some(MAJOR) => {}
            Some(newer) if MAJOR < newer => return Err(Cause::NewerFormat(version)),
            _ => return Err(Cause::NotALedger("its format version is invalid")),
        }
        let fields: HeaderFields = serde_json::from_slice(line).map_err(|_| Cause::Broken {
            line: 1,
            what: "the salt or the service is missing or wrong".to_owned(),
        })?;
        Ok(Self {
            salt: fields.salt.0,
            service: fields.service,
            keys: fields.keys,
        })
    }
}

/// Whether this is a first line that a crash truncated.
pub(super) fn is_torn_header(line: &[u8]) -> bool {
    let begun = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_ours = BEGINNING.starts_with(begun) || begun.starts_with(BEGINNING);
    let is_cut =
        !line.ends_with(b"\n") && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err();
    is_ours && is_cut
}

/// A line after the first.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// A row is about to be sent.
    Intent(KeyHash),
    /// The outcome of the row.
    Outcome(KeyHash, Cow<'a, State>),
    /// What somebody found out about the row: the identifier of its agent, or that there is none.
    Settled(KeyHash, Option<Cow<'a, str>>),
    /// The base URL of the service from now on.
    Service(Cow<'a, str>),
    /// The name of the keys from now on.
    Keys(Cow<'a, str>),
}

/// The fields of such a line. Others are ignored.
#[derive(Default, Serialize, Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    line_type: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyHash>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    service: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    keys: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    outcome: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    agent_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    at: Option<Cow<'a, str>>,
}

impl Line<'_> {
    /// The line, with this time.
    pub(super) fn to_text(&self, at: SystemTime) -> String {
        let at = DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut fields = Fields {
            line_type: self.line_type().into(),
            at: Some(at.into()),
            ..Fields::default()
        };
        match self {
            Line::Intent(key) => fields.key = Some(*key),
            Line::Outcome(key, state) => {
                fields.key = Some(*key);
                fields.outcome = Some(word(state).into());
                match &**state {
                    State::Created { id } => fields.agent_id = kept(id, LONGEST_ID),
                    State::Rejected { status, request_id }
                    | State::Unknown { status, request_id } => {
                        fields.status = *status;
                        fields.request_id = kept(request_id, LONGEST_REQUEST_ID);
                    }
                    State::NotSent => {}
                }
            }
            Line::Settled(key, agent_id) => {
                fields.key = Some(*key);
                let found = if agent_id.is_some() { CREATED } else { NONE };
                fields.outcome = Some(found.into());
                fields.agent_id = agent_id.as_deref().map(Cow::from);
            }
            Line::Service(base_url) => fields.service = Some(base_url.as_ref().into()),
            Line::Keys(name) => fields.keys = Some(name.as_ref().into()),
        }
        written(&fields)
    }

    fn line_type(&self) -> &'static str {
        match self {
            Line::Intent(_) => INTENT,
            Line::Outcome(..) => OUTCOME,
            Line::Settled(..) => SETTLED,
            Line::Service(_) => SERVICE,
            Line::Keys(_) => KEYS,
        }
    }

    /// Parses a line; `None` if it is of an unknown type.
    pub(super) fn parse(line: &[u8]) -> Result<Option<Line<'static>>, String> {
        let fields: Fields<'_> = serde_json::from_slice(line)
            // The position in the line, but not its content.
            .map_err(|error| format!("it is malformed at column {}", error.column()))?;
        let key = || fields.key.ok_or("it has no key");
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        let (status, request_id) = (fields.status, owned(&fields.request_id));
        Ok(Some(match &*fields.line_type {
            INTENT => Line::Intent(key()?),
            OUTCOME => {
                let state = match fields.outcome.as_deref() {
                    Some(CREATED) => State::Created {
                        id: owned(&fields.agent_id),
                    },
                    Some(REJECTED) => State::Rejected { status, request_id },
                    Some(NOT_SENT) => State::NotSent,
                    Some(UNKNOWN) => State::Unknown { status, request_id },
                    Some(_) => return Err("its outcome is invalid".to_owned()),
                    None => return Err("it has no outcome".to_owned()),
                };
                Line::Outcome(key()?, Cow::Owned(state))
            }
            SETTLED => match (fields.outcome.as_deref(), owned(&fields.agent_id)) {
                (Some(CREATED), Some(id)) => Line::Settled(key()?, Some(id.into())),
                (Some(NONE), None) => Line::Settled(key()?, None),
                _ => return Err("its outcome or agent_id is missing or wrong".to_owned()),
            },
            SERVICE => Line::Service(owned(&fields.service).ok_or("it has no service")?.into()),
            KEYS => Line::Keys(
                owned(&fields.keys)
                    .ok_or("it does not name the keys")?
                    .into(),
            ),
            _ => return Ok(None),
        }))
    }
}

const INTENT: &str = "intent";
const OUTCOME: &str = "outcome";
const SETTLED: &str = "settled";
const SERVICE: &str = "service";
const KEYS: &str = "keys";
const CREATED: &str = "created";
const REJECTED: &str = "rejected";
const NOT_SENT: &str = "not_sent";
const UNKNOWN: &str = "unknown";
/// The value of a settled line without an agent.
const NONE: &str = "none";

fn word(state: &State) -> &'static str {
    match state {
        State::Created { .. } => CREATED,
        State::Rejected { .. } => REJECTED,
        State::NotSent => NOT_SENT,
        State::Unknown { .. } => UNKNOWN,
    }
}

/// An identifier that the service assigned, unless it is too long to be kept.
fn kept(text: &Option<String>, longest: usize) -> Option<Cow<'_, str>> {
    let text = text.as_deref().filter(|text| text.len() <= longest)?;
    Some(text.into())
}

/// A line of JSON, including its line break.
fn written(fields: &impl Serialize) -> String {
    // Strings and numbers always serialize.
    let mut line = serde_json::to_string(fields).unwrap_or_default();
    line.push('\n');
    line
}
