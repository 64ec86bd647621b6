//! After the same writes, every store must return the same rows: the simulator's store in memory, SQLite, and PostgreSQL.

use std::{cell::Cell, sync::Arc};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use tempfile::TempDir;

use super::{
    Cluster, Ledger, NOW, RequestInfo, RowEntry, State, Store, WhenUnresolved, Write, open_job,
    open_with_keys,
};
use crate::{
    ledger::{key_hash::ValueHash, maintenance, memory::Database, process::Process},
    value::AgentId,
};

/// An event that affects one row, or the ledger's header.
#[derive(Clone, Debug)]
enum Event {
    Claim {
        job: usize,
        when_unresolved: WhenUnresolved,
        resends_corrected: bool,
        request: RequestInfo,
    },
    RecordOutcome {
        job: usize,
        outcome: Option<RowEntry>,
    },
    Resolve {
        job: usize,
        agent_id: Option<AgentId>,
    },
    /// The job ends, and another one starts.
    Restart {
        job: usize,
    },
    RecordAgent {
        agent_id: Option<AgentId>,
    },
    MarkUnknown,
    NameKeys {
        keys: &'static str,
    },
    ChangeBaseUrl,
}

const ROWS: usize = 3;

fn agents() -> impl Strategy<Value = Option<AgentId>> {
    let agent = |id| Just(Some(AgentId::from(id)));
    prop_oneof![
        Just(None),
        agent("a_1"),
        agent("a_2"),
        agent(""),
        agent("n/a")
    ]
}

/// Returns a strategy for requests. There are few, so that a row often has the same request again.
fn requests() -> impl Strategy<Value = RequestInfo> {
    let hashes = prop_oneof![Just(None), Just(Some([7; 16])), Just(Some([8; 16]))];
    hashes.prop_map(|hash| RequestInfo {
        body_hash: hash.map(ValueHash),
        email_hash: hash.map(ValueHash),
        label: None,
    })
}

fn row_entries() -> impl Strategy<Value = Option<RowEntry>> {
    let states = prop_oneof![
        Just(State::Succeeded),
        Just(State::Rejected),
        Just(State::Unknown),
        Just(State::Resolved),
    ];
    let details = (
        prop::option::of(100..600_u16),
        prop::option::of("[a-z]{1,5}"),
        prop::option::of("\\PC{1,5}"),
        requests(),
    );
    let entry = (states, agents(), details).prop_map(|(state, agent_id, details)| {
        let (status, request_id, title, request) = details;
        RowEntry {
            agent_id: agent_id.map(|id| id.to_string()),
            status,
            request_id,
            code: title.clone(),
            request: RequestInfo {
                label: title.clone(),
                ..request
            },
            title,
            ..RowEntry::new(state)
        }
    });
    prop::option::of(entry)
}

fn events() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let when_unresolved = prop_oneof![
        Just(WhenUnresolved::Report),
        Just(WhenUnresolved::Resend),
        Just(WhenUnresolved::Ask),
    ];
    let keys = prop_oneof![Just("email"), Just("id")];
    let event = prop_oneof![
        6 => (0..2_usize, when_unresolved, any::<bool>(), requests()).prop_map(
            |(job, when_unresolved, resends_corrected, request)| Event::Claim {
                job,
                when_unresolved,
                resends_corrected,
                request,
            }
        ),
        6 => (0..2_usize, row_entries()).prop_map(|(job, outcome)| Event::RecordOutcome { job, outcome }),
        2 => (0..2_usize, agents()).prop_map(|(job, agent_id)| Event::Resolve { job, agent_id }),
        2 => (0..2_usize).prop_map(|job| Event::Restart { job }),
        2 => agents().prop_map(|agent_id| Event::RecordAgent { agent_id }),
        2 => Just(Event::MarkUnknown),
        1 => keys.prop_map(|keys| Event::NameKeys { keys }),
        1 => Just(Event::ChangeBaseUrl),
    ];
    vec((0..ROWS, event), 1..40)
}

/// A process that never ends and whose database never fails.
#[derive(Debug)]
struct FaultlessProcess;

impl Process for FaultlessProcess {}

/// A ledger and two jobs that have opened it.
struct OpenedLedger {
    ledger: Ledger,
    jobs: [Box<dyn Store>; 2],
}

impl OpenedLedger {
    fn new(ledger: Ledger) -> Self {
        let jobs = [open_job(&ledger), open_job(&ledger)];
        Self { ledger, jobs }
    }

