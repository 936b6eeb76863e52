//! In which racks a partition's replicas are (KIP-881).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Topic;

/// The racks of every partition's replicas, those of offline and out-of-sync ones included.
///
/// Racks are numbered by their names' order. Partitions with the same racks share one set, of which a cluster has few,
/// however many partitions it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Racks {
    names: Vec<String>,
    sets: Vec<Vec<u32>>,
    /// The set of each partition, by the partition's number.
    set_of: Vec<u32>,
}

impl Racks {
    /// Of the racks by broker id, and the ids of the brokers that hold each partition of a topic, by its name. A broker
    /// without a rack, and a partition whose replicas aren't known, count for none.
    pub(super) fn new<'a>(
        topics: &[Topic],
        broker_racks: &BTreeMap<i32, String>,
        replicas: impl Fn(&str) -> Option<&'a [Vec<i32>]>,
    ) -> Self {
        let names: BTreeSet<&str> = broker_racks.values().map(String::as_str).collect();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let number = |name: &String| names.binary_search(name).ok().and_then(|n| u32::try_from(n).ok());
        let rack_of: HashMap<i32, u32> =
            broker_racks.iter().filter_map(|(&id, rack)| Some((id, number(rack)?))).collect();

        // Number 0 is the set of no racks.
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::from([(Vec::new(), 0)]);
        let mut sets = vec![Vec::new()];
        let mut set_of = Vec::with_capacity(topics.last().map_or(0, |t| t.numbers().end as usize));
        let mut set: Vec<u32> = Vec::new();
        for topic in topics {
            let partitions = replicas(&topic.name).unwrap_or_default();
            for index in 0..topic.partitions as usize {
                set.clear();
                let brokers = partitions.get(index).map(Vec::as_slice).unwrap_or_default();
                set.extend(brokers.iter().filter_map(|id| rack_of.get(id)));
                set.sort_unstable();
                set.dedup();
                let number = numbers.get(set.as_slice()).copied().unwrap_or_else(|| {
                    let number = u32::try_from(sets.len()).unwrap_or(0);
                    sets.push(set.clone());
                    numbers.insert(set.clone(), number);
                    number
                });
                set_of.push(number);
            }
        }
        Self { names, sets, set_of }
    }

    /// The racks' names, ascending: a rack's number is its index.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of the rack of that name; `None` if no broker is in it.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.names.binary_search_by(|n| n.as_str().cmp(name)).ok().and_then(|n| u32::try_from(n).ok())
    }

    /// The distinct sets of racks that partitions are in, each ascending; the first is empty.
    pub fn sets(&self) -> &[Vec<u32>] {
        &self.sets
    }

    /// The index of a partition's set in [`sets`](Self::sets); the empty one for a number of no partition.
    pub fn set_of(&self, partition: u32) -> u32 {
        self.set_of.get(partition as usize).copied().unwrap_or(0)
    }

    /// The numbers of a partition's racks, ascending.
    pub fn of(&self, partition: u32) -> &[u32] {
        self.sets.get(self.set_of(partition) as usize).map_or(&[], Vec::as_slice)
    }

    /// The racks of some of the partitions, numbered through anew: for a group that leaves partitions out.
    pub(crate) fn of_partitions(&self, kept: &[u32]) -> Self {
        let set_of = kept.iter().map(|&p| self.set_of(p)).collect();
        Self { names: self.names.clone(), sets: self.sets.clone(), set_of }
    }
}
