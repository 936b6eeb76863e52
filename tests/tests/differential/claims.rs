//! What members say they own, read as Kafka's strategies read it; independent of how ours read it.

use assignor_host::Group;
use assignor_host::described::{DescribedGroup, DescribedMember};

use super::Strategy;

/// User data of Kafka's `StickyAssignor`, version 0 if there is no generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StickyData {
    pub(crate) owned: Vec<(String, Vec<i32>)>,
    pub(crate) generation: Option<i32>,
}

impl StickyData {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let int = |value: i32, out: &mut Vec<u8>| out.extend_from_slice(&value.to_be_bytes());
        int(i32::try_from(self.owned.len()).unwrap(), &mut out);
        for (topic, partitions) in &self.owned {
            out.extend_from_slice(&i16::try_from(topic.len()).unwrap().to_be_bytes());
            out.extend_from_slice(topic.as_bytes());
            int(i32::try_from(partitions.len()).unwrap(), &mut out);
            partitions.iter().for_each(|&partition| int(partition, &mut out));
        }
        if let Some(generation) = self.generation {
            int(generation, &mut out);
        }
        out
    }

    /// Version 1, else version 0; bytes that follow are ignored. As in Java, text that is no UTF-8 is no error.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut owned = Vec::new();
        for _ in 0..count(&mut rest)? {
            let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
            let (topic, after) = rest.split_at_checked(length)?;
            rest = after;
            let mut partitions = Vec::new();
            for _ in 0..count(&mut rest)? {
                partitions.push(i32::from_be_bytes(take(&mut rest)?));
            }
            owned.push((String::from_utf8_lossy(topic).into_owned(), partitions));
        }
        Some(Self { owned, generation: take(&mut rest).map(i32::from_be_bytes) })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

/// No element is smaller than two bytes.
fn count(rest: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(i32::from_be_bytes(take(rest)?)).ok()?;
    (count <= rest.len() / 2).then_some(count)
}

/// What one member claims.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) owned: Vec<(String, Vec<i32>)>,
    /// A member that tells none counts as -1.
    pub(crate) generation: Option<i32>,
    /// Partitions below 0 are among what it tells. Java takes them, and the rest of what it tells; to us it tells nothing.
    pub(crate) nonsense: bool,
}

impl Told {
    /// By `StickyAssignor.memberData` and `CooperativeStickyAssignor.memberData`.
    pub(crate) fn by(member: &DescribedMember, strategy: Strategy) -> Self {
        match strategy {
            Strategy::Sticky => match member.user_data.as_deref() {
                None | Some([]) => Self::default(),
                Some(bytes) => match StickyData::decode(bytes) {
                    Some(data) if data.owned.iter().all(|(_, list)| list.iter().all(|&p| p >= 0)) => {
                        Self { owned: data.owned, generation: data.generation, nonsense: false }
                    }
                    data => Self { owned: Vec::new(), generation: Some(-1), nonsense: data.is_some() },
                },
            },
            _ => {
                let owned = member.owned.iter().map(|(topic, partitions)| {
                    (topic.clone(), partitions.iter().map(|&p| i32::try_from(p).unwrap()).collect())
                });
                Self { owned: owned.collect(), generation: generation(member), nonsense: false }
            }
        }
    }
}

/// The generation of a member of a cooperative-sticky group: of the subscription; where that has none (before its version
/// 2), of user data, which is 4 bytes of Java's, or sticky's version 1 of librdkafka's and franz-go's.
fn generation(member: &DescribedMember) -> Option<i32> {
    if let Some(generation) = member.generation.filter(|&g| g >= 0) {
        return Some(generation);
    }
    let bytes = member.user_data.as_deref()?;
    if let &[a, b, c, d] = bytes {
        return Some(i32::from_be_bytes([a, b, c, d]));
    }
    Some(StickyData::decode(bytes).and_then(|data| data.generation).unwrap_or(-1))
}

/// The generation of a member's claims as Java takes it: from the first four bytes of any user data that has four.
fn generation_in_java(member: &DescribedMember, strategy: Strategy, told: &Told) -> i32 {
    let misread = strategy == Strategy::CooperativeSticky && member.generation.is_none_or(|g| g < 0);
    let first = member.user_data.as_deref().and_then(|bytes| bytes.first_chunk());
    first.filter(|_| misread).map_or(told.generation.unwrap_or(-1), |&bytes| i32::from_be_bytes(bytes))
}

