//! Contract 0.1: its generated bindings, how nouns cross to the guest and back, and what its imports answer.

use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

use self::bindings::assignor::strategy as imports;
use self::bindings::exports::assignor::strategy::strategy as exports;
use super::store::State;
use crate::assignor::{Interest, Protocol, Unavailable};
use crate::builtin;
use crate::cause::CallError;
use crate::group::{Group, Layout, Member, Topic, TopicPartitions};
use crate::plan::{Assignment, Plan};

mod bindings {
    wasmtime::component::bindgen!({
        path: "wit/0.1.0",
        world: "assignor",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
    });
}

/// A component whose imports are linked and whose exports have been found.
pub(super) struct Pre {
    instance: InstancePre<State>,
    exports: bindings::AssignorIndices,
}

/// An export's signature is not the contract's. Only an instance shows it.
#[derive(Debug, thiserror::Error)]
#[error("a function that it exports has another signature")]
pub(super) struct Misfit;

/// Links all imports of the contract. What is not of the contract stays unlinked.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    bindings::Assignor::add_to_linker::<_, HasSelf<State>>(linker, |state| state)
}

/// Checks the component's imports by their types, and its exports by their names.
pub(super) fn prepare(linker: &Linker<State>, component: &Component) -> wasmtime::Result<Pre> {
    let instance = linker.instantiate_pre(component)?;
    let exports = bindings::AssignorIndices::new(&instance)?;
    Ok(Pre { instance, exports })
}

/// An instance. Calls give the guest's own errors inside, traps outside.
pub(super) struct Instance(bindings::Assignor);

/// What a call gives: outside the trap, inside what the strategy said.
type Answer<T> = wasmtime::Result<Result<T, CallError>>;

impl Instance {
    pub(super) fn new(pre: &Pre, store: &mut Store<State>) -> wasmtime::Result<Self> {
        let instance = pre.instance.instantiate(&mut *store)?;
        pre.exports.load(store, &instance).map(Self).map_err(|e| e.context(Misfit))
    }

    fn exports(&self) -> &exports::Guest {
        self.0.assignor_strategy_strategy()
    }

    pub(super) fn name(&self, store: &mut Store<State>) -> wasmtime::Result<String> {
        self.exports().call_name(store)
    }

    pub(super) fn protocols(&self, store: &mut Store<State>) -> wasmtime::Result<Vec<Protocol>> {
        let protocols = self.exports().call_supported_protocols(store)?;
        Ok(protocols
            .into_iter()
            .map(|protocol| match protocol {
                exports::Protocol::Eager => Protocol::Eager,
                exports::Protocol::Cooperative => Protocol::Cooperative,
            })
            .collect())
    }

    pub(super) fn subscription(&self, store: &mut Store<State>, topics: &[String]) -> Answer<Interest> {
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let answer = self.exports().call_subscription(&mut *store, &names)?;
        Ok(declined(store, answer).and_then(|interest| {
            check_user_data(store, "subscription user data", interest.user_data.as_deref())?;
            Ok(Interest { topics: interest.topics, user_data: interest.user_data })
        }))
    }

    pub(super) fn assign(&self, store: &mut Store<State>, group: &Group) -> Answer<Plan> {
        let (topics, members) = nouns(group);
        let answer = self.exports().call_assign(&mut *store, &topics, &members)?;
        Ok(declined(store, answer).and_then(|assignments| {
            for assignment in &assignments {
                check_user_data(store, "assignment user data", assignment.user_data.as_deref())?;
            }
            Ok(plan(assignments))
        }))
    }

    pub(super) fn on_assignment(
        &self,
        store: &mut Store<State>,
        partitions: &[TopicPartitions],
        user_data: Option<&[u8]>,
        generation: i32,
    ) -> Answer<()> {
        let partitions: Vec<_> = partitions
            .iter()
            .map(|p| exports::TopicPartitions { topic: &p.topic, partitions: &p.partitions })
            .collect();
        let answer = self.exports().call_on_assignment(&mut *store, &partitions, user_data, generation)?;
        Ok(declined(store, answer))
    }
}

