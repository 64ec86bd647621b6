//! Errors that say what was expected, and nothing of what was found.

use serde::de;

/// How serde begins what it says of a value that was refused, and then repeats the value.
const REPEATS_THE_VALUE: [&str; 2] = ["invalid type: ", "invalid value: "];

/// For `map_err` where a value is read: `invalid type: string "Ada", expected an object` becomes `expected an object`.
///
/// Most formats make that text themselves and ask no visitor, so only the finished error can be changed. Any other
/// error, such as one of syntax, stays as it is.
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