/// The same group, told so that Kafka can't get it wrong: no claims on partitions that don't exist, each generation where Kafka
/// looks for it, whoever it compares, and who wants nothing wants what isn't there; if so asked, no claims on topics that a member doesn't
/// want any more. Of three claims on a partition it still may forget the strongest.
pub(crate) fn told_plainly(
    described: &DescribedGroup,
    strategy: Strategy,
    without_unwanted: bool,
) -> DescribedGroup {
    let mut plain = described.clone();
    for member in &mut plain.members {
        let mut told = Told::by(member, strategy);
        if without_unwanted {
            told.owned.retain(|(topic, _)| member.topics.contains(topic));
        }
        for (topic, partitions) in &mut told.owned {
            if let Some(topic) = described.topics.get(topic) {
                partitions.retain(|&partition| partition < i32::try_from(topic.partitions).unwrap());
            }
        }
        member.generation = told.generation.filter(|&generation| generation >= 0);
        if member.topics.is_empty() {
            member.topics = vec!["none".to_owned()];
        }
        if strategy == Strategy::Sticky {
            let data = StickyData { owned: told.owned, generation: told.generation };
            member.user_data = member.user_data.is_some().then(|| data.encode());
        } else {
            let unsigned = |list: Vec<i32>| list.into_iter().map(i32::cast_unsigned).collect();
            member.owned = told.owned.into_iter().map(|(topic, list)| (topic, unsigned(list))).collect();
            member.user_data = told.generation.map(|generation| generation.to_be_bytes().to_vec());
        }
    }
    plain
}

/// Who owns what, of all members' claims.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    /// The index of the member that validly owns each partition: it claims it at a higher generation than any other, and is
    /// subscribed.
    pub(crate) owner: Vec<Option<u32>>,
    /// Partitions that more than one member claims.
    pub(crate) doubly_claimed: Vec<bool>,
    /// A partition of a topic of the group is claimed that the topic doesn't have.
    pub(crate) ghosts: bool,
    /// What Java makes of these claims hangs on the order in which it meets the members: of two claims it takes the generation of
    /// the earlier one from the subscription, wherever that of the later one is from; of three it may forget the strongest.
    pub(crate) ambiguous_in_java: bool,
    /// Java takes other generations for those of the members: what librdkafka and franz-go write under cooperative-sticky it
    /// reads as if it had written that itself.
    pub(crate) misread_in_java: bool,
}

impl Ownership {
    pub(crate) fn of(described: &DescribedGroup, group: &Group, strategy: Strategy) -> Self {
        let count = group.partitions() as usize;
        let mut claims: Vec<Vec<(i32, u32)>> = vec![Vec::new(); count];
        let mut ghosts = false;
        let mut misread_in_java = false;
        // Of each member, whether Java compares the generation of its claims only with what it itself would be compared with.
        let mut plain = vec![true; group.members().len()];
        for member in &described.members {
            let index = group.members().iter().position(|m| m.id == member.id).unwrap();
            let told = Told::by(member, strategy);
            ghosts |= told.nonsense;
            let in_java = generation_in_java(member, strategy, &told);
            misread_in_java |= in_java != told.generation.unwrap_or(-1);
            plain[index] = in_java == member.generation.filter(|&g| g >= 0).unwrap_or(-1);
            for (topic, partitions) in told.owned {
                let Some(topic) = group.topics().iter().find(|t| t.name == topic) else { continue };
                for partition in partitions {
                    match u32::try_from(partition) {
                        Ok(partition) if partition < topic.partitions => {
                            let claim = (told.generation.unwrap_or(-1), u32::try_from(index).unwrap());
                            let claims = &mut claims[(topic.first + partition) as usize];
                            if !claims.contains(&claim) {
                                claims.push(claim);
                            }
                        }
                        _ => ghosts = true,
                    }
                }
            }
        }
        let owner = (0..).zip(&claims).map(|(partition, claims)| {
            let &(highest, member) = claims.iter().max()?;
            let alone = claims.iter().filter(|(generation, _)| *generation == highest).count() == 1;
            let topic = group.topic_of(partition).unwrap();
            let subscribed = group.members()[member as usize].topics.contains(&topic);
            (alone && subscribed).then_some(member)
        });
        let ambiguous = |claims: &Vec<(i32, u32)>| {
            claims.len() > 2 || claims.len() == 2 && claims.iter().any(|&(_, member)| !plain[member as usize])
        };
        Self {
            ambiguous_in_java: claims.iter().any(ambiguous),
            misread_in_java,
            owner: owner.collect(),
            doubly_claimed: claims.iter().map(|claims| claims.len() > 1).collect(),
            ghosts,
        }
    }
}
