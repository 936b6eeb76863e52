//! Our side: the same spans as the peers', timed the same way.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use assignor_host::wire::assignment;
use assignor_host::{Builtin, Group, MemberSubscription, Plan, TopicPartitions, withhold};

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

    /// From decoded subscriptions to a plan in numbers. Under the cooperative protocol without what others must give up first,
    /// as Kafka's and franz-go's strategies answer.
    fn plan(&self, members: Vec<MemberSubscription>) -> anyhow::Result<(Group, Plan)> {
        let replicas = |topic: &str| self.input.topics.get(topic).map(Vec::as_slice);
        let group = Group::new(&self.counts, members)?.with_racks(&self.input.brokers, replicas);
        let mut plan = self.strategy.plan(&group);
        if self.input.strategy == "cooperative-sticky" {
            withhold(&group, &mut plan);
        }
        Ok((group, plan))
    }

    /// From the bytes of JoinGroup to the bytes of SyncGroup.
    fn wire(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let (group, plan) = self.plan(self.input.decoded()?)?;
        let each = plan.assignments.iter();
        each.map(|assignment| Ok(assignment::encode_numbers(&group, &assignment.partitions, None)?)).collect()
    }
}

/// What a member gets by topic name: names that the group has, as the peers' plans share theirs, and indexes of partitions, each
/// topic's after the one's before.
struct Named<'group> {
    topics: Vec<(&'group str, usize)>,
    partitions: Vec<u32>,
}

/// What each member gets, in the order of member ids.
fn by_name<'group>(group: &'group Group, plan: &'group Plan) -> Vec<Named<'group>> {
    let each = plan.assignments.iter().map(|assignment| {
        let numbers = &assignment.partitions;
        let most = numbers.len().min(group.topics().len());
        let mut named =
            Named { topics: Vec::with_capacity(most), partitions: Vec::with_capacity(numbers.len()) };
        for (topic, numbers) in group.by_topic(numbers) {
            named.partitions.extend(numbers.iter().map(|number| number - topic.first));
            named.topics.push((&topic.name, named.partitions.len()));
        }
        named
    });
    each.collect()
}

/// What the members of a group get, by their ids: for groups that others join.
pub(crate) fn assignment_of(input: &Input) -> anyhow::Result<BTreeMap<String, Vec<TopicPartitions>>> {
    let leader = Leader::new(input.clone())?;
    let (group, plan) = leader.plan(leader.input.decoded()?)?;
    let named = plan.assignments.iter().map(|assignment| group.by_name(&assignment.partitions));
    Ok(group.members().iter().map(|member| member.id.clone()).zip(named).collect())
}

/// One plan in a fresh process.
pub(crate) fn once(input: Input, ready: impl Fn()) -> anyhow::Result<Once> {
    let mut leader = Leader::new(input)?;
    let members = leader.input.decoded()?;
    leader.input.members = Vec::new();
    let resident = status("VmRSS")?;
    ready();
    let mut result = Ok(Vec::new());
    let begun = Instant::now();
    let mut group = None;
    let allocated = allocation_counter::measure(|| {
        let planned = leader.plan(members);
        result = planned.map(|planned| {
            let (group, plan) = group.insert(planned);
            by_name(group, plan)
        });
    });
    let took = begun.elapsed();
    Ok(Once {
        nanoseconds: took.as_nanos() as u64,
        assigned: result?.iter().map(|member| member.partitions.len() as u64).sum(),
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
                let (group, plan) = leader.plan(black_box(members))?;
                drop(black_box(by_name(&group, &plan)));
                drop((group, plan));
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