/// The group as the contract's records, borrowed: what crosses is copied once, into the guest's memory.
pub(super) fn nouns(group: &Group) -> (Vec<exports::Topic<'_>>, Vec<imports::types::MemberParam<'_>>) {
    let topics = group
        .topics()
        .iter()
        .map(|t| exports::Topic { name: &t.name, first: t.first, count: t.partitions })
        .collect();
    let members = group
        .members()
        .iter()
        .map(|m| imports::types::MemberParam {
            id: &m.id,
            instance_id: m.instance_id.as_deref(),
            topics: &m.topics,
            owned: &m.owned,
            generation: m.generation,
            rack: m.rack.as_deref(),
            user_data: m.user_data.as_deref(),
        })
        .collect();
    (topics, members)
}

fn plan(assignments: Vec<exports::Assignment>) -> Plan {
    let assignments = assignments
        .into_iter()
        .map(|a| Assignment { partitions: a.partitions, user_data: a.user_data })
        .collect();
    Plan { assignments }
}

fn declined<T>(store: &Store<State>, answer: Result<T, String>) -> Result<T, CallError> {
    answer.map_err(|text| CallError::Declined(store.data().limits.text(&text)))
}

fn check_user_data(store: &Store<State>, what: &'static str, bytes: Option<&[u8]>) -> Result<(), CallError> {
    let (size, limit) = (bytes.map_or(0, <[u8]>::len), store.data().limits.user_data_bytes);
    if size > limit {
        return Err(CallError::ResultTooLarge { what, size: size as u64, limit: limit as u64 });
    }
    Ok(())
}

impl imports::types::Host for State {}

impl imports::context::Host for State {
    fn group_id(&mut self) -> wasmtime::Result<String> {
        self.host_call(|s| s.cx.group_id.clone())
    }
    fn member_id(&mut self) -> wasmtime::Result<String> {
        self.host_call(|s| s.cx.member_id.clone())
    }
    fn instance_id(&mut self) -> wasmtime::Result<Option<String>> {
        self.host_call(|s| s.cx.instance_id.clone())
    }
    fn rack(&mut self) -> wasmtime::Result<Option<String>> {
        self.host_call(|s| s.cx.rack.clone())
    }
    fn generation(&mut self) -> wasmtime::Result<i32> {
        self.host_call(|s| s.cx.generation)
    }
    fn now_ms(&mut self) -> wasmtime::Result<u64> {
        self.host_call(|s| s.cx.now_ms)
    }
    fn seed(&mut self) -> wasmtime::Result<u64> {
        self.host_call(|s| s.cx.seed)
    }
    fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        self.host_call(|s| s.config.get(&key).cloned())
    }
    fn keys(&mut self) -> wasmtime::Result<Vec<String>> {
        self.host_call(|s| s.config.keys().cloned().collect())
    }
}

impl imports::log::Host for State {
    fn log(&mut self, level: imports::log::Level, text: String) -> wasmtime::Result<()> {
        self.host_call(|s| s.write_log(level, &text))
    }
}

impl State {
    fn write_log(&mut self, level: imports::log::Level, text: &str) {
        let before = self.logged;
        self.logged = self.logged.saturating_add(text.len());
        let limit = self.limits.log_bytes;
        let strategy = &*self.name;
        if self.logged > limit {
            if before <= limit {
                tracing::warn!(
                    strategy,
                    "the strategy logs more than {limit} bytes in one call; the rest is dropped"
                );
            }
            return;
        }
        // One line is one line: a strategy must not write lines that look like the consumer's own.
        let text = self.limits.text(text).replace('\n', "\u{fffd}");
        match level {
            imports::log::Level::Trace => tracing::trace!(strategy, "{text}"),
            imports::log::Level::Debug => tracing::debug!(strategy, "{text}"),
            imports::log::Level::Info => tracing::info!(strategy, "{text}"),
            imports::log::Level::Warn => tracing::warn!(strategy, "{text}"),
            imports::log::Level::Error => {
                tracing::error!(strategy, "{text}");
                self.last_words = Some(text);
            }
        }
    }

