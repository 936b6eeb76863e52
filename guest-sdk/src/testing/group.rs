//! Groups described readably.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bindings::assignor::strategy::types::{Member, Topic};
use crate::group::Group;
use crate::user_data;

/// Describes a group line by line, in any order within topics and members. What a line says of a member comes after the line
/// that adds the member.
///
/// Panics, and so fails the test, on what no group can have: a topic or member twice, a member or partition that is not there, a
/// partition with two owners or one that is not subscribed to its topic.
///
/// ```
/// use assignor_guest_sdk::testing::GroupBuilder;
///
/// let group = GroupBuilder::new()
///     .topic("clicks", 3)
///     .topic("orders", 2)
///     .member("m1", ["clicks", "orders"])
///     .owned("m1", 4, [("clicks", [0, 2])])
///     .rack("m1", "a")
///     .member("m2", ["orders"])
///     .user_data("m2", &7u32)
///     .build();
/// let m1 = group.member("m1").unwrap();
/// assert_eq!(m1.owned().map(|partition| partition.to_string()).collect::<Vec<_>>(), ["clicks-0", "clicks-2"]);
/// assert_eq!(group.member("m2").unwrap().user_data(), Ok(Some(7u32)));
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct GroupBuilder {
    topics: BTreeMap<String, u32>,
    members: BTreeMap<String, Description>,
}

#[derive(Debug, Clone, Default)]
struct Description {
    instance_id: Option<String>,
    topics: Vec<String>,
    owned: Vec<(String, u32)>,
    generation: Option<i32>,
    rack: Option<String>,
    user_data: Option<Vec<u8>>,
}

impl GroupBuilder {
    /// No topics and no members.
    pub fn new() -> Self {
        Self::default()
    }

    /// A topic with this many partitions. As in the contract, one without partitions is left out.
    #[track_caller]
    pub fn topic(mut self, name: &str, partitions: u32) -> Self {
        if self.topics.insert(name.into(), partitions).is_some() {
            panic!("the topic {name} is described twice");
        }
        self
    }

    /// A member that is subscribed to these topics. Topics that the group does not have are left out, as in the contract.
    #[track_caller]
    pub fn member<T: Into<String>>(mut self, id: &str, topics: impl IntoIterator<Item = T>) -> Self {
        let topics = topics.into_iter().map(Into::into).collect();
        let description = Description { topics, ..Description::default() };
        if self.members.insert(id.into(), description).is_some() {
            panic!("the member {id} is described twice");
        }
        self
    }

    /// What a member owns, by topic, and the generation in which it got that.
    #[track_caller]
    pub fn owned<'a, P: IntoIterator<Item = u32>>(
        self,
        id: &str,
        generation: i32,
        owned: impl IntoIterator<Item = (&'a str, P)>,
    ) -> Self {
        let owned: Vec<_> = owned
            .into_iter()
            .flat_map(|(topic, partitions)| partitions.into_iter().map(|p| (topic.to_owned(), p)))
            .collect();
        self.with(id, |member| {
            member.owned = owned;
            member.generation = Some(generation);
        })
    }

    /// A member's `client.rack`.
    #[track_caller]
    pub fn rack(self, id: &str, rack: &str) -> Self {
        self.with(id, |member| member.rack = Some(rack.into()))
    }

    /// A member's `group.instance.id`.
    #[track_caller]
    pub fn instance_id(self, id: &str, instance_id: &str) -> Self {
        self.with(id, |member| member.instance_id = Some(instance_id.into()))
    }

    /// What a member sent as typed user data.
    #[track_caller]
    pub fn user_data<T: Serialize + ?Sized>(self, id: &str, value: &T) -> Self {
        match user_data::encode(value) {
            Ok(bytes) => self.user_data_bytes(id, bytes),
            Err(error) => panic!("{error}"),
        }
    }

    /// What a member sent as user data, garbage included.
    #[track_caller]
    pub fn user_data_bytes(self, id: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.with(id, |member| member.user_data = Some(bytes.into()))
    }

    /// The group.
    #[track_caller]
    pub fn build(self) -> Group {
        let mut topics = Vec::new();
        let mut first = 0;
        for (name, count) in self.topics.into_iter().filter(|&(_, count)| count > 0) {
            topics.push(Topic { name, first, count });
            first += count;
        }
        let index = |name: &str| topics.binary_search_by(|topic| topic.name.as_str().cmp(name)).ok();
        let number = |name: &str, partition: u32| {
            let topic = topics.get(index(name)?)?;
            (partition < topic.count).then(|| topic.first + partition)
        };
        let mut owners = BTreeMap::new();
        let mut members = Vec::new();
        for (id, description) in self.members {
            let mut subscribed: Vec<_> =
                description.topics.iter().filter_map(|name| u32::try_from(index(name)?).ok()).collect();
            subscribed.sort_unstable();
            subscribed.dedup();
            let mut owned = Vec::new();
            for (topic, partition) in description.owned {
                let Some(number) = number(&topic, partition) else {
                    panic!("{id} owns {topic}-{partition}, which the group does not have");
                };
                if !index(&topic).is_some_and(|index| subscribed.contains(&(index as u32))) {
                    panic!("{id} owns {topic}-{partition}, but is not subscribed to {topic}");
                }
                if let Some(other) = owners.insert(number, id.clone()) {
                    panic!("{topic}-{partition} is owned by both {other} and {id}");
                }
                owned.push(number);
            }
            owned.sort_unstable();
            members.push(Member {
                id,
                instance_id: description.instance_id,
                topics: subscribed,
                owned,
                generation: description.generation,
                rack: description.rack,
                user_data: description.user_data,
            });
        }
        Group::new(topics, members)
    }

    #[track_caller]
    fn with(mut self, id: &str, change: impl FnOnce(&mut Description)) -> Self {
        match self.members.get_mut(id) {
            Some(member) => change(member),
            None => panic!("the member {id} is not described yet"),
        }
        self
    }
}
