//! Strategies that somebody else wrote: WebAssembly components behind the [`Assignor`] trait.
//!
//! What bounds an instance's life: it is made for one consumer and kept between rebalances; a trap, a time-out or a
//! cancelled call throws it away with its store, and the next call makes a new one, which is told the last assignment.

mod complexity;
mod file;
mod limits;
mod runtime;
mod scan;
mod stack;
mod store;
mod ticker;
mod v0_1;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;

use self::stack::on_own_stack;
#[cfg(feature = "consumer")]
pub(crate) use self::stack::panicked;
use self::store::State;
use self::v0_1::Instance;
use crate::assignor::{Assignor, Context, Health, Interest, Protocol};
use crate::cause::{CallError, LoadError};
use crate::group::{Group, Layout, TopicPartitions};
use crate::names;
use crate::plan::Plan;

pub use file::read_component;
pub use limits::Limits;
pub use runtime::{Component, Runtime, RuntimeOptions, digest};

/// A strategy in a component, for one consumer and its configuration.
pub struct Plugin {
    component: Arc<Component>,
    config: Arc<BTreeMap<String, String>>,
    name: Arc<str>,
    protocols: Vec<Protocol>,
    live: Option<Live>,
    told: Option<Told>,
}

struct Live {
    store: Store<State>,
    instance: Instance,
}

/// What a plugin leaves to the one that replaces it.
#[derive(Clone)]
pub(crate) struct Estate {
    config: Arc<BTreeMap<String, String>>,
    told: Option<Told>,
}

impl Estate {
    /// Of one that was never loaded.
    pub(crate) fn of_config(config: BTreeMap<String, String>) -> Self {
        Self { config: Arc::new(config), told: None }
    }

    /// What was told holds no more: the partitions were lost.
    pub(crate) fn forget(&mut self) {
        self.told = None;
    }

    /// Keeps an assignment for the one to come.
    pub(crate) fn hear(&mut self, partitions: &[TopicPartitions], user_data: Option<&[u8]>, generation: i32) {
        self.told = Some(Told::of(partitions, user_data, generation));
    }
}

