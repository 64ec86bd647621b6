//! Program of a simulated process: it runs a job over all rows, or makes single creates, until it has all results or is
//! interrupted.

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dealkit::{
    AgentProfile, Client, CreateAgent, Creation, Error, KeyedRow, Outcome, RetryPolicy,
    ValidationError,
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{Either, select},
    stream::FuturesUnordered,
};
use tokio::time::{Instant, sleep};

use crate::{
    network::{Network, current_key},
    operators,
    process::Process,
    simulation::{NO_LEDGER_PREFIX, Simulation},
};

/// The settings of a run over all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    style: CallStyle,
    is_ordered: bool,
    concurrency: usize,
    unresolved: WhenUnresolved,
    /// True if the run sends rejected rows again if their requests have changed.
    resends_corrected: bool,
    /// The version of the rows' requests, which differs between runs.
    version: u8,
    waits_in_flight: bool,
    timeout: Duration,
    retries: u32,
    rate: Option<u32>,
    interruption: Interruption,
    after: Duration,
}

/// The calls with which a run creates agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStyle {
    /// In a job with a ledger.
    Job,
    /// Single creates, one for each key.
    Single,
    /// Single creates, with two concurrent calls for each key.
    Twice,
    /// In a job without a ledger, for rows that no other process has.
    WithoutLedger,
}

/// The treatment of unresolved rows by a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenUnresolved {
    Report,
    Resolve,
    Resend,
}

/// An interruption of a run before it has all results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    None,
    Cancel,
    Stop,
    Drop,
    Kill,
    Pause,
}

impl Run {
    pub(crate) fn from_tape(simulation: &Simulation) -> Self {
        let style = match simulation.read_below(16) {
            1..4 => CallStyle::Single,
            4..6 => CallStyle::Twice,
            6..8 => CallStyle::WithoutLedger,
            _ => CallStyle::Job,
        };
        let is_ordered = simulation.read_below(3) == 1;
        let concurrency = usize::from(simulation.read_below(4)) + 1;
        // One byte of the tape has all options for rows of earlier runs.
        let earlier_rows = simulation.read_byte();
        Self {
            style,
            is_ordered,
            concurrency,
            unresolved: match earlier_rows % 16 {
                0..4 => WhenUnresolved::Report,
                4..7 => WhenUnresolved::Resend,
                _ => WhenUnresolved::Resolve,
            },
            resends_corrected: earlier_rows >= 128,
            version: earlier_rows / 16 % 3,
            waits_in_flight: simulation.read_below(3) == 1,
            timeout: match simulation.read_below(4) {
                0 => Duration::from_secs(30),
                1 => Duration::from_secs(5),
                _ => Duration::from_secs(150),
            },
            retries: match simulation.read_below(4) {
                0 => 2,
                retries => u32::from(retries) * 2,
            },
            rate: match simulation.read_below(3) {
                1 => Some(u32::from(simulation.read_below(20)) + 1),
                _ => None,
            },
            interruption: match simulation.read_below(12) {
                1 | 2 => Interruption::Cancel,
                3 => Interruption::Stop,
                4 => Interruption::Drop,
                5 | 6 => Interruption::Kill,
                7 | 8 => Interruption::Pause,
                _ => Interruption::None,
            },
            after: simulation.read_time(),
        }
    }

    /// Returns the settings of the last run, which completes all rows.
    pub(crate) fn final_run() -> Self {
        Self {
            style: CallStyle::Job,
            is_ordered: false,
            concurrency: 3,
            unresolved: WhenUnresolved::Resolve,
            resends_corrected: false,
            version: 0,
            waits_in_flight: true,
            timeout: Duration::from_secs(150),
            retries: 2,
            rate: None,
            interruption: Interruption::None,
            after: Duration::ZERO,
        }
    }
}

/// Runs the program of a process. Each result is checked when it is handed over.
pub(crate) async fn run_process(process: Arc<Process>, run: Run, keys: Arc<[String]>) {
    let simulation = Arc::clone(&process.simulation);
    simulation.log(&process, || format!("begins: {run:?}"));
    let earlier = simulation.request_count();
    if run.unresolved == WhenUnresolved::Resend {
        for key in &*keys {
            simulation.allow_resend(key);
        }
    }
    if run.resends_corrected {
        simulation.allow_corrections(&process);
    }
    let Some(client) = build_client(&process, run) else {
        return simulation.report_violation("the client cannot be built".to_owned());
    };
    let began = Instant::now();
    let check = |creation: &Creation| {
        simulation.check(&process, run.style == CallStyle::Twice, earlier, creation);
        if run.resends_corrected
            && creation.is_from_ledger()
            && creation.outcome() == Outcome::Rejected
            && creation.request_differs()
        {
            simulation.report_violation(format!("{:?} was corrected and not sent", creation.key));
        }
        let is_in_flight = |error: &Error| error.is_in_flight();
        if run.waits_in_flight
            && began.elapsed() < run.timeout
            && creation.result.as_ref().is_err_and(is_in_flight)
        {
            simulation.report_violation(format!(
                "the job did not wait for {:?}, which is in flight",
                creation.key
            ));
        }
    };
    match run.style {
        CallStyle::Single => run_single_creates(&process, &client, run, &keys, check).await,
        CallStyle::Twice => {
            run_single_creates(&process, &client, run, &repeat_keys(&keys), check).await
        }
        CallStyle::Job => run_job(&process, &client, run, &keys, check).await,
        CallStyle::WithoutLedger => {
            let own = |key: &String| format!("{NO_LEDGER_PREFIX}{}-{key}", process.number);
            let keys: Arc<[String]> = keys.iter().map(own).collect();
            run_job(&process, &client, run, &keys, check).await;
        }
    }
    simulation.log(&process, || "ends".to_owned());
    process.end();
}

