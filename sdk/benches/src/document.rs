//! The deals to decode: `documents/deal.json` with as many contacts as asked for.
//!
//! The benchmarks in Python build the same deals from the same file.

const DEAL: &str = include_str!("../documents/deal.json");

/// Contacts of a typical deal of 4.4 KB.
pub const TYPICAL: usize = 4;

/// Contacts of a large deal of 1 MB.
pub const LARGE: usize = 1_500;

/// A deal with 2 offers, 2 quotes, 2 sides and `contacts` contacts of 5 fields.
pub fn deal(contacts: usize) -> String {
    let (before, rest) = DEAL.trim_end().split_once(r#""contacts": ["#).unwrap();
    let (contact, after) = rest.split_once(r#"], "sides""#).unwrap();
    let contacts: Vec<_> = (0..contacts)
        .map(|n| {
            contact
                .replace("c_0", &format!("c_{n}"))
                .replace("contact 0", &format!("contact {n}"))
        })
        .collect();
    format!(
        r#"{before}"contacts": [{}], "sides"{after}"#,
        contacts.join(", ")
    )
}

/// Typical deals that have no decimal in common: every number with a point has digits of its own.
pub fn deals_with_new_decimals(count: usize) -> Vec<String> {
    let typical = deal(TYPICAL);
    let mut next = 0_u32;
    (0..count)
        .map(|_| {
            let mut pieces = typical.split(": ");
            let mut made = pieces.next().unwrap().to_owned();
            for piece in pieces {
                made.push_str(": ");
                let end = piece
                    .find(|c: char| !c.is_ascii_digit() && c != '.')
                    .unwrap_or(piece.len());
                if piece[..end].contains('.') {
                    // As many digits as the amounts of a deal have.
                    next += 1;
                    made.push_str(&format!("{}.{:02}", 1_000 + next / 90, 10 + next % 90));
                    made.push_str(&piece[end..]);
                } else {
                    made.push_str(piece);
                }
            }
            made
        })
        .collect()
}
