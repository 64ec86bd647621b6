//! The tables of the responses, stated a second time, and what follows from them: which value of a document is invalid,
//! and what a document looks like after it was read and written back.

use crate::{
    json::{self, Kind, Number, Written},
    time,
};

/// What a value must be.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Boolean,
    Integer,
    Decimal,
    Date,
    Timestamp,
    /// Strings by name.
    Texts,
    /// An object of any content.
    Free,
    List(&'static Shape),
    Object(&'static [Field]),
}

use Shape::{Boolean, Date, Decimal, Free, Integer, List, Object, Text, Texts, Timestamp};

/// Whether a field must be present, and what is written when it is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    /// Left out, or an empty list or map.
    Optional,
    /// Null.
    Nullable,
}

use Need::{Nullable, Optional, Required};

type Field = (&'static str, Need, Shape);

/// How deeply the tables are nested: a deal's contacts' fields.
pub(crate) const LEVELS: usize = 6;

pub(crate) const DEAL: Shape = Object(&[
    ("id", Required, Text),
    ("status", Optional, Text),
    ("phase", Optional, Text),
    ("expiry_date", Optional, Date),
    ("created_at", Optional, Timestamp),
    ("listing_contract", Optional, CONTRACT),
    ("application", Optional, APPLICATION),
    ("quotes", Optional, List(&QUOTE)),
    ("contacts", Optional, List(&CONTACT)),
    ("sides", Optional, List(&SIDE)),
    ("metadata", Optional, Texts),
    ("external_id", Optional, Text),
]);

const CONTRACT: Shape = Object(&[
    ("id", Optional, Text),
    ("side", Optional, Text),
    ("side_split", Optional, Integer),
    ("sale_price", Optional, Integer),
    ("net_agent_commission", Optional, Integer),
    ("gross_agent_commission", Optional, Integer),
    ("commission_rate", Optional, Integer),
    ("expected_close_date", Optional, Date),
    ("created_at", Optional, Timestamp),
    (
        "address",
        Optional,
        Object(&[
            ("line1", Optional, Text),
            ("line2", Optional, Text),
            ("city", Optional, Text),
            ("state", Optional, Text),
            ("zip", Optional, Text),
        ]),
    ),
    (
        "agent",
        Optional,
        Object(&[
            ("id", Optional, Text),
            ("email", Optional, Text),
            ("first_name", Optional, Text),
            ("last_name", Optional, Text),
        ]),
    ),
]);

const APPLICATION: Shape = Object(&[
    ("id", Optional, Text),
    ("status", Optional, Text),
    ("decisioned_on", Optional, Text),
    ("created_at", Optional, Text),
    ("deal_id", Optional, Text),
    ("requested_amount", Optional, Decimal),
    (
        "offers",
        Optional,
        List(&Object(&[
            ("id", Optional, Text),
            ("expiry_date_time", Optional, Timestamp),
            ("origination_fee_percent", Optional, Decimal),
            ("percent_of_commission", Optional, Decimal),
            ("created_at", Optional, Timestamp),
        ])),
    ),
]);

const QUOTE: Shape = Object(&[
    ("id", Optional, Text),
    ("created_at", Optional, Timestamp),
    ("estimated_percent_min", Optional, Integer),
    ("estimated_percent_max", Optional, Integer),
    ("estimated_amount_min", Optional, Integer),
    ("estimated_amount_max", Optional, Integer),
]);

const CONTACT: Shape = Object(&[
    ("id", Optional, Text),
    ("contactSchemaId", Optional, Text),
    ("type", Optional, Text),
    (
        "fields",
        Optional,
        List(&Object(&[
            ("id", Optional, Text),
            ("fieldSchemaId", Optional, Text),
            ("label", Optional, Text),
            ("type", Optional, Text),
            ("value", Optional, Text),
        ])),
    ),
]);

const SIDE: Shape = Object(&[
    ("contact_id", Optional, Text),
    ("gross_commission", Optional, Decimal),
    ("agent_units", Optional, Decimal),
    ("side_percentage", Optional, Decimal),
]);

pub(crate) const AGENT: Shape = Object(&[
    ("id", Required, Text),
    ("email", Required, Text),
    ("date_of_birth", Nullable, Date),
    ("first_name", Required, Text),
    ("last_name", Required, Text),
    (
        "profile",
        Required,
        Object(&[
            ("onboarding_complete", Optional, Boolean),
            ("client_metadata", Optional, Free),
            ("external_id", Optional, Text),
        ]),
    ),
    ("current_brokerage_id", Nullable, Text),
    (
        "role_assignments",
        Required,
        List(&Object(&[
            ("brokerage_id", Nullable, Text),
            ("office_id", Nullable, Text),
            ("collective_id", Nullable, Text),
            ("role", Required, Text),
        ])),
    ),
]);

impl Shape {
    /// Every field name of the shape.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        match self {
            List(item) => item.names(),
            Object(fields) => fields
                .iter()
                .flat_map(|(name, _, shape)| [vec![*name], shape.names()].concat())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// What the reader says it expected here.
    fn expectation(&self) -> &'static str {
        match self {
            Text => "a string",
            Boolean => "a boolean",
            Integer => "an integer of at most 64 bits",
            Decimal => "a decimal number of at most 28 digits",
            Date => "a date YYYY-MM-DD",
            Timestamp => "an RFC 3339 timestamp",
            Texts => "a map",
            Free | Object(_) => "an object",
            List(_) => "an array",
        }
    }
}

