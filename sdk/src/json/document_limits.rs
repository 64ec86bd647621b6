//! The limit on the number of values in a JSON document.
//!
//! A decoded value takes more memory than its text: `{}` is two bytes of text, but about a hundred bytes as a model. If only
//! the bytes of a document were limited, its models could take fifty times as much memory.

use crate::json::decode_error::{DecodeError, Reason};

/// The maximum number of values in a document, not counting names.
///
/// Each `{`, `[` and `,` outside strings counts as one value. An empty object or array in a list may thus count as two values.
/// The models of the costliest document within the limit take about 330 MB.
pub const MAX_VALUES: usize = 1_000_000;

/// Checks that a document holds at most [`MAX_VALUES`] values, but not that it is JSON.
///
/// dealkit checks every document that it reads. The function is public for bindings that have their own reader.
///
/// # Errors
/// If the document holds more values. The error contains the document.
///
/// ```
/// use dealkit::internal::document_limits;
///
/// assert!(document_limits::check_value_count(br#"{"id": "d_1", "quotes": [{}]}"#).is_ok());
/// let error = document_limits::check_value_count(&b"[".repeat(document_limits::MAX_VALUES + 1)).unwrap_err();
/// assert_eq!(error.to_string(), "expected at most 1000000 values in the document, found more");
/// ```
pub fn check_value_count(body: &[u8]) -> Result<(), DecodeError> {
    // Each value takes at least one byte, so a short document passes. The last count is the slowest, and is exact: it skips
    // strings.
    if body.len() <= MAX_VALUES
        || count_marks(body) <= MAX_VALUES
        || count_values(body) <= MAX_VALUES
    {
        Ok(())
    } else {
        Err(DecodeError::for_document(
            Reason::TooManyValues(MAX_VALUES),
            body,
        ))
    }
}

/// Removes a leading byte order mark, which RFC 8259 allows a reader to skip.
pub(crate) fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// Counts the marks `{`, `[` and `,`, including marks in strings.
fn count_marks(json: &[u8]) -> usize {
    // If each sum is one byte, the compiler can use instructions that add many bytes at a time.
    json.chunks(CHUNK_BYTES)
        .map(|chunk| {
            let is_mark = |byte: &u8| u8::from(matches!(byte, b'{' | b'[' | b','));
            usize::from(chunk.iter().map(is_mark).sum::<u8>())
        })
        .sum()
}

/// The chunk size: small enough that a byte can hold the sum, and a multiple of the size of a processor's registers.
const CHUNK_BYTES: usize = 192;

/// Counts the values outside strings, and stops above the limit.
fn count_values(json: &[u8]) -> usize {
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
