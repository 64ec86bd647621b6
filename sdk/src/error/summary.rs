//! One-line summaries of problems, for error messages.

use crate::{
    error::problem::Problem,
    transport::redact::{Redactor, shorten},
};

const MAX_VIOLATIONS: usize = 5;

/// The maximum length of a violation's code in an error message, in bytes.
const MAX_CODE_LENGTH: usize = 40;

/// Summarizes a problem: its title, its detail, and the pointers and codes of its violations.
pub(crate) fn summarize(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let text = join_texts(redactor, problem);
    let violations = list_violations(redactor, problem);
    match (text, violations) {
        (Some(text), Some(violations)) => Some(format!(
            "{}: {violations}",
            text.trim_end_matches(['.', ':'])
        )),
        (text, violations) => text.or(violations),
    }
}

/// Joins the title and the detail.
fn join_texts(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let texts = [&problem.title, &problem.detail];
    let texts: Vec<String> = texts
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .map(|text| shorten(&redactor.mask(text)))
        .collect();
    (!texts.is_empty()).then(|| texts.join(" - "))
}

/// Lists the violations of a problem by pointer and code: `/email invalid_email, /phone invalid_phone`.
fn list_violations(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let shown_violations: Vec<String> = problem
        .errors
        .iter()
        .take(MAX_VIOLATIONS)
        .map(|violation| {
            let location = shorten(&violation.location());
            match violation.code.as_str() {
                code if is_code(code) => format!("{location} {}", redactor.mask(code)),
                _ => location,
            }
        })
        .collect();
    let omitted_count = problem.errors.len() - shown_violations.len() + problem.omitted_errors;
    let mut text = shown_violations.join(", ");
    if omitted_count > 0 && !text.is_empty() {
        text.push_str(&format!(" and {omitted_count} more"));
    }
    (!text.is_empty()).then_some(text)
}

/// Lists the distinct codes of a problem's violations, in order and separated by spaces.
#[cfg(feature = "ledger")]
pub(crate) fn list_codes(redactor: &Redactor, problem: &Problem) -> Option<String> {
    let codes = problem
        .errors
        .iter()
        .map(|violation| violation.code.as_str());
    let mut shown_codes: Vec<String> = Vec::new();
    for code in codes.filter(|code| is_code(code)) {
        let code = redactor.mask(code);
        if !shown_codes.contains(&code) && shown_codes.len() < MAX_VIOLATIONS {
            shown_codes.push(code);
        }
    }
    (!shown_codes.is_empty()).then(|| shown_codes.join(" "))
}

/// Returns true if a violation's code looks like a code. Any other text is not shown, because it may repeat a value that was
/// sent.
fn is_code(code: &str) -> bool {
    code.len() <= MAX_CODE_LENGTH
        && code.starts_with(|c: char| c.is_ascii_alphabetic())
        && code
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
