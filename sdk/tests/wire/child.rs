//! Tests in a child process, because the environment belongs to the whole process.

use std::process::Command;

use crate::peer::KEY;

/// Set in a child process: the children's tests do nothing in a normal run.
pub(crate) const CHILD: &str = "DEALKIT_TEST_CHILD";

/// Runs a single test of this binary in a child process, without any variable that could change what it does, and returns
/// its output.
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
    let told = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let all = format!("{told}\n{errors}");
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{all}"
    );
    assert!(!all.contains(KEY), "{all}");
    told
}
