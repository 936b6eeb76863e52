//! A strategy that never fails: asks the one that was configured, checks its plan, and lets a native one decide where that
//! failed.

mod breaker;
mod last_plan;
mod policy;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use self::breaker::Breaker;
use self::last_plan::LastPlan;
pub use self::policy::{Fallback, FallbackPolicy};
use crate::assignor::{Assignor, Context, Engagement, Health, Interest, NoServices, Protocol, Services};
use crate::builtin::Builtin;
use crate::cause::{CallError, Cause, LoadError};
use crate::group::{Group, TopicPartitions};
use crate::plan::{Completeness, Plan, assert_safe, check, withhold};
use crate::plugin::{Estate, Plugin, Runtime};

/// With so many fallbacks in a row, keeping in place has gone on long enough: members that came and went meanwhile have
/// left the group uneven, and who came last may have nothing at all. Whatever the cause: a strategy that can't be loaded or
/// that declines each time is never benched, but it does not decide either.
const KEEP_BELOW: u32 = 3;

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The plugin.
    Plugin,
    /// A built-in, as configured.
    Native,
    /// A built-in, since what was configured failed.
    Fallback,
}

impl Outcome {
    /// The outcome as programs read it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Native => "native",
            Self::Fallback => "fallback",
        }
    }
}

/// A checked plan and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The plan: valid, and safe to hand out.
    pub plan: Plan,
    /// Who decided.
    pub outcome: Outcome,
    /// The name of the strategy that decided.
    pub decided_by: String,
    /// Why it was a fallback.
    pub cause: Option<Cause>,
    /// Time for all of it, failed attempts included.
    pub took: Duration,
    /// How many partitions are held back until another member has given them up.
    pub withheld: usize,
}

/// Something about a strategy that an application may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A native strategy decided instead.
    Fallback {
        /// The strategy that was configured.
        strategy: String,
        /// The one that decided.
        used: &'static str,
        /// Why.
        cause: Cause,
        /// Fallbacks in a row, this one included.
        in_a_row: u32,
    },
    /// A call failed that has a harmless substitute.
    CallFailed {
        /// The strategy.
        strategy: String,
        /// The function.
        call: &'static str,
        /// Why.
        cause: CallError,
    },
    /// The strategy is not asked for a while.
    Benched {
        /// The strategy.
        strategy: String,
        /// For how long.
        pause: Duration,
        /// Failures in a row.
        failures: u32,
    },
    /// New bytes took the place of the old.
    Replaced {
        /// The strategy.
        strategy: String,
        /// The new component's digest.
        digest: String,
    },
    /// New bytes were refused; the old ones go on.
    ReplaceFailed {
        /// The strategy.
        strategy: String,
        /// Why.
        cause: LoadError,
    },
}

/// Is told of events, on the thread on which they happen. Must return soon. It may call the strategy, as to
/// [`replace`](Strategy::replace) one that is benched.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// A strategy of one consumer: what was configured, with a native one behind it. A handle: clones are the same strategy, so
/// that one can be given to a consumer and another used to [`replace`](Self::replace) it.
#[derive(Clone)]
pub struct Strategy(Arc<Inner>);

struct Inner {
    name: String,
    protocols: Vec<Protocol>,
    policy: FallbackPolicy,
    observer: Observer,
    state: Mutex<State>,
}

struct State {
    source: Source,
    breaker: Breaker,
    /// Fallbacks in a row.
    fallbacks: u32,
    last: LastPlan,
    /// The consumer that asked last: it is asked for a rebalance when the strategy is replaced.
    consumer: Arc<dyn Services>,
    /// As long as it lives, a consumer has this strategy.
    engaged: Weak<()>,
}

/// What was configured.
enum Source {
    Native(Box<dyn Assignor>),
    Plugin(Box<Plugin>),
    /// A plugin that could not be loaded. It keeps its place in the group under the name it was configured with.
    Degraded {
        runtime: Runtime,
        estate: Estate,
        cause: LoadError,
    },
}

