//! The service key: its source, and the cached current key.
//!
//! A key comes from a string, a file or a provider ([`KeySource`]). It is cached until it expires or the service rejects it. Calls
//! that need a new key at the same time share one request to the source.

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
    specification::wire,
    transport::redact::Redactor,
    value::{
        format_duration::format_seconds,
        message::{Message, Setting},
        opaque_debug,
        text_encoding::{is_quoted, to_utf8},
    },
};

/// The header with the key.
pub(crate) static HEADER: HeaderName = HeaderName::from_static(wire::SERVICE_KEY_HEADER);

/// The time for which the content of a file is cached.
const FILE_CACHE_TIME: Duration = Duration::from_secs(1);

/// The end of the message about a key in quotation marks.
const QUOTED_KEY_PROBLEM: &str = "must not be in quotation marks: remove them";

/// The maximum number of bytes that are read from a file: enough for a key and white space around it.
const MAX_FILE_BYTES: u64 = 64 * 1024;

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
#[doc(alias("token", "api key"))]
pub struct ServiceKey {
    text: String,
    expires_in: Option<Duration>,
}

impl ServiceKey {
    /// Creates a key that is valid until the service rejects it: 1 to 1,024 visible ASCII characters.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            text: key.into(),
            expires_in: None,
        }
    }

    /// Calls the provider again after this time. Pass somewhat less than the rest of the key's validity, because a request takes
    /// time to arrive.
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

opaque_debug!(ServiceKey);

/// Provides the service key, for example from a vault; see
/// [`ClientBuilder::service_key_provider`](crate::ClientBuilder::service_key_provider).
///
/// Any closure that returns a future of a key, as a string or a [`ServiceKey`], is a provider:
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
/// A type of your own can hold data:
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
#[doc(alias("token", "credentials", "vault"))]
pub trait KeyProvider: Send + Sync + 'static {
    /// The error if there is no key. An error message names only the type of this error, because the error may contain a key.
    /// Log the details in the provider.
    type Error;

    /// Returns the key to use from now on. This future is dropped when no call waits for it any longer.
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

/// The source of the service key. `Debug` shows nothing of it.
#[derive(Clone)]
#[doc(hidden)]
pub enum KeySource {
    Text(String),
    File(PathBuf),
    Provider(Arc<ProviderFunction>),
}

opaque_debug!(KeySource);

/// Calls a provider. An error is only the name of the type of the provider's error.
type ProviderFunction = dyn Fn() -> BoxFuture<'static, Result<ServiceKey, String>> + Send + Sync;

impl KeySource {
    pub(crate) fn from_provider<P: KeyProvider>(provider: P) -> Self {
        let provider = Arc::new(provider);
        Self::from_function(move || {
            let provider = Arc::clone(&provider);
            async move {
                let key = provider.service_key().await;
                key.map_err(|_| type_name::<P::Error>().to_owned())
            }
        })
    }

    /// Creates a source from a function whose error is the name of an error type. For bindings, whose providers fail with
    /// exceptions.
    pub fn from_function<A>(provide: impl Fn() -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Result<ServiceKey, String>> + Send + 'static,
    {
        Self::Provider(Arc::new(move || {
            // A panic becomes an error, because several calls share the result and only one of them could resume the panic.
            let provided_key = AssertUnwindSafe(provide()).catch_unwind();
            Box::pin(async move {
                provided_key
                    .await
                    .unwrap_or_else(|_| Err("a panic".to_owned()))
            })
        }))
    }

    /// Gets the key from the source, without the cache.
    fn fetch(&self) -> BoxFuture<'static, Result<ServiceKey, Message>> {
        match self {
            Self::Text(key) => ready(Ok(ServiceKey::new(key))).boxed(),
            Self::File(path) => {
                let path = path.clone();
                // A file on a network may take long to read.
                let read_task = spawn_blocking(move || read_key_file(&path));
                async move {
                    read_task.await.unwrap_or_else(|_| {
                        Err(Message::about(
                            Setting::ServiceKeyFile,
                            "was not read: the runtime is shutting down",
                        ))
                    })
                }
                .boxed()
            }
            Self::Provider(provide) => {
                let provided_key = provide();
                async move {
                    provided_key.await.map_err(|error| {
                        Message::from(format!(
                            "the provider of the service key failed with {error}; its message is not shown, because it may \
                             contain a key"
                        ))
                        .see(Setting::ServiceKey)
                    })
                }
                .boxed()
            }
        }
    }
}

