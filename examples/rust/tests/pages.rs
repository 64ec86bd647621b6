//! The Rust programs on the pages print what their pages say, each in a process and a folder of its own, against a sandbox.
#![allow(clippy::print_stdout, reason = "it says what it runs")]

use std::{
    env,
    error::Error,
    process::{Command, ExitCode},
};

use dealkit_server::Sandbox;

/// The name of a program, whether its sandbox has generated deals, what it prints, and its `main`.
type Program = (
    &'static str,
    bool,
    &'static str,
    fn() -> Result<(), Box<dyn Error>>,
);

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

const CHOSEN: &str = "DEALKIT_PAGES_PROGRAM";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if let Ok(chosen) = env::var(CHOSEN) {
        let (.., run) = PROGRAMS
            .iter()
            .find(|(name, ..)| *name == chosen)
            .ok_or("no such program")?;
        run()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = 0;
    for (name, generated, shows, _) in PROGRAMS {
        let sandbox = match generated {
            true => Sandbox::builder().generate(100, 7),
            false => Sandbox::builder(),
        };
        let sandbox = sandbox.start()?;
        let folder = env::temp_dir().join(format!("dealkit-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let output = Command::new(env::current_exe()?)
            .env(CHOSEN, name)
            .env("DEALKIT_BASE_URL", sandbox.url())
            .env("DEALKIT_SERVICE_KEY", sandbox.service_key())
            .current_dir(&folder)
            .output()?;
        std::fs::remove_dir_all(folder)?;
        let shown = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && is_shown(shows, &shown) {
            println!("{name}: ok");
        } else {
            failed += 1;
            let told = String::from_utf8_lossy(&output.stderr);
            println!(
                "{name}: {}\n{shown}{told}instead of\n{shows}",
                output.status
            );
        }
    }
    Ok(if failed > 0 || PROGRAMS.len() < 15 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Whether this was printed; what differs from run to run is an ellipsis on the page.
fn is_shown(page: &str, shown: &str) -> bool {
    page.lines().count() == shown.lines().count()
        && page.lines().zip(shown.lines()).all(|(page, shown)| {
            let mut pieces = page.split('…');
            let first = pieces.next().unwrap_or_default();
            shown.strip_prefix(first).is_some_and(|rest| {
                let found = pieces.try_fold(rest, |rest, piece| Some(rest.split_once(piece)?.1));
                // An ellipsis at the end of a line stands for all of its rest.
                found.is_some_and(|rest| rest.is_empty() || page.ends_with('…'))
            })
        })
}
