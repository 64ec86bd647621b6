//! The options of one call, stated once for single calls and for many.

use std::{fmt, time::Duration};

use crate::{json::unreadable::Unreadable, transport::retry::attempts::RetryPolicy};

/// Options of a call, which override the client's own, for programs that give several calls the same ones.
///
/// ```
/// use std::time::Duration;
///
/// use dealkit::CallOptions;
///
/// # fn example(client: dealkit::Client) {
/// let options = CallOptions::new().timeout(Duration::from_secs(5)).header("x-tenant", "7");
/// let one = client.deals().retrieve("d_1").options(options.clone());
/// let many = client.deals().retrieve_many(["d_2", "d_3"]).options(options);
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<RetryPolicy>,
    max_retries: Option<u32>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) unreadable: Option<Unreadable>,
}

impl CallOptions {
    /// No options: everything is as on the client.
    pub fn new() -> Self {
        Self::default()
    }

    /// The maximum duration of the call, including all attempts.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.timeout = Some(total);
        self
    }

    /// What is retried.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// How many times a request is retried after the first attempt, under a policy that is otherwise the client's, or that
    /// of [`retry`](Self::retry).
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// What is retried, if this is the client's policy.
    pub(crate) fn policy(&self, of_client: RetryPolicy) -> RetryPolicy {
        let policy = self.retry.unwrap_or(of_client);
        match self.max_retries {
            Some(retries) => policy.max_retries(retries),
            None => policy,
        }
    }

    /// Adds a header, replacing the client's own one with that name. The service key and the headers that frame the
    /// message cannot be set: the call then fails. dealkit decodes no content coding: with an `Accept-Encoding`, you do.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let header = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.headers.push(header);
        self
    }

    /// What to do about an unreadable optional field of the response.
    pub fn unreadable(mut self, unreadable: Unreadable) -> Self {
        self.unreadable = Some(unreadable);
        self
    }

    /// These options, with those that are set in `later` instead, and its headers as well.
    pub(crate) fn with(mut self, later: Self) -> Self {
        self.timeout = later.timeout.or(self.timeout);
        self.retry = later.retry.or(self.retry);
        // A policy that is set later has its own number.
        let earlier = self.max_retries.filter(|_| later.retry.is_none());
        self.max_retries = later.max_retries.or(earlier);
        self.headers.extend(later.headers);
        self.unreadable = later.unreadable.or(self.unreadable);
        self
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("retry", &self.retry)
            .field("unreadable", &self.unreadable)
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}
