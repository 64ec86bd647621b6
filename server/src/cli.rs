//! The command line: parses flags and environment variables, and runs a server until a signal.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
};

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::{runtime, task::spawn_blocking};

use crate::{
    config::{LogFormat, SandboxBuilder},
    health,
    server::{Sandbox, StartError},
};

/// Exit code if the server cannot listen, or the health check fails.
const FAILURE: u8 = 1;

/// Exit code for an invalid flag, setting or deal.
const USAGE_ERROR: u8 = 2;

/// A local server of the Agent and Deal interface, to develop and test against.
///
/// Without flags it is ready to use: it listens on http://127.0.0.1:8080, takes the service key
/// "sandbox-key", and has three sample deals: d_1, d_2 and d_3. It keeps everything in memory.
#[derive(Parser)]
#[command(
    name = "dealkit-server",
    version,
    next_line_help = true,
    disable_help_subcommand = true,
    hide_possible_values = false,
    after_help = "Try it:\n  \
        dealkit-server\n  \
        curl -H 'x-service-key: sandbox-key' http://127.0.0.1:8080/v1/deals/d_1\n\n\
        In a browser, http://127.0.0.1:8080/__sandbox/docs tries both operations and shows what was sent.\n\n\
        Fixed limits: 128 requests in flight on an HTTP/2 connection, 128 levels of JSON; of a rejected body, up to\n\
        8 MiB are read and discarded.\n\n\
        Every flag can also be set as an environment variable, shown in [env: …]; a flag wins."
)]
struct Arguments {
    #[command(flatten)]
    builder: SandboxBuilder,

    #[command(subcommand)]
    task: Option<Task>,
}

#[derive(Clone, Copy, Subcommand)]
enum Task {
    /// Ask the server that listens on the address of --listen or DEALKIT_SERVER_LISTEN whether it is up: exit code 0 or 1
    Health,
}

/// Runs the command with `arguments` until a signal. The first argument is the command's name.
///
/// Prints the address as the first line of standard output, and everything else to standard error. Returns the exit code: 0
/// after SIGINT or SIGTERM, 2 for an invalid flag, setting or deal, and 1 if the server cannot listen.
///
/// The argument `health` checks a running server instead, with exit code 0 or 1.
pub fn run<A>(arguments: impl IntoIterator<Item = A>) -> u8
where
    A: Into<OsString> + Clone,
{
    let command = Arguments::command().mut_args(add_environment_variable);
    let matches = command.try_get_matches_from(arguments);
    let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap also returns help and version as errors, with exit code 0 and standard output.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(USAGE_ERROR);
        }
    };
    if let Some(Task::Health) = arguments.task {
        return match health::check(arguments.builder.listen) {
            Ok(()) => 0,
            Err(error) => {
                let _ = writeln!(io::stderr(), "error: {error}");
                FAILURE
            }
        };
    }
    let builder = arguments.builder;
    let prints_hint = builder.log == LogFormat::Text;
    let start_result = builder.start();
    match start_result.and_then(|sandbox| serve(sandbox, prints_hint).map_err(StartError::System)) {
        Ok(()) => 0,
        Err(error) => report_start_error(&error),
    }
}

/// Lets an environment variable set the flag, too: `DEALKIT_SERVER_MAX_AGENTS` sets `--max-agents`.
fn add_environment_variable(flag: Arg) -> Arg {
    let Some(name) = flag.get_long() else {
        return flag;
    };
    let name = format!("DEALKIT_SERVER_{}", name.replace('-', "_").to_uppercase());
    // An empty variable is ignored, as in the client of the SDK.
    if env::var_os(&name).is_some_and(|value| value.is_empty()) {
        return flag;
    }
    flag.env(name).hide_env_values(true)
}

fn serve(sandbox: Sandbox, prints_hint: bool) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let serve_result = runtime.block_on(async {
        // Install the handlers before printing the address: its reader may send a signal immediately.
        let mut next_signal = install_signal_handlers()?;
        // Ignore errors: the server is useful even if standard output is closed.
        let mut stdout = io::stdout();
        let _ = writeln!(stdout, "dealkit-server listening on {}", sandbox.url());
        let _ = stdout.flush();
        if prints_hint && sandbox.has_page() {
            let _ = writeln!(io::stderr(), "try it at {}/__sandbox/docs", sandbox.url());
        }
        next_signal().await;

        tokio::select! {
            _ = spawn_blocking(|| sandbox.shutdown()) => {}
            // A second signal ends the server without waiting for requests in flight.
            () = next_signal() => {}
        }
        Ok(())
    });
    runtime.shutdown_background();
    serve_result
}

fn report_start_error(error: &StartError) -> u8 {
    let hint = match error {
        StartError::KeyRequired { .. } => {
            " (DEALKIT_SERVER_SERVICE_KEY, or --service-key-file or DEALKIT_SERVER_SERVICE_KEY_FILE for a file)"
        }
        StartError::Listen { error, .. } if error.kind() == io::ErrorKind::AddrInUse => {
            " (choose another port with --listen 127.0.0.1:PORT; port 0 asks for a free one)"
        }
        _ => "",
    };
    let _ = writeln!(io::stderr(), "error: {error}{hint}");
    match error {
        StartError::Listen { .. } | StartError::System(_) => FAILURE,
        _ => USAGE_ERROR,
    }
}

/// Installs handlers for SIGINT (Ctrl-C) and SIGTERM (on Windows: Ctrl-C), so that they no longer end the process. Returns a
/// function that waits for the next signal.
#[cfg(unix)]
fn install_signal_handlers() -> io::Result<impl AsyncFnMut()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn install_signal_handlers() -> io::Result<impl AsyncFnMut()> {
    Ok(async || drop(tokio::signal::ctrl_c().await))
}
