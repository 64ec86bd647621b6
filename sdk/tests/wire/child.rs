//! Runs tests in a child process, because environment variables apply to a whole process.

use std::process::Command;

use crate::peer::KEY;

/// The environment variable that is set in a child process. Without it, the tests for child processes do nothing.
pub(crate) const CHILD: &str = "DEALKIT_TEST_CHILD";

/// Runs one test of this program in a child process, without variables that could affect it, and returns its output.
pub(crate) fn child(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]);
    for (name, _) in std::env::vars() {
        let lower = name.to_lowercase();
        let begins = ["dealkit_", "ssl_cert_", "request_method"];
        if lower.ends_with("_proxy") || begins.iter().any(|begin| lower.starts_with(begin)) {
            command.env_remove(name);
        }
    }
    let output = command
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let output_text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let all = format!("{output_text}\n{errors}");
    assert!(
        output.status.success() && output_text.contains("1 passed"),
        "{all}"
    );
    assert!(!all.contains(KEY), "{all}");
    output_text
}