/// Why a document is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Where, as a JSON pointer.
    pub(crate) pointer: String,
    /// What is there, in the contract's words.
    pub(crate) found: &'static str,
    /// What was expected; empty for a missing field and for text that is not JSON.
    pub(crate) expected: &'static str,
}

/// Finds the invalid values of a document, in the order in which a reader comes upon them.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Values that may or may not be refused: numbers with more digits than everybody holds.
    pub(crate) allowed: Vec<Failure>,
}

/// Half of a surrogate pair where text is needed: serde_json says that this is not JSON.
const NOT_JSON: &str = "not JSON";

impl Search {
    /// The first invalid value in `value`.
    pub(crate) fn failure(&mut self, shape: &Shape, value: &str, pointer: &str) -> Option<Failure> {
        let kind = Kind::of(value);
        let failure = |found| {
            Some(Failure {
                pointer: pointer.to_owned(),
                found,
                expected: if found == NOT_JSON {
                    ""
                } else {
                    shape.expectation()
                },
            })
        };
        let kind_is_right = match shape {
            Text | Date | Timestamp => kind == Kind::String,
            Boolean => kind == Kind::Boolean,
            Integer | Decimal => kind == Kind::Number,
            Texts | Free | Object(_) => kind == Kind::Object,
            List(_) => kind == Kind::Array,
        };
        if !kind_is_right {
            // A value that is first read as raw text may be any text.
            let is_raw = matches!(shape, Integer | Decimal | Free);
            let is_text = kind != Kind::String || json::string(value).is_some();
            return failure(if is_raw || is_text {
                kind.name()
            } else {
                NOT_JSON
            });
        }
        match shape {
            Boolean | Free => None,
            Text | Date | Timestamp => {
                let Some(text) = json::string(value) else {
                    return failure(NOT_JSON);
                };
                let fits = match shape {
                    Date => time::date(&text).is_some(),
                    Timestamp => time::timestamp(&text).is_some(),
                    _ => true,
                };
                if fits { None } else { failure(kind.name()) }
            }
            Integer | Decimal => match fits(shape, value) {
                Fits::Yes => None,
                Fits::No => failure(kind.name()),
                Fits::Perhaps => {
                    self.allowed.extend(failure(kind.name()));
                    None
                }
            },
            Texts => json::fields(value).into_iter().find_map(|(name, value)| {
                let Some(name) = name else {
                    return failure(NOT_JSON);
                };
                self.failure(&Text, value, &format!("{pointer}/{}", json::token(&name)))
            }),
            List(item) => json::items(value)
                .into_iter()
                .enumerate()
                .find_map(|(index, value)| {
                    self.failure(item, value, &format!("{pointer}/{index}"))
                }),
            Object(fields) => {
                let mut seen = Vec::new();
                for (name, value) in json::fields(value) {
                    let Some(name) = name else {
                        return failure(NOT_JSON);
                    };
                    let Some((name, need, shape)) =
                        fields.iter().find(|(known, ..)| *known == name)
                    else {
                        continue;
                    };
                    seen.push(name);
                    if *need != Required && value == "null" {
                        continue;
                    }
                    if let Some(failure) = self.failure(shape, value, &format!("{pointer}/{name}"))
                    {
                        return Some(failure);
                    }
                }
                let missing = |(name, need, _): &&Field| *need == Required && !seen.contains(&name);
                fields.iter().find(missing).map(|(name, ..)| Failure {
                    pointer: format!("{pointer}/{name}"),
                    found: "nothing",
                    expected: "",
                })
            }
        }
    }
}

enum Fits {
    Yes,
    No,
    /// The contract promises 28 digits, and the type may hold a little more.
    Perhaps,
}

