//! Strategies that misbehave, made at run time in the name of the one that they replace.

use anyhow::Context as _;
use assignor_host::Protocol;
use assignor_host::component::encode_plain;

/// A strategy in WebAssembly text, all of it sound but `assign`.
const STRATEGY: &str = include_str!("strategy.wat");

/// How `assign` misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It traps.
    Trap,
    /// It never ends.
    Loop,
    /// It gives every partition to every member.
    BrokenPlan,
}

impl Fault {
    /// In the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Trap, Self::Loop, Self::BrokenPlan];

    /// What it does, after "one that".
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Trap => "traps",
            Self::Loop => "loops for ever",
            Self::BrokenPlan => "gives every partition to everyone",
        }
    }

    /// The body of `assign`.
    fn body(self) -> &'static str {
        match self {
            Self::Trap => "unreachable",
            Self::Loop => "(loop $for-ever (br $for-ever)) unreachable",
            Self::BrokenPlan => include_str!("broken-plan.wat"),
        }
    }

    /// A component that misbehaves so, of the given name and protocols.
    pub(crate) fn component(self, name: &str, protocols: &[Protocol]) -> anyhow::Result<Vec<u8>> {
        // The canonical ABI's numbers of the contract's enum.
        let numbers = protocols.iter().map(|protocol| match protocol {
            Protocol::Eager => r"\00",
            Protocol::Cooperative => r"\01",
        });
        let text = STRATEGY
            .replace("{{assign}}", self.body())
            .replace("{{name}}", name)
            .replace("{{name-length}}", &name.len().to_string())
            .replace("{{protocols}}", &numbers.collect::<String>())
            .replace("{{protocols-length}}", &protocols.len().to_string());
        let module = wat::parse_str(text).context("the demo's own strategy does not assemble")?;
        encode_plain(&module).context("the demo's own strategy is no component")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use assignor_host::described::DescribedGroup;
    use assignor_host::{
        Assignor as _, Cause, Context, FallbackPolicy, Limits, Outcome, Plugin, Runtime, RuntimeOptions,
        Strategy,
    };

    #[test]
    fn each_loads_under_the_given_name_and_fails_in_its_own_way() {
        let mut limits = Limits::default();
        limits.assign_time = std::time::Duration::from_millis(50);
        let runtime = Runtime::new(RuntimeOptions { limits, cache: None }).unwrap();
        let described = DescribedGroup::parse(
            br#"{"topics": {"t": {"partitions": 3}, "u": {"partitions": 20000}},
                 "members": [{"id": "a", "topics": ["t", "u"]}, {"id": "b", "topics": ["t", "u"]}]}"#,
        )
        .unwrap();
        let protocols = [Protocol::Eager, Protocol::Cooperative];
        for (fault, code) in Fault::ALL.into_iter().zip(["trap", "deadline", "plan-duplicate"]) {
            let component = runtime.compile(&fault.component("weighted", &protocols).unwrap()).unwrap();
            let mut plugin = Plugin::new(&component, BTreeMap::new()).unwrap();
            assert_eq!((plugin.name(), plugin.protocols()), ("weighted", &protocols[..]));
            let topics = ["t".to_owned(), "u".to_owned()];
            assert_eq!(plugin.subscription(&Context::default(), &topics).unwrap().topics, topics);
            plugin.on_assignment(&Context::default(), &[], None, 1).unwrap();

            let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), std::sync::Arc::new(|_| ()));
            let decision = strategy.decide(&Context::default(), &described.group().unwrap());
            assert_eq!(decision.outcome, Outcome::Fallback);
            assert_eq!(decision.cause.as_ref().map(Cause::code), Some(code));
        }
    }
}