fn repeat_keys(keys: &[String]) -> Vec<String> {
    [keys, keys].concat()
}

fn build_client(process: &Arc<Process>, run: Run) -> Option<Client> {
    let simulation = Arc::clone(&process.simulation);
    let network = Network::new(Arc::clone(process), run.rate);
    let mut builder = Client::builder()
        .base_url(simulation.base_url())
        .service_key_provider(move || current_key(Arc::clone(&simulation)))
        .retry(RetryPolicy::new().max_retries(run.retries))
        .timeout(run.timeout)
        .transport(network);
    if let Some(rate) = run.rate {
        builder = builder.rate_limit(f64::from(rate));
    }
    builder.build().ok()
}

fn build_request(key: &str, version: u8) -> Result<CreateAgent, ValidationError> {
    let first_name = format!("Ada {version}");
    let agent = CreateAgent::builder().email(key).first_name(first_name);
    let agent = agent.last_name("Lovelace").profile(AgentProfile::new());
    agent.build()
}

fn build_row(key: &str, version: u8) -> KeyedRow {
    (key.to_owned(), build_request(key, version)).into()
}

/// Runs a job, and checks that every row that it has taken is handed over once.
async fn run_job(
    process: &Arc<Process>,
    client: &Client,
    run: Run,
    keys: &Arc<[String]>,
    check: impl Fn(&Creation),
) {
    let simulation = &process.simulation;
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let rows: Vec<_> = keys.iter().map(|key| build_row(key, run.version)).collect();
    let rows = rows.into_iter().inspect(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let has_ledger = run.style != CallStyle::WithoutLedger;
    let mut job = client.agents().create_many(rows);
    job = job.concurrency(run.concurrency);
    if has_ledger {
        job = job.ledger(&process.ledger(), "email");
    }
    if !run.is_ordered {
        job = job.unordered();
    }
    if run.waits_in_flight && has_ledger {
        job = job.wait_in_flight();
    }
    if run.resends_corrected && has_ledger {
        job = job.resend_corrected();
    }
    match run.unresolved {
        _ if !has_ledger => {}
        WhenUnresolved::Report => {}
        WhenUnresolved::Resend => job = job.resend_unknown(),
        WhenUnresolved::Resolve => {
            let (process, keys) = (Arc::clone(process), Arc::clone(keys));
            job = job.resolve(move |row| {
                operators::look_up(Arc::clone(&process), Arc::clone(&keys), row)
            });
        }
    }
    let mut stream = job.stream();
    let mut reported = Vec::new();
    let max_unreported = run.concurrency * if has_ledger { 2 } else { 1 };
    let mut handle = |creation: &Creation| {
        check(creation);
        reported.push(creation.index);
        let is_early = run.is_ordered && !reported.is_sorted();
        let taken = taken.load(Ordering::Relaxed);
        if is_early || taken > reported.len() - 1 + max_unreported {
            simulation.report_violation(format!(
                "{taken} rows were taken, and only {reported:?} were handed over"
            ));
        }
    };
    let mut interruption = pin!(wait_for_interruption(process, run).fuse());
    loop {
        let event = match select(pin!(stream.next()), &mut interruption).await {
            Either::Left((creation, _)) => Ok(creation),
            Either::Right((interruption, _)) => Err(interruption),
        };
        match event {
            Ok(Some(creation)) => handle(&creation),
            Ok(None) => break,
            Err(Interruption::Cancel) => {
                simulation.log(process, || "cancels".to_owned());
                stream.cancel().await.iter().for_each(handle);
                break;
            }
            Err(Interruption::Stop) => {
                simulation.log(process, || "takes no more rows".to_owned());
                stream.stop();
            }
            Err(_) => {
                simulation.log(process, || "drops the stream".to_owned());
                return;
            }
        }
    }
    reported.sort_unstable();
    let taken = taken.load(Ordering::Relaxed);
    if reported != (0..taken).collect::<Vec<_>>() {
        simulation.report_violation(format!(
            "{taken} rows were taken, and {reported:?} were handed over"
        ));
    }
}

/// Creates the agents with single, concurrent creates.
async fn run_single_creates(
    process: &Arc<Process>,
    client: &Client,
    run: Run,
    keys: &[String],
    check: impl Fn(&Creation),
) {
    let ledger = process.ledger();
    let mut calls = FuturesUnordered::new();
    for key in keys {
        let Ok(request) = build_request(key, run.version) else {
            continue;
        };
        let call = client.agents().create(request);
        let mut once = call.once(&ledger, key).key_name("email");
        if run.waits_in_flight {
            once = once.wait_in_flight();
        }
        if run.unresolved == WhenUnresolved::Resend {
            once = once.resend_unknown();
        }
        if run.resends_corrected {
            once = once.resend_corrected();
        }
        calls.push(once.send_with(|call| call.send()));
    }
    let mut interruption = pin!(wait_for_interruption(process, run).fuse());
    loop {
        match select(calls.next(), &mut interruption).await {
            Either::Left((Some(creation), _)) => check(&creation),
            Either::Left((None, _)) => return,
            Either::Right(_) => {
                process
                    .simulation
                    .log(process, || "drops its calls".to_owned());
                return;
            }
        }
    }
}

/// Waits until the run's interruption is due. Kills or stops the process itself; returns the other interruptions.
async fn wait_for_interruption(process: &Arc<Process>, run: Run) -> Interruption {
    sleep(run.after).await;
    match run.interruption {
        Interruption::None => {}
        Interruption::Kill => process.kill(),
        Interruption::Pause => process.stop_for(process.simulation.read_time()),
        interruption => return interruption,
    }
    pending().await
}
