//! Errors show only the specification's field names, because other names may be personal data.

use dealkit::{Deal, Problem, ValidationError, Violation, ViolationCode};

#[test]
fn an_undocumented_name_is_shown_as_a_position() {
    for (metadata, path, pointer) in [
        (
            r#"{"jane@example.com":1}"#,
            "metadata[entry 1]",
            "/metadata/jane@example.com",
        ),
        (
            r#"{"a":"","jane@example.com":1}"#,
            "metadata[entry 2]",
            "/metadata/jane@example.com",
        ),
        (
            r#"{"jane@example.com":"","jane/~":null,"z":1}"#,
            "metadata[entry 2]",
            "/metadata/jane~1~0",
        ),
        (r#"{"":1}"#, "metadata[entry 1]", "/metadata/"),
        // Of two equal names, the position of the one with the wrong value.
        (
            r#"{"jane":"","b":"","jane":2}"#,
            "metadata[entry 3]",
            "/metadata/jane",
        ),
        // A name from the specification is shown, even as a key of `metadata`.
        (
            r#"{"a":"","status":1}"#,
            "metadata.status",
            "/metadata/status",
        ),
    ] {
        let error = Deal::from_json(format!(r#"{{"id":"d","metadata":{metadata}}}"#)).unwrap_err();
        assert_eq!((error.path(), error.pointer()), (path, pointer));
        assert!(error.found() == "a number" || error.found() == "null");
        let text = format!("{error} {error:?} {error:#?}");
        assert!(text.starts_with(&format!("at {path}: ")), "{text}");
        assert!(!text.contains("jane"), "{text}");
    }
}

#[test]
fn syntax_errors_show_no_names() {
    for broken in [
        r#"{"id":"d","metadata":{"x":"","jane@example.com":"#,
        r#"{"id":"d","metadata":{"x":"","jane@example.com":tru"#,
        r#"{"id":"d","metadata":{"x":"","jane@example.com":"\ud800"}}"#,
        r#"{"id":"d","metadata":{"x":"","jane@example.com"}}"#,
        r#"{"id":"d","metadata":{"x":"","jane@example.com":""}"#,
        r#"{"id":"d","jane@example.com":{"x":[}}"#,
    ] {
        let error = Deal::from_json(broken).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("jane"), "{text}");
        assert_eq!(error.found(), "not JSON");
    }
}

#[test]
fn the_pointer_of_a_violation_is_exact_and_shown_with_masked_names() {
    for (pointer, shown) in [
        (
            "/profile/clientMetadata/jane@example.com",
            "/profile/clientMetadata/*",
        ),
        (
            "/profile/clientMetadata/a~1b/0/12",
            "/profile/clientMetadata/*/0/12",
        ),
        ("/profile/5550100733", "/profile/*"),
        ("/role_assignments/0/role", "/role_assignments/0/role"),
        ("/first_name", "/first_name"),
        ("email", "email"),
        ("jane@example.com", "*"),
        ("#/jane", "*/*"),
        ("/", "/"),
    ] {
        let violation = Violation::new(pointer, ViolationCode::WrongType, "must be a string");
        assert_eq!(violation.pointer, pointer);
        let text = violation.to_string();
        assert_eq!(text, format!("{shown}: must be a string (wrong_type)"));
        let error = ValidationError::check(vec![violation.clone()]).unwrap_err();
        let mut problem = Problem::new(422, "no", "no");
        problem.errors.push(violation.clone());
        for text in [
            error.to_string(),
            format!("{error:?} {violation:?} {problem:?}"),
        ] {
            assert!(text.contains(shown), "{text}");
            assert!(!text.contains("jane") && !text.contains("555"), "{text}");
        }
        assert!(serde_json::to_string(&problem).unwrap().contains(pointer));
    }
}

#[test]
fn the_misspelt_name_of_a_field_is_shown_and_other_unknown_names_are_masked() {
    for (pointer, shown) in [
        ("/frst_name", "/frst_name"),
        ("/Email", "/Email"),
        ("/profile/exernal_id", "/profile/exernal_id"),
        ("/profile/teir", "/profile/teir"),
        // The field of another object, or another level.
        ("/profile/frst_name", "/profile/*"),
        ("/profile/clientMetadata/teir", "/profile/clientMetadata/*"),
        ("/jane@example.com", "/*"),
        ("/emailjane@example.com", "/*"),
        ("/first name", "/*"),
        ("/5550100733", "/*"),
        ("/", "/"),
        ("", ""),
    ] {
        let violation = Violation::new(pointer, ViolationCode::UnknownField, "is unknown");
        assert_eq!(violation.masked_pointer(), shown);
        let text = format!("{violation} {violation:?}");
        assert!(!text.contains("jane") && !text.contains("555"), "{text}");
        // The value of a misspelt field is not the violation.
        let of_value = Violation::new(pointer, ViolationCode::WrongType, "must be a string");
        assert_eq!(of_value.masked_pointer() == pointer, pointer.len() < 2);
    }
}
