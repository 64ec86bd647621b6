//! JSON parsed a second time, in a simple way: levels split by hand, numbers compared by their digits.

use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;

/// The one JSON value that `bytes` hold, without the white space around it.
pub(crate) fn document(bytes: &[u8]) -> Option<&str> {
    let raw: &RawValue = serde_json::from_slice(bytes).ok()?;
    Some(raw.get())
}

/// What the server requires: UTF-8 without a byte order mark, one value, no duplicate keys, no unpaired surrogate,
/// at most 128 levels.
pub(crate) fn is_strict(bytes: &[u8]) -> bool {
    let Some(value) = document(bytes) else {
        return false;
    };
    let mut left = vec![(value, 0)];
    while let Some((value, depth)) = left.pop() {
        let inner: Vec<&str> = match Kind::of(value) {
            Kind::String if string(value).is_none() => return false,
            Kind::Array => items(value),
            Kind::Object => {
                let fields = fields(value);
                let names: HashSet<Option<String>> =
                    fields.iter().map(|(name, _)| name.clone()).collect();
                if names.contains(&None) || names.len() < fields.len() {
                    return false;
                }
                fields.into_iter().map(|(_, value)| value).collect()
            }
            _ => continue,
        };
        if depth == 128 {
            return false;
        }
        left.extend(inner.into_iter().map(|value| (value, depth + 1)));
    }
    true
}

/// Whether an object on one of the first `levels` levels has two fields with the same name, or a name that is not
/// Unicode text.
pub(crate) fn has_odd_names(value: &str, levels: usize) -> bool {
    let inner: Vec<&str> = match Kind::of(value) {
        Kind::Array => items(value),
        Kind::Object => {
            let fields = fields(value);
            let names: HashSet<Option<&str>> =
                fields.iter().map(|(name, _)| name.as_deref()).collect();
            if names.len() < fields.len() || names.contains(&None) {
                return true;
            }
            fields.into_iter().map(|(_, value)| value).collect()
        }
        _ => return false,
    };
    levels > 1
        && inner
            .into_iter()
            .any(|value| has_odd_names(value, levels - 1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The kind of a JSON value without white space around it.
    pub(crate) fn of(value: &str) -> Self {
        match value.as_bytes()[0] {
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Boolean,
            b'"' => Kind::String,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => Kind::Number,
        }
    }

    /// The name that the contract gives it in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}

/// The characters of a string; `None` when it holds an unpaired surrogate.
pub(crate) fn string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

/// The elements of an array, each without white space around it.
pub(crate) fn items(array: &str) -> Vec<&str> {
    split(array)
}

/// The fields of an object, in order; a name is `None` when it contains an unpaired surrogate.
pub(crate) fn fields(object: &str) -> Vec<(Option<String>, &str)> {
    split(object)
        .into_iter()
        .map(|field| {
            let (name, rest) = field.split_at(end_of_value(field));
            (string(name), trim(trim(rest).strip_prefix(':').unwrap()))
        })
        .collect()
}

/// The fields of an object by name, the last one of each; fields whose name is not Unicode text are left out.
pub(crate) fn by_name(object: &str) -> BTreeMap<String, &str> {
    fields(object)
        .into_iter()
        .filter_map(|(name, value)| Some((name?, value)))
        .collect()
}

/// The value at a pointer; of several with the same name, the last.
pub(crate) fn at<'j>(value: &'j str, pointer: &str) -> Option<&'j str> {
    pointer
        .split('/')
        .skip(1)
        .try_fold(value, |value, token| match Kind::of(value) {
            Kind::Array => items(value).get(token.parse::<usize>().ok()?).copied(),
            Kind::Object => by_name(value)
                .get(&token.replace("~1", "/").replace("~0", "~"))
                .copied(),
            _ => None,
        })
}

/// One token of a JSON pointer.
pub(crate) fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// What the commas of an array or object separate.
fn split(value: &str) -> Vec<&str> {
    let mut left = trim(&value[1..value.len() - 1]);
    let mut parts = Vec::new();
    while !left.is_empty() {
        let mut end = end_of_value(left);
        if let Some(rest) = trim_start(&left[end..]).strip_prefix(':') {
            let rest = trim_start(rest);
            end = left.len() - rest.len() + end_of_value(rest);
        }
        parts.push(&left[..end]);
        left = trim_start(&left[end..]);
        left = trim_start(left.strip_prefix(',').unwrap_or(left));
    }
    parts
}

/// Where the value that `text` begins with ends.
fn end_of_value(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_string = false;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

fn trim(text: &str) -> &str {
    text.trim_matches(SPACE)
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches(SPACE)
}

/// The value of a number, with one representation for each value: sign, digits without zeros at either end, and the
/// power of ten to multiply them by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) minus: bool,
    pub(crate) digits: String,
    pub(crate) exponent: i64,
}

/// What the text of a number says, beyond its value.
#[derive(Debug)]
pub(crate) struct Written {
    /// Digits before the exponent.
    pub(crate) digits: usize,
    /// Digits after the point.
    pub(crate) places: i64,
    /// The exponent; `None` when it does not fit 32 bits.
    pub(crate) exponent: Option<i64>,
    /// `None` when the exponent does not fit.
    pub(crate) value: Option<Number>,
}

impl Written {
    pub(crate) fn of(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{}{fraction}", whole.trim_start_matches('-'));
        let exponent = exponent.parse::<i32>().ok().map(i64::from);
        let places = i64::try_from(fraction.len()).unwrap();
        let digits = all.trim_matches('0');
        let value = if digits.is_empty() {
            Some(Number {
                minus: false,
                digits: String::new(),
                exponent: 0,
            })
        } else {
            exponent.map(|exponent| Number {
                minus: text.starts_with('-'),
                digits: digits.to_owned(),
                exponent: exponent - places
                    + i64::try_from(all.len() - all.trim_end_matches('0').len()).unwrap(),
            })
        };
        Self {
            digits: all.len(),
            places,
            exponent,
            value,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.value
            .as_ref()
            .is_some_and(|value| value.digits.is_empty())
    }
}

impl Number {
    /// The value if it is an integer of 64 bits.
    pub(crate) fn integer(&self) -> Option<i64> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let zeros = usize::try_from(self.exponent).ok()?;
        if zeros > 20 {
            return None;
        }
        let sign = if self.minus { "-" } else { "" };
        format!("{sign}{}{}", self.digits, "0".repeat(zeros))
            .parse()
            .ok()
    }
}
