//! How much of each topic goes to each class of members that subscribe to the same topics.

use std::ops::Range;

use assignor_guest_sdk::Group;

use crate::apportion::apportion;

/// Members that subscribe to the same topics.
pub(crate) struct Class<'g> {
    /// The topics' numbers, ascending.
    pub(crate) topics: &'g [u32],
    /// The members' indexes, ascending.
    pub(crate) members: Vec<usize>,
    /// The sum of their weights.
    pub(crate) weight: f64,
}

/// What a class gets of a topic.
pub(crate) struct Portion {
    /// The numbers of the topic's partitions, of all classes.
    pub(crate) numbers: Range<u32>,
    /// How many of them are this class's.
    pub(crate) count: u32,
}

/// One topic's part of one class, while it is looked for.
struct Part {
    class: usize,
    /// Where the topic is in the class's list.
    place: usize,
    amount: f64,
}

/// The steps that levelling may take: some milliseconds.
const BUDGET: usize = 1 << 20;
/// Passes after which a plan is level enough.
const PASSES: usize = 64;

/// For each class what it gets of each of its topics, in the order of its topics.
///
/// Aims at equal partitions per weight: topic by topic, the classes with the lowest level are raised until the topic is used up;
/// repeated until no level changes, since one topic's split depends on those of the others. (Each pass lowers the sum of
/// load² / weight, a convex function, so this ends at the levellest split.) Then rounded to whole partitions, each class
/// carrying its rounding error on to the next topic.
pub(crate) fn level(group: &Group, classes: &[Class<'_>]) -> Vec<Vec<Portion>> {
    // To begin with, all of everything: right for a class that is alone.
    let whole = |class: &Class<'_>| {
        let topics = class.topics.iter().filter_map(|&number| group.topic_numbered(number));
        topics.map(|topic| Portion { numbers: topic.numbers(), count: topic.partition_count() }).collect()
    };
    let mut portions: Vec<Vec<Portion>> = classes.iter().map(whole).collect();
    if classes.len() > 1 {
        split(group, classes, &mut portions);
    }
    portions
}

fn split(group: &Group, classes: &[Class<'_>], portions: &mut [Vec<Portion>]) {
    let mut topics: Vec<(u32, Vec<Part>)> =
        group.topics().map(|topic| (topic.partition_count(), Vec::new())).collect();
    for (index, class) in classes.iter().enumerate() {
        for (place, &number) in class.topics.iter().enumerate() {
            if let Some((_, parts)) = topics.get_mut(number as usize) {
                parts.push(Part { class: index, place, amount: 0.0 });
            }
        }
    }
    let weight = |class: usize| classes.get(class).map_or(0.0, |class| class.weight);
    let mut loads = vec![0.0; classes.len()];
    for (count, parts) in &mut topics {
        let sum: f64 = parts.iter().map(|part| weight(part.class)).sum();
        for part in parts {
            part.amount = f64::from(*count) * weight(part.class) / sum;
            add(&mut loads, part.class, part.amount);
        }
    }
    let steps: usize = topics.iter().map(|(_, parts)| parts.len()).sum();
    for _ in 0..(BUDGET / steps.max(1)).clamp(1, PASSES) {
        let mut moved = 0.0;
        for (count, parts) in &mut topics {
            moved += raise(f64::from(*count), parts, &mut loads, weight);
        }
        if moved < 1e-3 {
            break;
        }
    }
    let mut carried = vec![0.0; classes.len()];
    for (count, parts) in &topics {
        let wanted: Vec<f64> = parts
            .iter()
            .map(|part| (part.amount + carried.get(part.class).copied().unwrap_or(0.0)).max(0.0))
            .collect();
        for (part, share) in parts.iter().zip(apportion(*count, &wanted, |_, _| false)) {
            add(&mut carried, part.class, part.amount - f64::from(share));
            if let Some(portion) = portions.get_mut(part.class).and_then(|of| of.get_mut(part.place)) {
                portion.count = share;
            }
        }
    }
}

/// Splits one topic anew, given what the classes have of all others; returns how much that moved.
fn raise(count: f64, parts: &mut [Part], loads: &mut [f64], weight: impl Fn(usize) -> f64) -> f64 {
    let mut lowest_first: Vec<(f64, f64)> = Vec::with_capacity(parts.len());
    for part in parts.iter() {
        add(loads, part.class, -part.amount);
    }
    let level = |class: usize, loads: &[f64]| loads.get(class).copied().unwrap_or(0.0) / weight(class);
    lowest_first.extend(parts.iter().map(|part| (level(part.class, loads), weight(part.class))));
    lowest_first.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // The water level at which those below it hold exactly this topic.
    let (mut weights, mut held, mut water) = (0.0, 0.0, 0.0);
    for (level, weight) in lowest_first {
        if weights > 0.0 && level >= water {
            break;
        }
        weights += weight;
        held += level * weight;
        water = (count + held) / weights;
    }
    let mut moved = 0.0;
    for part in parts {
        let amount = ((water - level(part.class, loads)) * weight(part.class)).max(0.0);
        moved += (amount - part.amount).abs();
        part.amount = amount;
        add(loads, part.class, amount);
    }
    moved
}

fn add(values: &mut [f64], index: usize, amount: f64) {
    if let Some(value) = values.get_mut(index) {
        *value += amount;
    }
}
