//! The body of a response, rewritten for another reading.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use dealkit::{
    scalar,
    schema::{Field, FieldKind, Model, Presence},
};
use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// What is changed in a successful response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Sparse,
    Nulls,
    Extra,
    Numbers,
    Times,
}

/// The replacement for a string of an open set.
const UNDOCUMENTED: &str = r#""SOMETHING_NEW""#;

/// The undocumented fields, one for each kind of value.
const EXTRA: &str = concat!(
    r#""x_text":"new","x_number":10.10,"x_integer":9007199254740993,"x_flag":true,"x_null":null,"#,
    r#""x_list":[1,"two",null],"x_object":{"nested":{"deeply":[]}}"#
);

/// The body of a success. A body that cannot be read as JSON stays as it is, but the server sends no such success.
pub(super) fn success(body: &Bytes, model: &Model, change: Change) -> Bytes {
    let mut writer = Rewriter {
        out: String::with_capacity(body.len() * 2),
        change,
        changed: 0,
    };
    let text = std::str::from_utf8(body).ok();
    match text.and_then(|text| writer.object(text, model).ok()) {
        Some(()) => writer.out.into(),
        None => body.clone(),
    }
}

/// The body of an error, with undocumented fields in it and in each of its `errors`.
pub(super) fn problem(body: &Bytes) -> Bytes {
    let with_extra = |object: &RawValue| {
        let object = object.get();
        object
            .strip_suffix('}')
            .map_or_else(|| object.to_owned(), |object| format!("{object},{EXTRA}}}"))
    };
    let write = || {
        let fields: Fields<'_> = serde_json::from_slice(body).ok()?;
        let mut out = String::from("{");
        for (name, value) in &fields.0 {
            let value = match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
                Ok(errors) => {
                    let errors: Vec<String> = errors.into_iter().map(with_extra).collect();
                    format!("[{}]", errors.join(","))
                }
                Err(_) => value.get().to_owned(),
            };
            out += &format!("{}:{value},", serde_json::to_string(name).ok()?);
        }
        Some(Bytes::from(out + EXTRA + "}"))
    };
    write().unwrap_or_else(|| body.clone())
}

struct Rewriter {
    out: String,
    change: Change,
    /// How many values have been changed so far: the forms are used in turn.
    changed: usize,
}

fn is_optional(field: &Field) -> bool {
    field.presence != Presence::Required
}

impl Rewriter {
    fn object(&mut self, text: &str, model: &Model) -> Result<(), serde_json::Error> {
        let fields: Fields<'_> = serde_json::from_str(text)?;
        self.out.push('{');
        let begin = self.out.len();
        for (name, value) in &fields.0 {
            let field = model.fields.iter().find(|field| field.wire == name);
            if self.change == Change::Sparse && field.is_some_and(is_optional) {
                continue;
            }
            self.name(name, begin)?;
            match field {
                Some(field) => self.value(value.get(), field)?,
                None => self.out.push_str(value.get()),
            }
        }
        if self.change == Change::Nulls {
            let is_there = |field: &Field| fields.0.iter().any(|(name, _)| name == field.wire);
            for field in model.fields.iter().filter(|field| !is_there(field)) {
                self.name(field.wire, begin)?;
                self.out.push_str("null");
            }
        }
        if self.change == Change::Extra {
            self.comma(begin);
            self.out.push_str(EXTRA);
        }
        self.out.push('}');
        Ok(())
    }

    /// The comma before a field, unless it is the first of the object that begins at `begin`.
    fn comma(&mut self, begin: usize) {
        if self.out.len() > begin {
            self.out.push(',');
        }
    }

    fn name(&mut self, name: &str, begin: usize) -> Result<(), serde_json::Error> {
        self.comma(begin);
        self.out.push_str(&serde_json::to_string(name)?);
        self.out.push(':');
        Ok(())
    }

    fn value(&mut self, text: &str, field: &Field) -> Result<(), serde_json::Error> {
        if text == "null" {
            self.out.push_str(text);
            return Ok(());
        }
        match &field.kind {
            FieldKind::One(model) => return self.object(text, model),
            FieldKind::Many(model) => {
                self.out.push('[');
                for (index, item) in serde_json::from_str::<Vec<&RawValue>>(text)?
                    .iter()
                    .enumerate()
                {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.object(item.get(), model)?;
                }
                self.out.push(']');
                return Ok(());
            }
            _ => {}
        }
        let turn = self.changed;
        let changed: Cow<'_, str> = match (self.change, &field.kind) {
            (Change::Nulls, _) if is_optional(field) => "null".into(),
            (Change::Extra, FieldKind::OpenSet(_)) => UNDOCUMENTED.into(),
            (Change::Numbers, FieldKind::Decimal) => decimal(text, turn),
            (Change::Numbers, FieldKind::Integer) => integer(text, turn),
            (Change::Times, FieldKind::Timestamp) => {
                let moment = serde_json::from_str::<Cow<'_, str>>(text)?;
                match scalar::timestamp(&moment) {
                    Some(moment) => format!("\"{}\"", timestamp(moment, turn)).into(),
                    None => text.into(),
                }
            }
            _ => {
                self.out.push_str(text);
                return Ok(());
            }
        };
        self.changed += 1;
        self.out.push_str(&changed);
        Ok(())
    }
}

