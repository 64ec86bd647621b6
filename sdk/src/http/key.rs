//! The service key: where it comes from, and the one in use.
//!
//! A text, a file and a provider are all one [`KeySource`], whose answer is kept until the time that it told is over or the
//! service refuses it. The calls that need a new one share the asking.

use std::{
    any::type_name,
    fs,
    future::{Future, ready},
    io::Read as _,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use http::{HeaderName, HeaderValue};
use tokio::{
    runtime::{Handle, Id},
    task::spawn_blocking,
    time::{Instant, timeout},
};

use crate::{
    contract::wire,
    http::redact::Redactor,
    value::{
        duration::in_words,
        marked_text::{is_quoted, remove_mark},
        opaque,
        words::{Setting, Words, words},
    },
};

/// The header that carries the key, parsed once.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::SERVICE_KEY_HEADER);

/// How long the content of a file is taken to be what it was.
const FILE_KEPT: Duration = Duration::from_secs(1);

/// The end of the message about a key in quotation marks.
const IN_QUOTES: &str = "must not be in quotation marks: remove them";

/// How much of a file is read, in bytes: a key and white space around it.
const FILE_READ: u64 = 64 * 1024;

/// A service key, as returned by a [`KeyProvider`]. Never shown by `Debug`.
///
/// ```
/// use std::time::Duration;
///
/// use dealkit::ServiceKey;
///
/// let key = ServiceKey::new("my-key").expires_in(Duration::from_secs(15 * 60));
/// assert!(!format!("{key:?}").contains("my-key"));
/// ```
#[derive(Clone)]
pub struct ServiceKey {
    text: String,
    expires_in: Option<Duration>,
}

impl ServiceKey {
    /// A key that is valid until the service rejects it: 1 to 1,024 visible ASCII characters.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            text: key.into(),
            expires_in: None,
        }
    }

    /// Asks the provider again after this time. Give somewhat less than the key has left: a request takes time to
    /// arrive.
    #[must_use]
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.expires_in = Some(time);
        self
    }
}

impl<T: Into<String>> From<T> for ServiceKey {
    fn from(key: T) -> Self {
        Self::new(key)
    }
}

opaque!(ServiceKey);

/// Provides the service key, say from a vault; see
/// [`ClientBuilder::service_key_provider`](crate::ClientBuilder::service_key_provider).
///
/// Any closure that returns a future of a key, as text or a [`ServiceKey`], is one:
///
/// ```
/// use dealkit::Client;
///
/// # async fn read_from_vault(path: &str) -> Result<String, std::io::Error> { Ok("my-key".to_owned()) }
/// let client = Client::builder()
///     .base_url("https://deals.example.com")
///     .service_key_provider(|| async { read_from_vault("deals/key").await })
///     .build()?;
/// # let _ = client;
/// # Ok::<(), dealkit::Error>(())
/// ```
///
/// A type of your own can hold what it needs:
///
/// ```
/// use std::{convert::Infallible, time::Duration};
///
/// use dealkit::{KeyProvider, ServiceKey};
///
/// struct Signed {
///     secret: String,
/// }
///
/// impl KeyProvider for Signed {
///     type Error = Infallible;
///
///     async fn service_key(&self) -> Result<ServiceKey, Infallible> {
///         let key = format!("signed-with-{}", self.secret.len());
///         Ok(ServiceKey::new(key).expires_in(Duration::from_secs(60)))
///     }
/// }
/// ```
pub trait KeyProvider: Send + Sync + 'static {
    /// Why there is no key. It is neither shown nor kept, because it may contain a key; only the name of its type is.
    /// Log the details in the provider.
    type Error;

    /// The key to use from now on. This future is dropped once no call is waiting for it any longer.
    fn service_key(&self) -> impl Future<Output = Result<ServiceKey, Self::Error>> + Send;
}

impl<F, A, K, E> KeyProvider for F
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<K, E>> + Send,
    K: Into<ServiceKey>,
{
    type Error = E;

    async fn service_key(&self) -> Result<ServiceKey, E> {
        self().await.map(Into::into)
    }
}

/// Where keys come from. Never shown by `Debug`.
#[derive(Clone)]
#[doc(hidden)]
pub enum KeySource {
    Text(String),
    File(PathBuf),
    Provider(Arc<Ask>),
}

