//! Whether serde_json is on the other side of serde, and how it passes on numbers.
//!
//! serde has no way to ask, but only serde_json can be handed the digits of a number. So the names of types are
//! compared. The compiler does not promise to keep these names, so a wrong answer may cost an error, but never a digit.
//! They are not written out but taken from the types themselves, so that a new version of serde_json may rename them.

use std::{any::type_name, sync::LazyLock};

use serde::{Deserializer, Serializer};

/// The name by which serde_json is asked for the text of a value, and under which it passes it on.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The name under which serde_json passes on the text of a number if its feature `arbitrary_precision` is
/// enabled, by dealkit or by another crate of the program.
pub(super) const NUMBER: &str = "$serde_json::private::Number";

/// Whether a name is one under which a format passes on what serde has no type for, such as toml its dates.
pub(super) fn is_private(name: &str) -> bool {
    name.starts_with("$__") && name.contains("private")
}

/// The kind of serializer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// serde_json, which takes the text of a number or value unchanged.
    ExactJson,
    /// A part of serde_json that holds numbers as 64-bit integers or binary floats: a `Value`, anything
    /// that is buffered on the way to JSON, or the key of a map.
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

/// Whether the numbers in a `serde_json::Value` are text.
pub(super) static ARBITRARY_PRECISION: LazyLock<bool> = LazyLock::new(|| {
    serde_json::from_str::<serde_json::Number>("1.10")
        .is_ok_and(|number| number.to_string() == "1.10")
});

/// Whether a float from a deserializer with this error type was text. With `arbitrary_precision`, serde_json
/// passes on as floats only those numbers that a float writes in exactly the same way.
pub(super) fn floats_are_text<E>() -> bool {
    *ARBITRARY_PRECISION && type_name::<E>() == type_name::<serde_json::Error>()
}

/// Whether this is serde_json reading a document, possibly inside a wrapper that observes it, such as that
/// of serde_path_to_error. The raw text that it passes on is then the text of the document, and not that
/// of a `Value`, which rounds.
pub(super) fn reads_json_text<'de, D: Deserializer<'de>>() -> bool {
    static TEXT: LazyLock<&str> = LazyLock::new(|| {
        generic(type_name::<
            &mut serde_json::Deserializer<serde_json::de::SliceRead<'_>>,
        >())
    });

    let name = type_name::<D>();
    // Only the first check is fast.
    name.starts_with(*TEXT) || name.contains(TEXT.trim_start_matches("&mut "))
}

/// The name of a generic type up to its parameters, including the opening bracket.
fn generic(name: &'static str) -> &'static str {
    name.find('<')
        .and_then(|bracket| name.get(..=bracket))
        .unwrap_or(name)
}
