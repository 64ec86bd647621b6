//! Many calls with many faults: no agent is created twice, no acknowledged agent is lost, the outcomes of errors are true, every
//! call ends in time, nothing panics, and no descriptor is leaked. Only `make soak` runs this test, alone in its process.

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
use dealkit_server::{AfterCut, Cut, Fault, Sandbox};
use tokio::task::JoinSet;

const CALLS_A_ROUND: usize = 500;
const IN_FLIGHT: usize = 64;

/// Time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The results of the calls of one operation.
#[derive(Debug, Default)]
struct Tally {
    succeeded: usize,
    failed: usize,
    latest: Duration,
}

/// Adds the faults of a round: each kind, with its own probability.
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
        Fault::malformed(),
        Fault::process_then_reset(),
        Fault::process_then_reset().delayed(millis(50)),
    ];
    for how in [AfterCut::Reset, AfterCut::Eof, AfterCut::Stall] {
        for cut in [
            Cut::BeforeHead,
            Cut::InHead,
            Cut::AfterBytes(0),
            Cut::AfterBytes(40),
        ] {
            faults.push(Fault::cut(cut).after_cut(how));
        }
    }
    // Only in some rounds, because a client reduces its rate when the service is overloaded.
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

/// A call and its duration.
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

/// Checks that the error's outcome matches the existence of the agent.
fn check(name: &str, error: &Error, is_created: bool) {
    match error.outcome() {
        Outcome::NotSent | Outcome::Rejected => assert!(!is_created, "{name} exists: {error}"),
        // A fault with status 200 claims that the agent exists: the only fault with a false response.
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

/// Runs `rounds` rounds. Returns the longest time by which a call exceeded its limit, minus the delay of a plain timer.
fn soak(rounds: u64) -> Duration {
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, shown) = (Arc::clone(&panics), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        counted.fetch_add(1, Ordering::Relaxed);
        shown(info);
    }));
    // The first runtime of a process opens descriptors for signals, which stay open.
    Sandbox::builder().start().unwrap().shutdown();
    let before = descriptors();
    let mut tally = Tally::default();
    let mut timer_delay = Duration::ZERO;
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
            () = measure_timer_delay(&mut timer_delay) => {}
        }
        sandbox.shutdown();
    });
    drop(runtime);
    println!(
        "soak: {tally:?}, descriptors {before:?} before and {:?} after",
        descriptors()
    );
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked");
    // Some calls failed, and some succeeded.
    let calls = tally.succeeded + tally.failed;
    assert!(
        tally.succeeded > calls / 3 && tally.failed > calls / 50,
        "{tally:?}"
    );
    assert_eq!(descriptors(), before, "descriptors are left");
    tally.latest.saturating_sub(TIMEOUT + timer_delay)
}

/// Measures the longest delay of a plain timer on this machine.
async fn measure_timer_delay(max_delay: &mut Duration) {
    loop {
        let began = Instant::now();
        let nap = Duration::from_millis(5);
        tokio::time::sleep(nap).await;
        *max_delay = (*max_delay).max(began.elapsed().saturating_sub(nap));
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
