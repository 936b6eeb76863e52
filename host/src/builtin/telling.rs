//! What members of the sticky strategies tell their leader in user data, and how the leader reads it.
//!
//! Each consumer has its own: two in one process must not take each other's partitions for theirs (aiokafka 1175).

use std::borrow::Cow;

use crate::group::{Group, Member, TopicPartitions};
use crate::wire::WireError;
use crate::wire::sticky_user_data::{self, NO_GENERATION, Told};

/// What a strategy remembers of its last assignment for the sake of the next one.
#[derive(Debug, Clone)]
pub(super) enum Telling {
    /// The strategy has no user data.
    Nothing,
    /// Kafka's `StickyAssignor`: the last assignment and its generation, nothing before the first.
    Sticky(Option<(Vec<TopicPartitions>, i32)>),
    /// Kafka's `CooperativeStickyAssignor`: the generation of the last assignment, -1 before the first.
    CooperativeSticky(i32),
}

impl Telling {
    pub(super) fn sticky() -> Self {
        Self::Sticky(None)
    }

    pub(super) fn cooperative_sticky() -> Self {
        Self::CooperativeSticky(NO_GENERATION)
    }

    /// Remembers an assignment. Kafka's assignors aren't told when partitions are lost, and keep this then, too: at the leader a claim of
    /// an old generation counts only where nobody has a newer one.
    pub(super) fn remember(&mut self, partitions: &[TopicPartitions], in_generation: i32) {
        match self {
            Self::Nothing => {}
            Self::Sticky(last) => *last = Some((partitions.to_vec(), in_generation)),
            Self::CooperativeSticky(generation) => *generation = in_generation,
        }
    }

    /// The user data that this member joins with.
    ///
    /// # Errors
    /// If what is remembered has no room in it; nothing that a broker can assign hasn't.
    pub(super) fn user_data(&self) -> Result<Option<Vec<u8>>, WireError> {
        match self {
            Self::Nothing | Self::Sticky(None) => Ok(None),
            Self::Sticky(Some((owned, generation))) => sticky_user_data::encode(owned, *generation).map(Some),
            Self::CooperativeSticky(generation) => Ok(Some(generation.to_be_bytes().to_vec())),
        }
    }

