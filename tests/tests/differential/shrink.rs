//! From a group that fails to a small one that fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use assignor_host::described::{DescribedGroup, DescribedMember};

use super::claims::StickyData;
use super::rename::Renamed;

/// How long smaller groups are tried before what has been reached must do.
const PATIENCE: Duration = Duration::from_secs(3);

/// A group that fails and of which no smaller one that is tried fails.
pub(crate) fn shrink(
    group: DescribedGroup,
    mut fails: impl FnMut(&DescribedGroup) -> bool,
) -> DescribedGroup {
    let plain = |group: DescribedGroup, fails: &mut dyn FnMut(&DescribedGroup) -> bool| {
        let renamed = plainly_named(&group);
        if fails(&renamed) { renamed } else { group }
    };
    let mut smallest = plain(group, &mut fails);
    let mut candidates = smaller(&smallest);
    // Where something could be left out, the next of its kind comes next.
    let mut at = 0;
    let mut without_success = 0;
    let begun = Instant::now();
    while without_success < candidates.len() && begun.elapsed() < PATIENCE {
        at %= candidates.len();
        if fails(&candidates[at]) {
            smallest = candidates.swap_remove(at);
            candidates = smaller(&smallest);
            without_success = 0;
        } else {
            at += 1;
            without_success += 1;
        }
    }
    plain(smallest, &mut fails)
}

/// The group with names that are easy to read.
fn plainly_named(group: &DescribedGroup) -> DescribedGroup {
    // As many digits as it takes for the order to stay.
    let digits = group.members.len().max(group.topics.len()).to_string().len();
    Renamed::of(group, |prefix, index| format!("{prefix}{:0digits$}", index + 1)).group
}

/// Smaller groups, those that are smaller by much first.
fn smaller(group: &DescribedGroup) -> Vec<DescribedGroup> {
    let mut all = Vec::new();
    let mut one = |change: &dyn Fn(&mut DescribedGroup)| {
        let mut changed = group.clone();
        change(&mut changed);
        if changed != *group {
            all.push(changed);
        }
    };
    let members = group.members.len();
    if members > 2 {
        one(&|group| group.members.truncate(members / 2));
        one(&|group| drop(group.members.drain(..members / 2)));
    }
    if members > 1 {
        (0..members).for_each(|index| one(&|group| drop(group.members.remove(index))));
    }
    let subscribed = group.members.iter().flat_map(|member| &member.topics);
    for name in group.topics.keys().chain(subscribed).collect::<BTreeSet<_>>() {
        one(&|group| drop(group.topics.remove(name)));
        one(&|group| {
            group.topics.remove(name);
            group.members.iter_mut().for_each(|member| member.topics.retain(|topic| topic != name));
        });
    }
    one(&|group| group.nodes.clear());
    one(&|group| {
        group.nodes.clear();
        group.members.iter_mut().for_each(|member| member.rack = None);
        group.topics.values_mut().for_each(|topic| topic.replicas = None);
    });
    for (name, topic) in &group.topics {
        for partitions in [topic.partitions / 2, topic.partitions.saturating_sub(1)] {
            one(&|group| {
                let topic = group.topics.get_mut(name).unwrap();
                topic.partitions = partitions;
                if let Some(replicas) = &mut topic.replicas {
                    replicas.truncate(partitions as usize);
                }
            });
        }
    }
    for index in 0..members {
        for change in smaller_members(&group.members[index]) {
            one(&|group| group.members[index] = change.clone());
        }
    }
    for (name, topic) in &group.topics {
        for partition in 0..topic.replicas.as_ref().map_or(0, Vec::len) {
            one(&|group| {
                let topic = group.topics.get_mut(name).unwrap();
                topic.replicas.as_mut().unwrap()[partition].pop();
            });
        }
    }
    all
}

fn smaller_members(member: &DescribedMember) -> Vec<DescribedMember> {
    let mut all = Vec::new();
    let mut one = |change: &dyn Fn(&mut DescribedMember)| {
        let mut changed = member.clone();
        change(&mut changed);
        if changed != *member {
            all.push(changed);
        }
    };
    one(&|member| member.user_data = None);
    one(&|member| member.owned.clear());
    one(&|member| member.instance_id = None);
    one(&|member| member.rack = None);
    one(&|member| member.generation = None);
    one(&|member| member.generation = member.generation.map(|generation| generation.min(1)));
    (0..member.topics.len()).for_each(|index| one(&|member| drop(member.topics.remove(index))));
    for (topic, partitions) in &member.owned {
        one(&|member| drop(member.owned.remove(topic)));
        for index in 0..partitions.len() {
            one(&|member| _ = member.owned.get_mut(topic).unwrap().remove(index));
        }
    }
    let Some(data) = member.user_data.as_deref().and_then(StickyData::decode) else { return all };
    let mut other = |change: &dyn Fn(&mut StickyData)| {
        let mut changed = data.clone();
        change(&mut changed);
        one(&|member| member.user_data = Some(changed.encode()));
    };
    other(&|data| data.generation = data.generation.map(|generation| generation.min(1)));
    for (index, (_, partitions)) in data.owned.iter().enumerate() {
        other(&|data| drop(data.owned.remove(index)));
        for at in 0..partitions.len() {
            other(&|data| _ = data.owned[index].1.remove(at));
        }
    }
    all
}

/// The group as a document that `assignor assign` takes, unless members claim partitions that don't exist.
pub(crate) fn json(group: &DescribedGroup) -> String {
    use base64::Engine;
    use serde_json::{Value, json};

    let node = |node: &assignor_host::described::DescribedNode| json!({"id": node.id, "rack": node.rack});
    let topic = |(name, topic): (&String, &assignor_host::described::DescribedTopic)| {
        let mut described = json!({"partitions": topic.partitions});
        if let Some(replicas) = &topic.replicas {
            described["replicas"] = json!(replicas);
        }
        (name.clone(), described)
    };
    let member = |member: &DescribedMember| {
        let mut described = json!({"id": member.id, "topics": member.topics});
        let mut add = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                described[key] = value;
            }
        };
        add("instance_id", member.instance_id.as_ref().map(|id| json!(id)));
        add("owned", (!member.owned.is_empty()).then(|| json!(member.owned)));
        add("generation", member.generation.map(|generation| json!(generation)));
        add("rack", member.rack.as_ref().map(|rack| json!(rack)));
        let base64 = |bytes| json!(base64::engine::general_purpose::STANDARD.encode(bytes));
        add("user_data", member.user_data.as_ref().map(base64));
        described
    };
    let topics: serde_json::Map<_, _> = group.topics.iter().map(topic).collect();
    let mut described = json!({"topics": topics});
    if !group.nodes.is_empty() {
        described["nodes"] = group.nodes.iter().map(node).collect();
    }
    described["members"] = group.members.iter().map(member).collect();
    described.to_string()
}
