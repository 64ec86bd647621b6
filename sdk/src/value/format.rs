//! Which format is on the other side of serde.
//!
//! serde has no way to ask, and how a number is handed over exactly depends on it. So the names of types are
//! compared, which the compiler does not promise to keep, and whoever asks here must be safe with the answer
//! "unknown": a wrong one may cost an error, never a digit. As far as can be, the names to compare with are not
//! written out but those of the types themselves, so that a new version of serde_json may rename them.

use std::{any::type_name, sync::LazyLock};

use serde::{Deserializer, Serializer};

/// The name by which serde_json is asked for the text of a value, and under which it hands it over.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The name under which serde_json hands over the text of a number when its feature `arbitrary_precision` is
/// switched on, by dealkit or by another crate of the program.
pub(super) const NUMBER: &str = "$serde_json::private::Number";

/// The name under which the crate toml hands over the text of a date or time.
pub(super) const TOML_DATETIME: &str = "$__toml_private_datetime";

/// What writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// serde_json takes the text of a number or value as it is.
    ExactJson,
    /// Something of serde_json's that holds numbers as 64-bit integers or binary floats: a `Value`, what is
    /// buffered on the way to JSON, the key of a map.
    LossyJson,
    /// Another format, or serde_json behind a layer that hides it.
    Other,
}

impl Target {
    pub(super) fn of<S: Serializer>() -> Self {
        static TEXT: LazyLock<&str> =
            LazyLock::new(|| generic(type_name::<&mut serde_json::Serializer<Vec<u8>>>()));

        let name = type_name::<S>();
        let is_value = name == type_name::<serde_json::value::Serializer>();
        if name.starts_with(*TEXT) || (is_value && *ARBITRARY_PRECISION) {
            Target::ExactJson
        } else if type_name::<S::Error>() == type_name::<serde_json::Error>() {
            Target::LossyJson
        } else {
            Target::Other
        }
    }
}

/// Whether numbers of a `serde_json::Value` are text.
pub(super) static ARBITRARY_PRECISION: LazyLock<bool> = LazyLock::new(|| {
    serde_json::from_str::<serde_json::Number>("1.10")
        .is_ok_and(|number| number.to_string() == "1.10")
});

/// Whether a float that comes with this error was text. With `arbitrary_precision` serde_json hands over as floats
/// only the numbers that a float writes just as they are.
pub(super) fn floats_are_text<E>() -> bool {
    *ARBITRARY_PRECISION && type_name::<E>() == type_name::<serde_json::Error>()
}

/// `&mut serde_json::de::Deserializer<`: without what is read from.
static JSON_TEXT: LazyLock<&str> = LazyLock::new(|| {
    generic(type_name::<
        &mut serde_json::Deserializer<serde_json::de::SliceRead<'_>>,
    >())
});

/// Whether this is serde_json reading a document.
pub(super) fn reads_json_text<'de, D: Deserializer<'de>>() -> bool {
    type_name::<D>().starts_with(*JSON_TEXT)
}

/// Whether this is serde_json reading a document, perhaps within a layer that watches, such as that of
/// serde_path_to_error. What it hands over as raw text is then the text of the document, and not that of a
/// `Value`, which rounds.
pub(super) fn hands_over_json_text<'de, D: Deserializer<'de>>() -> bool {
    // The first alone is fast.
    reads_json_text::<D>() || type_name::<D>().contains(JSON_TEXT.trim_start_matches("&mut "))
}

/// Whether this is the crate csv. Its cells are text, but asked for any value it guesses a type and rounds.
pub(super) fn reads_cells<'de, D: Deserializer<'de>>() -> bool {
    // At the start alone: what serde buffers has the error of the crate in its name.
    type_name::<D>().starts_with("&mut csv::")
}

/// The name of a generic type up to its parameters, with the bracket.
fn generic(name: &'static str) -> &'static str {
    name.find('<')
        .and_then(|bracket| name.get(..=bracket))
        .unwrap_or(name)
}