opaque!(KeySource);

type Ask = dyn Fn() -> BoxFuture<'static, Result<ServiceKey, Words>> + Send + Sync;

impl KeySource {
    pub(crate) fn provider<P: KeyProvider>(provider: P) -> Self {
        let provider = Arc::new(provider);
        Self::asking(move || {
            let provider = Arc::clone(&provider);
            async move {
                let key = provider.service_key().await;
                key.map_err(|_| type_name::<P::Error>().to_owned())
            }
        })
    }

    /// The same for bindings, which name the type of an error by themselves.
    pub fn asking<A>(ask: impl Fn() -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Result<ServiceKey, String>> + Send + 'static,
    {
        Self::Provider(Arc::new(move || {
            // A provider that panics is one that fails: of the calls that share its answer, only one could pass on the panic.
            let asked = AssertUnwindSafe(ask()).catch_unwind();
            Box::pin(async move {
                asked
                    .await
                    .unwrap_or_else(|_| Err("a panic".to_owned()))
                    .map_err(|error| {
                        words!(
                            "the provider of {} failed with {}; its message is not shown, because it may contain a key",
                            Setting::ServiceKey,
                            error
                        )
                    })
            })
        }))
    }

    /// The key as the source has it now.
    fn ask(&self) -> BoxFuture<'static, Result<ServiceKey, Words>> {
        match self {
            Self::Text(key) => ready(Ok(ServiceKey::new(key))).boxed(),
            Self::File(path) => {
                let path = path.clone();
                // A file may be on a network, and take long.
                let reading = spawn_blocking(move || read(&path));
                async move {
                    reading.await.unwrap_or_else(|_| {
                        Err(words!(
                            "{} was not read: the runtime is shutting down",
                            Setting::ServiceKeyFile
                        ))
                    })
                }
                .boxed()
            }
            Self::Provider(ask) => ask(),
        }
    }
}

