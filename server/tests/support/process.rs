//! The binary as a child process.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Creates a command of the binary, without its environment variables.
pub fn command(arguments: &[&str]) -> Command {
    clean(
        Command::new(env!("CARGO_BIN_EXE_dealkit-server")),
        arguments,
    )
}

/// Creates a command of the binary with a limit on open files.
#[cfg(unix)]
pub fn command_with_descriptors(descriptors: u64, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    // `exec` in `sh -c SCRIPT NAME ARGUMENTS` replaces the shell with the binary, so that signals reach it.
    shell.args(["-c", r#"ulimit -n "$0" && exec "$@""#]);
    shell.arg(descriptors.to_string());
    shell.arg(env!("CARGO_BIN_EXE_dealkit-server"));
    clean(shell, arguments)
}

fn clean(mut command: Command, arguments: &[&str]) -> Command {
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DEALKIT_"))
    {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// A running server. Dropping it kills the process.
pub struct Running {
    pub child: Child,
    pub address: SocketAddr,
    pub first_line: String,
    _stdout: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first_line = String::new();
        stdout.read_line(&mut first_line).unwrap();
        let address = first_line
            .trim_end()
            .rsplit_once('/')
            .expect(&first_line)
            .1
            .parse()
            .unwrap();
        Self {
            child,
            address,
            first_line,
            _stdout: stdout,
        }
    }

    /// Starts a server on a free port, without a log, with additional arguments.
    pub fn quiet(arguments: &[&str]) -> Self {
        let basics = ["--listen", "127.0.0.1:0", "--log", "off"];
        Self::start(command(&[&basics, arguments].concat()))
    }

    #[cfg(unix)]
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child
            .stderr
            .as_mut()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    /// Waits until the process ends. Panics after `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < limit, "still running after {limit:?}");
            std::thread::yield_now();
        }
    }

    /// Reads a size from `/proc/PID/status`, in bytes.
    ///
    /// `VmHWM` is the peak memory of the process. The kernel's value is approximate, so a later value can be slightly lower.
    #[cfg(target_os = "linux")]
    pub fn memory(&self, line: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|text| text.strip_prefix(line))
            .unwrap();
        let kib = line
            .trim_matches([':', ' ', '\t'])
            .trim_end_matches(" kB")
            .trim();
        kib.parse::<usize>().unwrap() * 1024
    }

    /// Returns the processor time so far, in ticks (100 per second).
    #[cfg(target_os = "linux")]
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let mut times = fields
            .split(' ')
            .skip(11)
            .map(|field| field.parse::<u64>().unwrap());
        times.next().unwrap() + times.next().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
