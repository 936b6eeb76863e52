//! Moves the engine's epoch on while calls run, so that each call looks at its clock now and then.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wasmtime::Engine;

/// How often a running guest is interrupted to look at its clock: the precision of time limits.
pub(super) const TICK: Duration = Duration::from_millis(5);

/// A thread that ticks only while a call runs, and ends with the ticker.
#[derive(Debug)]
pub(super) struct Ticker(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    /// Starts the thread.
    pub(super) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        // The engine must be able to go while the thread waits.
        let engine = engine.weak();
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("assignor-ticker".into()).stack_size(64 << 10).spawn(move || {
            loop {
                let idle = theirs.lock();
                let state = theirs
                    .changed
                    .wait_while(idle, |s| s.running == 0 && !s.closed)
                    .unwrap_or_else(PoisonError::into_inner);
                if state.closed {
                    return;
                }
                drop(state);
                std::thread::sleep(TICK);
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
            }
        })?;
        Ok(Self(shared))
    }

    /// Ticks until the guard goes.
    pub(super) fn run(&self) -> Ticking {
        self.0.lock().running += 1;
        self.0.changed.notify_all();
        Ticking(Arc::clone(&self.0))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

/// While this lives, the epoch moves on.
#[derive(Debug)]
pub(super) struct Ticking(Arc<Shared>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}
