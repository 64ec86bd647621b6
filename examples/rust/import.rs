//! Create an agent for each valid row of a CSV file, and report what is wrong
//! with the others. A ledger next to the file makes it safe to run again.
//!
//! Takes the file as an argument, and the service's URL and key from
//! `DEALKIT_BASE_URL` and `DEALKIT_SERVICE_KEY`. The exit code is 1 if a row has
//! no agent in the end, or if its outcome is not in the ledger.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

use std::{io, path::PathBuf, process::ExitCode, thread};

use dealkit::{
    AgentProfile, BrokerageId, CancelHandle, CreateAgent, Created, ErrorKind,
    ValidationError, blocking::Client, ledger::Ledger,
};
use serde::Deserialize;
use tokio::runtime::Builder;

/// A row of the file. Empty cells are `None`; `build` checks the rules.
#[derive(Deserialize)]
struct Row {
    email: String,
    first_name: String,
    last_name: String,
    role: Option<String>,
    born: Option<String>,
    brokerage: Option<BrokerageId>,
    tier: Option<String>,
}

impl TryFrom<Row> for CreateAgent {
    type Error = ValidationError;

    fn try_from(row: Row) -> Result<Self, ValidationError> {
        CreateAgent::builder()
            .email(row.email)
            .first_name(row.first_name)
            .last_name(row.last_name)
            .profile(AgentProfile::new().maybe_tier(row.tier))
            .maybe_role(row.role)
            .maybe_date_of_birth(row.born)
            .maybe_brokerage_id(row.brokerage)
            .build()
    }
}

/// Stops the job on the first Ctrl-C: the rows in flight complete, so no outcome
/// is unknown. The second Ctrl-C cancels the job.
fn stop_on_ctrl_c(job: CancelHandle) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if job.is_stopped() {
                    job.cancel();
                } else {
                    job.stop();
                    eprintln!("stopping: the rows in flight complete");
                }
            }
        });
    });
    Ok(())
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("which file?")?;
    let file = PathBuf::from(file);
    let mut reader = csv::Reader::from_path(&file)?;
    let header = reader.headers()?.clone();
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    // Read the whole file before sending, to detect errors in it first.
    for record in reader.records() {
        let record = record?;
        // The first line of the record (and of blank lines before it), because
        // cells may contain line breaks.
        lines.push(record.position().map_or(0, csv::Position::line));
        rows.push(record.deserialize::<Row>(Some(&header))?);
    }
    // Each row with its idempotency key. A number that never changes is better
    // than an e-mail address.
    let rows = rows
        .into_iter()
        .map(|row| (row.email.clone(), CreateAgent::try_from(row)));
    let ledger = Ledger::sqlite(file.with_extension("ledger"));
    let job = Client::from_env()?.agents().create_many(rows);
    let creations = job.ledger(&ledger, "email").into_iter();
    stop_on_ctrl_c(creations.cancel_handle())?;
    let (mut done, mut unrecorded) = (0, 0);
    for creation in creations {
        done += usize::from(creation.result.is_ok());
        let line = lines[creation.index];
        match creation.result {
            Ok(Created::Now(agent)) => {
                println!("line {line}: created {}", agent.id)
            }
            Ok(Created::Already { .. }) => {
                println!("line {line}: already created")
            }
            Err(error) if error.kind() == ErrorKind::Validation => {
                for violation in error.violations() {
                    println!("line {line}: {violation}");
                }
            }
            Err(error) => println!("line {line}: {}: {error}", error.outcome()),
        }
        // The ledger was lost, or the disk is full. The job has stopped.
        if let Some(error) = creation.ledger_error {
            unrecorded += 1;
            println!("line {line}: the outcome is not in the ledger: {error}");
        }
    }
    // A stopped job has not taken all rows.
    println!("{done} of {} rows have an agent", lines.len());
    Ok(if done == lines.len() && unrecorded == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
