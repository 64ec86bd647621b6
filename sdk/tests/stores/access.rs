//! Databases that a job may not or cannot use: privileges, TLS, URLs, changed tables, unsuitable encodings. No message shows a
//! password.

use super::{
    Cluster, Ledger, LedgerError, LedgerErrorKind, State, WhenUnresolved, claim, error_kind,
    open_job, open_with_keys, record_state,
};
use crate::value::AgentId;

#[test]
fn a_database_that_another_program_changed_is_rejected() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    for (change, expected, expected_in_job) in [
        (
            "UPDATE ledger SET salt = sha256('')",
            LedgerErrorKind::Broken,
            LedgerErrorKind::Broken,
        ),
        (
            "DELETE FROM ledger",
            LedgerErrorKind::Moved,
            LedgerErrorKind::Moved,
        ),
        (
            "UPDATE creates SET state = 'elsewhere'",
            LedgerErrorKind::Broken,
            LedgerErrorKind::Broken,
        ),
        (
            "UPDATE version SET version = 3",
            LedgerErrorKind::NewerFormat,
            LedgerErrorKind::NewerFormat,
        ),
    ] {
        let url = cluster.new_url();
        let ledger: Ledger = url.parse().unwrap();
        assert!(ledger.look_up(None, ["1"]).unwrap()[0].is_none());
        let mut store = open_job(&ledger);
        let key = store.header().hash("1");
        claim(&mut *store, key, WhenUnresolved::Report);
        cluster.run_sql(&url, change);
        assert_eq!(error_kind(ledger.summary()), expected, "{change}");
        if expected_in_job != LedgerErrorKind::NewerFormat {
            assert_eq!(
                error_kind(record_state(&mut *store, key, State::Succeeded)),
                expected_in_job,
                "{change}"
            );
        }
    }
    let url = cluster.new_url();
    cluster.run_sql(
        &url,
        &format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.creates ()",
            schema = url.rsplit_once('=').unwrap().1
        ),
    );
    let ledger: Ledger = url.parse().unwrap();
    let error = ledger.init().unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
    assert!(error.to_string().contains("?schema=NAME"), "{error}");
}

#[test]
fn a_user_without_privileges_gets_an_error_and_no_message_shows_the_password() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.new_url();
    cluster.run_sql(&url, "CREATE ROLE guest LOGIN PASSWORD 'open sesame'");
    let schema = url.rsplit_once('=').unwrap().1;
    let certificate = cluster.certificate();
    let guest = |password: &str, host: &str, more: &str| -> Ledger {
        let url = format!(
            "postgresql://guest:{password}@{host}:{}/postgres?schema={schema}{more}",
            cluster.port
        );
        url.parse().unwrap()
    };
    let trusted = format!("&sslmode=verify-full&sslrootcert={}", certificate.display());
    let known = guest("open%20sesame", "localhost", &trusted);
    // At first, the tables are missing and the guest may not create them. Then they exist, but the guest has no privileges.
    let mut errors = vec![known.init().unwrap_err()];
    let ledger: Ledger = url.parse().unwrap();
    ledger.init().unwrap();
    errors.push(known.summary().unwrap_err());
    errors.push(
        guest("open%20sesame!", "localhost", &trusted)
            .init()
            .unwrap_err(),
    );
    assert!(
        errors
            .iter()
            .all(|error| error.kind() == LedgerErrorKind::Io),
        "{errors:?}"
    );
    // With the privileges, everything works, with and without TLS.
    drop(open_job(&ledger));
    cluster.run_sql(
        &url,
        &format!(
            "GRANT USAGE ON SCHEMA {schema} TO guest;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO guest"
        ),
    );
    for granted in [&known, &guest("open%20sesame", "127.0.0.1", "")] {
        drop(open_job(granted));
        granted.summary().unwrap();
    }
    // The certificate has another name or an unknown issuer, or no server listens.
    for unreachable in [
        guest("open%20sesame", "127.0.0.1", &trusted),
        guest("open%20sesame", "localhost", "&sslmode=require"),
        format!("postgresql://guest:open%20sesame@127.0.0.1:1/postgres?schema={schema}")
            .parse()
            .unwrap(),
    ] {
        let error = unreachable.summary().unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::Unreachable, "{error}");
        errors.push(error);
    }
    for invalid in [
        "postgresql://localhost/x?sesame=1",
        "postgres://:5432/x",
        "postgresql://localhost/x?sslmode=allow",
        "postgresql://localhost/?schema=a;b",
        "postgresql://u:x@sesame@localhost/x",
        "postgresql+psycopg2://u:sesame@localhost/x",
        " postgresql://u:sesame@localhost/x",
        "psql://u:sesame@localhost/x",
        "host=localhost password=sesame",
        "postgresql:u:sesame@localhost/x",
        "Postgres:/u:sesame@localhost/x",
        "HOST = localhost dbname=sesame",
    ] {
        let error = invalid.parse::<Ledger>().unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
        errors.push(error);
    }
    for error in errors {
        let text = format!("{error} {error:?}");
        assert!(
            !text.contains("sesame") && !text.contains("guest"),
            "{error}"
        );
    }
    // A connection string is not accepted as the path of a file.
    let file = Ledger::sqlite("host=localhost password=sesame");
    assert!(!format!("{file} {file:?}").contains("sesame"));
    assert_eq!(error_kind(file.summary()), LedgerErrorKind::NotALedger);
    assert!(!format!("{known:?} {known}").contains("sesame"));
    assert_eq!(
        known.to_string(),
        format!(
            "postgresql://localhost:{}/postgres?schema={schema}",
            cluster.port
        )
    );
}

#[test]
fn a_database_that_cannot_store_a_ledger_is_reported_as_the_cause() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.new_url();
    let create = "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0";
    cluster.run_sql(&url, create);
    let latin: Ledger = url.replace("/postgres?", "/latin?").parse().unwrap();
    let error = latin.init().unwrap_err();
    assert!(
        error.to_string().contains("its encoding is not UTF8"),
        "{error}"
    );
    let options: Ledger = format!("{url}&options=-c%20nothing.such").parse().unwrap();
    let error = options.init().unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::Io, "{error}");
    let ledger: Ledger = url.parse().unwrap();
    let error = LedgerError::from(open_with_keys(&ledger, Some("a\0b")).map(drop).unwrap_err());
    assert!(error.to_string().contains("U+0000"), "{error}");
    let mut job = open_job(&ledger);
    let key = job.header().hash("a\0b");
    assert!(claim(&mut *job, key, WhenUnresolved::Report).is_none());
    record_state(&mut *job, key, State::Unknown).unwrap();
    let error = ledger
        .resolve([("a\0b", Some(AgentId::from("a\0b")))])
        .unwrap_err();
    assert!(error.to_string().contains("U+0000"), "{error}");
}
