//! The plan itself.

use std::collections::BTreeMap;

use assignor_guest_sdk::{Group, Plan};

use crate::apportion::apportion;
use crate::blocks;
use crate::fill::{Taker, fill};
use crate::level::{Class, Portion, level};
use crate::taken::Taken;
use crate::thin::Thinning;

/// Shares the group's partitions in proportion to the members' weights, given in the order of the members, each greater than 0.
///
/// In this order of importance: how many partitions each member gets; that members keep what they own; that every topic by itself is
/// shared in proportion.
///
/// 1. Members that subscribe to the same topics form a class. Where there are several, the topics are split among the classes
///    so that partitions per weight are as equal as the subscriptions allow.
/// 2. Within a class each member's quota is its ideal number rounded down or up, up rather for those that own that many.
/// 3. Members keep what they own up to their quota.
/// 4. What is free goes to those below their quota, spread over the topics.
pub(crate) fn share(group: &Group, weights: &[f64]) -> Plan {
    let classes = classes(group, weights);
    let portions = level(group, &classes);
    let mut shares = Shares {
        group,
        plan: vec![Vec::new(); weights.len()],
        quotas: vec![0; weights.len()],
        taken: Taken::none(group.partition_count()),
    };
    for (class, portions) in classes.iter().zip(&portions) {
        shares.set_quotas(class, portions, weights);
        if classes.len() == 1 {
            shares.keep(class, portions);
        } else {
            shares.keep_within(class, portions);
        }
    }
    if shares.settled() {
        return Plan::from(shares.plan);
    }
    shares.plan.iter().for_each(|partitions| shares.taken.mark(partitions));
    for (class, portions) in classes.iter().zip(&portions) {
        shares.give(class, portions, classes.len() == 1);
    }
    Plan::from(shares.plan)
}

fn classes<'g>(group: &'g Group, weights: &[f64]) -> Vec<Class<'g>> {
    let mut classes: BTreeMap<&[u32], Class<'g>> = BTreeMap::new();
    let members: Vec<_> = group.members().zip(weights).collect();
    // Neighbours mostly subscribe to the same topics, so that few lists of topics are looked up.
    for alike in members.chunk_by(|a, b| blocks::equal(a.0.topic_numbers(), b.0.topic_numbers())) {
        let Some(topics) = alike.first().map(|(member, _)| member.topic_numbers()) else { continue };
        let empty = || Class { topics, members: Vec::new(), weight: 0.0 };
        let class = classes.entry(topics).or_insert_with(empty);
        class.members.extend(alike.iter().map(|(member, _)| member.index()));
        class.weight += alike.iter().map(|(_, weight)| *weight).sum::<f64>();
    }
    classes.into_values().collect()
}

struct Shares<'g> {
    group: &'g Group,
    /// The numbers of each member's partitions.
    plan: Vec<Vec<u32>>,
    /// How many partitions each member shall have.
    quotas: Vec<u32>,
    /// The partitions that are somebody's already.
    taken: Taken,
}