    /// Asks a service for a list with one entry per partition of a topic, given by its index in the running `assign`.
    fn ask<T>(
        &mut self,
        topic: u32,
        ask: impl FnOnce(&dyn crate::Services, &str, std::time::Instant) -> Result<Vec<T>, Unavailable>,
    ) -> wasmtime::Result<Result<Vec<T>, String>> {
        self.host_call(|s| {
            let topics = s
                .layout
                .as_ref()
                .map(|l| &l.topics)
                .ok_or("unavailable: topics have indexes inside assign only")?;
            let topic = topics.get(topic as usize).ok_or_else(|| {
                format!(
                    "unavailable: topic {topic} of {}; give its index in the list of topics",
                    topics.len()
                )
            })?;
            let Topic { name, partitions, .. } = topic.clone();
            let answer = s.ask_service(|services, deadline| ask(services, &name, deadline))?;
            if answer.len() != partitions as usize {
                let found = answer.len();
                return Err(format!(
                    "unavailable: the answer is for {found} partitions of {name}, not {partitions}"
                ));
            }
            Ok(answer)
        })
    }
}

impl imports::cluster::Host for State {
    fn nodes(&mut self) -> wasmtime::Result<Result<Vec<imports::cluster::Node>, String>> {
        self.host_call(|s| {
            s.layout.as_ref().ok_or("unavailable: the cluster is known inside assign only")?;
            let mut nodes = s.ask_service(|services, deadline| services.nodes(deadline))?;
            nodes.sort_by_key(|n| n.id);
            Ok(nodes
                .into_iter()
                .map(|n| imports::cluster::Node { id: n.id, host: n.host, rack: n.rack })
                .collect())
        })
    }
    fn leaders(&mut self, topic: u32) -> wasmtime::Result<Result<Vec<i32>, String>> {
        self.ask(topic, |services, topic, deadline| services.leaders(topic, deadline))
    }
    fn replicas(&mut self, topic: u32) -> wasmtime::Result<Result<Vec<Vec<i32>>, String>> {
        self.ask(topic, |services, topic, deadline| services.replicas(topic, deadline))
    }
}

impl imports::lag::Host for State {
    fn begin_offsets(&mut self, topic: u32) -> wasmtime::Result<Result<Vec<i64>, String>> {
        self.ask(topic, |services, topic, deadline| services.begin_offsets(topic, deadline))
    }
    fn end_offsets(&mut self, topic: u32) -> wasmtime::Result<Result<Vec<i64>, String>> {
        self.ask(topic, |services, topic, deadline| services.end_offsets(topic, deadline))
    }
    fn committed_offsets(&mut self, topic: u32) -> wasmtime::Result<Result<Vec<i64>, String>> {
        self.ask(topic, |services, topic, deadline| services.committed_offsets(topic, deadline))
    }
}

impl imports::built_in::Host for State {
    fn assign(
        &mut self,
        strategy: String,
        members: Vec<imports::types::MemberResult>,
        without: Vec<u32>,
    ) -> wasmtime::Result<Result<Vec<Vec<u32>>, String>> {
        self.host_call(|s| {
            let layout = s.layout.clone().ok_or("unavailable: built-ins run inside assign only")?;
            run_built_in(&strategy, &layout, members, without)
        })
    }
}

fn run_built_in(
    strategy: &str,
    layout: &Layout,
    members: Vec<imports::types::MemberResult>,
    without: Vec<u32>,
) -> Result<Vec<Vec<u32>>, String> {
    let members = members
        .into_iter()
        .map(|m| Member {
            id: m.id,
            instance_id: m.instance_id,
            topics: m.topics,
            claimed: Vec::new(),
            owned: m.owned,
            generation: m.generation,
            rack: m.rack,
            user_data: m.user_data,
        })
        .collect();
    builtin::assign_subset(strategy, layout, members, without)
}

impl imports::control::Host for State {
    fn request_rebalance(&mut self, after_ms: u64) -> wasmtime::Result<()> {
        let cause = format!("the strategy {} asks for a rebalance", self.name);
        self.host_call(|s| s.cx.services.request_rebalance(Duration::from_millis(after_ms), &cause))
    }
}
