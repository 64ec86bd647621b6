//! A problem in one line.

use crate::{
    error::problem::Problem,
    http::redact::{Redactor, short},
};

/// The maximum number of violations in an error text.
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

/// Whether a violation's code looks like one, rather than like a text that may repeat what was sent.
fn is_code(code: &str) -> bool {
    code.len() <= CODE_SHOWN
        && code.starts_with(|c: char| c.is_ascii_alphabetic())
        && code
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::rules::validate::Violation;

    #[test]
    fn violations_are_shown_by_place_and_code() {
        let redactor = Redactor::new(&HeaderValue::from_static("K3Y-canary"));
        let summary = |errors: &[(&str, &str)], omitted| {
            let errors = errors
                .iter()
                .map(|(pointer, code)| Violation::new(*pointer, code.to_string().into(), "ada"));
            let problem = Problem {
                errors: errors.collect(),
                omitted_errors: omitted,
                ..Problem::default()
            };
            super::summary(&redactor, &problem).unwrap_or_default()
        };
        let two = [("/email", "invalid_email"), ("/phone", "invalid_phone")];
        assert_eq!(
            summary(&two, 0),
            "/email invalid_email, /phone invalid_phone"
        );
        assert_eq!(
            summary(&[("/email", "x"); 5], 0),
            ["/email x"; 5].join(", ")
        );
        assert_eq!(
            summary(&[("/email", "x"); 6], 7),
            format!("{} and 8 more", ["/email x"; 5].join(", "))
        );
        for (pointer, code, expected) in [
            ("", "wrong_type", "the body wrong_type"),
            (
                "/profile/ada@example.com",
                "unknown_field",
                "/profile/* unknown_field",
            ),
            (
                "/contacts/12/fields/0/label",
                "too-long",
                "/contacts/12/fields/0/label too-long",
            ),
            ("/contacts/15550100", "x", "/contacts/* x"),
            ("/K3Y-canary", "K3Y-CANARY", "/* [service key]"),
            ("no pointer at all", "", "*"),
            ("/email", "ada@example.com", "/email"),
            ("/email", "must not be ada", "/email"),
            ("/email", "+15550100", "/email"),
            ("/email", "15550100", "/email"),
        ] {
            assert_eq!(summary(&[(pointer, code)], 0), expected);
        }
        let mut problem = Problem::new(422, "Unprocessable", "no.");
        problem.errors = vec![Violation::new("/email", "x".to_owned().into(), "")];
        assert_eq!(
            super::summary(&redactor, &problem).unwrap(),
            "Unprocessable - no: /email x"
        );
    }
}
