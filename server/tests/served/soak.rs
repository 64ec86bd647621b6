//! Many calls through many faults: no agent is created twice, none that was acknowledged is lost, the outcome of an error is
//! true, every call ends in time, nothing panics, and no descriptor is leaked. Only `make soak` runs it, alone in its process.

use std::{
    collections::HashMap,
    panic,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use dealkit::{AgentProfile, Client, CreateAgent, Error, Outcome};
use dealkit_server::{Cut, Fault, How, Sandbox};
use tokio::task::JoinSet;

const CALLS_A_ROUND: usize = 500;
const IN_FLIGHT: usize = 64;

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The results of the calls of one kind.
#[derive(Debug, Default)]
struct Tally {
    succeeded: usize,
    failed: usize,
    latest: Duration,
}

/// The faults of a round: every kind, each with a probability of its own.
fn add_faults(sandbox: &Sandbox, round: u64) {
    let millis = Duration::from_millis;
    let mut faults = vec![
        Fault::status(500),
        Fault::status(503),
        Fault::status(502).body("<html>"),
        Fault::status(408),
        Fault::status(404),
        Fault::status(200).body("not JSON"),
        Fault::status(204),
        Fault::delay(millis(20)),
        Fault::delay(millis(2_000)),
        Fault::garbage(),
        Fault::act_then_reset(),
        Fault::act_then_reset().delayed(millis(50)),
    ];
    for how in [How::Reset, How::Eof, How::Stall] {
        for cut in [
            Cut::BeforeHead,
            Cut::InHead,
            Cut::AfterBytes(0),
            Cut::AfterBytes(40),
        ] {
            faults.push(Fault::cut(cut).how(how));
        }
    }
    // A service that is overloaded slows its client down, so this happens only in some rounds.
    if round.is_multiple_of(4) {
        faults.push(Fault::status(429).retry_after(0));
        faults.push(Fault::status(503).retry_after(0));
    }
    for (index, fault) in faults.into_iter().enumerate() {
        let seed = round * 100 + index as u64;
        let fault = fault.forever().probability(0.01).seed(seed);
        sandbox.fail_next(fault).unwrap();
    }
}

fn client(sandbox: &Sandbox, round: u64) -> Client {
    Client::builder()
        .base_url(sandbox.url())
        .service_key(sandbox.service_key())
        .timeout(TIMEOUT)
        .attempt_timeout(Duration::from_millis(300))
        .http2_prior_knowledge(round % 2 == 1)
        .build()
        .unwrap()
}

/// A call, and how long it took.
type Called = (String, Result<Option<String>, Error>, Duration);

async fn call(client: Client, name: String) -> Called {
    let began = Instant::now();
    let outcome = if name.starts_with("g_") {
        client.deals().retrieve(&name).await.map(|deal| {
            assert_eq!(deal.id, name.as_str());
            None
        })
    } else {
        let request = CreateAgent::builder()
            .email(format!("{name}@example.com"))
            .first_name(&name)
            .last_name("Soak")
            .profile(AgentProfile::new())
            .build()
            .unwrap();
        let created = client.agents().create(request).await;
        created.map(|agent| Some(agent.id.to_string()))
    };
    (name, outcome, began.elapsed())
}

async fn round(sandbox: &Sandbox, number: u64, tally: &mut Tally) {
    sandbox.reset();
    add_faults(sandbox, number);
    let client = client(sandbox, number);
    let mut calls = JoinSet::new();
    let mut ended: Vec<Called> = Vec::new();
    for index in 0..CALLS_A_ROUND {
        if calls.len() == IN_FLIGHT {
            ended.push(calls.join_next().await.unwrap().unwrap());
        }
        let name = if index % 2 == 0 {
            format!("g_{}", index % 100)
        } else {
            format!("soak-{number}-{index}")
        };
        calls.spawn(call(client.clone(), name));
    }
    ended.extend(calls.join_all().await);

    let mut agents: HashMap<String, String> = HashMap::new();
    for agent in sandbox.agents() {
        let twice = agents.insert(agent.first_name.clone(), agent.id.to_string());
        assert_eq!(twice, None, "created twice");
    }
    for (name, outcome, took) in ended {
        tally.latest = tally.latest.max(took);
        let created = agents.get(&name);
        match outcome {
            Ok(id) => {
                tally.succeeded += 1;
                assert_eq!(id.as_ref(), created, "{name}: acknowledged and lost");
            }
            Err(error) => {
                tally.failed += 1;
                assert!(!error.to_string().contains(&name), "{error}");
                if name.starts_with("soak") {
                    check(&name, &error, created.is_some());
                }
            }
        }
    }
}

/// Checks that what an error says about the agent is true.
fn check(name: &str, error: &Error, is_created: bool) {
    match error.outcome() {
        Outcome::NotSent | Outcome::Rejected => assert!(!is_created, "{name} exists: {error}"),
        // A made-up 200 claims that there is an agent. It is the one lie among the faults.
        Outcome::Succeeded => assert!(
            is_created
                || matches!(
                    error.status().map(|status| status.as_u16()),
                    Some(200 | 204)
                ),
            "{name} does not exist: {error}"
        ),
        _ => {}
    }
}

fn descriptors() -> Option<usize> {
    std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count)
}

/// Runs `rounds` rounds; returns the longest time by which a call exceeded its limit, less the lateness of a mere
/// timer.
fn soak(rounds: u64) -> Duration {
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, shown) = (Arc::clone(&panics), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        counted.fetch_add(1, Ordering::Relaxed);
        shown(info);
    }));
    // The first runtime of a process opens the descriptors for signals, which are never closed.
    Sandbox::builder().start().unwrap().shutdown();
    let before = descriptors();
    let mut tally = Tally::default();
    let mut hiccup = Duration::ZERO;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = Sandbox::builder().generate(100, 1);
        let sandbox = builder
            .shutdown_timeout(Duration::from_millis(100))
            .start()
            .unwrap();
        let calls = async {
            for number in 0..rounds {
                round(&sandbox, number, &mut tally).await;
            }
        };
        tokio::select! {
            () = calls => {}
            () = watch_hiccups(&mut hiccup) => {}
        }
        sandbox.shutdown();
    });
    drop(runtime);
    println!(
        "soak: {tally:?}, descriptors {before:?} before and {:?} after",
        descriptors()
    );
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked");
    // The faults did something, and did not do everything.
    let calls = tally.succeeded + tally.failed;
    assert!(
        tally.succeeded > calls / 3 && tally.failed > calls / 50,
        "{tally:?}"
    );
    assert_eq!(descriptors(), before, "descriptors are left");
    tally.latest.saturating_sub(TIMEOUT + hiccup)
}

/// Keeps the longest time by which the machine was late for a mere timer.
async fn watch_hiccups(hiccup: &mut Duration) {
    loop {
        let began = Instant::now();
        let nap = Duration::from_millis(5);
        tokio::time::sleep(nap).await;
        *hiccup = (*hiccup).max(began.elapsed().saturating_sub(nap));
    }
}

#[test]
#[ignore = "takes minutes, times the calls, and counts the descriptors and panics of the whole process: make soak-faults"]
fn twenty_thousand_faulty_calls_end_in_time() {
    let late = soak(40);
    assert!(
        late <= Duration::from_millis(200),
        "a call was {late:?} late"
    );
}
