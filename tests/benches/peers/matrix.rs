//! Which cells there are: about sixty of Kafka's shapes or all of them, franz-go's sizes, and growth.

use crate::cell::{COOPERATIVE, Cause, Cell, Family, RANGE, STICKY, Subscriptions};
use crate::side::{Side, Span};

const MEMBERS: [usize; 5] = [100, 500, 1_000, 5_000, 10_000];
const PARTITIONS_PER_MEMBER: [usize; 3] = [5, 10, 50];
const TOPICS: [usize; 3] = [10, 100, 1_000];

/// Sizes that stand for all: each count of members, partitions per member and topics occurs.
const REPRESENTATIVE: [(usize, usize, usize); 5] =
    [(100, 5, 10), (500, 50, 100), (1_000, 10, 1_000), (5_000, 10, 10), (10_000, 10, 100)];
/// The size at which the shapes are run as written, too.
const AS_WRITTEN: (usize, usize, usize) = (1_000, 10, 1_000);
/// Sizes for a run of a few minutes.
const QUICK: [(usize, usize, usize); 2] = [(100, 5, 10), (1_000, 10, 100)];

/// franz-go's sizes: topics, partitions of each, members. The first one ends the growth, too.
const FRANZ_GO: [(usize, usize, usize); 3] = [(500, 2_000, 2_000), (50, 1_000, 1_000), (50, 800, 800)];
/// Topics, partitions of each and members from a thousand partitions to a million.
const GROWTH: [(usize, usize, usize); 4] =
    [(20, 50, 60), (50, 200, 200), (160, 625, 640), (500, 2_000, 2_000)];

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A few small cells.
    Quick,
    /// Representative cells.
    Default,
    /// Every cell of Kafka's benchmark.
    Full,
}

/// The cells in the order in which they are run.
pub(crate) fn cells(extent: Extent) -> Vec<Cell> {
    let mut cells = kafka(extent);
    cells.extend(franz_go(extent));
    cells.extend(growth(extent));
    // A topic without partitions is no topic: the shape is empty.
    cells.retain(|cell| cell.partitions > 0);
    cells
}

fn kafka(extent: Extent) -> Vec<Cell> {
    let sizes: Vec<(usize, usize, usize)> = match extent {
        Extent::Quick => QUICK.to_vec(),
        Extent::Default => REPRESENTATIVE.to_vec(),
        Extent::Full => {
            let members = MEMBERS.into_iter();
            let ratios = members.flat_map(|m| PARTITIONS_PER_MEMBER.map(|r| (m, r)));
            ratios.flat_map(|(m, r)| TOPICS.map(|t| (m, r, t))).collect()
        }
    };
    let mut cells = Vec::new();
    for family in [Family::Kafka, Family::KafkaAsWritten] {
        for strategy in [COOPERATIVE, RANGE] {
            for subscriptions in [Subscriptions::Equal, Subscriptions::Buckets] {
                for (racks, cause) in
                    [false, true].into_iter().flat_map(|r| [Cause::First, Cause::OneJoins].map(|c| (r, c)))
                {
                    let joins = cause == Cause::OneJoins;
                    let sizes = match (family, extent) {
                        // As meant already.
                        (Family::KafkaAsWritten, _) if !racks && !joins => &[][..],
                        (_, Extent::Full) => &sizes,
                        // range takes no notice of what members own.
                        _ if strategy == RANGE && joins => &[],
                        (Family::Kafka, _) => &sizes,
                        // Both do nothing: one at a time is enough.
                        (_, Extent::Default) if racks != joins => &[AS_WRITTEN],
                        _ => &[],
                    };
                    cells.extend(sizes.iter().map(|&(members, ratio, topics)| Cell {
                        family,
                        strategy: strategy.into(),
                        members,
                        topics,
                        partitions: members * ratio / topics,
                        subscriptions,
                        racks,
                        cause,
                        sides: vec![Side::Assignor, Side::Java],
                        spans: vec![Span::Plan, Span::Wire],
                    }));
                }
            }
        }
    }
    cells
}

fn franz_go(extent: Extent) -> Vec<Cell> {
    let sizes = if extent == Extent::Quick { FRANZ_GO.get(2..) } else { Some(&FRANZ_GO[..]) };
    let kinds = [
        (STICKY, Subscriptions::Equal, Cause::First),
        (STICKY, Subscriptions::OneOdd, Cause::First),
        (COOPERATIVE, Subscriptions::Equal, Cause::OneJoins),
        (COOPERATIVE, Subscriptions::OneOdd, Cause::OneJoins),
        (COOPERATIVE, Subscriptions::Equal, Cause::MostLeave),
    ];
    let sizes = sizes.unwrap_or_default().iter();
    sizes
        .flat_map(|&size| kinds.map(|kind| (size, kind)))
        .map(|((topics, partitions, members), (strategy, subscriptions, cause))| Cell {
            family: Family::FranzGo,
            strategy: strategy.into(),
            members,
            topics,
            partitions,
            subscriptions,
            racks: false,
            cause,
            sides: vec![Side::Assignor, Side::FranzGo],
            spans: vec![Span::Plan, Span::Wire],
        })
        .collect()
}

fn growth(extent: Extent) -> Vec<Cell> {
    let sizes = if extent == Extent::Quick { GROWTH.get(..2) } else { Some(&GROWTH[..]) };
    let all = [Side::Assignor, Side::Java, Side::FranzGo];
    let kinds = [
        (STICKY, Cause::First, &all[..]),
        (COOPERATIVE, Cause::OneJoins, &all),
        (RANGE, Cause::First, &[Side::Assignor, Side::Java]),
    ];
    let sizes = sizes.unwrap_or_default().iter();
    sizes
        .flat_map(|&size| kinds.map(|kind| (size, kind)))
        .map(|((topics, partitions, members), (strategy, cause, sides))| Cell {
            family: Family::Growth,
            strategy: strategy.into(),
            members,
            topics,
            partitions,
            subscriptions: Subscriptions::Equal,
            racks: false,
            cause,
            sides: sides.to_vec(),
            spans: vec![Span::Plan],
        })
        .collect()
}