/// Sources are equal if they have the same key at any time.
impl PartialEq for KeySource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Provider(one), Self::Provider(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

fn read(path: &Path) -> Result<ServiceKey, Words> {
    let wrong = |why: Words| {
        words!(
            "{} {} {}",
            Setting::ServiceKeyFile,
            path.display().to_string(),
            why
        )
    };
    let unreadable = |error| wrong(format!("cannot be read: {error}").into());
    // A pipe can be read once only, and reading it again would never end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(wrong("is not a file".into()));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_READ)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    // Text that is not UTF-8 contains no key, as the check below reports.
    let text = String::from_utf8_lossy(&remove_mark(&bytes)).into_owned();
    let key = text.trim();
    if is_quoted(key) {
        return Err(wrong(IN_QUOTES.into()));
    }
    if !wire::is_service_key(key) {
        return Err(wrong(
            format!(
                "must contain a key: 1 to {} visible ASCII characters",
                wire::SERVICE_KEY_MAX
            )
            .into(),
        ));
    }
    Ok(ServiceKey::new(key).expires_in(FILE_KEPT))
}

/// The key of a request, and what masks it.
pub(crate) struct Key {
    pub(crate) header: HeaderValue,
    /// Masks this key and those before it.
    pub(crate) redactor: Redactor,
    /// When the source is to be asked again.
    until: Option<Instant>,
}

pub(crate) struct Keys {
    source: KeySource,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until there is one, and once the service has refused it.
    current: Option<Arc<Key>>,
    /// Masks every key so far.
    redactor: Redactor,
    /// How the source is being asked, and on which runtime: what a provider waits for may depend on that being driven.
    /// Once nobody waits for an answer, the asking is given up.
    asking: Option<(Id, WeakShared<Asking>)>,
}

type Asking = BoxFuture<'static, Result<Arc<Key>, Words>>;

impl Keys {
    /// The keys from this source. A text or a file is read now, so that what is wrong with it is known at once.
    pub(crate) fn new(source: KeySource) -> Result<Arc<Self>, Words> {
        let first = match &source {
            KeySource::Text(key) => Some(Ok(ServiceKey::new(key))),
            KeySource::File(path) => Some(read(path)),
            KeySource::Provider(_) => None,
        };
        let keys = Self {
            source,
            state: Mutex::default(),
        };
        if let Some(first) = first {
            keys.answered(first)?;
        }
        Ok(Arc::new(keys))
    }

    pub(crate) fn are_from(&self, source: &KeySource) -> bool {
        self.source == *source
    }

    pub(crate) fn last(&self) -> Option<Arc<Key>> {
        self.lock().current.clone()
    }

    /// The key for a request that is about to be sent, by a call that has this much time left; its whole time, for the
    /// error.
    pub(crate) async fn current(
        self: &Arc<Self>,
        left: impl FnOnce() -> Duration,
        total: Duration,
    ) -> Result<Arc<Key>, Words> {
        let is_good = |key: &Arc<Key>| key.until.is_none_or(|until| Instant::now() < until);
        if let Some(key) = self.last().filter(is_good) {
            return Ok(key);
        }
        timeout(left(), self.asking()).await.unwrap_or_else(|_| {
            let what = match self.source {
                KeySource::File(_) => words!("{}", Setting::ServiceKeyFile),
                _ => words!("the provider of {}", Setting::ServiceKey),
            };
            Err(words!(
                "{} has not answered within {}",
                what,
                in_words(total)
            ))
        })
    }

    /// Records that the service has refused this key. Returns whether there is another one by now, or `None` if the source
    /// has to be asked.
    pub(crate) fn refused(&self, key: &Arc<Key>) -> Option<bool> {
        let mut state = self.lock();
        match (&state.current, &self.source) {
            (_, KeySource::Text(_)) => Some(false),
            (Some(current), _) if current.header != key.header => Some(true),
            // Another call in flight was refused before, and has asked: the answer is another one, even if it has the same text.
            (Some(current), KeySource::Provider(_)) if !Arc::ptr_eq(current, key) => Some(false),
            _ => {
                state.current = None;
                None
            }
        }
    }

    /// The answer that the source is about to give, for everybody who waits for it.
    fn asking(self: &Arc<Self>) -> Shared<Asking> {
        let runtime = Handle::current().id();
        let mut state = self.lock();
        if let Some((on, asking)) = &state.asking
            && *on == runtime
            && let Some(asking) = asking.upgrade()
            && asking.peek().is_none()
        {
            return asking;
        }
        let this = Arc::clone(self);
        let asking = async move { this.answered(this.source.ask().await) };
        let asking = asking.boxed().shared();
        state.asking = asking.downgrade().map(|asking| (runtime, asking));
        asking
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, answer: Result<ServiceKey, Words>) -> Result<Arc<Key>, Words> {
        let checked = answer.and_then(|key| Ok((self.header(&key)?, key.expires_in)));
        let mut state = self.lock();
        let (header, kept) = match (checked, &state.current, &self.source) {
            (Ok(checked), ..) => checked,
            // A file that is just being replaced says nothing against the key that it had.
            (Err(_), Some(current), KeySource::File(_)) => {
                (current.header.clone(), Some(FILE_KEPT))
            }
            (Err(error), ..) => return Err(error),
        };
        state.redactor = state.redactor.with(&header);
        let key = Arc::new(Key {
            header,
            redactor: state.redactor.clone(),
            until: kept.and_then(|kept| Instant::now().checked_add(kept)),
        });
        state.current = Some(Arc::clone(&key));
        Ok(key)
    }

    fn header(&self, key: &ServiceKey) -> Result<HeaderValue, Words> {
        let wrong = |why: String| match self.source {
            KeySource::Provider(_) => words!(
                "the answer of the provider of {} {}",
                Setting::ServiceKey,
                why
            ),
            _ => words!("{} {}", Setting::ServiceKey, why),
        };
        if is_quoted(&key.text) {
            return Err(wrong(IN_QUOTES.to_owned()));
        }
        let is_valid = wire::is_service_key(&key.text);
        let mut header = HeaderValue::from_str(&key.text)
            .ok()
            .filter(|_| is_valid)
            .ok_or_else(|| {
                wrong(format!(
                    "must be 1 to {} visible ASCII characters; does it contain a line break or a space?",
                    wire::SERVICE_KEY_MAX
                ))
            })?;
        header.set_sensitive(true);
        Ok(header)
    }
}
