//! What the texts of serde and serde_json say: neither has errors that can be asked. No other file reads these texts.

use serde::de;

/// How a message about a wrong value begins, before it repeats the value.
const REPEATS_THE_VALUE: [&str; 2] = ["invalid type: ", "invalid value: "];

/// For `map_err` where a value is decoded, so that the error says what was expected, but nothing about what was found:
/// `invalid type: string "Ada", expected an object` becomes `expected an object`.
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

/// What a message says was expected. What a visitor expected comes last in it, so no value can be mistaken for it.
#[cfg(feature = "client")]
pub(crate) fn what_was_expected(error: &serde_json::Error) -> String {
    let message = without_position(error);
    if let Some(field) = message.strip_prefix("missing ") {
        return format!("the {field}");
    }
    let expected = message
        .strip_prefix("expected ")
        .or_else(|| Some(message.rsplit_once(", expected ")?.1));
    expected.unwrap_or("another value").to_owned()
}

/// The message of an error of serde_json without the position at its end.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    message
}