    /// The group with members' claims as the strategy takes them: `sticky` trusts user data alone, since its members have revoked
    /// everything before they join; `cooperative-sticky` trusts subscriptions, and user data for a generation that they don't tell.
    pub(super) fn read<'a>(&self, group: &'a Group) -> Cow<'a, Group> {
        match self {
            Self::Nothing => Cow::Borrowed(group),
            Self::Sticky(_) => Cow::Owned(group.with_claims(|member| {
                let Told { owned, generation } = sticky_user_data::sticky(member.user_data.as_deref());
                Some((owned, generation))
            })),
            Self::CooperativeSticky(_) => {
                let generation = |member: &Member| match member.generation {
                    Some(0..) => None,
                    _ => sticky_user_data::cooperative_generation(member.user_data.as_deref()),
                };
                // Only members that join with an old version of the subscription don't say it there.
                if group.members().iter().all(|m| m.claimed.is_empty() || generation(m).is_none()) {
                    return Cow::Borrowed(group);
                }
                Cow::Owned(group.with_claims(|member| {
                    generation(member).map(|told| (group.by_name(&member.claimed), Some(told)))
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignor::{Assignor, Context};
    use crate::builtin::{Builtin, COOPERATIVE_STICKY, NAMES, STICKY};
    use crate::test_support::{group, member};

    fn told(topic: &str, partitions: &[u32]) -> [TopicPartitions; 1] {
        [TopicPartitions { topic: topic.into(), partitions: partitions.to_vec() }]
    }

    fn user_data(strategy: &mut Builtin) -> Option<Vec<u8>> {
        let interest = strategy.subscription(&Context::default(), &["t".into()]).unwrap();
        assert_eq!(interest.topics, ["t"]);
        interest.user_data
    }

    fn builtin(name: &str) -> Builtin {
        Builtin::by_name(name).unwrap()
    }

    #[test]
    fn sticky_tells_nothing_before_its_first_assignment_and_then_the_last_one_even_after_it_is_lost() {
        let mut sticky = builtin(STICKY);
        assert_eq!(user_data(&mut sticky), None);
        sticky.on_assignment(&Context::default(), &told("t", &[1, 0]), None, 3).unwrap();
        sticky.on_assignment(&Context::default(), &told("t", &[2]), None, 4).unwrap();
        sticky.on_lost();
        let bytes = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\x04";
        assert_eq!(user_data(&mut sticky).as_deref(), Some(&bytes[..]));
        sticky.on_assignment(&Context::default(), &[], None, 5).unwrap();
        assert_eq!(user_data(&mut sticky).as_deref(), Some(&b"\0\0\0\0\0\0\0\x05"[..]));
    }

    /// In aiokafka the last generation was never stored.
    #[test]
    fn aiokafka_1176_cooperative_sticky_tells_the_generation_of_its_last_assignment_in_4_bytes() {
        let mut sticky = builtin(COOPERATIVE_STICKY);
        assert_eq!(user_data(&mut sticky).as_deref(), Some(&b"\xff\xff\xff\xff"[..]));
        sticky.on_assignment(&Context::default(), &told("t", &[0]), None, 258).unwrap();
        sticky.on_lost();
        assert_eq!(user_data(&mut sticky).as_deref(), Some(&b"\0\0\x01\x02"[..]));
    }

    #[test]
    fn aiokafka_1175_two_consumers_of_one_process_do_not_share_what_they_remember() {
        let (mut one, mut other) = (builtin(STICKY), builtin(STICKY));
        one.on_assignment(&Context::default(), &told("t", &[0]), None, 1).unwrap();
        assert_eq!(user_data(&mut other), None);
        other.on_assignment(&Context::default(), &told("t", &[1]), None, 1).unwrap();
        assert_ne!(user_data(&mut one), user_data(&mut other));
    }

    #[test]
    fn strategies_without_user_data_tell_none() {
        for name in NAMES.into_iter().filter(|name| ![STICKY, COOPERATIVE_STICKY].contains(name)) {
            let mut strategy = builtin(name);
            strategy.on_assignment(&Context::default(), &told("t", &[0]), None, 1).unwrap();
            assert_eq!(user_data(&mut strategy), None, "{name}");
        }
    }

    /// A member's generation, what it claims of the topic, and its user data.
    type Joined<'a> = (Option<i32>, &'a [u32], Option<&'a [u8]>);

    /// What each member owns after user data is read.
    fn owned(telling: &Telling, members: Vec<Joined<'_>>) -> Vec<Vec<u32>> {
        let members = ["a", "b", "c"].into_iter().zip(members).map(|(id, (generation, owned, user_data))| {
            let mut member = member(id, &["t"], generation, owned);
            member.subscription.user_data = user_data.map(<[u8]>::to_vec);
            member
        });
        let group = group(&[("t", 4)], members.collect());
        telling.read(&group).members().iter().map(|m| m.owned.clone()).collect()
    }

    #[test]
    fn sticky_trusts_its_own_user_data_only() {
        let of = |partitions: &[u32], generation| {
            sticky_user_data::encode(&told("t", partitions), generation).unwrap()
        };
        let (newer, older) = (of(&[0, 1], 6), of(&[1, 2, 9], 5));
        let read = owned(
            &Telling::sticky(),
            vec![(None, &[], Some(&newer)), (None, &[], Some(&older)), (Some(9), &[0, 1, 2, 3], None)],
        );
        assert_eq!(read, [vec![0, 1], vec![2], vec![]]);
        // What can't be read claims nothing.
        let read = owned(&Telling::sticky(), vec![(Some(9), &[3], Some(b"\xff")), (None, &[], Some(&older))]);
        assert_eq!(read, [vec![], vec![1, 2]]);
    }

    #[test]
    fn cooperative_sticky_takes_what_is_owned_from_subscriptions_and_a_missing_generation_from_user_data() {
        let telling = Telling::cooperative_sticky();
        // Java before KIP-792, in generation 7, against one that tells 6 in its subscription: its user data does not count.
        let read = owned(
            &telling,
            vec![(None, &[0, 1], Some(b"\0\0\0\x07")), (Some(6), &[1, 2], Some(b"\0\0\0\x09"))],
        );
        assert_eq!(read, [vec![0, 1], vec![2]]);
        // librdkafka's user data names four topics and generation 2; the Java member in generation 3 is newer.
        let topics = ["t", "u", "v", "w"].map(|topic| told(topic, &[0])[0].clone());
        let theirs = sticky_user_data::encode(&topics, 2).unwrap();
        let read = owned(&telling, vec![(None, &[0], Some(&theirs)), (None, &[0], Some(b"\0\0\0\x03"))]);
        assert_eq!(read, [vec![], vec![0]]);
        // kafka-python: no generation at all; two such claims are nobody's (KAFKA-12984).
        let read = owned(&telling, vec![(None, &[0, 1], Some(b"")), (None, &[1], None)]);
        assert_eq!(read, [vec![0], vec![]]);
    }

    #[test]
    fn a_plan_does_not_read_user_data_and_an_assignment_does() {
        let mut a = member("a", &["t"], None, &[]);
        a.subscription.user_data = sticky_user_data::encode(&told("t", &[2]), 1).ok();
        let group = group(&[("t", 4)], vec![a, member("b", &["t"], Some(1), &[2, 3])]);
        let mut sticky = builtin(STICKY);
        let plan = sticky.plan(&group);
        assert_eq!(plan.assignments[1].partitions, [2, 3]);
        let plan = sticky.assign(&Context::default(), &group).unwrap();
        assert!(plan.assignments[0].partitions.contains(&2));
    }
}
