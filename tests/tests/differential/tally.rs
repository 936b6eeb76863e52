//! What came of all groups.

use std::collections::BTreeMap;
use std::fmt;

use assignor_host::described::DescribedGroup;

use super::Strategy;
use super::judge::{Departure, Fault, Judgement, MOST_ROUNDS, Rounds, Verdict};
use super::quality::Quality;
use super::shrink::json;

/// Qualities of plans, Kafka's and ours, in sum: of racks only where balance is the same, of moves only where racks are, too.
#[derive(Default)]
struct Sums {
    theirs: Quality,
    ours: Quality,
}

impl Sums {
    fn add(&mut self, theirs: Quality, ours: Quality) {
        for (sum, one) in [(&mut self.theirs, theirs), (&mut self.ours, ours)] {
            sum.imbalance += one.imbalance;
            if theirs.imbalance == ours.imbalance {
                sum.mismatches += one.mismatches;
                if theirs.mismatches == ours.mismatches {
                    sum.moves += one.moves;
                }
            }
        }
    }

    /// In what ours are worse than what is allowed for Kafka's.
    fn worse(&self, allowed: impl Fn(u64) -> u64) -> String {
        let Self { theirs, ours } = self;
        let worse = [
            ("imbalance", theirs.imbalance, ours.imbalance),
            ("mismatches", theirs.mismatches, ours.mismatches),
            ("moves", theirs.moves, ours.moves),
        ];
        let worse = worse.into_iter().filter(|(_, theirs, ours)| *ours > allowed(*theirs));
        worse.map(|(what, theirs, ours)| format!("{what} {ours}, Kafka's {theirs}\n")).collect()
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kafka's {:?}, ours {:?}", self.theirs, self.ours)
    }
}

/// Where groups come to rest hangs on hash order several times over: a few of ten thousand end better by Kafka's plans, a few
/// by ours.
fn about(theirs: u64) -> u64 {
    theirs + theirs / 200
}

/// Groups of one kind.
#[derive(Default)]
struct Examples {
    count: usize,
    smallest: Option<DescribedGroup>,
}

impl Examples {
    fn add(&mut self, group: &DescribedGroup) {
        self.count += 1;
        let size = |group: &DescribedGroup| json(group).len();
        if self.smallest.as_ref().is_none_or(|smallest| size(group) < size(smallest)) {
            self.smallest = Some(group.clone());
        }
    }
}

pub(crate) struct Tally {
    strategy: Strategy,
    seed: u64,
    groups: usize,
    uniform: usize,
    racked: usize,
    equal: usize,
    other: usize,
    better: usize,
    worse: Vec<String>,
    /// Of the plans that differ, by hash order or since Kafka doesn't leave partitions at rest, where ours may be worse in some.
    sums: Sums,
    departures: BTreeMap<Departure, Examples>,
    /// Groups whose cooperative rebalances take more than is usual to come to rest, since racks count and something better was found on the way.
    late: usize,
    /// Groups whose cooperative rebalances by Kafka's plans don't come to rest soon.
    restless: usize,
    /// Groups in whose cooperative rebalances Kafka throws after the first.
    thrown_later: usize,
    /// Where both come to rest, at what they do.
    ends: Sums,
    /// How many, and what is shown of the first.
    faults: BTreeMap<&'static str, (usize, String)>,
}