/// The last assignment, for instances to come.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    partitions: Vec<TopicPartitions>,
    user_data: Option<Vec<u8>>,
    generation: i32,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name)
            .field("component", &self.component)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Makes an instance and probes it: its name, its protocols, and a subscription of no topics.
    ///
    /// `config` are the strategy's own keys, without their prefix.
    ///
    /// # Errors
    /// If a call of the probe fails, or the name or the protocols can't be used.
    pub fn new(component: &Arc<Component>, config: BTreeMap<String, String>) -> Result<Self, LoadError> {
        let mut plugin = Self::named_by_itself(component, config)?;
        let limit = component.runtime().limits().call_time;
        let cx = Context::default();
        plugin.protocols = plugin
            .call(&cx, limit, None, |live| Ok(Ok(live.instance.protocols(&mut live.store)?)))
            .map_err(|cause| LoadError::Probe { call: "supported-protocols", cause })?;
        plugin.protocols.sort_unstable();
        plugin.protocols.dedup();
        match plugin.protocols.as_slice() {
            [] => return Err(LoadError::NoProtocols),
            [Protocol::Cooperative] => return Err(LoadError::CooperativeOnly),
            _ => {}
        }
        match plugin.subscription(&cx, &[]) {
            // It may well decline to want nothing.
            Ok(_) | Err(CallError::Declined(_)) => Ok(plugin),
            Err(cause) => Err(LoadError::Probe { call: "subscription", cause }),
        }
    }

    /// The name that a component gives itself, which tells the keys of its configuration. Nothing else is asked: the rest may need
    /// that configuration.
    ///
    /// # Errors
    /// If the call fails, or the name can't be used.
    pub(crate) fn name_of(component: &Arc<Component>) -> Result<String, LoadError> {
        Self::named_by_itself(component, BTreeMap::new()).map(|plugin| plugin.name.to_string())
    }

    fn named_by_itself(
        component: &Arc<Component>,
        config: BTreeMap<String, String>,
    ) -> Result<Self, LoadError> {
        let mut plugin = Self {
            component: Arc::clone(component),
            config: Arc::new(config),
            name: "".into(),
            protocols: Vec::new(),
            live: None,
            told: None,
        };
        let limit = component.runtime().limits().call_time;
        let name = plugin
            .call(&Context::default(), limit, None, |live| Ok(Ok(live.instance.name(&mut live.store)?)))
            .map_err(|cause| LoadError::Probe { call: "name", cause })?;
        names::check(&name)?;
        plugin.name = name.into();
        if let Some(live) = &mut plugin.live {
            live.store.data_mut().name = Arc::clone(&plugin.name);
        }
        Ok(plugin)
    }

    /// What it is an instance of.
    pub fn component(&self) -> &Arc<Component> {
        &self.component
    }

    /// What a successor takes over.
    pub(crate) fn estate(&self) -> Estate {
        Estate { config: Arc::clone(&self.config), told: self.told.clone() }
    }

    /// A plugin of other bytes in the place of one: the same configuration, name and protocols, told the last assignment.
    ///
    /// # Errors
    /// If it can't be loaded, or is another strategy.
    pub(crate) fn succeed(
        component: &Arc<Component>,
        estate: Estate,
        name: &str,
        protocols: &[Protocol],
    ) -> Result<Self, LoadError> {
        let mut new = Self::new(component, (*estate.config).clone())?;
        new.take_name(name)?;
        if new.protocols != protocols {
            return Err(LoadError::ProtocolsChanged {
                found: names::protocols(&new.protocols),
                expected: names::protocols(protocols),
            });
        }
        // A fresh instance, told now: one that can't bear that does not take the place of one that could.
        new.live = None;
        let told = estate.told;
        let limit = component.runtime().limits().call_time;
        let outcome = new.call(&Context::default(), limit, None, |live| match &told {
            Some(told) => told.tell(live),
            None => Ok(Ok(())),
        });
        match outcome {
            Ok(()) | Err(CallError::Declined(_)) => new.told = told,
            Err(cause) => return Err(LoadError::Probe { call: "on-assignment", cause }),
        }
        Ok(new)
    }

    /// Takes over what the predecessor was told since the estate was drawn up that this one was made with: the next instance
    /// is told that.
    pub(crate) fn catch_up(&mut self, estate: Estate) {
        if self.told != estate.told {
            self.told = estate.told;
            self.live = None;
        }
    }

    /// Checks that it goes by the name that it was given in the configuration.
    pub(crate) fn take_name(&self, name: &str) -> Result<(), LoadError> {
        if *self.name != *name {
            return Err(LoadError::NameMismatch { found: self.name.to_string(), expected: name.into() });
        }
        Ok(())
    }

    /// Runs one call in the kept instance. If that one has run into its memory limit, what it kept may be to blame: once
    /// more, in a fresh one.
    fn call<T: Send>(
        &mut self,
        cx: &Context,
        guest_limit: Duration,
        layout: Option<Layout>,
        call: impl Fn(&mut Live) -> wasmtime::Result<Result<T, CallError>> + Send + Sync,
    ) -> Result<T, CallError> {
        let kept = self.live.is_some();
        match self.call_once(cx, guest_limit, layout.clone(), &call) {
            Err(CallError::Memory { .. }) if kept => self.call_once(cx, guest_limit, layout, &call),
            outcome => outcome,
        }
    }

    fn call_once<T: Send>(
        &mut self,
        cx: &Context,
        guest_limit: Duration,
        layout: Option<Layout>,
        call: &(impl Fn(&mut Live) -> wasmtime::Result<Result<T, CallError>> + Send + Sync),
    ) -> Result<T, CallError> {
        if cx.cancellation.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        let limits = self.component.runtime().shared_limits();
        let _ticking = self.component.runtime().tick();
        let kept = self.live.take();
        let this = &*self;
        let outcome = on_own_stack(limits.stack_bytes, move || {
            let mut live = kept.map_or_else(|| this.instantiate_told(cx), Ok)?;
            store::arm(&mut live.store, cx, guest_limit, layout);
            match call(&mut live) {
                Ok(answer) => Ok((answer, live)),
                // The store goes with the trap: nothing in it can be trusted any more.
                Err(error) => Err(live.store.data_mut().explain(&error)),
            }
        });
        let (answer, live) = outcome.map_err(CallError::Host)??;
        self.live = Some(live);
        answer
    }

    /// Makes an instance and tells it the last assignment. One that fails to be told is spoilt; it can decide all the same,
    /// so another takes its place, untold.
    fn instantiate_told(&self, cx: &Context) -> Result<Live, CallError> {
        let mut live = self.instantiate(cx)?;
        let Some(told) = &self.told else { return Ok(live) };
        store::arm(&mut live.store, cx, self.component.runtime().limits().call_time, None);
        let cause = match told.tell(&mut live) {
            Ok(Ok(())) => return Ok(live),
            Ok(Err(declined)) => {
                tracing::warn!(strategy = &*self.name, "on-assignment, told again: {declined}");
                return Ok(live);
            }
            Err(error) => live.store.data_mut().explain(&error),
        };
        if cause == CallError::Cancelled {
            return Err(cause);
        }
        tracing::warn!(strategy = &*self.name, "on-assignment, told again: {cause}; it goes on untold");
        self.instantiate(cx)
    }

    /// Makes an instance, with the other calls' time limit.
    fn instantiate(&self, cx: &Context) -> Result<Live, CallError> {
        let runtime = self.component.runtime();
        let mut store = store::new_store(runtime, Arc::clone(&self.name), Arc::clone(&self.config));
        store::arm(&mut store, cx, runtime.limits().call_time, None);
        let instance = Instance::new(self.component.pre(), &mut store)
            .map_err(|error| store.data_mut().explain(&error))?;
        Ok(Live { store, instance })
    }
}

