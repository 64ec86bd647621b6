//! A PostgreSQL server of the tests' own: in a folder of its own, on a Unix socket, and on a free port of loopback with TLS.
//! It is stopped and removed when the process ends, however it ends.

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
const HANG_LIMIT: Duration = Duration::from_secs(120);

pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    pub port: u16,
    /// Reserves the port: it is bound but does not listen, so no other program is given it, while the server may listen on it.
    /// Other systems than Linux do not allow that.
    _reserved: Option<TcpSocket>,
    /// Ends the server once its input ends.
    _watcher: Child,
}

impl Cluster {
    /// `None`, and a line that says so, where PostgreSQL is not installed.
    ///
    /// # Panics
    /// If PostgreSQL is not installed and `DEALKIT_REQUIRE_POSTGRES` is set, which it is in CI.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            let needed = "it needs PostgreSQL (Debian: apt-get install postgresql)";
            let is_required = env::var_os("DEALKIT_REQUIRE_POSTGRES").is_some_and(|set| set == "1");
            assert!(!is_required, "{needed}");
            eprintln!("skipped: {needed}");
            return None;
        };
        let folder = tempfile::TempDir::new().unwrap().keep();
        if rustix::process::geteuid().is_root() {
            let done = Command::new("chown").arg("postgres").arg(&folder).status();
            assert!(done.unwrap().success());
        }
        let data = folder.join("data");
        let made = as_server(programs.join("initdb"))
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
        assert!(made.status.success(), "{made:?}");
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, pem) in [
            ("server.crt", key.cert.pem()),
            ("server.key", key.signing_key.serialize_pem()),
        ] {
            // The server reads its key only if nobody else can.
            let script = "umask 077; cat >\"$0\"";
            let mut written = as_server("sh")
                .args(["-c", script])
                .arg(data.join(name))
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = written.stdin.take().unwrap();
            input.write_all(pem.as_bytes()).unwrap();
            drop(input);
            assert!(written.wait().unwrap().success());
        }
        let stop = "read _; \"$0\" -D \"$1\"/data stop -m immediate; rm -rf \"$1\"";
        let watcher = as_server("sh")
            .args(["-c", stop])
            .arg(programs.join("pg_ctl"))
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let reserved = TcpSocket::new_v4().unwrap();
        // The server sets this, too: without it on both, the port is in use.
        reserved.set_reuseaddr(true).unwrap();
        reserved.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let this = Self {
            programs,
            folder,
            port: reserved.local_addr().unwrap().port(),
            _reserved: cfg!(target_os = "linux").then_some(reserved),
            _watcher: watcher,
        };
        this.control(&["start", "-w", "-o", &this.options()]);
        Some(this)
    }

    /// The server that tests share which do not stop it.
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

    /// Kills the server, as a crash of its machine would, and does something before it is started again.
    pub fn crash(&self, meanwhile: impl FnOnce()) {
        self.control(&["stop", "-m", "immediate"]);
        meanwhile();
        self.control(&["start", "-w", "-o", &self.options()]);
    }

    fn control(&self, arguments: &[&str]) {
        let done = as_server(self.programs.join("pg_ctl"))
            .arg("-D")
            .arg(self.folder.join("data"))
            .arg("-l")
            .arg(self.folder.join("data/log"))
            .args(["-t", &HANG_LIMIT.as_secs().to_string()])
            .args(arguments)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// The URL of a place for one ledger that nothing else uses.
    pub fn url(&self) -> String {
        static USED: AtomicUsize = AtomicUsize::new(0);
        let schema = format!("s{}", USED.fetch_add(1, Relaxed));
        format!(
            "postgresql:///postgres?user=postgres&host={}&port={}&schema={schema}",
            self.folder.display(),
            self.port
        )
    }

    /// The file of the certificate that the server has.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("data/server.crt")
    }

    /// Does something in the schema of a URL, with psql, and returns what that says.
    pub fn sql(&self, url: &str, sql: &str) -> String {
        let done = self.psql(url).arg("-c").arg(sql).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A transaction that has done something, and stays open until this is dropped.
    pub fn hold(&self, url: &str, sql: &str) -> Child {
        let mut psql = self.psql(url);
        let psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut held = psql.spawn().unwrap();
        writeln!(held.stdin.as_ref().unwrap(), "BEGIN; {sql}; SELECT 1;").unwrap();
        let mut said = BufReader::new(held.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        held
    }

    /// Waits until a transaction on the creates in the schema of a URL waits for a lock.
    pub fn wait_for_a_lock(&self, url: &str) {
        let waiting = "SELECT count(*) FROM pg_locks JOIN pg_locks AS waiting USING (pid)
            WHERE pg_locks.relation = 'creates'::regclass AND NOT waiting.granted";
        let end = Instant::now() + HANG_LIMIT;
        while self.sql(url, waiting) == "0" {
            assert!(Instant::now() < end, "nothing waits for a lock");
        }
    }

    /// The statements that make the tables of a schema again in the current one, with their rows.
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
        let other = [
            "--",
            "\\",
            "SET ",
            "SELECT pg_catalog.set_config",
            "CREATE SCHEMA",
        ];
        let lines = dumped.lines().filter(|line| {
            let is_other = other.iter().any(|start| line.starts_with(start));
            !line.is_empty() && !is_other
        });
        let lines: Vec<_> = lines.collect();
        lines.join("\n").replace(&format!("{schema}."), "") + "\n"
    }

    fn psql(&self, url: &str) -> Command {
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

/// The folder of the server's programs: Debian has them outside the path.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut debian: Vec<_> = debian
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = debian.into_iter().rev().chain(env::split_paths(&path));
    all.find(|folder| {
        ["initdb", "pg_ctl", "psql"]
            .iter()
            .all(|name| folder.join(name).exists())
    })
}

/// A program that the server needs, which refuses to be run by root.
fn as_server(program: impl AsRef<OsStr>) -> Command {
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
