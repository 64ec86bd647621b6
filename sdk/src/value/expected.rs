//! Errors that say what was expected, but nothing about what was found.

use serde::de;

/// How serde's message about a rejected value begins, before it repeats the value.
const REPEATS_THE_VALUE: [&str; 2] = ["invalid type: ", "invalid value: "];

/// For `map_err` where a value is decoded: `invalid type: string "Ada", expected an object` becomes `expected an
/// object`.
///
/// Most formats compose that text themselves and do not ask a visitor, so only the finished error can be changed.
/// Any other error, such as a syntax error, is left unchanged.
pub(crate) fn expected<E: de::Error>(what: &str) -> impl FnOnce(E) -> E {
    move |error| {
        let text = error.to_string();
        if REPEATS_THE_VALUE.iter().any(|start| text.contains(start)) {
            E::custom(format_args!("expected {what}"))
        } else {
            error
        }
    }
}