/// Equal sources provide the same key at any time.
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

fn read_key_file(path: &Path) -> Result<ServiceKey, Message> {
    let make_message = |problem: &str| {
        Message::about(
            Setting::ServiceKeyFile,
            format!("{} {problem}", path.display()),
        )
    };
    let unreadable = |error| make_message(&format!("cannot be read: {error}"));
    // A pipe can be read only once. Reading it again would never end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(make_message("is not a file"));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    // A replacement character for invalid UTF-8 fails the check below, because a key is ASCII.
    let text = String::from_utf8_lossy(&to_utf8(&bytes)).into_owned();
    let key = text.trim();
    if is_quoted(key) {
        return Err(make_message(QUOTED_KEY_PROBLEM));
    }
    if !wire::is_service_key(key) {
        return Err(make_message(&format!(
            "must contain a key: 1 to {} visible ASCII characters",
            wire::SERVICE_KEY_MAX
        )));
    }
    Ok(ServiceKey::new(key).expires_in(FILE_CACHE_TIME))
}

/// A key as a header, with its redactor.
pub(crate) struct Key {
    pub(crate) header: HeaderValue,
    /// Masks this key and earlier keys.
    pub(crate) redactor: Redactor,
    /// The end of the cache time. If `None`, the key is cached until the service rejects it.
    expires_at: Option<Instant>,
}

