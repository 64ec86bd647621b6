//! Tests in a child process, because the environment belongs to the whole process.

use std::process::Command;

use crate::peer::KEY;

/// Set in a child process: the children's tests do nothing in a normal run.
pub(crate) const CHILD: &str = "DEALKIT_TEST_CHILD";

/// Every variable that could change what a child does.
const CLEARED: [&str; 12] = [
    "DEALKIT_BASE_URL",
    "DEALKIT_SERVICE_KEY",
    "DEALKIT_SERVICE_KEY_FILE",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "REQUEST_METHOD",
];

/// Runs a single test of this binary in a child process, and returns its output.
pub(crate) fn child(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]);
    for name in CLEARED {
        command.env_remove(name);
    }
    let output = command
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}\n{errors}"
    );
    assert!(
        !told.contains(KEY) && !errors.contains(KEY),
        "{told}\n{errors}"
    );
    told
}
