//! The threads behind the doors. What strangers ask must cost the loop, and those who may change something,
//! nothing: a thread of lower priority lets them in and answers whoever may only ask. Whoever may change something
//! is answered where the loop runs.

use std::future::Future;
use std::io;

use rustix::process::nice;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How much nicer than the loop readers are served; in Linux a thread has a niceness of its own, which those that it
/// starts inherit.
const NICE: i32 = 10;

/// Who works where. Ends with what it works at when dropped.
#[derive(Debug)]
pub struct Threads {
    /// Where the loop runs.
    pub loops: Handle,
    /// Lets everybody in, and answers readers and the network.
    pub readers: Worker,
}

impl Threads {
    /// Must be called inside the loop's runtime.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start() -> io::Result<Self> {
        Ok(Self { loops: Handle::current(), readers: Worker::start("readers")? })
    }
}

/// A thread with a runtime of its own.
#[derive(Debug)]
pub struct Worker {
    /// To give it work.
    pub handle: Handle,
    /// Ends it when dropped.
    _stop: oneshot::Sender<()>,
}

impl Worker {
    fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || {
            // Not allowed: then it is no nicer.
            let _ = nice(NICE);
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(name.to_string()).spawn(work)?;
        Ok(Self { handle, _stop: stop })
    }
}

/// Works there, and no longer than this is waited for.
pub async fn work_on(there: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    let mut working = JoinSet::new();
    working.spawn_on(work, there);
    let _ = working.join_next().await;
}