    fn write(&mut self, job: usize, write: Write) -> String {
        format!("{:?}", self.jobs[job].write(&[&write], &[], NOW))
    }

    /// Applies an event, and returns its result and everything that can be read afterwards, as strings.
    fn apply(&mut self, row: usize, event: Event) -> Vec<String> {
        let name = row.to_string();
        let key = self.jobs[0].header().hash(&name);
        let result = match event {
            Event::Claim {
                job,
                when_unresolved,
                resends_corrected,
                request,
            } => self.write(
                job,
                Write::Claim {
                    key,
                    when_unresolved,
                    resends_corrected,
                    request,
                },
            ),
            Event::RecordOutcome { job, outcome } => {
                self.write(job, Write::RecordOutcome { key, outcome })
            }
            Event::Resolve { job, agent_id } => {
                let index = row;
                self.write(
                    job,
                    Write::Resolve {
                        key,
                        index,
                        agent_id,
                    },
                )
            }
            Event::Restart { job } => {
                self.jobs[job] = open_with_keys(&self.ledger, None).unwrap();
                String::new()
            }
            Event::RecordAgent { agent_id } => {
                let resolved = self.ledger.resolve([(&name, agent_id)]);
                format!("{:?}", resolved.map_err(|error| error.kind()))
            }
            Event::MarkUnknown => {
                let store = &mut *self.jobs[0];
                format!("{:?}", maintenance::mark_unknown(store, None, &[name], NOW))
            }
            Event::NameKeys { keys } => {
                format!(
                    "{:?}",
                    self.jobs[0].bind_key_name(super::SERVICE, Some(keys))
                )
            }
            Event::ChangeBaseUrl => {
                // The old URL is restored, so that later jobs are still accepted.
                let urls = ["https://elsewhere.example.com", super::SERVICE];
                format!("{:?}", urls.map(|url| self.ledger.set_base_url(url)))
            }
        };
        let names: Vec<_> = (0..ROWS).map(|row| row.to_string()).collect();
        let summary = self.ledger.summary().unwrap();
        let mut unresolved: Vec<_> = summary
            .unresolved
            .iter()
            .map(|row| format!("{row:?}"))
            .collect();
        unresolved.sort();
        let emails = self.jobs[1].read_emails(&[ValueHash([7; 16])]).unwrap();
        let mut emails: Vec<_> = emails.iter().flatten().map(format_without_job).collect();
        emails.sort();
        vec![
            result,
            format!("{:?}", self.ledger.look_up(None, &names).unwrap()),
            format!(
                "{:?}",
                (summary.succeeded, summary.rejected, summary.in_flight)
            ),
            format!(
                "{:?}",
                (summary.resolved_with_agent, summary.resolved_without_agent)
            ),
            format!("{:?}", (summary.service, summary.key_name)),
            unresolved.concat(),
            emails.concat(),
            format!("{:?}", self.jobs[0].is_empty().unwrap()),
        ]
    }
}

/// Formats an entry without the values that differ between stores: the number of the job, and the time of a manual change.
fn format_without_job(entry: &RowEntry) -> String {
    let is_alive = entry.job.map(|job| job.is_alive);
    let entry = RowEntry {
        job: None,
        noted_at: 0,
        ..entry.clone()
    };
    format!("{entry:?} {is_alive:?}")
}

#[test]
fn every_store_reads_the_same_after_the_same_writes() {
    let folder = TempDir::new().unwrap();
    let cases = Cell::new(0);
    let cluster = Cluster::shared();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let compare = |events: Vec<(usize, Event)>| -> Result<(), TestCaseError> {
        cases.set(cases.get() + 1);
        let file = folder.path().join(format!("{}.ledger", cases.get()));
        let mut in_memory = OpenedLedger::new(Ledger::in_memory(
            &Database::new(),
            Arc::new(FaultlessProcess),
        ));
        let mut stores = vec![OpenedLedger::new(Ledger::sqlite(file))];
        if cases.get() % 8 == 1 {
            let postgres = cluster.map(|cluster| cluster.new_url().parse().unwrap());
            stores.extend(postgres.map(OpenedLedger::new));
        }
        for (row, event) in events {
            let expected = in_memory.apply(row, event.clone());
            for store in &mut stores {
                prop_assert_eq!(&store.apply(row, event.clone()), &expected);
            }
        }
        Ok(())
    };
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(64)
    };
    TestRunner::new(config).run(&events(), compare).unwrap();
}
