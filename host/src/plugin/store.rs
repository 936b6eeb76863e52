//! What belongs to one instance, and the budgets of its running call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{ResourceLimiter, Store, UpdateDeadline};

use super::limits::Limits;
use super::runtime::Runtime;
use super::v0_1;
use crate::assignor::{Context, Services, Unavailable};
use crate::cause::CallError;
use crate::group::Layout;

/// The data of an instance's store.
pub(super) struct State {
    pub(super) limits: Arc<Limits>,
    pub(super) config: Arc<BTreeMap<String, String>>,
    pub(super) name: Arc<str>,
    pub(super) cx: Context,
    /// The topics and racks of the running `assign`; none outside it.
    pub(super) layout: Option<Layout>,
    /// Bytes of log that the running call has written.
    pub(super) logged: usize,
    /// The last line that the running call logged as an error: a guest that panics says why there, and then traps.
    pub(super) last_words: Option<String>,
    budget: Budget,
    used: Used,
}

/// Time and host calls of the running call. Guest time and the time that it waits for the host are apart: a slow answer must
/// not kill an innocent guest.
struct Budget {
    started: Instant,
    guest_limit: Duration,
    /// Time in host functions, `waited` included.
    host_time: Duration,
    /// Time in services of the consumer.
    waited: Duration,
    host_calls: u64,
    /// Why the host ended the call, where it did: the guest's error is then only a trap.
    stopped: Option<CallError>,
}

/// What the instance holds, over all its calls.
#[derive(Default)]
struct Used {
    memory: u64,
    table_elements: u64,
    /// What was refused in the running call. Guests mostly trap then, and the trap doesn't say why.
    refused: Option<CallError>,
}

/// A store for one instance, with all its limits armed.
pub(super) fn new_store(
    runtime: &Runtime,
    name: Arc<str>,
    config: Arc<BTreeMap<String, String>>,
) -> Store<State> {
    let limits = runtime.shared_limits();
    let budget = Budget {
        started: Instant::now(),
        guest_limit: limits.call_time,
        host_time: Duration::ZERO,
        waited: Duration::ZERO,
        host_calls: 0,
        stopped: None,
    };
    let host_bytes = limits.host_bytes;
    let state = State {
        limits,
        config,
        name,
        cx: Context::default(),
        layout: None,
        logged: 0,
        last_words: None,
        budget,
        used: Used::default(),
    };
    let mut store = Store::new(runtime.engine(), state);
    store.set_hostcall_fuel(host_bytes);
    store.limiter(|state| state);
    store.epoch_deadline_callback(|mut cx| Ok(cx.data_mut().at_tick()));
    store
}

/// Starts a call's budgets.
pub(super) fn arm(store: &mut Store<State>, cx: &Context, guest_limit: Duration, layout: Option<Layout>) {
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.cx = cx.clone();
    state.layout = layout;
    state.logged = 0;
    state.last_words = None;
    state.used.refused = None;
    state.budget = Budget {
        started: Instant::now(),
        guest_limit,
        host_time: Duration::ZERO,
        waited: Duration::ZERO,
        host_calls: 0,
        stopped: None,
    };
}

impl State {
    /// Bytes of memory that the instance holds.
    pub(super) fn memory(&self) -> u64 {
        self.used.memory
    }

    /// Runs a host function: counts it, keeps its time out of the guest's, and ends the call when a budget is used up.
    pub(super) fn host_call<T>(&mut self, answer: impl FnOnce(&mut Self) -> T) -> wasmtime::Result<T> {
        self.budget.host_calls += 1;
        if self.budget.host_calls > self.limits.host_calls {
            return Err(self.stop(CallError::HostCalls { limit: self.limits.host_calls }));
        }
        let before = Instant::now();
        let answer = answer(self);
        self.budget.host_time += before.elapsed();
        if self.budget.host_time.saturating_sub(self.budget.waited) > self.limits.host_wait {
            return Err(self.stop(CallError::HostWait { limit: self.limits.host_wait }));
        }
        Ok(answer)
    }