impl Tally {
    pub(crate) fn new(strategy: Strategy, seed: u64) -> Self {
        Self {
            strategy,
            seed,
            groups: 0,
            uniform: 0,
            racked: 0,
            equal: 0,
            other: 0,
            better: 0,
            worse: Vec::new(),
            sums: Sums::default(),
            departures: BTreeMap::new(),
            late: 0,
            restless: 0,
            thrown_later: 0,
            ends: Sums::default(),
            faults: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, judgement: Judgement, number: u64, group: &DescribedGroup) {
        self.groups += 1;
        self.uniform += usize::from(judgement.uniform);
        self.racked += usize::from(judgement.racked);
        self.late += usize::from(judgement.rounds.is_some_and(|rounds| rounds.ours.rounds > MOST_ROUNDS));
        match judgement.rounds {
            Some(Rounds { theirs: Some(theirs), .. }) if theirs.rounds > MOST_ROUNDS => self.restless += 1,
            Some(Rounds { theirs: Some(theirs), ours }) => self.ends.add(theirs.end, ours.end),
            Some(Rounds { theirs: None, .. }) => self.thrown_later += 1,
            None => {}
        }
        match judgement.verdict {
            Verdict::Equal => self.equal += 1,
            Verdict::Other { theirs, ours, strict } => {
                self.other += 1;
                let (better, worse) =
                    (theirs.iter().all(|&theirs| ours < theirs), theirs.iter().all(|&theirs| ours > theirs));
                self.better += usize::from(better);
                if worse {
                    self.worse.push(format!("group {number}: {ours:?}, Kafka's {:?}", theirs.iter().max()));
                }
                if !strict {
                    theirs.iter().for_each(|&theirs| self.sums.add(theirs, ours));
                }
            }
            Verdict::Restless { theirs, ours } => {
                self.sums.add(theirs, ours);
                self.departures.entry(Departure::Restless).or_default().add(group);
            }
            Verdict::Departure(departure) => self.departures.entry(departure).or_default().add(group),
        }
    }

    /// Whether none of its kind was shown yet.
    pub(crate) fn is_new(&self, fault: &Fault) -> bool {
        !self.faults.contains_key(fault.kind)
    }

    pub(crate) fn fault(&mut self, fault: Fault, number: u64, small: Option<(DescribedGroup, Fault)>) {
        self.groups += 1;
        let (count, shown) = self.faults.entry(fault.kind).or_default();
        *count += 1;
        if let Some((group, fault)) = small {
            *shown = format!("  group {number}, made smaller: {}\n  {}", json(&group), fault.detail);
        }
    }

    /// Tells, and fails if anything is wrong. `smaller` makes a group smaller as long as the judgement of it is alike.
    pub(crate) fn end(
        self,
        mut smaller: impl FnMut(DescribedGroup, &dyn Fn(&Judgement) -> bool) -> DescribedGroup,
    ) {
        let Self { seed, groups, uniform, racked, equal, other, better, worse, .. } = self;
        let Self { sums, departures, late, restless, thrown_later, ends, faults, .. } = self;
        let name = self.strategy.name();
        println!(
            "\n{name}: {groups} groups of seed {seed}; {uniform} subscribe alike, racks count in {racked}"
        );
        println!("  {equal} equal to Kafka's");
        if self.strategy.is_sticky() {
            let worse_count = worse.len();
            println!(
                "  {other} other than Kafka's, which hang on hash order: {better} better, {worse_count} worse"
            );
            worse.iter().for_each(|worse| println!("    {worse}"));
            println!(
                "    in sum, members subscribing unequally or racks counting, with those that Kafka doesn't leave at rest: {sums}"
            );
        }
        for (departure, Examples { count, smallest }) in departures {
            let alike = |j: &Judgement| j.verdict.departure() == Some(departure);
            // To try smaller groups would take for ever, each.
            let mut smaller =
                |group| if departure == Departure::NoEnd { group } else { smaller(group, &alike) };
            let smallest = smallest.map(|group| json(&smaller(group))).unwrap_or_default();
            println!("  {count} where Kafka {departure}: {smallest}");
        }
        if self.strategy == Strategy::CooperativeSticky {
            println!(
                "  at rest after {MOST_ROUNDS} rebalances, but for {late} where racks count; by Kafka's plans {restless} are not, and in {thrown_later} it throws on the way"
            );
            println!("    what both come to rest at, in sum: {ends}");
        }

        let mut failed = String::new();
        for (kind, (count, shown)) in &faults {
            failed.push_str(&format!("{name}, {count} times: {kind}\n{shown}\n"));
        }
        // Kafka's are summed over several orders, ours are one, and not among them where it is Kafka's first.
        failed.push_str(&sums.worse(|theirs| theirs));
        failed.push_str(&ends.worse(about));
        assert!(failed.is_empty(), "{name}, seed {seed}:\n{failed}");
    }
}
