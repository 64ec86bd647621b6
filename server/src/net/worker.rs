//! The second thread of a server, which serves half of its connections.
//!
//! Two runtimes of one thread each need no locks and no work stealing, and something that takes long on one of them,
//! such as a very large response, leaves the other alone.

use std::{io, thread};

use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
};

/// A thread with a runtime. Dropping it ends whatever runs there.
#[derive(Debug)]
pub(crate) struct Worker {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("dealkit-server-2".to_owned())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
            })?;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, it has ended all the same.
            let _ = thread.join();
        }
    }
}
