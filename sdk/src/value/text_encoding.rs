//! Text as editors on Windows save it (with a byte-order mark, in UTF-8 or UTF-16), and quotation marks around a value.

use std::borrow::Cow;

/// Removes a byte-order mark, and converts UTF-16 with such a mark to UTF-8. Bytes without a mark are unchanged.
pub fn to_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let (units, unit): (_, fn([u8; 2]) -> u16) = match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => return rest.into(),
        [0xFF, 0xFE, rest @ ..] => (rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => (rest, u16::from_be_bytes),
        _ => return bytes.into(),
    };
    // Each chunk has two bytes: its conversion never fails.
    let units = units
        .chunks_exact(2)
        .filter_map(|pair| pair.try_into().ok());
    let units: Vec<u16> = units.map(unit).collect();
    String::from_utf16_lossy(&units).into_bytes().into()
}

/// Returns true if quotation marks enclose a text. A shell removes such marks, but some readers of configuration files pass
/// them on.
#[cfg(feature = "client")]
pub(crate) fn is_quoted(text: &str) -> bool {
    ['"', '\''].into_iter().any(|mark| {
        text.strip_prefix(mark)
            .is_some_and(|rest| rest.ends_with(mark))
    })
}
