//! The command `dealkit-server`. The library contains its code, so that the Python package can run it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    dealkit_server::cli::run(std::env::args_os()).into()
}
