//! Runs every example against a sandbox and checks its output.

use std::{
    collections::{BTreeSet, HashSet},
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use dealkit::{Method, RetryPolicy, blocking::Client, ledger::Ledger};
use dealkit_server::{Cut, Fault, Sandbox};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// Creates a command that runs an example, which Cargo builds with the tests.
fn example_command(example: &str, sandbox: &Sandbox) -> Command {
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(example);
    let mut command = Command::new(program);
    command
        .env("DEALKIT_BASE_URL", sandbox.url())
        .env("DEALKIT_SERVICE_KEY", sandbox.service_key());
    command
}

/// Runs a program to its end and returns its standard output.
fn output(program: &mut Command) -> String {
    let (code, shown, errors) = run_to_end(program);
    assert_eq!(code, 0, "{program:?}: {shown}{errors}");
    shown
}

/// Runs a program to its end and returns its exit code, standard output and standard error.
fn run_to_end(program: &mut Command) -> (i32, String, String) {
    let output = program.output().unwrap();
    let [shown, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let code = output.status.code();
    let code = code.unwrap_or_else(|| panic!("{}: {shown}{errors}", output.status));
    (code, shown, errors)
}

fn run(name: &str, sandbox: &Sandbox) -> String {
    output(&mut example_command(name, sandbox))
}

#[test]
fn quickstart() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = run("quickstart", &sandbox);
    for line in [
        "Ada Lovelace",
        "b_1",
        "Read deal d_1",
        "CLOSED",
        "is_not_found  true",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert_eq!(sandbox.agents().len(), 1);
}

#[test]
fn an_error_that_main_returns_explains_itself() {
    let sandbox = Sandbox::builder().start().unwrap();
    let mut program = example_command("quickstart", &sandbox);
    let (code, _, errors) = run_to_end(program.env("DEALKIT_SERVICE_KEY", "wrong-key"));
    assert_eq!(code, 1);
    let message = "Error: POST /v1/agents: 401 Unauthorized: ";
    assert!(errors.starts_with(message), "{errors}");
}

#[test]
fn bulk() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = run("bulk", &sandbox);
    assert!(
        shown.contains("GET /v1/deals/{id}: 404 Not Found"),
        "{shown}"
    );
    assert!(shown.ends_with("2 of 5 failed\n"), "{shown}");
}

#[test]
fn blocking() {
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = run("blocking", &sandbox);
    assert!(
        shown.starts_with("200 OK after 1 attempt(s)\ndeal d_1 is "),
        "{shown}"
    );
}

#[test]
fn failures() {
    let sandbox = Sandbox::builder().start().unwrap();
    assert_eq!(
        run("failures", &sandbox),
        "the program handles what goes wrong\n"
    );
}

#[test]
fn testing() {
    let sandbox = Sandbox::builder().start().unwrap();
    assert_eq!(run("testing", &sandbox), "the sandbox holds 1 agent\n");
}

#[test]
fn import() {
    let sandbox = Sandbox::builder().start().unwrap();
    let folder = new_folder("import");
    let file = folder.join("agents.csv");
    let rows = "email,first_name,last_name,role,born,brokerage,tier\n\
        ada@example.com,Ada,Lovelace,AGENT,1815-12-10,b_1,A\n\
        grace@example.com,Grace,,AGNT,,,\n\
        joan@example.com,Joan,\"Clarke\nMurray\",,,,\n\
        mary@example.com,Mary,,,,,\n";
    std::fs::write(&file, rows).unwrap();
    let import = || run_to_end(example_command("import", &sandbox).arg(&file));
    let (code, shown, _) = import();
    assert_eq!(code, 1, "{shown}");
    let (_, again, _) = import();
    // Without the invalid rows.
    let rows: String = rows
        .split_inclusive('\n')
        .filter(|line| !line.contains(",,AGNT,") && !line.starts_with("mary"))
        .collect();
    std::fs::write(&file, rows).unwrap();
    let (code, complete, _) = import();
    assert_eq!(code, 0, "{complete}");
    assert!(
        complete.ends_with("\n2 of 2 rows have an agent\n"),
        "{complete}"
    );
    std::fs::remove_dir_all(folder).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    let [first, last_name, role, joan, last, count] = lines[..] else {
        panic!("{shown}");
    };
    assert!(first.starts_with("line 2: created "), "{shown}");
    assert!(last_name.starts_with("line 3: /last_name: "), "{shown}");
    assert!(
        role.starts_with("line 3: /role: must be one of "),
        "{shown}"
    );
    assert!(joan.starts_with("line 4: created "), "{shown}");
    assert!(last.starts_with("line 6: /last_name: "), "{shown}");
    assert_eq!(count, "2 of 4 rows have an agent");
    assert!(again.starts_with("line 2: already created\n"), "{again}");
    assert_eq!(sandbox.agents().len(), 2);
}

/// Rows that a stopped job has not taken are no success.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_import_fails() {
    use rustix::process::{Pid, Signal, kill_process};

    let sandbox = Sandbox::builder().start().unwrap();
    let folder = new_folder("stopped-import");
    let file = folder.join("agents.csv");
    let rows = (0..200).map(|row| format!("agent{row}@example.com,Ada,Lovelace,,,,\n"));
    let header = "email,first_name,last_name,role,born,brokerage,tier\n".to_owned();
    let table: String = std::iter::once(header).chain(rows).collect();
    std::fs::write(&file, table).unwrap();
    sandbox.fail_next(Fault::hold().forever()).unwrap();
    let mut program = example_command("import", &sandbox);
    let program = program.arg(&file).stdout(Stdio::piped());
    let mut process = program.stderr(Stdio::piped()).spawn().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(sandbox.wait_for_held(1, HANG)).unwrap();
    while !catches(&process, Signal::INT) {
        thread::yield_now();
    }

    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("stopping: "), "{line}");
    sandbox.clear_faults();
    sandbox.release();
    let output = process.wait_with_output().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    let created = sandbox.agents().len();
    let count = format!("\n{created} of 200 rows have an agent\n");
    assert!(created > 0 && shown.ends_with(&count), "{shown}");
}

