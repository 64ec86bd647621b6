//! Decoding of a JSON document, with an error that names the value at fault.

use crate::{
    json::{
        decode_error::DecodeError,
        document_limits::{check_value_count, without_bom},
        explain_error,
        lexer::{LexError, LexResult, Lexer},
        unreadable::Unreadable,
    },
    specification::schema::FieldKind,
};

/// A cancellation check, called while a document is decoded: decoding stops when it returns false.
pub(crate) type ShouldContinue<'w> = &'w dyn Fn() -> bool;

/// Decodes one JSON document with `read`. `kind` is the kind of document that `read` expects, by which an error is explained.
pub(crate) fn decode<T>(
    body: &[u8],
    kind: FieldKind,
    unreadable: Unreadable,
    should_continue: Option<ShouldContinue<'_>>,
    read: impl FnOnce(&mut Lexer<'_>) -> LexResult<T>,
) -> Result<T, DecodeError> {
    check_value_count(body)?;
    let Ok(text) = str::from_utf8(without_bom(body)) else {
        return Err(explain_error::explain(body, kind, 0));
    };
    let mut lexer = Lexer::new(text);
    if unreadable == Unreadable::Skip {
        lexer.enable_skip_unreadable();
    }
    if let Some(should_continue) = should_continue {
        lexer.set_should_continue(should_continue);
    }
    match read(&mut lexer).and_then(|value| lexer.expect_end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(LexError) if lexer.is_cancelled() => Err(explain_error::cancelled_error(body)),
        Err(LexError) => Err(explain_error::explain(body, kind, lexer.position())),
    }
}

/// Decodes one JSON document with serde, into a type that the caller defines.
#[cfg(feature = "client")]
pub(crate) fn decode_with_serde<T: serde::de::DeserializeOwned>(
    body: &[u8],
) -> Result<T, DecodeError> {
    check_value_count(body)?;
    serde_json::from_slice(without_bom(body))
        .map_err(|error| DecodeError::for_document(explain_error::serde_reason(&error), body))
}