fn fits(shape: &Shape, text: &str) -> Fits {
    let written = Written::of(text);
    let plain = written.digits <= 28;
    if let Integer = shape {
        let integer = written.value.as_ref().and_then(Number::integer);
        return match integer {
            None => Fits::No,
            // A mantissa with more digits is a number that no decimal holds, even if 64 bits hold its value.
            Some(_) if plain && written.places <= 28 && scale_fits(&written) => Fits::Yes,
            Some(_) => Fits::Perhaps,
        };
    }
    if plain && (written.is_zero() || scale_fits(&written)) {
        return Fits::Yes;
    }
    // Beyond 2^96 nothing fits.
    let beyond = match &written.value {
        None => true,
        Some(value) => {
            let digits = i64::try_from(value.digits.len()).unwrap();
            digits > 29 || (!written.is_zero() && digits + value.exponent > 29)
        }
    };
    if beyond { Fits::No } else { Fits::Perhaps }
}

/// Whether the digits, with the point moved by the exponent, are still at most 28, with at most 28 of them after the
/// point.
fn scale_fits(written: &Written) -> bool {
    if written.is_zero() {
        return true;
    }
    let Some(exponent) = written.exponent else {
        return false;
    };
    let places = written.places - exponent;
    let digits = i64::try_from(written.digits).unwrap();
    (0..=28).contains(&places) || (places < 0 && digits - places <= 28)
}

/// Checks that `written` is what `document` says: nothing lost, nothing changed, nothing added.
pub(crate) fn compare(shape: &Shape, document: &str, written: &str, at: &str) {
    let same = match shape {
        Text => json::string(document).is_some() && json::string(document) == json::string(written),
        Boolean | Free => document == written,
        Date => json::string(document) == json::string(written),
        Integer => {
            Written::of(document).value == Written::of(written).value
                && written
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'-')
        }
        Decimal => decimal_is_kept(document, written),
        Timestamp => {
            let text = json::string(written).unwrap();
            let fraction = text
                .strip_suffix('Z')
                .and_then(|text| text.get(19..))
                .expect("a timestamp ends in Z");
            let (kept, shorter) = match fraction.len() {
                0 => (true, None),
                4 | 7 | 10 => (true, Some(fraction.ends_with("000"))),
                _ => (false, None),
            };
            let document = json::string(document).unwrap();
            kept && shorter != Some(true) && time::timestamp(&text) == time::timestamp(&document)
        }
        Texts => {
            let strings = |object| -> Vec<_> {
                json::by_name(object)
                    .into_iter()
                    .map(|(name, value)| (name, json::string(value)))
                    .collect()
            };
            strings(document) == strings(written)
        }
        List(item) => {
            let (document, written) = (json::items(document), json::items(written));
            assert_eq!(document.len(), written.len(), "{at}: elements");
            for (index, (document, written)) in document.into_iter().zip(written).enumerate() {
                compare(item, document, written, &format!("{at}/{index}"));
            }
            true
        }
        Object(fields) => {
            compare_fields(fields, document, written, at);
            true
        }
    };
    assert!(same, "{at}: {document} became {written}");
}

fn compare_fields(fields: &[Field], document: &str, written: &str, at: &str) {
    let (from, mut to) = (json::by_name(document), json::by_name(written));
    assert_eq!(to.len(), json::fields(written).len(), "{at}: a name twice");
    for (name, need, shape) in fields {
        let at = format!("{at}/{name}");
        let found = to.remove(*name);
        match from.get(*name).filter(|value| **value != "null") {
            Some(value) => compare(shape, value, found.expect("is there"), &at),
            None => {
                let expected = match (need, shape) {
                    (Optional, List(_)) => Some("[]"),
                    (Optional, Texts) => Some("{}"),
                    (Nullable, _) => Some("null"),
                    _ => None,
                };
                assert_eq!(found, expected, "{at}: stands for nothing");
            }
        }
    }
    for (name, value) in &from {
        if !fields.iter().any(|(known, ..)| known == name) {
            assert_eq!(to.remove(name), Some(*value), "{at}/{name}: not known");
        }
    }
    assert!(to.is_empty(), "{at}: {to:?} come from nowhere");
}

/// Value and scale are kept; an exponent is written out.
fn decimal_is_kept(document: &str, written: &str) -> bool {
    let (from, to) = (Written::of(document), Written::of(written));
    if written.contains(['e', 'E']) || from.value != to.value {
        return false;
    }
    let places = from.places - from.exponent.unwrap_or_default();
    // Zero fits however far the point moves, but then its scale may not.
    let zero_too_far = from.is_zero() && !(0..=28).contains(&places);
    zero_too_far || to.places == places.max(0)
}