impl std::fmt::Debug for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strategy").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Strategy {
    /// A native strategy. Its plans are checked like any other's.
    pub fn native(assignor: Box<dyn Assignor>, observer: Observer) -> Self {
        let (name, protocols) = (assignor.name().to_owned(), assignor.protocols().to_vec());
        Self::new(name, protocols, Source::Native(assignor), FallbackPolicy::default(), observer)
    }

    /// A plugin with a native fallback.
    pub fn plugin(plugin: Plugin, policy: FallbackPolicy, observer: Observer) -> Self {
        let (name, protocols) = (plugin.name().to_owned(), plugin.protocols().to_vec());
        Self::new(name, protocols, Source::Plugin(Box::new(plugin)), policy, observer)
    }

    /// In place of a plugin that could not be loaded: falls back in each call, until [`replace`](Self::replace) brings a good
    /// one.
    pub fn degraded(
        runtime: &Runtime,
        name: &str,
        protocols: &[Protocol],
        config: std::collections::BTreeMap<String, String>,
        cause: LoadError,
        policy: FallbackPolicy,
        observer: Observer,
    ) -> Self {
        let source = Source::Degraded { runtime: runtime.clone(), estate: Estate::of_config(config), cause };
        Self::new(name.to_owned(), protocols.to_vec(), source, policy, observer)
    }

    fn new(
        name: String,
        protocols: Vec<Protocol>,
        source: Source,
        policy: FallbackPolicy,
        observer: Observer,
    ) -> Self {
        let breaker = Breaker::new(policy.bench_after, policy.bench_pause, policy.bench_pause_max);
        let state = Mutex::new(State {
            source,
            breaker,
            fallbacks: 0,
            last: LastPlan::default(),
            consumer: Arc::new(NoServices),
            engaged: Weak::new(),
        });
        Self(Arc::new(Inner { name, protocols, policy, observer, state }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name under which the group agrees on it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The digest of the component in use; `None` for a built-in, or where none could be loaded.
    pub fn digest(&self) -> Option<String> {
        match &self.lock().source {
            Source::Plugin(plugin) => Some(plugin.component().digest().to_owned()),
            _ => None,
        }
    }

    /// Splits the group's partitions: asks, checks, falls back, withholds. Always gives a valid and safe plan.
    pub fn decide(&self, cx: &Context, group: &Group) -> Decision {
        let started = Instant::now();
        let mut events = Vec::new();
        let mut state = self.lock();
        state.consumer = Arc::clone(&cx.services);
        let (mut plan, mut outcome, mut decided_by, mut cause) = match state.attempt(cx, group) {
            Ok((plan, outcome)) => {
                state.breaker.succeeded();
                state.fallbacks = 0;
                (plan, outcome, self.0.name.clone(), None)
            }
            Err(cause) => {
                let (plan, used) = self.fall_back(&mut state, cx, group, &cause, &mut events);
                (plan, Outcome::Fallback, used.to_owned(), Some(cause))
            }
        };
        let mut withheld = withhold(group, &mut plan);
        if let Err(violation) = assert_safe(group, &plan) {
            // Ours to mend, yet nobody's partition may get two owners: what is validly owned is safe.
            tracing::error!(strategy = self.0.name, "{violation}; holding everything in place");
            plan = Builtin::hold(group);
            withheld += withhold(group, &mut plan);
            (outcome, decided_by) = (Outcome::Fallback, Fallback::Hold.name().to_owned());
            cause = Some(violation.into());
        }
        // Who cancels a call has no use for its plan: nobody gets it.
        if cause != Some(Cause::Call(CallError::Cancelled)) {
            state.last.remember(group, &plan);
        }
        drop(state);
        // Unlocked: an observer may call the strategy.
        events.iter().for_each(|event| self.tell(&*cx.services, event));
        Decision { plan, outcome, decided_by, cause, took: started.elapsed(), withheld }
    }

    fn fall_back(
        &self,
        state: &mut State,
        cx: &Context,
        group: &Group,
        cause: &Cause,
        events: &mut Vec<Event>,
    ) -> (Plan, &'static str) {
        let strategy = || self.0.name.clone();
        match cause {
            // The caller gave up: the strategy is not to blame, and nobody gets this plan.
            Cause::Call(CallError::Cancelled) => {}
            // Nothing of it failed in this call.
            Cause::Call(CallError::Declined(_)) | Cause::Benched { .. } | Cause::Load(_) => {
                state.fallbacks += 1
            }
            cause => {
                state.fallbacks += 1;
                if let Some(pause) = state.breaker.failed(cx.now_ms, cause) {
                    let failures = state.breaker.failures();
                    tracing::warn!(strategy = self.0.name, failures, ?pause, "the strategy is benched");
                    events.push(Event::Benched { strategy: strategy(), pause, failures });
                }
            }
        }
        let in_a_row = state.fallbacks;
        let group = group.without_user_data();
        let group = state.last.as_owned(&group).unwrap_or(group);
        let native = match self.0.policy.fallback {
            Fallback::Keep if in_a_row < KEEP_BELOW => Some(Builtin::keep()),
            Fallback::Keep if self.0.protocols.contains(&Protocol::Cooperative) => {
                Some(Builtin::cooperative_sticky())
            }
            Fallback::Keep | Fallback::Range => Some(Builtin::range()),
            Fallback::CooperativeSticky => Some(Builtin::cooperative_sticky()),
            Fallback::Hold => None,
        };
        let (plan, used) = match native {
            Some(native) => (native.plan(&group), native.name()),
            None => {
                let plan = Builtin::hold(&group);
                let assigned: usize = plan.assignments.iter().map(|a| a.partitions.len()).sum();
                let unassigned = group.partitions() as usize - assigned;
                if unassigned > 0 {
                    tracing::error!(
                        strategy = self.0.name,
                        unassigned,
                        "partitions stay unassigned, as assignor.fallback=hold wants it"
                    );
                }
                (plan, Fallback::Hold.name())
            }
        };
        debug_assert_eq!(check(&group, &plan, Completeness::Partial), Ok(()));
        tracing::warn!(
            strategy = self.0.name,
            code = cause.code(),
            in_a_row,
            "{used} decides instead: {cause}"
        );
        events.push(Event::Fallback { strategy: strategy(), used, cause: cause.clone(), in_a_row });
        (plan, used)
    }

    /// Puts other bytes in the place of a running plugin. They are verified, compiled and probed first, while the old ones
    /// go on; name and protocols must be the same. The new instance is told the last assignment, and the consumer that uses
    /// the strategy is asked for a rebalance, which the leader starts.
    ///
    /// # Errors
    /// If the new bytes can't be used. The old ones then go on.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), LoadError> {
        let replaced = self.try_replace(bytes);
        let (strategy, consumer) = (self.0.name.clone(), Arc::clone(&self.lock().consumer));
        match &replaced {
            Ok(digest) => {
                tracing::info!(strategy, digest, "the strategy is replaced");
                self.tell(&*consumer, &Event::Replaced { strategy, digest: digest.clone() });
            }
            Err(cause) => {
                tracing::warn!(strategy, code = cause.code(), "the strategy is not replaced: {cause}");
                self.tell(&*consumer, &Event::ReplaceFailed { strategy, cause: cause.clone() });
            }
        }
        replaced.map(|_| ())
    }

    fn try_replace(&self, bytes: &[u8]) -> Result<String, LoadError> {
        let (runtime, estate) = match &self.lock().source {
            Source::Native(_) => return Err(LoadError::ReservedName(self.0.name.clone())),
            Source::Plugin(plugin) => (plugin.component().runtime().clone(), plugin.estate()),
            Source::Degraded { runtime, estate, .. } => (runtime.clone(), estate.clone()),
        };
        // Compiling and probing take time: not under the lock, so that the old one goes on.
        let component = runtime.compile(bytes)?;
        let mut new = Plugin::succeed(&component, estate, &self.0.name, &self.0.protocols)?;
        let mut state = self.lock();
        match &state.source {
            Source::Plugin(old) => new.catch_up(old.estate()),
            Source::Degraded { estate, .. } => new.catch_up(estate.clone()),
            Source::Native(_) => {}
        }
        state.source = Source::Plugin(Box::new(new));
        state.breaker.reset();
        state.fallbacks = 0;
        let consumer = Arc::clone(&state.consumer);
        drop(state);
        consumer.request_rebalance(Duration::ZERO, &format!("the strategy {} was replaced", self.0.name));
        Ok(component.digest().to_owned())
    }

    fn tell(&self, consumer: &dyn Services, event: &Event) {
        consumer.happened(event);
        (self.0.observer)(event);
    }

    fn failed(&self, cx: &Context, call: &'static str, cause: CallError) {
        tracing::warn!(strategy = self.0.name, code = cause.code(), "{call} failed: {cause}");
        self.tell(&*cx.services, &Event::CallFailed { strategy: self.0.name.clone(), call, cause });
    }
}

impl State {
    fn attempt(&mut self, cx: &Context, group: &Group) -> Result<(Plan, Outcome), Cause> {
        self.breaker.check(cx.now_ms)?;
        let (plan, outcome) = match &mut self.source {
            Source::Native(native) => (native.assign(cx, group)?, Outcome::Native),
            Source::Plugin(plugin) => (plugin.assign(cx, group)?, Outcome::Plugin),
            Source::Degraded { cause, .. } => return Err(cause.clone().into()),
        };
        check(group, &plan, Completeness::Full)?;
        Ok((plan, outcome))
    }
}

impl Assignor for Strategy {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn protocols(&self) -> &[Protocol] {
        &self.0.protocols
    }

    fn is_degraded(&self) -> bool {
        matches!(self.lock().source, Source::Degraded { .. })
    }

    fn engage(&mut self) -> Option<Engagement> {
        let mut state = self.lock();
        let free = state.engaged.strong_count() == 0;
        free.then(|| {
            let engagement = Engagement::default();
            state.engaged = engagement.watch();
            engagement
        })
    }

    fn subscription(&mut self, cx: &Context, topics: &[String]) -> Result<Interest, CallError> {
        let answer = match &mut self.lock().source {
            Source::Native(native) => native.subscription(cx, topics),
            Source::Plugin(plugin) => plugin.subscription(cx, topics),
            Source::Degraded { .. } => Ok(Interest::all(topics)),
        };
        Ok(answer.unwrap_or_else(|cause| {
            self.failed(cx, "subscription", cause);
            Interest::all(topics)
        }))
    }

    fn assign(&mut self, cx: &Context, group: &Group) -> Result<Plan, CallError> {
        Ok(self.decide(cx, group).plan)
    }

    fn on_assignment(
        &mut self,
        cx: &Context,
        partitions: &[TopicPartitions],
        user_data: Option<&[u8]>,
        generation: i32,
    ) -> Result<(), CallError> {
        let mut state = self.lock();
        state.consumer = Arc::clone(&cx.services);
        state.last.see(&cx.member_id, partitions);
        let answer = match &mut state.source {
            Source::Native(native) => native.on_assignment(cx, partitions, user_data, generation),
            Source::Plugin(plugin) => plugin.on_assignment(cx, partitions, user_data, generation),
            Source::Degraded { estate, .. } => {
                estate.hear(partitions, user_data, generation);
                Ok(())
            }
        };
        drop(state);
        if let Err(cause) = answer {
            self.failed(cx, "on-assignment", cause);
        }
        Ok(())
    }

    fn on_lost(&mut self) {
        match &mut self.lock().source {
            Source::Native(native) => native.on_lost(),
            Source::Plugin(plugin) => plugin.on_lost(),
            Source::Degraded { estate, .. } => estate.forget(),
        }
    }

    fn health(&self) -> Health {
        let state = self.lock();
        Health {
            memory: match &state.source {
                Source::Plugin(plugin) => plugin.health().memory,
                Source::Native(_) | Source::Degraded { .. } => None,
            },
            benched: state.breaker.is_benched(),
        }
    }
}