/// The number in another form, in turn: with an exponent, with 28 digits, and in scientific notation.
fn decimal(text: &str, turn: usize) -> Cow<'_, str> {
    const DIGITS: usize = 28;
    let Some(number) = Number::of(text) else {
        return text.into();
    };
    let Number {
        sign,
        digits,
        exponent,
    } = &number;
    let trimmed = digits.trim_start_matches('0');
    match turn % 3 {
        0 if trimmed.is_empty() => format!("{sign}0e{exponent}").into(),
        0 => format!("{sign}{trimmed}e{exponent}").into(),
        1 => {
            let Ok(scale) = usize::try_from(-exponent) else {
                return text.into();
            };
            // No more digits than a decimal of 96 bits holds, and no more of them after the point.
            let zeros = DIGITS.saturating_sub(trimmed.len().max(scale));
            let digits = format!("{digits:0>width$}{:0<zeros$}", "", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale - zeros);
            match fraction {
                "" => format!("{sign}{whole}").into(),
                _ => format!("{sign}{whole}.{fraction}").into(),
            }
        }
        // Zero has no first digit.
        _ if trimmed.is_empty() => text.into(),
        _ => {
            let (first, rest) = trimmed.split_at(1);
            let exponent = exponent + rest.len() as i64;
            let point = if rest.is_empty() { "" } else { "." };
            format!("{sign}{first}{point}{rest}E{exponent:+}").into()
        }
    }
}

/// The integer with a zero fraction, with an exponent, and past 2^53, in turn. The last is a different integer.
fn integer(text: &str, turn: usize) -> Cow<'_, str> {
    let Some(integer) = scalar::integer(text) else {
        return text.into();
    };
    match turn % 3 {
        0 => format!("{integer}.0").into(),
        1 => {
            let digits = integer.to_string();
            let short = digits.trim_end_matches('0');
            match digits.len() - short.len() {
                // Zero itself.
                _ if short.is_empty() => "0e0".into(),
                zeros => format!("{short}e{zeros}").into(),
            }
        }
        // 2^53 + 1, which no binary float of 64 bits holds.
        _ => "9007199254740993".into(),
    }
}

/// The moment with `turn % 10` digits in the fraction of its second (but never fewer than it needs), and with an
/// offset, with `Z`, or with neither, which means UTC.
fn timestamp(moment: DateTime<Utc>, turn: usize) -> String {
    let digits = turn % 10;
    let nanoseconds = format!("{:09}", moment.timestamp_subsec_nanos());
    let needed = nanoseconds.trim_end_matches('0').len();
    let fraction = nanoseconds.get(..digits.max(needed)).unwrap_or_default();
    let point = if fraction.is_empty() { "" } else { "." };
    let minutes = match turn % 4 {
        0 => 330,
        1 => -480,
        _ => 0,
    };
    let local = FixedOffset::east_opt(minutes * 60)
        .map(|offset| moment.with_timezone(&offset))
        // Not into a year that a timestamp cannot express.
        .filter(|local| local.to_rfc3339_opts(SecondsFormat::Secs, false).len() == 25);
    let seconds = local.map_or(moment.naive_utc(), |local| local.naive_local());
    let offset = match (turn % 4, local) {
        (0, Some(_)) => "+05:30",
        (1, Some(_)) => "-08:00",
        (2, _) => "",
        _ => "Z",
    };
    format!(
        "{}{point}{fraction}{offset}",
        seconds.format("%Y-%m-%dT%H:%M:%S")
    )
}

/// A JSON number: its digits, without a point, times ten to the power of `exponent`.
struct Number<'n> {
    sign: &'n str,
    digits: String,
    exponent: i64,
}

impl<'n> Number<'n> {
    fn of(text: &'n str) -> Option<Self> {
        let (sign, unsigned) = text.split_at(usize::from(text.starts_with('-')));
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.parse::<i32>().ok()?;
        Some(Self {
            sign,
            digits: format!("{whole}{fraction}"),
            exponent: i64::from(exponent) - fraction.len() as i64,
        })
    }
}

/// The fields of an object, in their order.
struct Fields<'j>(Vec<(String, &'j RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
