//! Runnable examples of dealkit; each file next to this one is a program of its own.
//!
//! Start a sandbox (`cargo run -p dealkit-server`), point `DEALKIT_BASE_URL` and `DEALKIT_SERVICE_KEY`
//! at it, and run one: `cargo run -p dealkit-examples --example quickstart`.

/// The programs in the READMEs and on the site, compiled, and run if they need nothing from outside.
#[cfg(doctest)]
pub mod pages {
    #[doc = include_str!("../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../sdk/README.md")]
    pub struct SdkReadme;
    #[doc = include_str!("../../docs/guide/bulk.md")]
    pub struct GuideBulk;
    #[doc = include_str!("../../docs/guide/calls.md")]
    pub struct GuideCalls;
    #[doc = include_str!("../../docs/guide/errors.md")]
    pub struct GuideErrors;
    #[doc = include_str!("../../docs/guide/first-call.md")]
    pub struct GuideFirstCall;
    #[doc = include_str!("../../docs/guide/ledger.md")]
    pub struct GuideLedger;
    #[doc = include_str!("../../docs/guide/logs.md")]
    pub struct GuideLogs;
    #[doc = include_str!("../../docs/guide/models.md")]
    pub struct GuideModels;
    #[doc = include_str!("../../docs/guide/testing.md")]
    pub struct GuideTesting;
    #[doc = include_str!("../../docs/guide/keys.md")]
    pub struct GuideKeys;
    #[doc = include_str!("../../docs/guide/tls.md")]
    pub struct GuideTls;
}
