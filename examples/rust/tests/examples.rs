//! Every example runs to its end against a sandbox and shows what its file says.

use std::{path::PathBuf, process::Command};

use dealkit_server::Sandbox;

/// Runs an example and returns what it prints. Cargo builds the examples with the tests.
fn run(example: &str, sandbox: &Sandbox) -> String {
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(example);
    let output = Command::new(&program)
        .env("DEALKIT_BASE_URL", sandbox.url())
        .env("DEALKIT_SERVICE_KEY", sandbox.service_key())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let shown = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {shown}{told}");
    shown
}

#[test]
fn quickstart() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = run("quickstart", &sandbox);
    for line in [
        "Ada Lovelace",
        "b_1",
        "Read deal d_1",
        "CLOSED",
        "is_not_found  true",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert_eq!(sandbox.agents().len(), 1);
}

#[test]
fn bulk() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = run("bulk", &sandbox);
    assert!(
        shown.contains("GET /v1/deals/{id}: 404 Not Found"),
        "{shown}"
    );
    assert!(shown.ends_with("2 of 5 failed\n"), "{shown}");
}

#[test]
fn blocking() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = run("blocking", &sandbox);
    assert!(
        shown.starts_with("200 OK after 1 attempt(s)\ndeal d_1 is "),
        "{shown}"
    );
}

#[test]
fn testing() {
    let sandbox = Sandbox::builder().start().unwrap();
    assert_eq!(run("testing", &sandbox), "the sandbox holds 1 agent\n");
}
