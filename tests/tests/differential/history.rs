//! Groups that live: they are assigned, members and topics come, go and change, and who is left comes back with what it got.

use assignor_host::described::DescribedGroup;
use assignor_host::{Builtin, withhold};
use fastrand::Rng;

use super::generate::{Wish, member_id, newcomer, topic, topic_name};
use super::numbered;

/// Plays some rebalances. Afterwards the group has changed once more and is about to be assigned.
pub(crate) fn play(group: &mut DescribedGroup, rng: &mut Rng) {
    let wish = if rng.bool() { Wish::Everything } else { Wish::Some };
    // Mostly one strategy all the time; a group may have changed it on the way.
    let names = ["sticky", "cooperative-sticky", "sticky", "range", "roundrobin", "keep"];
    let mut strategy = *rng.choice(&names).unwrap();
    for generation in 1..=rng.i32(1..=4) {
        if rng.u8(..10) == 0 {
            strategy = *rng.choice(&names).unwrap();
        }
        assign(group, strategy, generation, rng);
        for _ in 0..=rng.u8(..3) {
            change(group, wish, rng);
        }
    }
}

/// Every member gets what the strategy gives it, but for the few that don't hear of it.
fn assign(group: &mut DescribedGroup, strategy: &str, generation: i32, rng: &mut Rng) {
    let built_in = Builtin::by_name(strategy).unwrap();
    let numbered = numbered(group);
    let mut plan = built_in.plan(&numbered);
    if strategy != "sticky" && rng.bool() {
        withhold(&numbered, &mut plan);
    }
    let deaf = if rng.u8(..3) == 0 { 2 } else { 0 };
    for member in &mut group.members {
        if rng.u8(..10) < deaf {
            continue;
        }
        let index = numbered.members().iter().position(|m| m.id == member.id).unwrap();
        let owned = numbered.by_name(&plan.assignments[index].partitions);
        member.owned = owned.into_iter().map(|t| (t.topic, t.partitions)).collect();
        member.generation = Some(generation);
    }
}

/// One thing that happens to a group between two rebalances.
fn change(group: &mut DescribedGroup, wish: Wish, rng: &mut Rng) {
    let member = rng.usize(..group.members.len());
    let topics: Vec<String> = group.topics.keys().cloned().collect();
    match rng.u8(..16) {
        0..3 => {
            let member = newcomer(group, wish, rng);
            group.members.push(member);
        }
        3..6 if group.members.len() > 1 => {
            group.members.remove(member);
        }
        // A restart: an id of its own, and nothing remembered. A static member keeps its instance id.
        6 | 7 => {
            let id = member_id(group, rng);
            let member = &mut group.members[member];
            member.id = id;
            member.owned.clear();
            member.generation = None;
        }
        // It lost its partitions, or its generation.
        8 => {
            let member = &mut group.members[member];
            member.generation = None;
            if rng.bool() {
                member.owned.clear();
            }
        }
        // It asks for other topics, and gives up what it doesn't want any more, or did not yet.
        9 => {
            let wanted = Wish::Some.topics(group, rng);
            let member = &mut group.members[member];
            member.topics = wanted;
            if rng.u8(..4) > 0 {
                member.owned.retain(|topic, _| member.topics.contains(topic));
            }
        }
        10 | 11 if topics.len() < 30 => {
            let name = topic_name(group, rng);
            let partitions = rng.u32(..=8);
            let made = topic(partitions, &group.nodes, rng);
            group.topics.insert(name.clone(), made);
            if wish == Wish::Everything {
                group.members.iter_mut().for_each(|member| member.topics.push(name.clone()));
            }
        }
        12 => {
            let Some(name) = rng.choice(&topics) else { return };
            group.topics.remove(name);
            if wish == Wish::Everything {
                group.members.iter_mut().for_each(|member| member.topics.retain(|topic| topic != name));
            }
        }
        // It grows, or was deleted and made again, smaller.
        13 | 14 => {
            let Some(name) = rng.choice(&topics) else { return };
            let partitions = group.topics[name].partitions;
            let partitions =
                if rng.u8(..3) == 0 { partitions / 2 } else { (partitions + rng.u32(1..4)).min(40) };
            let made = topic(partitions, &group.nodes, rng);
            group.topics.insert(name.clone(), made);
        }
        // The machine moved.
        _ => {
            let racks: Vec<_> = group.nodes.iter().filter_map(|node| node.rack.clone()).collect();
            group.members[member].rack = rng.choice(racks);
        }
    }
}
