//! In place of `call_metrics`, without the feature `metrics`: measures nothing.

use std::time::Duration;

use url::Url;

use crate::transport::{operation::Operation, outcome::Outcome};

pub(crate) struct CallMetrics;

impl CallMetrics {
    pub(crate) fn new(_: &Url) -> Self {
        Self
    }

    pub(crate) fn start_call(&self, _: &Operation) {}

    pub(crate) fn end_call(
        &self,
        _: &Operation,
        _: Outcome,
        _: Option<&str>,
        _: impl FnOnce() -> Duration,
        _: impl FnOnce() -> u32,
    ) {
    }

    pub(crate) fn end_attempt(
        &self,
        _: &Operation,
        _: u32,
        _: Duration,
        _: Option<i64>,
        _: Option<&str>,
    ) {
    }

    pub(crate) fn add_unreadable(&self, _: &Operation, _: usize) {}
}
