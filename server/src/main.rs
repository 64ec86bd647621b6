//! The command `dealkit-server`. All of its code is in the library, so that other programs can call it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    dealkit_server::cli::run(std::env::args_os()).into()
}
