//! The header of a ledger: its service and the name of its keys.

use super::{
    LedgerErrorKind, State, WhenUnresolved, claim, error_kind, for_each_database, open_with_keys,
    record_state, try_claim,
};

#[test]
fn a_claim_fails_once_the_ledger_has_another_header() {
    for (first, second) in [
        (Some("email"), "id"),
        (Some("id"), "email"),
        (None, "email"),
    ] {
        for_each_database(|ledger| {
            // Both jobs open a ledger without rows.
            let mut late = open_with_keys(ledger, first).unwrap();
            let mut early = open_with_keys(ledger, Some(second)).unwrap();
            let [one, two] = ["1", "2"].map(|key| early.header().hash(key));
            assert!(claim(&mut *early, one, WhenUnresolved::Report).is_none());
            let claimed = try_claim(&mut *late, two, WhenUnresolved::Report);
            assert_eq!(error_kind(claimed), LedgerErrorKind::OtherKeys);
            assert_eq!(
                error_kind(open_with_keys(ledger, first.or(Some("x"))).map(drop)),
                LedgerErrorKind::OtherKeys
            );
            // The outcome of a row that was sent is still recorded.
            ledger.set_base_url("https://new.example.com").unwrap();
            let claimed = try_claim(&mut *early, two, WhenUnresolved::Report);
            assert_eq!(error_kind(claimed), LedgerErrorKind::OtherService);
            record_state(&mut *early, one, State::Succeeded).unwrap();
            drop((early, late));
            let summary = ledger.summary().unwrap();
            assert_eq!((summary.succeeded, summary.in_flight), (1, 0));
            assert_eq!(summary.key_name.as_deref(), Some(second));
        });
    }
}