    /// Asks a service of the consumer, which may wait until the deadline that it is given.
    ///
    /// The time for that being used up ends no call, for the guest is not to blame: this and all further questions have no
    /// answer, and it may decide without.
    pub(super) fn ask_service<T>(
        &mut self,
        ask: impl FnOnce(&dyn Services, Instant) -> Result<T, Unavailable>,
    ) -> Result<T, String> {
        let limit = self.limits.host_wait;
        let left = limit.saturating_sub(self.budget.waited);
        if left.is_zero() {
            return Err(format!("unavailable: this call has waited the {limit:?} that it may wait"));
        }
        let before = Instant::now();
        let answer = ask(&*self.cx.services, before + left);
        self.budget.waited += before.elapsed();
        answer.map_err(|e| e.to_string())
    }

    /// Why the last call failed, given the error that it ended with.
    pub(super) fn explain(&mut self, error: &wasmtime::Error) -> CallError {
        if let Some(stopped) = self.budget.stopped.take() {
            return stopped;
        }
        if let Some(refused) = self.used.refused.take() {
            return refused;
        }
        // Told apart by wasmtime's words alone: the guest's could be anything.
        let found = error.root_cause().to_string();
        let text = self.limits.text(&cause_first(error, self.last_words.take()));
        if found.contains("fuel allocated for hostcalls has been exhausted") {
            return CallError::HostBytes { limit: self.limits.host_bytes as u64 };
        }
        // wasmtime asks for these limits instead of asking whether it may, so there is no refusal of ours to remember.
        let Limits { instances, memories, .. } = *self.limits;
        for (count, what, limit) in [
            ("instance count", "instances", instances),
            ("table count", "tables", instances),
            ("memory count", "memories", memories),
        ] {
            if found.contains(&format!("resource limit exceeded: {count}")) {
                return CallError::Resource { what, limit: limit as u64 };
            }
        }
        if error.is::<v0_1::Misfit>() {
            return CallError::Contract(text);
        }
        match error.downcast_ref::<wasmtime::Trap>() {
            Some(wasmtime::Trap::StackOverflow) => CallError::Stack(text),
            _ => CallError::Trap(text),
        }
    }

    fn stop(&mut self, why: CallError) -> wasmtime::Error {
        let error = wasmtime::Error::msg(why.to_string());
        self.budget.stopped.get_or_insert(why);
        error
    }

    /// The guest is interrupted at each tick of the epoch to look at its clock.
    fn at_tick(&mut self) -> UpdateDeadline {
        let guest_time = self.budget.started.elapsed().saturating_sub(self.budget.host_time);
        if self.cx.cancellation.is_cancelled() {
            self.budget.stopped.get_or_insert(CallError::Cancelled);
        } else if guest_time >= self.budget.guest_limit {
            self.budget.stopped.get_or_insert(CallError::Deadline { limit: self.budget.guest_limit });
        } else {
            return UpdateDeadline::Continue(1);
        }
        UpdateDeadline::Interrupt
    }
}

/// What went wrong, what the guest said of it, then where: wasmtime puts the backtrace first, which may be long.
fn cause_first(error: &wasmtime::Error, last_words: Option<String>) -> String {
    let cause = error.root_cause().to_string();
    let said = last_words.map(|words| format!("it said {words:?}"));
    let place = error.chain().map(ToString::to_string).filter(|text| *text != cause);
    [cause.clone()].into_iter().chain(said).chain(place).collect::<Vec<_>>().join("; ")
}

/// One limiter over **all** memories and tables of the instance: many small ones must not add up past the limit.
impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.used.memory + desired.saturating_sub(current) as u64;
        let limit = self.limits.memory_bytes;
        if wanted > limit {
            self.used.refused.get_or_insert(CallError::Memory { wanted, limit });
            return Ok(false);
        }
        self.used.memory = wanted;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.used.table_elements + desired.saturating_sub(current) as u64;
        let limit = self.limits.table_elements;
        if wanted > limit {
            self.used.refused.get_or_insert(CallError::Resource { what: "table elements", limit });
            return Ok(false);
        }
        self.used.table_elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.instances
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}
