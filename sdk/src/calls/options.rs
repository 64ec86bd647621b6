//! The options of a call, for single calls and for jobs of many calls.

use std::{fmt, time::Duration};

use crate::{json::unreadable::Unreadable, transport::retry::attempts::RetryPolicy};

/// Options of a call, which replace the client's options. For programs that set the same options for several calls.
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
#[doc(alias("timeout", "retry", "per-call options"))]
pub struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<RetryPolicy>,
    max_retries: Option<u32>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) unreadable: Option<Unreadable>,
}

impl CallOptions {
    /// Makes a value without options: the client's options apply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum duration of the call, including all attempts.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.timeout = Some(total);
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Sets the number of retries after the first attempt, in place of the number in the policy set with [`retry`](Self::retry)
    /// or in the client's policy.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Returns the retry policy of the call: the client's, with this call's changes.
    pub(crate) fn policy(&self, client_policy: RetryPolicy) -> RetryPolicy {
        let policy = self.retry.unwrap_or(client_policy);
        match self.max_retries {
            Some(retries) => policy.max_retries(retries),
            None => policy,
        }
    }

    /// Adds a header, replacing the client's header with that name. The service key and the headers that frame the message,
    /// such as `Content-Length`, cannot be set: a call with such a header fails. dealkit decodes no Content-Encoding: if you
    /// set `Accept-Encoding`, decode the body yourself.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let header = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.headers.push(header);
        self
    }

    /// Sets the handling of optional fields of the response that cannot be read.
    pub fn unreadable(mut self, unreadable: Unreadable) -> Self {
        self.unreadable = Some(unreadable);
        self
    }

    /// Returns these options, replaced by the options that are set in `later`. The headers of both are sent.
    pub(crate) fn with(mut self, later_options: Self) -> Self {
        self.timeout = later_options.timeout.or(self.timeout);
        self.retry = later_options.retry.or(self.retry);
        // A later policy replaces the number of retries too.
        let earlier_retries = self.max_retries.filter(|_| later_options.retry.is_none());
        self.max_retries = later_options.max_retries.or(earlier_retries);
        self.headers.extend(later_options.headers);
        self.unreadable = later_options.unreadable.or(self.unreadable);
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
