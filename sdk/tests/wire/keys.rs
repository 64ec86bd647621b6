//! Keys that change while a program runs: where they come from, when they are asked for again, and what is sent again.
//!
//! The service is a transport, and the clock is paused: nothing here takes time or depends on the machine.

use std::{
    fs,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dealkit::{
    Client, ClientBuilder, Error, ErrorKind, KeyProvider, Method, Outcome, RetryPolicy, ServiceKey,
};
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep},
};

use crate::peer::{FINE, KEY, PATIENCE, Peer, ada, at_once, builder};

const SECOND: Duration = Duration::from_secs(1);

/// A service that accepts some keys, and records which one each request had.
#[derive(Clone)]
struct Service {
    builder: ClientBuilder,
    accepted: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start(accepted: &[&str]) -> Self {
        let mut peer = Peer::in_memory();
        let service = Self {
            builder: peer.builder(),
            accepted: Arc::default(),
            seen: Arc::default(),
        };
        service.accept(accepted);
        let this = service.clone();
        tokio::spawn(async move {
            while let Some(heard) = peer.next_of_all().await {
                let key = heard.header("x-service-key").unwrap().to_owned();
                let is_known = this.accepted.lock().unwrap().contains(&key);
                // A service that repeats every key that it has ever seen.
                this.seen.lock().unwrap().push(key);
                let body = format!(r#"{{"title": "{}"}}"#, this.seen().join(" "));
                let (status, body) = if is_known { (200, FINE) } else { (401, &*body) };
                heard.answer_if_there(status, &[], body);
            }
        });
        service
    }

    fn accept(&self, keys: &[&str]) {
        *self.accepted.lock().unwrap() = keys.iter().map(|key| (*key).to_owned()).collect();
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn builder(&self) -> ClientBuilder {
        let builder = self.builder.clone().retry(at_once());
        builder.timeout(PATIENCE).attempt_timeout(PATIENCE)
    }

    fn client(&self, provider: impl KeyProvider) -> Client {
        let builder = self.builder().service_key_provider(provider);
        builder.build().unwrap()
    }
}

/// A provider that has one key after the other, and then the last one again. It counts how often it is asked.
fn in_turn(keys: &[&'static str], asked: &Arc<AtomicUsize>) -> impl KeyProvider + Clone {
    // Long enough for every call in flight to come here.
    in_turn_after(SECOND, keys, asked)
}

fn in_turn_after(
    wait: Duration,
    keys: &[&'static str],
    asked: &Arc<AtomicUsize>,
) -> impl KeyProvider + Clone {
    let (keys, asked) = (keys.to_vec(), Arc::clone(asked));
    move || {
        let at = asked.fetch_add(1, Ordering::SeqCst).min(keys.len() - 1);
        let key = keys[at];
        async move {
            sleep(wait).await;
            Ok::<_, Error>(key)
        }
    }
}

fn count(asked: &AtomicUsize) -> usize {
    asked.load(Ordering::SeqCst)
}

async fn retrieve(client: &Client) -> Result<(), Error> {
    client.deals().retrieve("d_1").await.map(drop)
}

/// Which keys the provider has, which the service accepts, what is allowed to be retried, which keys then arrive, and how
/// often the provider is asked.
#[tokio::test(start_paused = true)]
async fn a_call_is_sent_again_once_with_a_key_that_has_changed() {
    let (some, none) = (RetryPolicy::new(), RetryPolicy::never());
    for method in [Method::GET, Method::POST] {
        for (keys, accepted, policy, seen, asks) in [
            (&["key-old"][..], "key-old", some, &["key-old"][..], 1),
            (
                &["key-old", "key-new"],
                "key-new",
                some,
                &["key-old", "key-new"],
                2,
            ),
            // The same key is not sent again, nor is a third one.
            (&["key-old", "key-old"], "key-new", some, &["key-old"], 2),
            (
                &["key-old", "key-2", "key-3"],
                "key-3",
                some,
                &["key-old", "key-2"],
                3,
            ),
            (&["key-old", "key-new"], "key-new", none, &["key-old"], 1),
        ] {
            let service = Service::start(&[accepted]);
            let asked = Arc::default();
            let client = service
                .builder()
                .service_key_provider(in_turn(keys, &asked))
                .retry(policy);
            let client = client.build().unwrap();
            let call = client.request(method.clone(), ["agents"]);
            let result = call.await;
            assert_eq!(service.seen(), seen, "{method}");
            assert_eq!(count(&asked), asks, "{method} {keys:?}");
            if seen.last() == Some(&accepted) {
                assert_eq!(result.unwrap().attempts() as usize, seen.len());
            } else {
                let error = result.unwrap_err();
                assert!(error.is_authentication(), "{error}");
                assert_eq!(error.outcome(), Outcome::Rejected);
                assert!(!format!("{error} {error:?}").contains("key-"), "{error}");
            }
        }
    }
}

/// After a 401, the next call asks, even if the one that got it was not to be sent again.
#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_until_the_time_that_it_told_or_a_401() {
    let service = Service::start(&["key-1", "key-2"]);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let provider = move || {
        let key = if counted.fetch_add(1, Ordering::SeqCst) < 2 {
            "key-1"
        } else {
            "key-2"
        };
        async move { Ok::<_, Error>(ServiceKey::new(key).expires_in(60 * SECOND)) }
    };
    let client = service.builder().service_key_provider(provider);
    let client = client.retry(RetryPolicy::never()).build().unwrap();
    for (wait, asks) in [(0, 1), (59, 1), (2, 2), (59, 2)] {
        sleep(wait * SECOND).await;
        retrieve(&client).await.unwrap();
        assert_eq!(count(&asked), asks);
    }
    service.accept(&["key-2"]);
    retrieve(&client).await.unwrap_err();
    client.deals().retrieve("d_1").into_request().unwrap_err();
    retrieve(&client).await.unwrap();
    assert_eq!(count(&asked), 3);
    let request = client.deals().retrieve("d_1").into_request().unwrap();
    assert_eq!(request.headers()["x-service-key"], "key-2");
    assert!(request.headers()["x-service-key"].is_sensitive());
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_share_one_answer() {
    for (keys, asks) in [(["key-old", "key-new"], 2), (["key-old", "key-old"], 2)] {
        let service = Service::start(&["key-old"]);
        let asked = Arc::default();
        let client = service.client(in_turn(&keys, &asked));
        let many = || join_all((0..50).map(|_| retrieve(&client)));
        assert!(many().await.iter().all(Result::is_ok));
        assert_eq!(count(&asked), 1);
        service.accept(&["key-new"]);
        let results = many().await;
        assert!(
            results
                .iter()
                .all(|result| result.is_ok() == keys.contains(&"key-new"))
        );
        assert_eq!(count(&asked), asks);
    }
}

/// A provider that waits until it may answer, and says when it begins and when it is given up.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_takes_no_answer_from_the_others() {
    struct GivenUp(Arc<AtomicUsize>);
    impl Drop for GivenUp {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let service = Service::start(&[KEY]);
    let (answers, begun, ended) = (
        Arc::new(Semaphore::new(0)),
        Arc::new(Notify::new()),
        Arc::default(),
    );
    let provider = {
        let (answers, begun, ended) =
            (Arc::clone(&answers), Arc::clone(&begun), Arc::clone(&ended));
        move || {
            let (answers, guard) = (Arc::clone(&answers), GivenUp(Arc::clone(&ended)));
            begun.notify_one();
            async move {
                let _guard = guard;
                answers.acquire().await.unwrap().forget();
                Ok::<_, Error>(KEY)
            }
        }
    };
    let client = service.client(provider);
    let call = || {
        let client = client.clone();
        tokio::spawn(async move { retrieve(&client).await })
    };
    // The first to wait is given up; the second goes on waiting for the same answer.
    let (first, second) = (call(), call());
    begun.notified().await;
    tokio::task::yield_now().await;
    first.abort();
    first.await.unwrap_err();
    assert_eq!(count(&ended), 0);
    second.abort();
    second.await.unwrap_err();
    assert_eq!(count(&ended), 1, "nobody waits for the answer");
    let third = call();
    begun.notified().await;
    answers.add_permits(1);
    third.await.unwrap().unwrap();
}

/// In every case nothing is sent, the text says why and shows no key, and the provider is asked again by the next call.
#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_or_hangs_is_an_error_within_the_calls_time() {
    const SECRET: &str = "not-a-key-c4n4ry";
    let cases: [(&str, Answers); 5] = [
        ("failed with alloc::string::String", || {
            Box::pin(async { Err(SECRET.to_owned()) })
        }),
        ("has not returned within 5 s", || Box::pin(pending())),
        ("failed with a panic", || panic!("{SECRET}")),
        ("failed with a panic", || {
            Box::pin(async { panic!("{SECRET}") })
        }),
        ("must be 1 to 1024 visible ASCII characters", || {
            Box::pin(async { Ok(ServiceKey::new(format!("{SECRET}\n"))) })
        }),
    ];
    for (told, answer) in cases {
        let service = Service::start(&[KEY]);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let provider = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            answer()
        };
        let client = service
            .builder()
            .service_key_provider(provider)
            .timeout(5 * SECOND);
        let client = client.build().unwrap();
        for asks in 1..3 {
            let began = Instant::now();
            let error = client.agents().create(ada()).await.unwrap_err();
            assert!(began.elapsed() <= 5 * SECOND + Duration::from_millis(2));
            assert_eq!(
                (error.kind(), error.outcome()),
                (ErrorKind::ServiceKey, Outcome::NotSent)
            );
            assert!(error.to_string().contains(told), "{error}");
            assert!(
                !format!("{error} {error:#?} {client:?}").contains("c4n4ry"),
                "{error}"
            );
            assert!(std::error::Error::source(&error).is_none());
            assert_eq!((error.attempts(), count(&asked)), (0, asks));
        }
        assert_eq!(service.seen().len(), 0);
    }
}

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<ServiceKey, String>> + Send>>;
type Answers = fn() -> Answer;

/// If there is no answer after a 401, the 401 is the error.
#[tokio::test(start_paused = true)]
async fn a_401_stays_one_if_there_is_no_other_key() {
    let service = Service::start(&["another"]);
    let asked = AtomicUsize::new(0);
    let provider = move || {
        let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if is_first { Ok(KEY) } else { Err("no") } }
    };
    let client = service.client(provider);
    let error = client.agents().create(ada()).await.unwrap_err();
    assert!(error.is_authentication() && error.outcome() == Outcome::Rejected);
    let text = error.to_string();
    assert!(
        text.contains("(not retried: the provider of the service key failed with &str; "),
        "{text}"
    );
    let error = client.agents().create(ada()).await.unwrap_err();
    assert_eq!(
        (error.kind(), service.seen().len()),
        (ErrorKind::ServiceKey, 1)
    );
}

#[test]
fn clients_with_the_same_source_are_one_caller() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, KEY).unwrap();
    let with = builder("http://127.0.0.1:9");
    let provided = with.clone().service_key_provider(async || Ok::<_, ()>(KEY));
    let another = with.clone().service_key_provider(async || Ok::<_, ()>(KEY));
    let read = with.clone().service_key_file(&file);
    let same = [
        (provided.clone(), provided.clone().timeout(SECOND), true),
        (provided.clone(), another, false),
        (read.clone(), with.clone().service_key_file(&file), true),
        (read, with.clone(), false),
        (provided, with, false),
    ];
    for (at, (one, other, shares)) in same.into_iter().enumerate() {
        let one = one.build().unwrap();
        let other = other.share_connections(&one).build().unwrap();
        assert_eq!(other.shares_limits(&one), shares, "{at}");
        assert!(other.shares_connections(&one));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_known_at_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("key");
    for (content, told) in [
        (None, "cannot be read: "),
        (
            Some(""),
            "must contain a key: 1 to 1024 visible ASCII characters",
        ),
        (Some("c4n4ry c4n4ry"), "must contain a key"),
        (
            Some("'c4n4ry'\n"),
            "must not be in quotation marks: remove them",
        ),
    ] {
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let client = builder("http://127.0.0.1:9").service_key_file(&path);
        let error = client.build().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Config);
        let told = format!("service_key_file {} {told}", path.display());
        assert!(
            text.starts_with(&told) && !text.contains("c4n4ry"),
            "{text}"
        );
    }
    let folder = builder("http://127.0.0.1:9")
        .service_key_file(folder.path())
        .build();
    assert!(folder.unwrap_err().to_string().ends_with(" is not a file"));
}

