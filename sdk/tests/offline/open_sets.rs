//! Typed strings: extensible enums whose known values can be matched in patterns, and identifiers.

use std::collections::{BTreeMap, HashMap};

use dealkit::{
    AgentId, ApplicationStatus, AssignedRole, ContactFieldType, ContactType, DealId, DealPhase,
    DealStatus, ListingSide, Role, ViolationCode,
};
use proptest::prelude::*;

#[test]
fn documented_values_match_in_patterns() {
    assert!(matches!("CLOSED".into(), DealStatus::Closed));
    assert!(matches!("APPLICATION".into(), DealPhase::Application));
    assert!(matches!("PENDING".into(), ApplicationStatus::Pending));
    assert!(matches!("AGENT".into(), AssignedRole::Agent));
    let ways: [DealStatus; 5] = [
        "CLOSED".into(),
        "CLOSED".to_owned().into(),
        (&DealStatus::Closed).into(),
        serde_json::from_str(r#""CLO\u0053ED""#).unwrap(),
        serde_json::from_value("CLOSED".into()).unwrap(),
    ];
    for way in ways {
        assert!(matches!(way, DealStatus::Closed));
    }
    for near in ["", "closed", "CLOSED ", "PENDING"] {
        assert!(matches!(near.into(), DealStatus::Other(_)));
    }
    for side in ["SELL", "CLOSED"] {
        assert!(matches!(side.into(), ListingSide::Other(_)));
        assert!(matches!(side.into(), ContactType::Other(_)));
        assert!(matches!(side.into(), ContactFieldType::Other(_)));
    }
}

#[test]
fn every_role_of_a_request_is_a_known_one_in_a_response() {
    assert_eq!(AssignedRole::ALL, Role::ALL);
    for &role in Role::ALL {
        let assigned = AssignedRole::from(role);
        assert!(!matches!(assigned, AssignedRole::Other(_)), "{role}");
        assert_eq!(assigned.known(), Some(role));
        assert_eq!(assigned, role);
        assert_eq!(role, assigned);
        assert_ne!(assigned, AssignedRole::from(role.as_str().to_lowercase()));
    }
}

/// Behaves like the string, whichever way it was made, and whatever comes before or after it.
macro_rules! is_the_string {
    ($($type:ty),+) => {
        proptest! {
            #[test]
            fn a_value_is_the_string_that_it_was(
                text in prop_oneof![
                    Just("CLOSED".to_owned()), Just("APPLICATION".to_owned()), Just("PENDING".to_owned()),
                    Just("AGENT".to_owned()), Just("OFFICE_ADMIN".to_owned()), Just("invalid_email".to_owned()),
                    "[A-Z_]{0,12}", any::<String>(),
                ],
                other in prop_oneof![Just("CLOSED".to_owned()), Just("AGENT".to_owned()), any::<String>()],
            ) {
                let json = serde_json::to_string(&text).unwrap();
                $(
                    let value = <$type>::from(text.as_str());
                    let ways: [$type; 5] = [
                        text.clone().into(),
                        (&value).into(),
                        serde_json::from_str(&json).unwrap(),
                        serde_json::from_value(text.as_str().into()).unwrap(),
                        String::from(value.clone()).into(),
                    ];
                    for way in &ways {
                        prop_assert_eq!(way, &value);
                        prop_assert_eq!(format!("{way:?}"), format!("{text:?}"));
                    }
                    prop_assert_eq!(value.as_str(), &text);
                    prop_assert_eq!(value.to_string(), text.as_str());
                    prop_assert_eq!(serde_json::to_string(&value).unwrap(), json.as_str());

                    // It compares as the strings do, in both directions.
                    let another = <$type>::from(other.as_str());
                    prop_assert_eq!(value == another, text == other);
                    let (str, string) = (other.as_str(), &other);
                    for equal in [value == *str, *str == value, value == str, str == value, value == *string, *string == value] {
                        prop_assert_eq!(equal, text == other);
                    }
                )+
            }
        }
    };
}
is_the_string!(
    DealStatus,
    DealPhase,
    ApplicationStatus,
    AssignedRole,
    ListingSide,
    ContactType,
    ContactFieldType,
    ViolationCode,
    DealId
);

#[test]
fn an_identifier_is_looked_up_by_its_text() {
    let ids = HashMap::from([(DealId::from("d_1"), 1)]);
    assert_eq!(ids.get("d_1"), Some(&1));
    let ids = BTreeMap::from([(DealId::from("d_1"), 1)]);
    assert_eq!(ids.get("d_1"), Some(&1));
}

/// Every status of every deal is one of these, so it is no larger than a string, and a short one needs no allocation.
#[test]
fn a_value_is_no_larger_than_a_string() {
    for size in [
        size_of::<Option<ViolationCode>>(),
        size_of::<Option<DealStatus>>(),
        size_of::<Option<AssignedRole>>(),
        size_of::<Option<ListingSide>>(),
        size_of::<Option<AgentId>>(),
    ] {
        assert_eq!(size, size_of::<String>());
    }
}
