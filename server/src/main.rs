//! The command `dealkit-server`. Everything is in the library, for others to call as well.

use std::process::ExitCode;

fn main() -> ExitCode {
    dealkit_server::cli::run(std::env::args_os())
}
