//! Waiting for requests, so that a test of something that works in the background need not sleep.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use tokio::time::timeout;

use crate::sandbox::journal::{Journal, RecordedRequest};

/// Fewer requests came than a test waited for. It says which did, by their methods, the templates of their paths, and their
/// statuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSeen(String);

impl NotSeen {
    fn new(found: usize, count: usize, requests: &[RecordedRequest]) -> Self {
        let mut seen = BTreeMap::<String, usize>::new();
        for request in requests {
            let status = (request.status.as_ref()).map_or("without a response", StatusCode::as_str);
            let what = format!("{} {} {status}", request.method, request.path_template());
            *seen.entry(what).or_default() += 1;
        }
        let seen = seen.iter().map(|(what, count)| format!("{count} × {what}"));
        let mut seen = seen.collect::<Vec<_>>().join(", ");
        if seen.is_empty() {
            seen = "none".to_owned();
        }
        Self(format!(
            "{found} of {count} requests came in time; the sandbox has seen {seen}"
        ))
    }
}

impl Journal {
    /// Resolves once something is found, which is looked for again whenever a request is recorded.
    pub(crate) async fn wait<T>(&self, found: impl Fn() -> Option<T>) -> T {
        loop {
            // From here on, nothing that comes is missed.
            let changed = self.changed.notified();
            if let Some(found) = found() {
                return found;
            }
            changed.await;
        }
    }

    /// The requests that were dealt with (their responses were sent, or their connections broken off) and that are wanted,
    /// once there are so many.
    pub(crate) async fn wait_for(
        &self,
        count: usize,
        within: Duration,
        wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> Result<Vec<RecordedRequest>, NotSeen> {
        let found = || {
            let mut requests = self.requests();
            requests.retain(|request| request.is_done && wanted(request));
            requests
        };
        let enough = self.wait(|| Some(found()).filter(|found| found.len() >= count));
        let waited = timeout(within, enough).await;
        waited.map_err(|_| NotSeen::new(found().len(), count, &self.requests()))
    }
}
