//! A built-in run for a strategy that refines it: on members that the strategy gives, leaving out partitions that it keeps
//! for itself.

use std::sync::Arc;

use super::Builtin;
use crate::group::{Group, Layout, Member, Topic};

/// Runs the built-in `strategy` on `members` over what is left of the topics without the partitions in `without`, and returns
/// the partitions of each member, in the order given.
///
/// # Errors
/// In words, for the strategy that asked: no such built-in, or numbers that are no topic's or partition's.
pub(crate) fn assign_subset(
    strategy: &str,
    layout: &Layout,
    members: Vec<Member>,
    mut without: Vec<u32>,
) -> Result<Vec<Vec<u32>>, String> {
    let topics = &layout.topics;
    let Some(builtin) = Builtin::by_name(strategy) else {
        return Err(format!("there is no built-in {strategy:?}; there are {}", super::NAMES.join(", ")));
    };
    let partitions = topics.last().map_or(0, |t| t.numbers().end);
    without.sort_unstable();
    without.dedup();
    if let Some(number) = without.last().filter(|&&n| n >= partitions) {
        return Err(format!("cannot leave out the number {number}: there are {partitions} partitions"));
    }

    // Built-ins know whole topics only, and only such as somebody wants. So what is left of those is numbered through anew, and mapped
    // back afterwards.
    let mut wanted = vec![false; topics.len()];
    for &topic in members.iter().flat_map(|m| &m.topics) {
        if let Some(wanted) = wanted.get_mut(topic as usize) {
            *wanted = true;
        }
    }
    let kept: Vec<u32> = {
        let mut without = without.iter().copied().peekable();
        let wanted = topics.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
        let left = wanted.flat_map(|(topic, _)| topic.numbers()).filter(|&p| {
            while without.next_if(|&w| w < p).is_some() {}
            without.next_if_eq(&p).is_none()
        });
        left.collect()
    };
    let renumbered = |number: u32| -> Option<u32> {
        kept.binary_search(&number).ok().and_then(|position| u32::try_from(position).ok())
    };
    let left_before = |number: u32| u32::try_from(kept.partition_point(|&k| k < number)).unwrap_or(u32::MAX);
    let racks = layout.racks.as_ref().map(|racks| Arc::new(racks.of_partitions(&kept)));
    let shrunk: Arc<[Topic]> = topics
        .iter()
        .map(|t| {
            let numbers = t.numbers();
            let (first, end) = (left_before(numbers.start), left_before(numbers.end));
            Topic { name: t.name.clone(), first, partitions: end - first }
        })
        .collect();

    // A group's members are in the order of their ids.
    let mut order: Vec<(usize, Member)> = members.into_iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.id.as_bytes().cmp(b.id.as_bytes()));
    if let Some([(_, a), _]) = order.array_windows().find(|[(_, a), (_, b)]| a.id == b.id) {
        return Err(format!("two members have the id {:?}", a.id));
    }
    let mut owner_known = vec![false; partitions as usize];
    for (_, member) in &mut order {
        member.topics.sort_unstable();
        member.topics.dedup();
        if let Some(topic) = member.topics.last().filter(|&&t| t as usize >= topics.len()) {
            return Err(format!("member {:?} has topic {topic}, but there are {}", member.id, topics.len()));
        }
        for &number in &member.owned {
            match owner_known.get_mut(number as usize) {
                None => {
                    return Err(format!(
                        "member {:?} owns the number {number}, but there are {partitions} partitions",
                        member.id
                    ));
                }
                Some(true) => return Err(format!("the number {number} is owned twice")),
                Some(known) => *known = true,
            }
        }
        let subscribed = &member.topics;
        member.owned.retain(|&number| {
            let topic = topics.partition_point(|t| t.first <= number).checked_sub(1);
            topic.and_then(|t| u32::try_from(t).ok()).is_some_and(|t| subscribed.binary_search(&t).is_ok())
        });
        member.owned = member.owned.iter().filter_map(|&number| renumbered(number)).collect();
        member.owned.sort_unstable();
    }

    let (positions, members): (Vec<usize>, Vec<Member>) = order.into_iter().unzip();
    let group = Group::of_parts(Layout { topics: shrunk, racks }, members);
    let plan = builtin.plan(&group);
    let mut result = vec![Vec::new(); positions.len()];
    for (position, assignment) in positions.into_iter().zip(plan.assignments) {
        if let Some(slot) = result.get_mut(position) {
            *slot = assignment.partitions.iter().filter_map(|&n| kept.get(n as usize).copied()).collect();
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let topics = [
            Topic { name: "t".into(), first: 0, partitions: 3 },
            Topic { name: "u".into(), first: 3, partitions: 3 },
        ];
        Layout { topics: topics.into(), racks: None }
    }

    fn member(id: &str, topics: &[u32], owned: &[u32]) -> Member {
        Member { id: id.into(), topics: topics.to_vec(), owned: owned.to_vec(), ..Member::default() }
    }

    #[test]
    fn left_out_partitions_are_nobodys_and_the_rest_is_split_by_the_built_in() {
        let members = vec![member("b", &[0, 1], &[]), member("a", &[0, 1], &[])];
        let plan = assign_subset("range", &layout(), members, vec![0, 4]).unwrap();
        // Left are t1 t2 and u0 u2: "a" comes first in range, whatever order it was given in.
        assert_eq!(plan, [vec![2, 5], vec![1, 3]]);
    }

    #[test]
    fn keep_keeps_what_is_owned_by_the_given_members() {
        let members = vec![member("a", &[0], &[2, 5]), member("b", &[0, 1], &[])];
        let plan = assign_subset("keep", &layout(), members, vec![]).unwrap();
        // u2 is not kept: "a" doesn't subscribe to u. t0 goes to "b", who has nothing; then both have one, and "a" comes first.
        assert_eq!(plan, [vec![2, 1], vec![0, 3, 4, 5]]);
    }

    #[test]
    fn partitions_of_a_topic_that_no_given_member_wants_are_nobodys() {
        for strategy in crate::builtin::NAMES {
            let plan = assign_subset(
                strategy,
                &layout(),
                vec![member("a", &[1], &[]), member("b", &[1], &[])],
                vec![4],
            );
            let mut dealt = plan.unwrap().concat();
            dealt.sort_unstable();
            assert_eq!(dealt, [3, 5], "{strategy}");
            let plan = assign_subset(
                strategy,
                &layout(),
                vec![member("a", &[], &[]), member("b", &[], &[])],
                vec![],
            );
            assert_eq!(plan.unwrap(), [[0u32; 0]; 2], "{strategy}");
        }
    }

    #[test]
    fn what_is_left_is_in_the_racks_where_it_was() {
        let group = Group::new(
            &[("t".to_owned(), 3), ("u".to_owned(), 3)].into(),
            vec![crate::group::MemberSubscription {
                member_id: "a".into(),
                subscription: crate::group::Subscription {
                    topics: ["t".into(), "u".into()].into(),
                    rack: Some("1".into()),
                    ..Default::default()
                },
                ..Default::default()
            }],
        );
        let racks = [(1, "1".to_owned()), (2, "2".to_owned())].into();
        // t0 and u1 in rack 2, all others in rack 1.
        let (t, u) = ([vec![2], vec![1], vec![1]], [vec![1], vec![2], vec![1]]);
        let replicas = |topic: &str| Some(if topic == "t" { t.as_slice() } else { u.as_slice() });
        let layout = group.unwrap().with_racks(&racks, replicas).layout();
        let in_rack = |id: &str, rack: &str, owned: &[u32]| Member {
            rack: Some(rack.into()),
            ..member(id, &[0, 1], owned)
        };
        for strategy in ["range", "sticky", "cooperative-sticky"] {
            // Without t1 and u0, that is without the numbers 1 and 3: two in each rack, t0 and u1, t2 and u2.
            let members = vec![in_rack("a", "1", &[2, 5]), in_rack("b", "2", &[])];
            let plan = assign_subset(strategy, &layout, members, vec![1, 3]).unwrap();
            assert_eq!(plan, [vec![2, 5], vec![0, 4]], "{strategy}");
        }
    }

    #[test]
    fn numbers_from_nowhere_are_errors_in_words() {
        let one = |topics: &[u32], owned: &[u32]| vec![member("a", topics, owned)];
        for (strategy, members, without) in [
            ("nosuch", one(&[0], &[]), vec![]),
            ("", one(&[0], &[]), vec![]),
            ("range", one(&[7], &[]), vec![]),
            ("range", one(&[0], &[99]), vec![]),
            ("range", one(&[0], &[1, 1]), vec![]),
            ("range", one(&[0], &[]), vec![6]),
            ("range", vec![member("a", &[0], &[]), member("a", &[0], &[])], vec![]),
        ] {
            assert!(assign_subset(strategy, &layout(), members, without).is_err(), "{strategy}");
        }
    }
}