/// An agent whose outcome is not in the ledger is no success.
#[cfg(unix)]
#[test]
fn an_import_that_loses_its_ledger_fails() {
    let sandbox = Sandbox::builder().start().unwrap();
    let folder = new_folder("lost-ledger");
    let file = folder.join("agents.csv");
    let table =
        "email,first_name,last_name,role,born,brokerage,tier\nada@example.com,Ada,Lovelace,,,,\n";
    std::fs::write(&file, table).unwrap();
    sandbox.fail_next(Fault::hold()).unwrap();
    let mut program = example_command("import", &sandbox);
    let program = program.arg(&file).stdout(Stdio::piped());
    let process = program.spawn().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(sandbox.wait_for_held(1, HANG)).unwrap();

    std::fs::remove_file(folder.join("agents.ledger")).unwrap();
    sandbox.release();
    let output = process.wait_with_output().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let [created, unrecorded, count] = lines[..] else {
        panic!("{shown}");
    };
    assert!(created.starts_with("line 2: created "), "{shown}");
    let message = "line 2: the outcome is not in the ledger: ";
    assert!(unrecorded.starts_with(message), "{shown}");
    assert_eq!(count, "1 of 1 rows have an agent");
    assert_eq!(sandbox.agents().len(), 1);
}

/// Returns true if the process has a handler for the signal.
#[cfg(target_os = "linux")]
fn catches(process: &Child, signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let mut lines = status.lines();
    let caught = lines.find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    caught & (1 << (signal.as_raw() - 1)) != 0
}

/// Time limit for events that always happen. It ends tests that hang.
const HANG: Duration = Duration::from_secs(60);

