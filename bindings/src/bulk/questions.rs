//! Rows in doubt about which the caller is asked: native code runs no Python, so the caller takes the questions and hands
//! in the answers.

use std::collections::BTreeMap;

use dealkit::ledger::{Resolution, RowInDoubt};
use tokio::sync::{mpsc, oneshot};

use crate::python::failure::{Failure, Outcome};

/// What the caller answers; an error if its function has failed.
type Answer = Result<Resolution, &'static str>;

/// A row that waits for an answer.
pub(super) struct Question {
    row: RowInDoubt,
    answer: oneshot::Sender<Answer>,
}

/// Where the rows come from.
pub(super) type Asked = mpsc::UnboundedReceiver<Question>;

/// The function that a job asks, and where its questions come out.
pub(super) fn ask() -> (
    impl Fn(RowInDoubt) -> futures_util::future::BoxFuture<'static, Answer> + Send + Sync + 'static,
    Asked,
) {
    let (sender, asked) = mpsc::unbounded_channel();
    let ask = move |row| {
        let (answer, answered) = oneshot::channel();
        let sent = sender.send(Question { row, answer });
        let answer = async move {
            let failed = Err("nobody has answered");
            match sent {
                Ok(()) => answered.await.unwrap_or(failed),
                Err(_) => failed,
            }
        };
        Box::pin(answer) as _
    };
    (ask, asked)
}

/// The questions that wait for an answer, by number.
#[derive(Default)]
pub(super) struct Questions {
    waiting: BTreeMap<u64, Question>,
    next: u64,
    /// The number after the last one that the caller has been told.
    told: u64,
}

/// A question as Python has it: its number, the row's key, when it was sent in milliseconds since 1970, the status, and the
/// request's id.
pub(super) type Told = (u64, String, i64, Option<u16>, Option<String>);

impl Questions {
    pub(super) fn add(&mut self, question: Question) {
        self.waiting.insert(self.next, question);
        self.next += 1;
    }

    /// Whether there is one that the caller does not know.
    pub(super) fn has_news(&self) -> bool {
        self.next > self.told
    }

    /// All those that wait for an answer, however often the caller was told of them.
    pub(super) fn tell(&mut self) -> Vec<Told> {
        // Rows that were given up wait no longer.
        self.waiting
            .retain(|_, question| !question.answer.is_closed());
        self.told = self.next;
        let told = self.waiting.iter().map(|(number, Question { row, .. })| {
            let status = row.status.map(u16::from);
            let sent_at = row.sent_at.timestamp_millis();
            (
                *number,
                row.key.clone(),
                sent_at,
                status,
                row.request_id.clone(),
            )
        });
        told.collect()
    }

    /// Hands in an answer. An agent has its identifier; the other answers are `no_agent`, `unknown` and `failed`.
    pub(super) fn answer(&mut self, number: u64, said: &str, id: Option<String>) -> Outcome<()> {
        let answer = match (said, id) {
            ("agent", Some(id)) => Ok(Resolution::Agent(id.into())),
            ("no_agent", None) => Ok(Resolution::NoAgent),
            ("unknown", None) => Ok(Resolution::Unknown),
            ("failed", None) => Err("the function has failed"),
            _ => return Err(Failure::Value("there is no such answer".to_owned())),
        };
        if let Some(question) = self.waiting.remove(&number) {
            // Nobody waits for it if the row was given up meanwhile.
            let _ = question.answer.send(answer);
        }
        Ok(())
    }
}