impl<'g> Shares<'g> {
    fn owned(&self, member: usize) -> &'g [u32] {
        self.group.raw_members().get(member).map_or(&[], |member| &member.owned)
    }

    fn quota(&self, member: usize) -> u32 {
        self.quotas.get(member).copied().unwrap_or(0)
    }

    fn set_quotas(&mut self, class: &Class<'_>, portions: &[Portion], weights: &[f64]) {
        let of_class: Vec<f64> =
            class.members.iter().filter_map(|&member| weights.get(member)).copied().collect();
        let owned: Vec<usize> = class.members.iter().map(|&member| self.owned(member).len()).collect();
        let owns_more =
            |index: usize, down: u32| owned.get(index).is_some_and(|&owned| owned > down as usize);
        let quotas = apportion(portions.iter().map(|portion| portion.count).sum(), &of_class, owns_more);
        for (&member, quota) in class.members.iter().zip(quotas) {
            if let Some(slot) = self.quotas.get_mut(member) {
                *slot = quota;
            }
        }
    }

    /// Lets members keep what they own, up to their quotas.
    fn keep(&mut self, class: &Class<'_>, portions: &[Portion]) {
        let mut thinning = Thinning::new(portions);
        for &member in &class.members {
            let kept = thinning.thin_out(self.owned(member), self.quota(member), member);
            self.set_plan(member, kept);
        }
    }

    /// As [`keep`](Self::keep), and up to what the class gets of each topic. Where the class owns more of a topic, those go first
    /// who own more than their quota.
    fn keep_within(&mut self, class: &Class<'_>, portions: &[Portion]) {
        let mut owned = vec![0; portions.len()];
        for &member in &class.members {
            count(self.owned(member), portions, &mut owned);
        }
        let mut surplus: Vec<u32> = owned
            .iter()
            .zip(portions)
            .map(|(owned, portion): (&u32, _)| owned.saturating_sub(portion.count))
            .collect();
        let mut kept: Vec<Vec<u32>> =
            class.members.iter().map(|&member| self.owned(member).to_vec()).collect();
        for only_above_quota in [true, false] {
            for (&member, kept) in class.members.iter().zip(&mut kept) {
                let most = if only_above_quota {
                    kept.len().saturating_sub(self.quota(member) as usize)
                } else {
                    kept.len()
                };
                let topics = portions.iter().map(|portion| portion.numbers.end);
                give_up(kept, most, topics.zip(&mut surplus));
            }
        }
        let mut thinning = Thinning::new(portions);
        for (&member, kept) in class.members.iter().zip(kept) {
            let kept = thinning.thin_out(&kept, self.quota(member), member);
            self.set_plan(member, kept);
        }
    }

    fn set_plan(&mut self, member: usize, partitions: Vec<u32>) {
        if let Some(slot) = self.plan.get_mut(member) {
            *slot = partitions;
        }
    }

    /// Whether everyone has as many as it shall have.
    fn settled(&self) -> bool {
        self.plan.iter().zip(&self.quotas).all(|(partitions, &quota)| partitions.len() == quota as usize)
    }

    /// Gives the members of a class what they miss, out of the free partitions of its portions.
    fn give(&mut self, class: &Class<'_>, portions: &[Portion], alone: bool) {
        let mut takers = Vec::new();
        for &member in &class.members {
            let quota = self.quota(member);
            let Some(partitions) = self.plan.get_mut(member) else { continue };
            let missing = quota.saturating_sub(u32::try_from(partitions.len()).unwrap_or(u32::MAX));
            if missing > 0 {
                partitions.reserve_exact(missing as usize);
                takers.push(Taker { member, missing, quota });
            }
        }
        if takers.is_empty() {
            return;
        }
        let mut kept = vec![0; portions.len()];
        // A class that is alone gets all that is free.
        for &member in class.members.iter().filter(|_| !alone) {
            count(self.plan.get(member).map_or(&[], Vec::as_slice), portions, &mut kept);
        }
        let mut free = Vec::new();
        for (portion, kept) in portions.iter().zip(kept) {
            self.taken.take(portion.numbers.clone(), portion.count.saturating_sub(kept), &mut free);
        }
        fill(portions, &free, &mut takers, &mut self.plan);
    }
}

/// Counts how many of the numbers, ascending, are of each portion.
fn count(numbers: &[u32], portions: &[Portion], counts: &mut [u32]) {
    let mut numbers = numbers.iter().peekable();
    for (portion, count) in portions.iter().zip(counts) {
        while numbers.next_if(|&&number| number < portion.numbers.end).is_some() {
            *count += 1;
        }
    }
}

/// Takes out at most `most` of a member's partitions: of each topic, given by the end of its numbers, as many as are too many.
fn give_up<'a>(kept: &mut Vec<u32>, most: usize, too_many: impl Iterator<Item = (u32, &'a mut u32)>) {
    let mut topics = too_many.peekable();
    let mut left = most;
    kept.retain(|&number| {
        while topics.next_if(|(end, _)| *end <= number).is_some() {}
        match topics.peek_mut() {
            Some((_, surplus)) if **surplus > 0 && left > 0 => {
                **surplus -= 1;
                left -= 1;
                false
            }
            _ => true,
        }
    });
}
