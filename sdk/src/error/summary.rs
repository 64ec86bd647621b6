//! A problem in one line.

use crate::{
    error::problem::Problem,
    transport::redact::{Redactor, short},
};

const VIOLATIONS_SHOWN: usize = 5;

/// The maximum length of a violation's code in an error text, in bytes.
const CODE_SHOWN: usize = 40;

/// A summary of a problem that is fit for an error text: its title, its detail, and the places of its violations.
pub(crate) fn summary(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let words = words(redactor, problem);
    let violations = violations(redactor, problem);
    match (words, violations) {
        (Some(words), Some(violations)) => Some(format!(
            "{}: {violations}",
            words.trim_end_matches(['.', ':'])
        )),
        (words, violations) => words.or(violations),
    }
}

fn words(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let words = [&problem.title, &problem.detail];
    let words: Vec<String> = words
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .map(|text| short(&redactor.mask(text)))
        .collect();
    (!words.is_empty()).then(|| words.join(" - "))
}

/// The violations of a problem, by place and code only: `/email invalid_email, /phone invalid_phone`.
fn violations(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let shown: Vec<String> = problem
        .errors
        .iter()
        .take(VIOLATIONS_SHOWN)
        .map(|violation| {
            let place = short(&violation.place());
            match violation.code.as_str() {
                code if is_code(code) => format!("{place} {}", redactor.mask(code)),
                _ => place,
            }
        })
        .collect();
    let more = problem.errors.len() - shown.len() + problem.omitted_errors;
    let mut text = shown.join(", ");
    if more > 0 && !text.is_empty() {
        text.push_str(&format!(" and {more} more"));
    }
    (!text.is_empty()).then_some(text)
}

/// The different codes of a problem's violations, in order and separated by spaces.
#[cfg(feature = "ledger")]
pub(crate) fn codes(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let codes = problem
        .errors
        .iter()
        .map(|violation| violation.code.as_str());
    let mut shown: Vec<String> = Vec::new();
    for code in codes.filter(|code| is_code(code)) {
        let code = redactor.mask(code);
        if !shown.contains(&code) && shown.len() < VIOLATIONS_SHOWN {
            shown.push(code);
        }
    }
    (!shown.is_empty()).then(|| shown.join(" "))
}

/// Whether a violation's code looks like one, rather than like a text that may repeat what was sent.
fn is_code(code: &str) -> bool {
    code.len() <= CODE_SHOWN
        && code.starts_with(|c: char| c.is_ascii_alphabetic())
        && code
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
