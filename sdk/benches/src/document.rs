//! The deals to decode: `documents/deal.json` with a given number of contacts.
//!
//! The benchmarks in Python build the same deals from the same file.

const DEAL: &str = include_str!("../documents/deal.json");

/// The number of contacts of a typical deal, of 4.4 KB.
pub const TYPICAL: usize = 4;

/// The number of contacts of a large deal, of 1 MB.
pub const LARGE: usize = 1_500;

/// Makes a deal with 2 offers, 2 quotes, 2 sides and `contacts` contacts of 5 fields.
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