/// A process of the service, killed on drop, and its address.
struct ServiceProcess {
    process: Child,
    address: String,
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn service() {
    let sandbox = Sandbox::builder().start().unwrap();
    // The service has the same paths as the API, so a dealkit client can call it.
    let (_process, client) = start_service(&sandbox, Path::new("unused"));

    let ada = json!({"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}});
    let created = client.request(Method::POST, ["agents"]).json(&ada).send();
    assert_eq!(created.unwrap().status(), 201);
    assert_eq!(sandbox.agents().len(), 1);

    let wrong = json!({"email": "ada", "first_name": "Ada", "profile": {}, "role": "AGNT"});
    let error = client.request(Method::POST, ["agents"]).json(&wrong).send();
    let error = error.unwrap_err();
    assert_eq!(error.status().unwrap(), 422);
    let violations = &error.problem().unwrap().errors;
    let violations: Vec<_> = violations
        .iter()
        .map(|violation| (violation.pointer.as_str(), violation.code.as_str()))
        .collect();
    let expected = [
        ("/email", "invalid_email"),
        ("/last_name", "required"),
        ("/role", "unknown_value"),
    ];
    assert_eq!(violations, expected);

    let deal = client.deals().retrieve("d_1").send().unwrap();
    assert_eq!(deal.id, "d_1");
    let error = client.deals().retrieve("no-such-deal").send().unwrap_err();
    assert!(error.is_not_found());
}

#[test]
fn traces() {
    // A plain socket, to read the headers of the request.
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", service.local_addr().unwrap());
    let served = thread::spawn(move || {
        let (mut connection, _) = service.accept().unwrap();
        let lines = BufReader::new(connection.try_clone().unwrap()).lines();
        let head: Vec<String> = lines
            .map(Result::unwrap)
            .take_while(|line| !line.is_empty())
            .collect();
        let body = r#"{"id":"d_1"}"#;
        let length = body.len();
        write!(
            connection,
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        head
    });
    let sandbox = Sandbox::builder().start().unwrap();
    let shown = output(example_command("traces", &sandbox).env("DEALKIT_BASE_URL", &url));
    let head = served.join().unwrap();
    // The `traceparent` names the call's span, whose parent is the program's span.
    let parent = head
        .iter()
        .find_map(|line| line.strip_prefix("traceparent: "))
        .unwrap();
    let parts: Vec<&str> = parent.split('-').collect();
    let (trace, span) = (parts[1], parts[2]);
    let call = format!("GET /v1/deals/{{id}} trace={trace} span={span} parent=");
    let (_, outer) = shown.split_once(&call).unwrap();
    let outer = outer.lines().next().unwrap();
    assert!(
        shown.contains(&format!("report trace={trace} span={outer} parent=0000")),
        "{shown}"
    );
    for line in [
        "http.request.method = GET",
        "http.response.status_code = 200",
        "url.template = /v1/deals/{id}",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(!shown.contains("d_1"), "{shown}");
}

/// The handler is dropped when its caller disconnects, but its create continues.
#[test]
fn a_disconnected_caller_leaves_no_unknown_outcome() {
    let sandbox = Sandbox::builder().start().unwrap();
    let folder = new_folder("hang-up");
    let (process, client) = start_service(&sandbox, &folder.join("agents.ledger"));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for (number, (method, path)) in [("PUT", "/v1/agents/0"), ("POST", "/v1/agents")]
        .into_iter()
        .enumerate()
    {
        sandbox.fail_next(Fault::hold()).unwrap();
        let mut caller = send_create(&process, method, path);
        runtime.block_on(sandbox.wait_for_held(1, HANG)).unwrap();
        caller.shutdown(Shutdown::Write).unwrap();
        // Closing the connection drops the handler.
        assert_eq!(caller.read(&mut [0]).unwrap(), 0);
        assert_eq!(sandbox.release(), 1);
        let is_created = sandbox.wait_for(number + 1, HANG, |request| {
            request.status.is_some_and(|status| status == 201)
        });
        runtime.block_on(is_created).unwrap();
    }
    // The create is in flight until the ledger has its outcome.
    let mut status = 409;
    while status == 409 {
        status = put(&client, 0).unwrap();
    }
    assert_eq!((status, sandbox.agents().len()), (200, 2));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_service_explains_errors_to_its_callers() {
    let sandbox = Sandbox::builder().start().unwrap();
    let folder = new_folder("failures");
    let (_process, client) = start_service(&sandbox, &folder.join("agents.ledger"));
    let create = |method, path: &[&str]| {
        let call = client.request(method, path).json(&agent(0));
        call.retry(RetryPolicy::never()).send()
    };
    let unknown = |method, path: &[&str]| {
        let response = create(method, path).unwrap();
        assert_eq!(response.status(), 202);
        response.json::<Value>().unwrap()["request_id"].clone()
    };
    sandbox.fail_next(Fault::status(500)).unwrap();
    // At the second attempt, the ledger contains the unknown outcome.
    let ids = [(); 2].map(|()| unknown(Method::PUT, &["agents", "with id"]));
    let sent = sandbox.requests()[0].request_id.clone();
    assert_eq!(ids, [(); 2].map(|()| json!(sent)));
    for (method, path) in [
        (Method::PUT, &["agents", "without id"][..]),
        (Method::POST, &["agents"]),
    ] {
        sandbox.fail_next(Fault::process_then_reset()).unwrap();
        assert_eq!(unknown(method, path), Value::Null);
    }
    sandbox.fail_next(Fault::status(422)).unwrap();
    for _ in 0..2 {
        let rejected = create(Method::PUT, &["agents", "rejected"]);
        assert!(rejected.unwrap_err().is_unprocessable_entity());
    }
    // The service's limit for the call is shorter than this wait.
    sandbox
        .fail_next(Fault::status(429).retry_after(600))
        .unwrap();
    let busy = create(Method::PUT, &["agents", "busy"]).unwrap_err();
    assert_eq!(busy.status().unwrap(), 503);
    assert_eq!(busy.retry_after().unwrap(), Duration::from_secs(600));
    std::fs::remove_dir_all(folder).unwrap();
}

/// The service completes the creates in flight, even without their callers, before it ends.
#[cfg(unix)]
#[test]
fn a_signal_lets_creates_finish() {
    use rustix::process::{Pid, Signal, kill_process};

    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::builder().start().unwrap();
        let (mut process, client) = start_service(&sandbox, Path::new("unused"));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        sandbox.fail_next(Fault::hold().times(2)).unwrap();
        let mut gone = send_create(&process, "POST", "/v1/agents");
        runtime.block_on(sandbox.wait_for_held(1, HANG)).unwrap();
        gone.shutdown(Shutdown::Write).unwrap();
        assert_eq!(gone.read(&mut [0]).unwrap(), 0);
        let caller = thread::spawn(move || {
            let call = client.request(Method::POST, ["agents"]).json(&agent(1));
            call.send()
        });
        runtime.block_on(sandbox.wait_for_held(2, HANG)).unwrap();

        kill_process(Pid::from_child(&process.process), signal).unwrap();
        // The service has received the signal once it accepts no connection.
        while TcpStream::connect(&process.address).is_ok() {
            thread::yield_now();
        }
        assert_eq!(sandbox.release(), 2);
        assert_eq!(caller.join().unwrap().unwrap().status(), 201, "{signal:?}");
        let status = process.process.wait().unwrap();
        assert!(status.success(), "{signal:?}: {status}");
        assert_eq!(sandbox.agents().len(), 2, "{signal:?}");
    }
}

/// Sends a create to the service, and returns the connection.
fn send_create(process: &ServiceProcess, method: &str, path: &str) -> TcpStream {
    let body = agent(0).to_string();
    let mut caller = TcpStream::connect(&process.address).unwrap();
    write!(
        caller,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    caller
}

/// Starts one process of the service.
fn start_service(sandbox: &Sandbox, ledger: &Path) -> (ServiceProcess, Client) {
    let mut program = example_command("service", sandbox);
    let program = program.env("DEALKIT_LEDGER", ledger);
    let program = program.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = ServiceProcess {
        process: program.spawn().unwrap(),
        address: String::new(),
    };
    let mut line = String::new();
    let stdout = process.process.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap();
    process.address = url.strip_prefix("http://").unwrap().to_owned();
    let client = Client::builder().base_url(url).service_key("none");
    (process, client.build().unwrap())
}

fn new_folder(name: &str) -> PathBuf {
    let name = format!("dealkit-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// Builds the agent with this idempotency key.
fn agent(key: usize) -> Value {
    json!({
        "email": format!("agent{key}@example.com"), "first_name": "Ada", "last_name": "Lovelace", "profile": {}
    })
}

/// Creates the agent with this key, and returns the status.
fn put(client: &Client, key: usize) -> Option<u16> {
    let call = client.request(Method::PUT, ["agents", &key.to_string()]);
    let answered = call.json(&agent(key)).retry(RetryPolicy::never()).send();
    let status = |error: dealkit::Error| error.status().map(|status| status.as_u16());
    answered.map_or_else(status, |answer| Some(answer.status().as_u16()))
}

#[test]
fn a_key_has_one_agent_despite_races_and_kills() {
    const KEYS: usize = 60;
    let sandbox = Sandbox::builder().start().unwrap();
    for fault in [
        Fault::process_then_reset().probability(0.05),
        Fault::status(503).probability(0.05),
        Fault::cut(Cut::BeforeHead).probability(0.02),
        Fault::delay(Duration::from_millis(10)).probability(0.3),
    ] {
        sandbox.fail_next(fault.method("POST").forever()).unwrap();
    }
    let folder = new_folder("service");
    let ledger = folder.join("agents.ledger");
    let once = || {
        let agents = sandbox.agents();
        let emails: HashSet<_> = agents.iter().map(|agent| agent.email.clone()).collect();
        assert_eq!(emails.len(), agents.len(), "an agent is there twice");
        agents.len()
    };
    // Two services race for the same keys. Each is killed at a random moment with a create in flight.
    for keys in (0..KEYS).collect::<Vec<_>>().chunks(KEYS / 3) {
        let services = [(); 2].map(|()| start_service(&sandbox, &ledger));
        thread::scope(|scope| {
            for (number, (mut process, client)) in services.into_iter().enumerate() {
                let (first, last) = keys.split_at(keys.len() - 5 * number - 2);
                scope.spawn(move || {
                    for key in first {
                        put(&client, *key);
                    }
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            for key in last {
                                put(&client, *key);
                            }
                        });
                        thread::sleep(Duration::from_millis(7));
                        process.process.kill().unwrap();
                    });
                });
            }
        });
        once();
    }
    sandbox.clear_faults();
    // An operator resolves the unresolved keys. Then each key has an agent.
    for is_resolved in [false, true] {
        let (_process, client) = start_service(&sandbox, &ledger);
        let agents = sandbox.agents();
        for key in 0..KEYS {
            let email = format!("agent{key}@example.com");
            let found = agents.iter().find(|agent| agent.email == email);
            let status = put(&client, key).unwrap();
            match status {
                200 | 201 => assert_eq!(status == 200, found.is_some()),
                202 if !is_resolved => {
                    let found = found.map(|agent| agent.id.clone());
                    Ledger::sqlite(&ledger)
                        .resolve([(key.to_string(), found)])
                        .unwrap();
                }
                status => panic!("{status}"),
            }
        }
    }
    assert_eq!(once(), KEYS);
    std::fs::remove_dir_all(folder).unwrap();
}

/// The alerts use metrics and attributes that a program exports, under the names that Prometheus gives them.
#[tokio::test(start_paused = true)]
async fn the_alerts_use_the_names_of_the_metrics() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    opentelemetry::global::set_meter_provider(provider.clone());
    let service = Sandbox::builder().service().unwrap();
    let client = dealkit::Client::builder()
        .base_url("http://localhost")
        .service_key("sandbox-key")
        .transport(service.clone())
        .build()
        .unwrap();
    service
        .fail_next(Fault::status(429).retry_after(0))
        .unwrap();
    client.deals().retrieve("d_1").await.unwrap();
    client.deals().retrieve("no-such-deal").await.unwrap_err();

    provider.force_flush().unwrap();
    let exported = format!("{:?}", exporter.get_finished_metrics().unwrap());
    let alerts = include_str!("../../../docs/guide/alerts.yml");
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let lines = alerts.lines().filter(|line| !line.trim().starts_with('#'));
    let words = lines.flat_map(|line| line.split(|c| !is_part(c)));
    let prefixes = ["dealkit_", "http_", "server_", "error_"];
    let names: BTreeSet<&str> = words
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        let suffixes = ["_seconds_count", "_seconds_total", "_total"];
        let suffix = suffixes.iter().find(|suffix| name.ends_with(*suffix));
        let base = name.strip_suffix(suffix.unwrap_or(&"")).unwrap();
        // OpenTelemetry's names have dots where Prometheus has underscores.
        let exists = exported
            .split(|c: char| !is_part(c) && c != '.')
            .any(|word| word.replace('.', "_") == base);
        assert!(exists, "{name} is not in {exported}");
    }
}