impl Told {
    fn of(partitions: &[TopicPartitions], user_data: Option<&[u8]>, generation: i32) -> Self {
        Self { partitions: partitions.to_vec(), user_data: user_data.map(<[u8]>::to_vec), generation }
    }

    fn tell(&self, live: &mut Live) -> wasmtime::Result<Result<(), CallError>> {
        let Self { partitions, user_data, generation } = self;
        live.instance.on_assignment(&mut live.store, partitions, user_data.as_deref(), *generation)
    }
}

impl Assignor for Plugin {
    fn name(&self) -> &str {
        &self.name
    }

    fn protocols(&self) -> &[Protocol] {
        &self.protocols
    }

    fn subscription(&mut self, cx: &Context, topics: &[String]) -> Result<Interest, CallError> {
        let limit = self.component.runtime().limits().call_time;
        let mut interest =
            self.call(cx, limit, None, |live| live.instance.subscription(&mut live.store, topics))?;
        let given: BTreeSet<&String> = topics.iter().collect();
        if let Some(unknown) = interest.topics.iter().find(|topic| !given.contains(topic)) {
            return Err(CallError::UnknownTopic(self.component.runtime().limits().text(unknown)));
        }
        interest.topics.sort_unstable();
        interest.topics.dedup();
        Ok(interest)
    }

    fn assign(&mut self, cx: &Context, group: &Group) -> Result<Plan, CallError> {
        let limit = self.component.runtime().limits().assign_time;
        self.call(cx, limit, Some(group.layout()), |live| live.instance.assign(&mut live.store, group))
    }

    fn on_assignment(
        &mut self,
        cx: &Context,
        partitions: &[TopicPartitions],
        user_data: Option<&[u8]>,
        generation: i32,
    ) -> Result<(), CallError> {
        let limit = self.component.runtime().limits().call_time;
        // Told first, kept afterwards: an instance made for this very call is told the assignment before, as it happened.
        let outcome = self.call(cx, limit, None, |live| {
            live.instance.on_assignment(&mut live.store, partitions, user_data, generation)
        });
        self.told = Some(Told::of(partitions, user_data, generation));
        outcome
    }

    fn on_lost(&mut self) {
        self.told = None;
    }

    fn health(&self) -> Health {
        Health { memory: self.live.as_ref().map(|live| live.store.data().memory()), ..Health::default() }
    }
}

/// Makes the contract's records of a group, and drops them: for the benchmark, which reports this step apart.
#[doc(hidden)]
pub fn noun_conversion(group: &Group) {
    std::hint::black_box(v0_1::nouns(std::hint::black_box(group)));
}
