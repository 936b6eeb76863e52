//! A strategy that misbehaves as its configuration says, to test that a host bears it. Without a fault it is a correct round
//! robin under both protocols.
//!
//! | key | meaning | default |
//! | --- | --- | --- |
//! | `fault` | what to do wrong, see below | nothing |
//! | `at` | in which function: `name`, `supported-protocols`, `subscription`, `assign` or `on-assignment` | `assign` |
//! | `probe` | `spare`: behave while the host only probes the component, so that it loads | misbehave then too |
//! | `name` | what `name` returns | `hostile` |
//! | `bytes` | how large, for the faults that say so | each its own |
//! | `count` | how often, for the floods | endlessly |
//! | `ms` | how long, for `busy` | 1000 |
//!
//! An unknown fault, function or number traps and says so.
//!
//! # Faults of every function
//!
//! | fault | what happens |
//! | --- | --- |
//! | `loop` | computes endlessly |
//! | `busy` | computes for about `ms` milliseconds, by a fixed number of steps since there is no clock, then goes on correctly |
//! | `memory-fill` | fills a block of `bytes` (16 MiB) endlessly |
//! | `memory-copy` | copies one half of a block of `bytes` (16 MiB) to the other endlessly |
//! | `trap` | panics, and says why in the log |
//! | `abort` | reaches `unreachable` without a word |
//! | `memory-bomb` | takes memory until it is refused, and traps |
//! | `leak` | takes `bytes` (1 MiB) and never gives them back, then goes on correctly; in every call |
//! | `stack-overflow-shadow` | recurses with large locals, which live in linear memory |
//! | `stack-overflow-wasm` | recurses without locals in memory, on the host's stack |
//! | `host-call-flood` | asks for the time `count` times, then goes on correctly |
//! | `log-flood` | logs `count` lines, then goes on correctly |
//! | `log-huge` | logs one line of `bytes` (2 MiB), then goes on correctly |
//! | `rebalance-flood` | asks for a rebalance at once `count` times, then goes on correctly |
//! | `lag-flood` | asks for the end offsets of the first topic `count` times, then goes on correctly, whatever the answers |
//! | `error` | returns an error; traps where the function can't |
//! | `error-huge` | returns an error text of `bytes` (20 MiB); traps where the function can't |
//!
//! # Faults of one function, whatever `at` says
//!
//! | function | fault | what it returns |
//! | --- | --- | --- |
//! | `name` | `name-empty`, `name-reserved` | nothing; `range` |
//! | `name` | `name-illegal` | a name with a blank, a line feed and an umlaut |
//! | `name` | `name-long` | 65 letters |
//! | `name` | `name-huge` | `bytes` (20 MiB) letters |
//! | `supported-protocols` | `protocols-none`, `protocols-cooperative` | no protocol; the cooperative one only |
//! | `supported-protocols` | `protocols-huge` | `bytes` (20 MiB) times the eager one |
//! | `subscription` | `topic-unknown` | a topic that was not given |
//! | `subscription` | `topics-huge` | `bytes` (20 MiB) in names of topics |
//! | `subscription` | `interest-huge` | `bytes` (2 MiB) of user data |
//! | `assign` | `partition-twice` | the first partition to one member twice |
//! | `assign` | `partition-shared` | the first partition to the first two members of its topic |
//! | `assign` | `partition-range` | the number behind the last partition |
//! | `assign` | `partition-unsubscribed` | a partition of a topic that its member did not ask for |
//! | `assign` | `partition-missing` | the last partition to nobody |
//! | `assign` | `partitions-none` | nothing to anybody |
//! | `assign` | `partitions-huge` | the first partition to the first member, `bytes` (20 MiB) of numbers |
//! | `assign` | `assignments-few`, `assignments-many` | one assignment less, one more than there are members |
//! | `assign` | `assignments-huge` | `bytes` (20 MiB) of assignments |
//! | `assign` | `assignment-huge` | `bytes` (2 MiB) of user data for the first member |
//! | `assign` | `built-in` | the plan of the host's own strategy that the key `strategy` names; an error where the host has none |
//! | `assign` | `echo` | to everyone what it owns, and nothing is computed: for measuring what crossing costs |

mod answer;
mod burn;
mod fault;

use assignor_guest_sdk::bindings::exports::assignor::strategy::strategy::{
    Assignment, Guest, Interest, Member, Protocol, Topic, TopicPartitions,
};
use assignor_guest_sdk::config;

use fault::Function;

/// The component. It implements the raw trait, since no builder makes the plans that it returns.
pub struct Hostile;

#[cfg(target_arch = "wasm32")]
assignor_guest_sdk::bindings::export!(Hostile with_types_in assignor_guest_sdk::bindings);

impl Guest for Hostile {
    fn name() -> String {
        fault::commit_or_trap(Function::Name);
        let name = config::text("name").unwrap_or_else(|| "hostile".to_owned());
        answer::name(name, &fault::of_answer())
    }

    fn supported_protocols() -> Vec<Protocol> {
        fault::commit_or_trap(Function::SupportedProtocols);
        answer::protocols(vec![Protocol::Eager, Protocol::Cooperative], &fault::of_answer())
    }

    fn subscription(topics: Vec<String>) -> Result<Interest, String> {
        fault::commit(Function::Subscription)?;
        Ok(answer::interest(Interest::all(topics), &fault::of_answer()))
    }

    fn assign(topics: Vec<Topic>, members: Vec<Member>) -> Result<Vec<Assignment>, String> {
        fault::commit(Function::Assign)?;
        if fault::name() == "echo" {
            return Ok(answer::echo(members));
        }
        if fault::name() == "built-in" {
            return answer::built_in(&members);
        }
        let plan = answer::round_robin(&topics, &members);
        answer::plan(plan, &topics, &members, &fault::of_answer())
    }

    fn on_assignment(_: Vec<TopicPartitions>, _: Option<Vec<u8>>, _: i32) -> Result<(), String> {
        fault::commit(Function::OnAssignment)
    }
}

#[cfg(test)]
mod tests;
