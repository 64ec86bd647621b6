//! How many values a JSON document may hold.
//!
//! A value takes more memory once it is read than its text does: `{}` is two bytes as text and some
//! hundred as a model. A bound on the bytes of a document alone would let a factor of that size through.

use crate::decode_error::DecodeError;

/// The most values that a document may hold to be read, names aside.
///
/// They are counted by the punctuation before them: each `{`, `[` and `,` counts as one, so that an empty
/// object or array in a list counts as two. The models of a document at the limit, made to be as costly as
/// can be, take some 330 MB.
pub const MAX_VALUES: usize = 1_000_000;

/// Checks that a document holds at most [`MAX_VALUES`] values; whether it is JSON at all is not looked at.
///
/// Whatever dealkit reads was checked by this: it is for bindings with a reader of their own.
///
/// # Errors
/// When the document holds more. The error keeps the document.
///
/// ```
/// use dealkit::document;
///
/// assert!(document::check_size(br#"{"id": "d_1", "quotes": [{}]}"#).is_ok());
/// let error = document::check_size(&b"[".repeat(document::MAX_VALUES + 1)).unwrap_err();
/// assert_eq!(error.to_string(), "expected at most 1000000 values in the document, found more");
/// ```
pub fn check_size(body: &[u8]) -> Result<(), DecodeError> {
    // Each of the values takes a byte at least. What stands in strings is told apart only where it matters: that is slow.
    if body.len() <= MAX_VALUES || marks(body) <= MAX_VALUES || values(body) <= MAX_VALUES {
        Ok(())
    } else {
        Err(DecodeError::too_many_values(MAX_VALUES, body))
    }
}

/// How much punctuation stands before values, or in strings.
fn marks(json: &[u8]) -> usize {
    // Sums of one byte each are worked out many at a time.
    json.chunks(BYTES_IN_A_SUM)
        .map(|chunk| {
            let is_mark = |byte: &u8| u8::from(matches!(byte, b'{' | b'[' | b','));
            usize::from(chunk.iter().map(is_mark).sum::<u8>())
        })
        .sum()
}

/// No more than a byte counts to, and whole registers of a processor.
const BYTES_IN_A_SUM: usize = 192;

/// How many values there are, or at least one more than there may be.
fn values(json: &[u8]) -> usize {
    let mut count = 0;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' | b',' => count += 1,
            b'"' => skip_string(&mut bytes),
            _ => continue,
        }
        if count > MAX_VALUES {
            break;
        }
    }
    count
}

/// Goes on behind the closing quote.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}
