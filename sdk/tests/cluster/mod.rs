//! A PostgreSQL server for the tests, with its own folder, a Unix socket, and TLS on a free port of loopback. It is stopped and
//! its folder is removed when the process ends, even if the process is killed.

#![allow(dead_code, unreachable_pub, reason = "several programs use it")]

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::net::TcpSocket;

/// The longest wait for the server.
const MAX_WAIT: Duration = Duration::from_secs(120);

pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    pub port: u16,
    /// A bound socket that does not listen. It reserves the port: no other program gets it, but the server may listen on it.
    /// Only Linux allows this.
    _reserved: Option<TcpSocket>,
    /// A shell that stops the server when its input ends.
    _watcher: Child,
}

impl Cluster {
    /// Starts a server. Where PostgreSQL is not installed, prints that the test is skipped and returns `None`.
    ///
    /// # Panics
    /// If PostgreSQL is not installed and `DEALKIT_REQUIRE_POSTGRES` is set, which it is in CI.
    pub fn start() -> Option<Self> {
        let Some(programs) = find_programs() else {
            let reason = "PostgreSQL is not installed; on Debian, run: apt-get install postgresql";
            let is_required =
                env::var_os("DEALKIT_REQUIRE_POSTGRES").is_some_and(|value| value == "1");
            assert!(!is_required, "{reason}");
            eprintln!("skipped: {reason}");
            return None;
        };
        let folder = tempfile::TempDir::new().unwrap().keep();
        if rustix::process::geteuid().is_root() {
            let done = Command::new("chown").arg("postgres").arg(&folder).status();
            assert!(done.unwrap().success());
        }
        let data = folder.join("data");
        let initialised = server_command(programs.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args([
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256"])
            .output()
            .unwrap();
        assert!(initialised.status.success(), "{initialised:?}");
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, pem) in [
            ("server.crt", key.cert.pem()),
            ("server.key", key.signing_key.serialize_pem()),
        ] {
            // The server rejects a key file that other users can read.
            let script = "umask 077; cat >\"$0\"";
            let mut writer = server_command("sh")
                .args(["-c", script])
                .arg(data.join(name))
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = writer.stdin.take().unwrap();
            input.write_all(pem.as_bytes()).unwrap();
            drop(input);
            assert!(writer.wait().unwrap().success());
        }
        let stop = "read _; \"$0\" -D \"$1\"/data stop -m immediate; rm -rf \"$1\"";
        let watcher = server_command("sh")
            .args(["-c", stop])
            .arg(programs.join("pg_ctl"))
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reserved = TcpSocket::new_v4().unwrap();
        // Both sockets need this option, and the server sets it: without it, the port is in use.
        reserved.set_reuseaddr(true).unwrap();
        reserved.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let this = Self {
            programs,
            folder,
            port: reserved.local_addr().unwrap().port(),
            _reserved: cfg!(target_os = "linux").then_some(reserved),
            _watcher: watcher,
        };
        this.run_pg_ctl(&["start", "-w", "-o", &this.options()]);
        Some(this)
    }

    /// Returns the server that is shared by tests that do not stop it.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn options(&self) -> String {
        format!(
            "-k {} -p {} -c ssl=on -c listen_addresses=127.0.0.1",
            self.folder.display(),
            self.port
        )
    }

    /// Kills the server, as a crash of its machine would, calls a function, and restarts the server.
    pub fn crash_during(&self, work: impl FnOnce()) {
        self.run_pg_ctl(&["stop", "-m", "immediate"]);
        work();
        self.run_pg_ctl(&["start", "-w", "-o", &self.options()]);
    }

    fn run_pg_ctl(&self, arguments: &[&str]) {
        let done = server_command(self.programs.join("pg_ctl"))
            .arg("-D")
            .arg(self.folder.join("data"))
            .arg("-l")
            .arg(self.folder.join("data/log"))
            .args(["-t", &MAX_WAIT.as_secs().to_string()])
            .args(arguments)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// Returns the URL of a new ledger, in a schema that no other test uses.
    pub fn new_url(&self) -> String {
        static USED: AtomicUsize = AtomicUsize::new(0);
        let schema = format!("s{}", USED.fetch_add(1, Relaxed));
        format!(
            "postgresql:///postgres?user=postgres&host={}&port={}&schema={schema}",
            self.folder.display(),
            self.port
        )
    }

    /// Returns the path of the server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("data/server.crt")
    }

    /// Executes SQL in the schema of a URL, with psql, and returns the output.
    pub fn run_sql(&self, url: &str, sql: &str) -> String {
        let done = self.psql_command(url).arg("-c").arg(sql).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Starts a transaction with this SQL, and leaves it open until the input of the returned process is closed.
    pub fn start_transaction(&self, url: &str, sql: &str) -> Child {
        let mut psql = self.psql_command(url);
        let psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut transaction = psql.spawn().unwrap();
        writeln!(
            transaction.stdin.as_ref().unwrap(),
            "BEGIN; {sql}; SELECT 1;"
        )
        .unwrap();
        let mut output = BufReader::new(transaction.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        transaction
    }

    /// Waits until a transaction that uses the table `creates` in the schema of a URL is blocked by a lock.
    pub fn wait_until_blocked(&self, url: &str) {
        let waiting = "SELECT count(*) FROM pg_locks JOIN pg_locks AS waiting USING (pid)
            WHERE pg_locks.relation = 'creates'::regclass AND NOT waiting.granted";
        let end = Instant::now() + MAX_WAIT;
        while self.run_sql(url, waiting) == "0" {
            assert!(Instant::now() < end, "no transaction waits for a lock");
        }
    }

    /// Returns the statements that recreate the tables of a schema, with their rows, in the current schema.
    pub fn dump(&self, schema: &str) -> String {
        let dumped = Command::new(self.programs.join("pg_dump"))
            .args(["--inserts", "--no-owner", "--schema", schema])
            .args(["--username=postgres", "--dbname=postgres", "--host"])
            .arg(&self.folder)
            .args(["--port", &self.port.to_string()])
            .output()
            .unwrap();
        assert!(dumped.status.success(), "{dumped:?}");
        let dumped = String::from_utf8(dumped.stdout).unwrap();
        let ignored_prefixes = [
            "--",
            "\\",
            "SET ",
            "SELECT pg_catalog.set_config",
            "CREATE SCHEMA",
        ];
        let lines = dumped.lines().filter(|line| {
            let is_ignored = ignored_prefixes.iter().any(|start| line.starts_with(start));
            !line.is_empty() && !is_ignored
        });
        let lines: Vec<_> = lines.collect();
        lines.join("\n").replace(&format!("{schema}."), "") + "\n"
    }

    fn psql_command(&self, url: &str) -> Command {
        let (_, schema) = url.split_once("schema=").unwrap();
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
        ])
        .arg(&self.folder)
        .args(["-p", &self.port.to_string()])
        .env("PGOPTIONS", format!("-c search_path={schema}"));
        psql
    }
}

/// Finds the folder of the server's programs: Debian installs them outside `PATH`.
fn find_programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut debian: Vec<_> = debian
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = debian.into_iter().rev().chain(env::split_paths(&path));
    folders.find(|folder| {
        ["initdb", "pg_ctl", "psql"]
            .iter()
            .all(|name| folder.join(name).exists())
    })
}

/// Makes a command that runs as the user `postgres` if the tests run as root, because PostgreSQL's programs reject root.
fn server_command(program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--init-groups"])
        .arg(program)
        .current_dir(Path::new("/"));
    command
}
