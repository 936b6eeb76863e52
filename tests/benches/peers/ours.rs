//! Our side: the same spans as the peers', timed the same way.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use assignor_host::wire::assignment;
use assignor_host::{Builtin, Group, MemberSubscription, TopicPartitions, withhold};

use crate::input::Input;
use crate::side::{Once, Pace, Span, Times};

/// What a leader has at hand when the members' subscriptions arrive.
struct Leader {
    input: Input,
    counts: BTreeMap<String, u32>,
    strategy: Builtin,
}

impl Leader {
    fn new(input: Input) -> anyhow::Result<Self> {
        let strategy = Builtin::by_name(&input.strategy)
            .with_context(|| format!("there is no built-in {:?}", input.strategy))?;
        Ok(Self { counts: input.partition_counts(), input, strategy })
    }

    /// From decoded subscriptions to what each member gets, by topic name, in the order of member ids. Under the cooperative
    /// protocol without what others must give up first, as Kafka's and franz-go's strategies answer.
    fn plan(&self, members: Vec<MemberSubscription>) -> anyhow::Result<(Group, Vec<Vec<TopicPartitions>>)> {
        let replicas = |topic: &str| self.input.topics.get(topic).map(Vec::as_slice);
        let group = Group::new(&self.counts, members)?.with_racks(&self.input.brokers, replicas);
        let mut plan = self.strategy.plan(&group);
        if self.input.strategy == "cooperative-sticky" {
            withhold(&group, &mut plan);
        }
        let named = plan.assignments.iter().map(|assignment| group.by_name(&assignment.partitions)).collect();
        Ok((group, named))
    }

    /// From the bytes of JoinGroup to the bytes of SyncGroup.
    fn wire(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let (_, named) = self.plan(self.input.decoded()?)?;
        named.iter().map(|partitions| Ok(assignment::encode(partitions, None)?)).collect()
    }
}

/// How many partitions are assigned in all.
pub(crate) fn assigned(named: &[Vec<TopicPartitions>]) -> u64 {
    named.iter().flatten().map(|topic| topic.partitions.len() as u64).sum()
}

/// What the members of a group get, by their ids: for groups that others join.
pub(crate) fn assignment_of(input: &Input) -> anyhow::Result<BTreeMap<String, Vec<TopicPartitions>>> {
    let leader = Leader::new(input.clone())?;
    let (group, named) = leader.plan(leader.input.decoded()?)?;
    Ok(group.members().iter().map(|member| member.id.clone()).zip(named).collect())
}

/// One plan in a fresh process.
pub(crate) fn once(input: Input, ready: impl Fn()) -> anyhow::Result<Once> {
    let mut leader = Leader::new(input)?;
    let members = leader.input.decoded()?;
    leader.input.members = Vec::new();
    let resident = status("VmRSS")?;
    ready();
    let mut result = None;
    let begun = Instant::now();
    let allocated = allocation_counter::measure(|| result = Some(leader.plan(members)));
    let took = begun.elapsed();
    let (_group, named) = result.context("no plan was made")??;
    Ok(Once {
        nanoseconds: took.as_nanos() as u64,
        assigned: assigned(&named),
        resident_before: resident,
        peak_resident: status("VmHWM")?,
        allocated: allocated.bytes_total,
    })
}

/// Many plans after warm-up, everything freed that they made.
pub(crate) fn time(input: Input, span: Span, pace: Pace) -> anyhow::Result<Times> {
    let mut leader = Leader::new(input)?;
    match span {
        Span::Plan => {
            let members = leader.input.decoded()?;
            leader.input.members = Vec::new();
            pace.time(|| {
                let members = members.clone();
                let begun = Instant::now();
                drop(black_box(leader.plan(black_box(members))?));
                Ok(begun.elapsed())
            })
        }
        Span::Wire => pace.time(|| {
            let begun = Instant::now();
            drop(black_box(leader.wire()?));
            Ok(begun.elapsed())
        }),
    }
}

impl Pace {
    /// The mean of each measured interval, in nanoseconds.
    fn time(self, mut plan: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Times> {
        let mut means = Vec::new();
        for _ in 0..self.warm_ups + self.measured {
            let end = Instant::now() + self.interval();
            let (mut spent, mut plans) = (Duration::ZERO, 0u32);
            while plans == 0 || Instant::now() < end {
                spent += plan()?;
                plans += 1;
            }
            means.push(spent.as_nanos() as f64 / f64::from(plans));
        }
        Ok(Times { nanoseconds: means.split_off(self.warm_ups as usize), allocated: None })
    }
}

/// A size from this process' status, in bytes: `VmRSS` now, `VmHWM` at its highest.
fn status(field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let Some(line) = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')) else {
        bail!("/proc/self/status has no {field}");
    };
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024)
}
