//! A JSON document: where it begins, and how many values it may hold.
//!
//! A value takes more memory once it is decoded than as text: `{}` is two bytes of text and some hundred bytes as a
//! model. If only the bytes of a document were limited, its models could exceed the limit by that factor.

use crate::json::decode_error::{DecodeError, Reason};

/// The maximum number of values in a document, not counting names.
///
/// Values are counted by the punctuation before them: each `{`, `[` and `,` counts as one, so that an
/// empty object or array in a list counts as two. The models of a document at the limit that is designed
/// to be as costly as possible take some 330 MB.
pub const MAX_VALUES: usize = 1_000_000;

/// Checks that a document holds at most [`MAX_VALUES`] values, without checking whether it is JSON at all.
///
/// dealkit does this for every document that it reads; the function is for bindings with a reader of their own.
///
/// # Errors
/// If the document holds more. The error keeps the document.
///
/// ```
/// use dealkit::document;
///
/// assert!(document::check_size(br#"{"id": "d_1", "quotes": [{}]}"#).is_ok());
/// let error = document::check_size(&b"[".repeat(document::MAX_VALUES + 1)).unwrap_err();
/// assert_eq!(error.to_string(), "expected at most 1000000 values in the document, found more");
/// ```
pub fn check_size(body: &[u8]) -> Result<(), DecodeError> {
    // Each value takes at least one byte. Strings are told apart only if it matters, because that is slow.
    if body.len() <= MAX_VALUES || marks(body) <= MAX_VALUES || values(body) <= MAX_VALUES {
        Ok(())
    } else {
        Err(DecodeError::of_all(Reason::TooManyValues(MAX_VALUES), body))
    }
}

/// The document without a byte order mark, which RFC 8259 allows a reader to skip.
pub(crate) fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// The number of punctuation marks that precede values or are in strings.
fn marks(json: &[u8]) -> usize {
    // Sums that fit into one byte can be computed many at a time.
    json.chunks(BYTES_IN_A_SUM)
        .map(|chunk| {
            let is_mark = |byte: &u8| u8::from(matches!(byte, b'{' | b'[' | b','));
            usize::from(chunk.iter().map(is_mark).sum::<u8>())
        })
        .sum()
}

/// At most what a byte can count to, and a multiple of the size of a processor's registers.
const BYTES_IN_A_SUM: usize = 192;

/// The number of values, or at least one more than the limit.
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
