//! Decoding a JSON document, with an error that says where and why it failed.

use crate::{
    contract::schema::FieldKind,
    json::{
        decode_error::DecodeError,
        document, explain,
        lexer::{Lexed, Lexer, Refused},
        unreadable::Unreadable,
    },
};

/// Says during decoding whether to go on.
pub(crate) type GoOn<'w> = &'w dyn Fn() -> bool;

/// Decodes one JSON document with a reader over the lexer. `kind` is what the document should be, as data.
pub(crate) fn read<T>(
    body: &[u8],
    kind: FieldKind,
    unreadable: Unreadable,
    go_on: Option<GoOn<'_>>,
    lex: impl FnOnce(&mut Lexer<'_>) -> Lexed<T>,
) -> Result<T, DecodeError> {
    document::check_size(body)?;
    let Ok(text) = str::from_utf8(document::without_bom(body)) else {
        return Err(explain::refusal(body, kind, 0));
    };
    let mut lexer = Lexer::new(text);
    if unreadable == Unreadable::Skip {
        lexer.skip_unreadable();
    }
    if let Some(go_on) = go_on {
        lexer.ask(go_on);
    }
    match lex(&mut lexer).and_then(|value| lexer.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(Refused) if lexer.is_stopped() => Err(explain::stopped(body)),
        Err(Refused) => Err(explain::refusal(body, kind, lexer.position())),
    }
}

/// Decodes one JSON document into a type of the caller's, which only serde knows.
#[cfg(feature = "client")]
pub(crate) fn with_serde<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    document::check_size(body)?;
    let read = serde_json::from_slice(document::without_bom(body));
    read.map_err(|error| DecodeError::of_all(explain::refused_by_serde(&error), body))
}
