//! Waiting for requests, so that a test of something that works in the background need not sleep.

use std::{collections::BTreeMap, fmt, time::Duration};

use http::StatusCode;
use tokio::time::timeout;

use crate::{
    contract::route::{fits, is_path},
    sandbox::journal::{Journal, RecordedRequest},
};

/// Which requests to wait for, and how many of them: see [`Service::wait_for`](crate::Service::wait_for).
#[derive(Clone, Default)]
#[must_use]
pub struct Wanted {
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) status: Option<u16>,
    /// Only requests with a higher number.
    pub(super) after: u64,
    pub(super) count: usize,
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may be personal.
        let mut shown = f.debug_struct("Wanted");
        shown.field("count", &self.count).finish_non_exhaustive()
    }
}

impl Wanted {
    /// This many requests, at most the 1,000 that are kept.
    pub fn requests(count: usize) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }

    /// Only those with this method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Only those to this path; a segment in braces, as in `/v1/deals/{id}`, matches any one segment.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Only those that got this status.
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    pub(super) fn selects(&self, request: &RecordedRequest) -> bool {
        let status = request.status.map(|status| status.as_u16());
        let method = request.method.as_str();
        request.number > self.after
            && (self.method.as_ref()).is_none_or(|only| only.eq_ignore_ascii_case(method))
            && (self.path.as_ref()).is_none_or(|only| is_path(&request.path, only, fits))
            && self.status.is_none_or(|only| status == Some(only))
    }

    /// Whether the request is one of them, and was dealt with.
    fn counts(&self, request: &RecordedRequest) -> bool {
        request.is_done && self.selects(request)
    }

    /// Those of these requests, if there are enough.
    pub(crate) fn find(
        &self,
        requests: Vec<RecordedRequest>,
    ) -> Result<Vec<RecordedRequest>, NotSeen> {
        let found: Vec<_> = requests
            .iter()
            .filter(|request| self.counts(request))
            .cloned()
            .collect();
        if found.len() >= self.count {
            return Ok(found);
        }
        let mut seen = BTreeMap::<String, usize>::new();
        for request in &requests {
            let status = (request.status.as_ref()).map_or("without a response", StatusCode::as_str);
            let what = format!("{} {} {status}", request.method, request.path_template());
            *seen.entry(what).or_default() += 1;
        }
        let seen: Vec<_> = seen
            .iter()
            .map(|(what, count)| format!("{count} × {what}"))
            .collect();
        Err(NotSeen(format!(
            "{} of {} requests came in time; the sandbox has seen {}",
            found.len(),
            self.count,
            if seen.is_empty() {
                "none".to_owned()
            } else {
                seen.join(", ")
            },
        )))
    }
}

/// Fewer requests came than a test waited for. It says which did, by their methods, the templates of their paths, and their
/// statuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSeen(String);

impl Journal {
    /// Resolves once so many requests were dealt with: their responses were sent, or their connections broken off.
    pub(crate) async fn wait(&self, wanted: &Wanted) {
        loop {
            // From here on, nothing that comes is missed.
            let changed = self.changed.notified();
            if self.count(|request| wanted.counts(request)) >= wanted.count {
                return;
            }
            changed.await;
        }
    }

    /// The same within a time.
    pub(crate) async fn wait_for(
        &self,
        wanted: &Wanted,
        within: Duration,
    ) -> Result<Vec<RecordedRequest>, NotSeen> {
        // What came at the last moment has come.
        let _ = timeout(within, self.wait(wanted)).await;
        wanted.find(self.requests())
    }
}