/// The source of a client's key, and the cached key.
pub(crate) struct Keys {
    source: KeySource,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` before the first key, and after the service has rejected the key.
    current: Option<Arc<Key>>,
    /// Masks all keys so far.
    redactor: Redactor,
    /// The request to the source that is in progress, and its runtime, on which the provider may depend. The request is dropped
    /// when no call waits for it any longer.
    pending_request: Option<(Id, WeakShared<PendingKey>)>,
}

type PendingKey = BoxFuture<'static, Result<Arc<Key>, Message>>;

impl Keys {
    /// Checks a string or a file immediately, so that an error is reported when the client is built.
    pub(crate) fn new(source: KeySource) -> Result<Arc<Self>, Message> {
        let first_key = match &source {
            KeySource::Text(key) => Some(Ok(ServiceKey::new(key))),
            KeySource::File(path) => Some(read_key_file(path)),
            KeySource::Provider(_) => None,
        };
        let keys = Self {
            source,
            state: Mutex::default(),
        };
        if let Some(first_key) = first_key {
            keys.store_key(first_key)?;
        }
        Ok(Arc::new(keys))
    }

    pub(crate) fn have_source(&self, source: &KeySource) -> bool {
        self.source == *source
    }

    /// Returns the cached key, even if it has expired.
    pub(crate) fn cached_key(&self) -> Option<Arc<Key>> {
        self.lock().current.clone()
    }

    /// Returns the key for the next attempt of a call. Waits for the source at most for the time that is left. `call_timeout`
    /// is for the error message.
    pub(crate) async fn current_key(
        self: &Arc<Self>,
        time_left: impl FnOnce() -> Duration,
        call_timeout: Duration,
    ) -> Result<Arc<Key>, Message> {
        let is_valid = |key: &Arc<Key>| key.expires_at.is_none_or(|end| Instant::now() < end);
        if let Some(key) = self.cached_key().filter(is_valid) {
            return Ok(key);
        }
        timeout(time_left(), self.request_key())
            .await
            .unwrap_or_else(|_| {
                let call_timeout = format_seconds(call_timeout);
                Err(match self.source {
                    KeySource::File(_) => Message::about(
                        Setting::ServiceKeyFile,
                        format!("was not read within {call_timeout}"),
                    ),
                    _ => Message::from(format!(
                        "the provider of the service key has not returned within {call_timeout}"
                    ))
                    .see(Setting::ServiceKey),
                })
            })
    }

    /// Records that the service has rejected this key. Returns whether the key has changed since, or `None` if the source
    /// has to be called.
    pub(crate) fn record_rejection(&self, key: &Arc<Key>) -> Option<bool> {
        let mut state = self.lock();
        match (&state.current, &self.source) {
            (_, KeySource::Text(_)) => Some(false),
            (Some(current), _) if current.header != key.header => Some(true),
            // Another call in flight got the rejection first, and has already requested the current key. It has the same text,
            // so it is not a new key.
            (Some(current), KeySource::Provider(_)) if !Arc::ptr_eq(current, key) => Some(false),
            _ => {
                state.current = None;
                None
            }
        }
    }

    /// Returns a future of the next key. All calls of a runtime that wait for the key share this future.
    fn request_key(self: &Arc<Self>) -> Shared<PendingKey> {
        let runtime = Handle::current().id();
        let mut state = self.lock();
        if let Some((pending_runtime, pending_request)) = &state.pending_request
            && *pending_runtime == runtime
            && let Some(pending_request) = pending_request.upgrade()
            && pending_request.peek().is_none()
        {
            return pending_request;
        }
        let this = Arc::clone(self);
        let pending_request = async move { this.store_key(this.source.fetch().await) };
        let pending_request = pending_request.boxed().shared();
        state.pending_request = pending_request
            .downgrade()
            .map(|pending_request| (runtime, pending_request));
        pending_request
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a key from the source, and caches it.
    fn store_key(&self, key: Result<ServiceKey, Message>) -> Result<Arc<Key>, Message> {
        let checked_key = key.and_then(|key| Ok((self.make_header(&key)?, key.expires_in)));
        let mut state = self.lock();
        let (header, cache_time) = match (checked_key, &state.current, &self.source) {
            (Ok(checked_key), ..) => checked_key,
            // A file that is being replaced may be unreadable for a moment: the cached key stays in use.
            (Err(_), Some(current), KeySource::File(_)) => {
                (current.header.clone(), Some(FILE_CACHE_TIME))
            }
            (Err(error), ..) => return Err(error),
        };
        state.redactor = state.redactor.with_key(&header);
        let key = Arc::new(Key {
            header,
            redactor: state.redactor.clone(),
            expires_at: cache_time.and_then(|time| Instant::now().checked_add(time)),
        });
        state.current = Some(Arc::clone(&key));
        Ok(key)
    }

    /// Makes a sensitive header of a key, if the key is valid.
    fn make_header(&self, key: &ServiceKey) -> Result<HeaderValue, Message> {
        let make_message = |problem: String| match self.source {
            KeySource::Provider(_) => {
                Message::from(format!("the service key from the provider {problem}"))
                    .see(Setting::ServiceKey)
            }
            _ => Message::about(Setting::ServiceKey, problem),
        };
        if is_quoted(&key.text) {
            return Err(make_message(QUOTED_KEY_PROBLEM.to_owned()));
        }
        let is_valid = wire::is_service_key(&key.text);
        let mut header = HeaderValue::from_str(&key.text)
            .ok()
            .filter(|_| is_valid)
            .ok_or_else(|| {
                make_message(format!(
                    "must be 1 to {} visible ASCII characters; does it contain a line break or a space?",
                    wire::SERVICE_KEY_MAX
                ))
            })?;
        header.set_sensitive(true);
        Ok(header)
    }
}
