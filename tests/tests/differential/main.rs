//! The built-in strategies against Kafka's own code, on groups made of a seed.
//!
//! - range and roundrobin give the same plan.
//! - sticky and cooperative-sticky give a valid and safe plan, always. Where Kafka's plan is no accident of the order of its
//!   hash maps, ours is the same. Elsewhere ours is as good or better: first in balance, then in racks, then in partitions
//!   that move. If all members subscribe alike and no racks count, that holds for each group, and ours moves as few
//!   partitions as can be; else in sum.
//! - Where Kafka's plan is wrong, ours isn't, and the way in which Kafka is wrong is one of those in [`judge::Departure`].
//!
//! `cargo xtask differential` does it with more groups and tells what came of it. A group that fails is made smaller and shown
//! as a document that `assignor assign` takes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of tests panic as tests do"
)]

mod claims;
mod generate;
mod history;
mod judge;
mod known;
mod oracle;
mod quality;
mod rename;
mod rounds;
mod shrink;
mod tally;

use std::collections::BTreeMap;

use assignor_host::described::DescribedGroup;
use assignor_host::{Assignor as _, Builtin, Context, Group, Plan};

use judge::{Fault, Judgement, Kafkas, judge};
use oracle::Oracle;
use tally::Tally;

/// Set by `cargo xtask differential`.
const GROUPS: &str = "ASSIGNOR_DIFFERENTIAL_GROUPS";
const SEED: &str = "ASSIGNOR_DIFFERENTIAL_SEED";

/// How many groups Java is asked about at a time.
const BATCH: u64 = 64;

/// A strategy of Kafka's, and ours of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    Range,
    RoundRobin,
    Sticky,
    CooperativeSticky,
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// What Kafka's plan is asked for by before it withholds anything.
    fn target_name(self) -> &'static str {
        match self {
            Self::CooperativeSticky => "cooperative-sticky-target",
            _ => self.name(),
        }
    }

    fn is_sticky(self) -> bool {
        matches!(self, Self::Sticky | Self::CooperativeSticky)
    }

    /// Ours, as the leader makes it: what members own is read of their user data where the strategy has it there.
    fn plan(self, group: &Group) -> Plan {
        Builtin::by_name(self.name()).unwrap().assign(&Context::default(), group).unwrap()
    }
}

/// The group as assignors take it, its racks included.
pub(crate) fn numbered(described: &DescribedGroup) -> Group {
    let racks: BTreeMap<i32, String> =
        described.nodes.iter().filter_map(|node| Some((node.id, node.rack.clone()?))).collect();
    let replicas = |topic: &str| described.topics.get(topic)?.replicas.as_deref();
    described.group().unwrap().with_racks(&racks, replicas)
}

#[test]
fn range_is_kafkas() {
    compare(Strategy::Range);
}

#[test]
fn roundrobin_is_kafkas() {
    compare(Strategy::RoundRobin);
}

#[test]
fn sticky_is_kafkas() {
    compare(Strategy::Sticky);
}

#[test]
fn cooperative_sticky_is_kafkas() {
    compare(Strategy::CooperativeSticky);
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|e| panic!("{name}={value}: {e}")))
}

fn compare(strategy: Strategy) {
    let (groups, seed) = (setting(GROUPS, 2_000), setting(SEED, 1));
    let mut oracle = Oracle::start();
    let mut tally = Tally::new(strategy, seed);
    for first in (0..groups).step_by(usize::try_from(BATCH).unwrap()) {
        let numbers = first..groups.min(first + BATCH);
        let told = numbers.clone().map(|number| {
            let mut rng = generate::rng(!seed, number);
            generate::told(&generate::group(seed, number), strategy, &mut rng)
        });
        let told: Vec<DescribedGroup> = told.collect();
        let kafkas = ask(strategy, &told, &mut oracle);
        for ((number, group), kafkas) in numbers.zip(told).zip(kafkas) {
            match verdict(strategy, &group, kafkas, &mut oracle) {
                Ok(judgement) => tally.add(judgement, number, &group),
                Err(fault) => {
                    let small =
                        tally.is_new(&fault).then(|| smallest(strategy, &group, fault.kind, &mut oracle));
                    tally.fault(fault, number, small);
                }
            }
        }
    }
    tally.end(|group, is_alike| {
        shrink::shrink(group, |group| judge_again(strategy, group, &mut oracle).is_ok_and(|j| is_alike(&j)))
    });
}

fn ask(strategy: Strategy, groups: &[DescribedGroup], oracle: &mut Oracle) -> Vec<Kafkas> {
    let sent: Vec<_> = groups.iter().map(|group| (strategy.name(), group)).collect();
    let sent = oracle.ask(&sent);
    let targets = if strategy == Strategy::CooperativeSticky {
        let targets: Vec<_> = groups.iter().map(|group| (strategy.target_name(), group)).collect();
        oracle.ask(&targets)
    } else {
        sent.clone()
    };
    sent.into_iter().zip(targets).map(|(sent, target)| Kafkas { sent, target }).collect()
}

/// Other names are drawn alike every time, so that a group that failed fails again.
fn verdict(
    strategy: Strategy,
    group: &DescribedGroup,
    kafkas: Kafkas,
    oracle: &mut Oracle,
) -> Result<Judgement, Fault> {
    judge(strategy, group, kafkas, oracle, &mut fastrand::Rng::with_seed(0))
}

fn judge_again(strategy: Strategy, group: &DescribedGroup, oracle: &mut Oracle) -> Result<Judgement, Fault> {
    let kafkas = ask(strategy, std::slice::from_ref(group), oracle).pop().unwrap();
    verdict(strategy, group, kafkas, oracle)
}

/// The smallest group found with the same fault, and what is wrong there.
fn smallest(
    strategy: Strategy,
    group: &DescribedGroup,
    kind: &str,
    oracle: &mut Oracle,
) -> (DescribedGroup, Fault) {
    let mut fault = |group: &DescribedGroup| {
        judge_again(strategy, group, oracle).err().filter(|fault| fault.kind == kind)
    };
    let small = shrink::shrink(group.clone(), |group| fault(group).is_some());
    let fault = fault(&small).unwrap();
    (small, fault)
}

/// What all other tests here rest on.
#[test]
fn a_plan_that_is_not_kafkas_is_found_and_its_group_made_small() {
    let mut oracle = Oracle::start();
    let mut differs = |group: &DescribedGroup| {
        let other = oracle.ask_one("roundrobin", group);
        verdict(Strategy::Range, group, Kafkas { sent: other.clone(), target: other }, &mut oracle).is_err()
    };
    let found = (0..100).map(|number| generate::group(1, number)).find(|group| differs(group)).unwrap();
    let small = shrink::shrink(found, differs);
    let partitions: u32 = small.topics.values().map(|topic| topic.partitions).sum();
    assert!(small.members.len() == 2 && partitions <= 3, "{}", shrink::json(&small));
}
