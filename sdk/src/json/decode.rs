//! Decoding a JSON document with a reader over the lexer, with an error that says where and why it failed.

use crate::{
    contract::schema::FieldKind,
    json::{
        decode_error::DecodeError,
        document, explain,
        lexer::{Lexed, Lexer, Refused},
    },
};

/// Says during decoding whether to go on.
pub(crate) type GoOn<'w> = &'w dyn Fn() -> bool;

/// Decodes one JSON document with a reader over the lexer. `kind` is what the document should be, as data.
pub(crate) fn read<T>(
    body: &[u8],
    kind: FieldKind,
    go_on: Option<GoOn<'_>>,
    lex: impl FnOnce(&mut Lexer<'_>) -> Lexed<T>,
) -> Result<T, DecodeError> {
    document::check_size(body)?;
    let Ok(text) = str::from_utf8(document::without_bom(body)) else {
        return Err(explain::refusal(body, kind));
    };
    let mut lexer = Lexer::new(text);
    if let Some(go_on) = go_on {
        lexer.ask(go_on);
    }
    let read = lex(&mut lexer).and_then(|value| lexer.end().map(|()| value));
    read.map_err(|Refused| {
        if lexer.is_stopped() {
            explain::stopped(body)
        } else {
            explain::refusal(body, kind)
        }
    })
}
