//! Texts of the errors of serde and serde_json, which have no typed reasons. No other file reads these texts.
//!
//! No decision depends on these texts: a value that cannot be decoded is an error in any case. The functions here only replace
//! the text of the error, so that it shows no value.

use serde::de;

/// The beginnings of messages that repeat a value.
const MESSAGES_WITH_VALUES: [&str; 2] = ["invalid type: ", "invalid value: "];

/// Returns a function for `map_err` that removes a found value from an error: `invalid type: string "Ada", expected an object`
/// becomes `expected an object`.
///
/// Most formats compose this text without asking a visitor. Therefore, only the finished error can be replaced. Other errors,
/// such as syntax errors, stay unchanged.
pub(crate) fn expected<E: de::Error>(what: &str) -> impl FnOnce(E) -> E {
    move |error| {
        let text = error.to_string();
        if MESSAGES_WITH_VALUES
            .iter()
            .any(|start| text.contains(start))
        {
            E::custom(format_args!("expected {what}"))
        } else {
            error
        }
    }
}

/// Returns the part of a message that states the expected type. That part is the end of the message and contains no value.
#[cfg(feature = "client")]
pub(crate) fn find_expectation(error: &serde_json::Error) -> String {
    let message = without_position(error);
    if let Some(field) = message.strip_prefix("missing ") {
        return format!("the {field}");
    }
    let expected = message
        .strip_prefix("expected ")
        .or_else(|| Some(message.rsplit_once(", expected ")?.1));
    expected.unwrap_or("another value").to_owned()
}

/// Returns the message of an error of serde_json without the position at its end.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    message
}