/// As editors on Windows save it, and PowerShell's `>`.
#[test]
fn a_file_may_have_a_byte_order_mark_and_be_in_utf_16() {
    let text = format!("{KEY}\r\n");
    let units = || text.encode_utf16();
    let file = tempfile::NamedTempFile::new().unwrap();
    for content in [
        [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        [
            &[0xFF, 0xFE][..],
            &units().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
        ]
        .concat(),
        [
            &[0xFE, 0xFF][..],
            &units().flat_map(u16::to_be_bytes).collect::<Vec<_>>(),
        ]
        .concat(),
    ] {
        fs::write(&file, content).unwrap();
        let client = builder("http://127.0.0.1:9").service_key_file(file.path());
        let request = client
            .build()
            .unwrap()
            .deals()
            .retrieve("d_1")
            .into_request()
            .unwrap();
        assert_eq!(request.headers()["x-service-key"], KEY);
    }
}

/// As Kubernetes mounts secrets: the file is a link into a folder, which is a link that is replaced as a whole.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_file_is_read_again() {
    use std::os::unix::fs::symlink;

    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let swap = |key: &str| {
        fs::create_dir_all(at(key)).unwrap();
        fs::write(at(key).join("key"), format!("{key}\n")).unwrap();
        symlink(key, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    swap("key-1");
    symlink("..data/key", at("key")).unwrap();
    let service = Service::start(&["key-1", "key-2", "key-3"]);
    let client = service
        .builder()
        .service_key_file(at("key"))
        .build()
        .unwrap();
    let mut expected = Vec::new();
    for (key, wait, sent) in [
        ("key-1", 0, "key-1"),
        // For a second, the file is taken to be what it was.
        ("key-2", 0, "key-1"),
        ("key-2", 2, "key-2"),
    ] {
        if !at(key).exists() {
            swap(key);
        }
        sleep(wait * SECOND).await;
        retrieve(&client).await.unwrap();
        expected.push(sent);
        assert_eq!(service.seen(), expected);
    }
    // A 401 has it read at once.
    service.accept(&["key-3"]);
    swap("key-3");
    client.agents().create(ada()).await.unwrap();
    expected.extend(["key-2", "key-3"]);
    // While there is no key in it, the last one is good until it is refused.
    fs::write(at("key-3").join("key"), "").unwrap();
    sleep(2 * SECOND).await;
    retrieve(&client).await.unwrap();
    expected.push("key-3");
    service.accept(&["key-4"]);
    let error = retrieve(&client).await.unwrap_err();
    expected.push("key-3");
    assert!(error.is_authentication(), "{error}");
    assert!(
        error
            .to_string()
            .contains("(not retried: service_key_file "),
        "{error}"
    );
    let error = retrieve(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceKey, "{error}");
    assert_eq!(service.seen(), expected);
    swap("key-4");
    retrieve(&client).await.unwrap();
}

/// A key that changes in the middle of a job fails no row; none at all stops it.
#[tokio::test(start_paused = true)]
async fn a_job_goes_on_with_a_new_key_and_stops_without_one() {
    for (keys, results) in [
        (&[Some("key-1"), Some("key-2")][..], 40),
        (&[Some("key-1"), None], 0),
    ] {
        let service = Service::start(&["key-1"]);
        let (asked, keys) = (AtomicUsize::new(0), keys.to_vec());
        let provider = move || {
            let key = keys[asked.fetch_add(1, Ordering::SeqCst).min(keys.len() - 1)];
            async move { key.ok_or(()) }
        };
        let client = service.client(provider);
        let mut job = client
            .agents()
            .create_many((0..40).map(|_| ada()))
            .concurrency(4)
            .stream();
        let (mut created, mut stopped) = (0, 0);
        while let Some(creation) = job.next().await {
            match creation.result {
                Ok(_) => created += 1,
                Err(error) if error.kind() == ErrorKind::Stopped => stopped += 1,
                Err(error) => {
                    assert!(error.is_authentication() || error.kind() == ErrorKind::ServiceKey)
                }
            }
            service.accept(&["key-2"]);
        }
        assert!(
            (results == 40) == (created == 40) && (results == 40) == (stopped == 0),
            "{created} {stopped}"
        );
    }
}

/// The claim of a row stays while it is sent again, and its outcome is recorded. The clock runs: a paused one would advance while
/// the ledger's thread works.
#[cfg(feature = "ledger")]
#[tokio::test]
async fn a_row_that_is_sent_again_is_claimed_once() {
    use dealkit::ledger::Ledger;

    let folder = TempDir::new().unwrap();
    let ledger = Ledger::sqlite(folder.path().join("agents.ledger"));
    let service = Service::start(&["key-2"]);
    for (run, seen) in [(1, 2), (2, 2)] {
        let asked = Arc::default();
        let provider = in_turn_after(Duration::ZERO, &["key-1", "key-2"], &asked);
        let client = service.client(provider);
        let rows = [("ada".to_owned(), ada())];
        let mut job = client
            .agents()
            .create_many(rows)
            .ledger(&ledger, None)
            .stream();
        let creation = job.next().await.unwrap();
        assert!(
            creation.result.is_ok() && creation.ledger_error.is_none(),
            "{run}"
        );
        assert_eq!(service.seen().len(), seen, "{run}");
    }
}

/// Calls that wait for a provider are not sent together once it has answered.
#[tokio::test(start_paused = true)]
async fn a_limit_is_kept_after_a_wait_for_a_key() {
    let service = Service::start(&["a"]);
    let provider = in_turn_after(5 * SECOND, &["a"], &Arc::default());
    let client = service.builder().service_key_provider(provider);
    let client = client.rate_limit(1.0).build().unwrap();
    let began = Instant::now();
    let calls = (0..4).map(|_| async {
        retrieve(&client).await.unwrap();
        // The timer counts in milliseconds.
        (began.elapsed() + SECOND / 2).as_secs()
    });
    assert_eq!(join_all(calls).await, [5, 6, 7, 8]);
}
