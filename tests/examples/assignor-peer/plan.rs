//! A group is read, its plan written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Context as _;
use assignor_host::builtin::{COOPERATIVE_STICKY, Explained, StickyPath};
use assignor_host::wire::subscription;
use assignor_host::{Builtin, Group, MemberSubscription, Plan, Topic, withhold};

use crate::wire::{Reader, Writer};

pub(crate) fn answer(strategy: &str, request: &mut Reader<'_>, answer: &mut Writer) -> anyhow::Result<()> {
    let builtin = Builtin::by_name(strategy).context("there is no such strategy")?;
    let group = group(request)?;
    let prefer_racks = request.i8()? == 1;

    let group = builtin.as_told(&group);
    let Explained { plan: full, path, racks } = builtin.explain(&group, prefer_racks);
    let mut given = full.clone();
    withhold(&group, &mut given);

    let names = Names::of(&group);
    let shown = if strategy == COOPERATIVE_STICKY { &given } else { &full };
    members(&group, shown, path.is_some(), &names, answer)?;
    answer.i8(match path {
        None => 0,
        Some(StickyPath::Uniform) => 1,
        Some(StickyPath::General) => 2,
    });
    answer.i8(i8::from(racks));
    transfers(&group, &full, &given, &names, answer)?;
    answer.i8(i8::from(!swaps(&group, &full)));
    Ok(())
}

fn group(request: &mut Reader<'_>) -> anyhow::Result<Group> {
    // A rack is told as a broker that has it.
    let racks = request.list(Reader::string)?;
    let broker_racks: BTreeMap<i32, String> = (0..).zip(racks).collect();
    let mut counts = BTreeMap::new();
    let mut replicas: HashMap<String, Vec<Vec<i32>>> = HashMap::new();
    let topics = request.list(|topic| {
        let (name, count) = (topic.string()?, topic.i32()?);
        Ok((name, count, topic.list(|partition| partition.list(Reader::i32))?))
    })?;
    for (name, count, racks_of_replicas) in topics {
        counts.insert(name.clone(), u32::try_from(count)?);
        replicas.insert(name, racks_of_replicas);
    }
    let members = request.list(|member| {
        let (member_id, instance_id) = (member.string()?, member.nullable_string()?);
        let subscription = subscription::decode(member.blob()?)?;
        Ok(MemberSubscription { member_id, instance_id, subscription })
    })?;
    let group = Group::new(&counts, members)?;
    Ok(group.with_racks(&broker_racks, |topic| replicas.get(topic).map(Vec::as_slice)))
}

/// Topics and indexes of partitions by their number.
struct Names<'a>(Vec<(&'a str, u32)>);

impl<'a> Names<'a> {
    fn of(group: &'a Group) -> Self {
        let of_topic = |topic: &'a Topic| topic.numbers().map(|p| (topic.name.as_str(), p - topic.first));
        Self(group.topics().iter().flat_map(of_topic).collect())
    }

    fn get(&self, partition: u32) -> anyhow::Result<(&'a str, u32)> {
        self.0.get(partition as usize).copied().context("a partition of no topic")
    }
}

/// Each member's partitions in the order in which Kafka's assignors list them, which to some tests matters although a plan is
/// one of sets: by topic; under the sticky ones what is kept before that, by index, then topic.
fn members(
    group: &Group,
    plan: &Plan,
    sticky: bool,
    names: &Names<'_>,
    answer: &mut Writer,
) -> anyhow::Result<()> {
    answer.count(group.members().len())?;
    for (member, assignment) in group.members().iter().zip(&plan.assignments) {
        let mut listed = Vec::with_capacity(assignment.partitions.len());
        for &partition in &assignment.partitions {
            let (topic, index) = names.get(partition)?;
            let kept = sticky && member.owned.binary_search(&partition).is_ok();
            listed.push((if kept { (0, index) } else { (1, 0) }, topic, index));
        }
        listed.sort_unstable();

        answer.string(&member.id)?;
        let runs = || listed.chunk_by(|(_, a, _), (_, b, _)| a == b);
        answer.count(runs().count())?;
        for run in runs() {
            answer.string(run.first().map_or("", |(_, topic, _)| topic))?;
            answer.count(run.len())?;
            for &(_, _, index) in run {
                answer.number(index)?;
            }
        }
    }
    Ok(())
}

/// The partitions of the full plan that are withheld, and whom they go to.
fn transfers(
    group: &Group,
    full: &Plan,
    given: &Plan,
    names: &Names<'_>,
    answer: &mut Writer,
) -> anyhow::Result<()> {
    let (then, now) = (full.owners(group), given.owners(group));
    let withheld: Vec<(u32, u32)> = (0..)
        .zip(then.iter().zip(&now))
        .filter_map(|(p, (then, now))| now.is_none().then_some((p, (*then)?)))
        .collect();
    answer.count(withheld.len())?;
    for (partition, owner) in withheld {
        let (topic, index) = names.get(partition)?;
        answer.string(topic)?;
        answer.number(index)?;
        answer.string(group.members().get(owner as usize).map_or("", |m| &m.id))?;
    }
    Ok(())
}

/// Whether two members give each other partitions of one topic: racks aside, both could have kept theirs.
fn swaps(group: &Group, plan: &Plan) -> bool {
    let owners = plan.owners(group);
    let mut moves: BTreeSet<(u32, u32, u32)> = BTreeSet::new();
    for (from, member) in (0..).zip(group.members()) {
        for &partition in &member.owned {
            let Some(&Some(to)) = owners.get(partition as usize) else { continue };
            let Some(topic) = group.topic_of(partition).filter(|_| to != from) else { continue };
            moves.insert((topic, from, to));
        }
    }
    moves.iter().any(|&(topic, from, to)| moves.contains(&(topic, to, from)))
}
