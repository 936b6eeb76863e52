//! The simple form of a strategy, in names only.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::group::Group;
use crate::plan::Plan;
use crate::strategy::Strategy;

/// How many partitions each topic has, by the topic's name.
pub type PartitionsPerTopic<'g> = BTreeMap<&'g str, u32>;

/// The names of the topics that each member is subscribed to, in order, by the member's id.
pub type Subscriptions<'g> = BTreeMap<&'g str, Vec<&'g str>>;

/// The partitions that each member gets, as topic and index, by the member's id. A member that is left out gets none.
pub type Assignments<'g> = BTreeMap<&'g str, Vec<(&'g str, u32)>>;

/// A strategy that needs nothing but names and numbers, as those that extend Kafka's `AbstractPartitionAssignor` do: partitions
/// per topic and subscriptions in, partitions per member out. Every such type is a [`Strategy`] and is exported the same way.
///
/// Names are looked up once per partition: some 10 ms for 100,000 partitions more than a [`Strategy`] takes.
///
/// ```
/// use assignor_guest_sdk::{Assignments, Error, PartitionsPerTopic, SimpleStrategy, Subscriptions};
///
/// /// Gives whole topics away: each to the subscriber with the fewest partitions so far.
/// #[derive(Default)]
/// struct WholeTopics;
///
/// impl SimpleStrategy for WholeTopics {
///     fn name(&self) -> &str {
///         "whole-topics"
///     }
///
///     fn assign<'g>(
///         &self,
///         partitions_per_topic: &PartitionsPerTopic<'g>,
///         subscriptions: &Subscriptions<'g>,
///     ) -> Result<Assignments<'g>, Error> {
///         let mut plan = Assignments::new();
///         for (&topic, &count) in partitions_per_topic {
///             let subscribers = subscriptions.iter().filter(|(_, topics)| topics.contains(&topic));
///             let least = subscribers.min_by_key(|(member, _)| plan.get(*member).map_or(0, Vec::len));
///             let (&member, _) = least.ok_or_else(|| Error::new("a topic without subscriber"))?;
///             plan.entry(member).or_default().extend((0..count).map(|partition| (topic, partition)));
///         }
///         Ok(plan)
///     }
/// }
/// assignor_guest_sdk::export!(WholeTopics);
/// # fn main() {}
/// ```
pub trait SimpleStrategy: Default {
    /// The strategy's name, as in [`Strategy::name`].
    fn name(&self) -> &str;

    /// Splits the partitions: every partition of every topic to one member that is subscribed to it.
    ///
    /// # Errors
    /// Declines, as in [`Strategy::assign`].
    fn assign<'g>(
        &self,
        partitions_per_topic: &PartitionsPerTopic<'g>,
        subscriptions: &Subscriptions<'g>,
    ) -> Result<Assignments<'g>, Error>;
}

impl<S: SimpleStrategy> Strategy for S {
    fn name(&self) -> &str {
        SimpleStrategy::name(self)
    }

    fn assign(&self, group: &Group) -> Result<Plan, Error> {
        let partitions_per_topic =
            group.topics().map(|topic| (topic.name(), topic.partition_count())).collect();
        let subscriptions = group
            .members()
            .map(|member| (member.id(), member.topics().map(|topic| topic.name()).collect()))
            .collect();
        let mut plan = group.plan();
        for (id, partitions) in SimpleStrategy::assign(self, &partitions_per_topic, &subscriptions)? {
            let member = group
                .member(id)
                .ok_or_else(|| Error::new(format_args!("the plan names {id:?}, which is no member")))?;
            for (name, partition) in partitions {
                let number = group
                    .topic(name)
                    .and_then(|topic| topic.numbers().nth(partition as usize))
                    .ok_or_else(|| {
                        Error::new(format_args!("the plan names {name}-{partition}, which does not exist"))
                    })?;
                plan.give_numbers(member, [number]);
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, GroupBuilder};

    /// Gives what its field says.
    #[derive(Default)]
    struct Fixed(Assignments<'static>);

    impl SimpleStrategy for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }
        fn assign<'g>(
            &self,
            partitions_per_topic: &PartitionsPerTopic<'g>,
            subscriptions: &Subscriptions<'g>,
        ) -> Result<Assignments<'g>, Error> {
            assert_eq!(*partitions_per_topic, PartitionsPerTopic::from([("clicks", 2), ("orders", 1)]));
            assert_eq!(
                *subscriptions,
                Subscriptions::from([("m1", vec!["clicks"]), ("m2", vec!["clicks", "orders"])])
            );
            Ok(self.0.clone())
        }
    }

    fn assign(plan: Assignments<'static>) -> Result<Vec<(String, Vec<String>)>, String> {
        let group = GroupBuilder::new()
            .topic("clicks", 2)
            .topic("orders", 1)
            .member("m1", ["clicks"])
            .member("m2", ["clicks", "orders"])
            .build();
        let plan = Strategy::assign(&Fixed(plan), &group).map_err(Error::into_text)?;
        Ok(testing::names(&group, &plan).into_iter().map(|(id, p)| (id.to_owned(), p)).collect())
    }

    #[test]
    fn names_in_and_names_out() {
        let plan = assign(Assignments::from([("m2", vec![("orders", 0), ("clicks", 1)])]));
        let named = vec![("m1".into(), vec![]), ("m2".into(), vec!["clicks-1".into(), "orders-0".into()])];
        assert_eq!(plan, Ok(named));
    }

    #[test]
    fn a_name_that_the_group_does_not_have_is_an_error_in_words() {
        let stranger = assign(Assignments::from([("m9", vec![])]));
        assert_eq!(stranger, Err(r#"the plan names "m9", which is no member"#.to_owned()));
        for (topic, partition) in [("clicks", 2), ("absent", 0)] {
            let plan = assign(Assignments::from([("m1", vec![(topic, partition)])]));
            assert_eq!(plan, Err(format!("the plan names {topic}-{partition}, which does not exist")));
        }
    }
}
