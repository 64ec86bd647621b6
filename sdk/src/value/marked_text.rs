//! Text files as editors on Windows save them: with a byte-order mark, and perhaps in UTF-16.

use std::borrow::Cow;

/// Removes a byte-order mark, and turns UTF-16 with such a mark into UTF-8. Bytes without a mark are unchanged.
pub fn remove_mark(bytes: &[u8]) -> Cow<'_, [u8]> {
    let (units, unit): (_, fn([u8; 2]) -> u16) = match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => return rest.into(),
        [0xFF, 0xFE, rest @ ..] => (rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => (rest, u16::from_be_bytes),
        _ => return bytes.into(),
    };
    // The constant size makes the conversion infallible.
    let units = units
        .chunks_exact(2)
        .filter_map(|pair| pair.try_into().ok());
    let units: Vec<u16> = units.map(unit).collect();
    String::from_utf16_lossy(&units).into_bytes().into()
}

/// Whether quotation marks enclose a text, as where a shell has not removed them.
#[cfg(feature = "client")]
pub(crate) fn is_quoted(text: &str) -> bool {
    ['"', '\''].into_iter().any(|mark| {
        text.strip_prefix(mark)
            .is_some_and(|rest| rest.ends_with(mark))
    })
}
