//! Runs the Rust programs of the documentation pages against a sandbox, and compares their output with the pages. Each program
//! has its own process and folder.
#![allow(clippy::print_stdout, reason = "the test prints its progress")]

use std::{
    env,
    error::Error,
    process::{Command, ExitCode},
};

use dealkit_server::Sandbox;

/// A program: its name, true if its sandbox needs generated deals, its expected output, and its `main`.
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
        if output.status.success() && matches_page(shows, &shown) {
            println!("{name}: ok");
        } else {
            failed += 1;
            let errors = String::from_utf8_lossy(&output.stderr);
            println!(
                "{name}: {}\n{shown}{errors}instead of\n{shows}",
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

/// Returns true if the output matches the page, where an ellipsis stands for variable text.
fn matches_page(page: &str, shown: &str) -> bool {
    page.lines().count() == shown.lines().count()
        && page.lines().zip(shown.lines()).all(|(page, shown)| {
            let mut parts = page.split('…');
            let first = parts.next().unwrap_or_default();
            shown.strip_prefix(first).is_some_and(|rest| {
                let found = parts.try_fold(rest, |rest, part| Some(rest.split_once(part)?.1));
                // An ellipsis at the end of a line stands for the rest of the line.
                found.is_some_and(|rest| rest.is_empty() || page.ends_with('…'))
            })
        })
}
