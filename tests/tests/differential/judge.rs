//! Our plan of a group beside Kafka's.

use std::fmt;

use assignor_host::described::DescribedGroup;
use assignor_host::{Completeness, Group, Plan, Violation, assert_safe, check, withhold};
use fastrand::Rng;

use super::claims::{Ownership, Told, told_plainly};
use super::oracle::{Answer, NO_END, Named, Oracle};
use super::quality::{Parts, Quality, Racks, kept, most_kept};
use super::rename::Renamed;
use super::rounds::{self, Rest};
use super::{Strategy, numbered};

/// Under how many other names Kafka's plan must be the same before it counts as no accident of hash order.
const RENAMINGS: usize = 16;

/// One rebalance that takes away, one that gives, and one in reserve.
pub(crate) const MOST_ROUNDS: usize = 3;

/// What Kafka makes of a group.
pub(crate) struct Kafkas {
    /// What it sends to the members.
    pub(crate) sent: Answer,
    /// What that is to lead to: the same, but for cooperative-sticky, which withholds what must be given up first.
    pub(crate) target: Answer,
}

/// How ours compares.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The same partitions for each member.
    Equal,
    /// Another plan where Kafka's is one of several, as the order of its hash maps has it.
    Other {
        /// Of Kafka's plans, for several orders.
        theirs: Vec<Quality>,
        /// Of ours.
        ours: Quality,
        /// All members subscribe alike and no racks count: ours may never be worse.
        strict: bool,
    },
    /// Kafka's is wrong.
    Departure(Departure),
    /// [`Departure::Restless`], which is a matter of quality.
    Restless { theirs: Quality, ours: Quality },
}

impl Verdict {
    pub(crate) fn departure(&self) -> Option<Departure> {
        match self {
            Self::Departure(departure) => Some(*departure),
            Self::Restless { .. } => Some(Departure::Restless),
            Self::Equal | Self::Other { .. } => None,
        }
    }
}

/// In what Kafka is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Departure {
    /// It throws: claims on partitions that don't exist leave too little room for those that do.
    NoRoom,
    /// It has no end: as it evens out members that subscribe unequally, it moves a partition back that it has moved before, from a
    /// third member, and then has to move another one to that, and so on.
    NoEnd,
    /// It throws: it would move a partition back to a member that no longer wants its topic, and has set that member aside.
    BackToNobody,
    /// It gives out partitions that don't exist, because members claim them, and may then give others out twice.
    Ghosts,
    /// A claim on a partition that doesn't exist counts against its member's quota.
    GhostsCount,
    /// Where the members that it meets first want nothing, it takes all members for subscribed to what the others want.
    EmptySubscription,
    /// It moves a partition back to where it was, to a member that doesn't want its topic any more.
    BackToUnsubscribed,
    /// Two owners: what a member claims at an old generation isn't withheld from it while the true owner has it.
    Unsafe,
    /// Which of several claims stands hangs on order.
    AmbiguousClaims,
    /// It takes user data of other clients for its own.
    MisreadGeneration,
    /// It takes from their owners, in each rebalance, partitions that are in none of their racks, and betters nothing by it: the
    /// group may never come to rest.
    Restless,
}

impl Departure {
    /// Whether it is in what Kafka reads of what members tell, not in what it makes of that.
    fn is_misreading(self) -> bool {
        use Departure::*;
        matches!(
            self,
            NoRoom | Ghosts | GhostsCount | EmptySubscription | AmbiguousClaims | MisreadGeneration
        )
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "throws, having kept partitions that don't exist",
            Self::NoEnd => "has no end",
            Self::BackToNobody => {
                "throws, on its way to give a partition back to a member that doesn't want it any more"
            }
            Self::Ghosts => "gives out partitions that don't exist",
            Self::GhostsCount => "counts claims on partitions that don't exist",
            Self::EmptySubscription => "overlooks that a member wants nothing",
            Self::BackToUnsubscribed => "gives a partition back to a member that doesn't want it any more",
            Self::Unsafe => "makes two owners of a partition",
            Self::AmbiguousClaims => "reads double claims in the order of its hash map",
            Self::MisreadGeneration => "reads other clients' user data as its own",
            Self::Restless => "takes what is in no rack of its owner from it, and betters nothing",
        })
    }
}

/// What is to be said of a group.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// How cooperative rebalances go on, where Kafka's need not come to rest.
    pub(crate) rounds: Option<Rounds>,
    /// All members subscribe alike.
    pub(crate) uniform: bool,
    /// Racks count.
    pub(crate) racked: bool,
}

/// How a group comes to rest by Kafka's plans, and by ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    /// `None` if Kafka throws in one of them.
    pub(crate) theirs: Option<Rest>,
    pub(crate) ours: Rest,
}

/// What must not be.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The same for the same fault in another group.
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn new(kind: &'static str, detail: impl fmt::Display) -> Self {
        Self { kind, detail: detail.to_string() }
    }
}

/// A group and what follows from it.
struct Case<'a> {
    strategy: Strategy,
    described: &'a DescribedGroup,
    group: Group,
    ownership: Ownership,
    racks: Option<Racks>,
    /// All members subscribe alike, and no racks count: ours may never be worse than Kafka's.
    strict: bool,
}

impl<'a> Case<'a> {
    fn of(strategy: Strategy, described: &'a DescribedGroup) -> Self {
        let group = numbered(described);
        let ownership = Ownership::of(described, &group, strategy);
        let racks = Racks::that_count(described, &group);
        let strict = strategy.is_sticky() && racks.is_none() && group.same_subscription();
        Self { strategy, described, group, ownership, racks, strict }
    }

    /// Whether some partition is in no rack of its owner.
    fn owned_elsewhere(&self) -> bool {
        let Some(racks) = &self.racks else { return false };
        let owners =
            (0..).zip(&self.ownership.owner).filter_map(|(partition, &owner)| Some((partition, owner?)));
        let rack = |owner: u32| self.group.members()[owner as usize].rack.as_deref();
        owners.into_iter().any(|(partition, owner)| racks.mismatch(rack(owner), partition))
    }

    fn quality(&self, parts: &Parts) -> Quality {
        Quality::of(&self.group, self.racks.as_ref(), &self.ownership, parts)
    }
}

/// Compares, and first holds ours against what any plan must be.
pub(crate) fn judge(
    strategy: Strategy,
    described: &DescribedGroup,
    kafkas: Kafkas,
    oracle: &mut Oracle,
    rng: &mut Rng,
) -> Result<Judgement, Fault> {
    let case = Case::of(strategy, described);
    let group = &case.group;
    let (target, sent) = ours(strategy, group)?;
    if case.strict {
        let (kept, most) = (kept(&case.ownership, &target), most_kept(group, &case.ownership));
        if kept != most {
            return Err(Fault::new("ours keeps less than it could", format!("{kept} instead of {most}")));
        }
    }
    let cooperative = strategy == Strategy::CooperativeSticky;
    let rounds = if cooperative { rounds(&case, &target, oracle)? } else { None };
    let mut verdict = compare(&case, kafkas, (target.clone(), sent), oracle, rng)?;
    if let Verdict::Departure(departure) = verdict
        && (departure.is_misreading() || departure == Departure::BackToUnsubscribed)
    {
        verdict = without_misreading(&case, departure, &target, oracle, rng)?;
    }
    let racked = case.racks.is_some();
    Ok(Judgement { verdict, rounds, uniform: group.same_subscription(), racked })
}

/// Where Kafka misreads what members claim: told plainly, the same group has the same plan of ours, and that one is as good as
/// Kafka's. The plan may be another one where the plain telling leaves out claims on topics that members don't want any more.
fn without_misreading(
    case: &Case<'_>,
    departure: Departure,
    target: &Parts,
    oracle: &mut Oracle,
    rng: &mut Rng,
) -> Result<Verdict, Fault> {
    let unwanted = departure == Departure::BackToUnsubscribed;
    let plain = told_plainly(case.described, case.strategy, unwanted);
    let plain = Case::of(case.strategy, &plain);
    let (plain_target, sent) = ours(case.strategy, &plain.group)?;
    if plain_target != *target && !unwanted {
        let group = &case.group;
        let detail = format!("{}\n  told plainly: {}", show(group, target), show(group, &plain_target));
        return Err(Fault::new("ours misreads a claim", detail));
    }
    let answer = |name| oracle.ask_one(name, plain.described);
    let [sent_by_kafka, target_of_kafka] = [case.strategy.name(), case.strategy.target_name()].map(answer);
    let kafkas = Kafkas { sent: sent_by_kafka, target: target_of_kafka };
    compare(&plain, kafkas, (plain_target, sent), oracle, rng)?;
    Ok(Verdict::Departure(departure))
}

/// Ours beside Kafka's, of both the target and what is sent.
fn compare(
    case: &Case<'_>,
    kafkas: Kafkas,
    (target, sent): (Parts, Parts),
    oracle: &mut Oracle,
    rng: &mut Rng,
) -> Result<Verdict, Fault> {
    let (strategy, group) = (case.strategy, &case.group);
    let cooperative = strategy == Strategy::CooperativeSticky;

    let their_target = match read(case, kafkas.target, Completeness::Full)? {
        Ok(parts) => parts,
        Err(departure) => return Ok(Verdict::Departure(departure)),
    };
    let completeness = if cooperative { Completeness::Partial } else { Completeness::Full };
    let their_sent = match read(case, kafkas.sent, completeness)? {
        Ok(parts) => parts,
        Err(departure) => return Ok(Verdict::Departure(departure)),
    };
    let is_unsafe = cooperative && assert_safe(group, &Plan::of(their_sent.clone())).is_err();
    if target == their_target && is_unsafe {
        return Ok(Verdict::Departure(Departure::Unsafe));
    }
    if target == their_target && sent == their_sent {
        return Ok(Verdict::Equal);
    }
    if let Some(departure) = excused(case) {
        return Ok(Verdict::Departure(departure));
    }
    if target == their_target {
        let detail = format!("Kafka sends {}\n  we send {}", show(group, &their_sent), show(group, &sent));
        return Err(Fault::new("ours withholds other partitions", detail));
    }
    let (theirs, ours) = (case.quality(&their_target), case.quality(&target));
    let detail = || {
        let (their_parts, our_parts) = (show(group, &their_target), show(group, &target));
        format!("Kafka: {theirs:?} {their_parts}\n  ours:  {ours:?} {our_parts}")
    };
    // What is claimed twice counts for the owner, too.
    let lost = |parts: &Parts| group.partitions() as usize - kept(&case.ownership, parts);
    if case.owned_elsewhere() && (ours, lost(&target)) < (theirs, lost(&their_target)) {
        return Ok(Verdict::Restless { theirs, ours });
    }
    // That as few as can be move has been seen to; Kafka may keep other partitions, some of them claimed twice and so not counted.
    if case.strict && (ours.imbalance, ours.mismatches) > (theirs.imbalance, theirs.mismatches) {
        return Err(Fault::new("ours is worse", detail()));
    }
    let others = under_other_names(case, oracle, rng);
    if !strategy.is_sticky() || others.iter().all(|plan| *plan == their_target) {
        return Err(Fault::new("Kafka's plan is no accident of order, and ours is another", detail()));
    }
    let theirs = others.iter().map(|plan| case.quality(plan)).collect();
    Ok(Verdict::Other { theirs, ours, strict: case.strict })
}

/// How cooperative rebalances go on: ours come to rest soon, at what was aimed at. If members subscribe unequally or racks count they
/// may come to rest elsewhere, since what the algorithm finds hangs on where it starts; if racks count, it may find something better from there once
/// more, and rest comes later.
fn rounds(case: &Case<'_>, target: &Parts, oracle: &mut Oracle) -> Result<Option<Rounds>, Fault> {
    let aim = case.quality(target);
    let quality = |parts: &Parts| case.quality(parts);
    let ours = rounds::play(case.described, &quality, |_, group| Ok(ours(case.strategy, group)?.1))?;
    if case.strict {
        let right = ours.rounds <= MOST_ROUNDS && ours.end <= aim;
        let detail = || format!("{ours:?}, aiming at {aim:?}");
        return if right { Ok(None) } else { Err(Fault::new("the rounds end badly", detail())) };
    }
    let most = if case.racks.is_some() { rounds::PATIENCE - 1 } else { MOST_ROUNDS };
    if ours.rounds > most {
        return Err(Fault::new("the rounds go on", format!("{ours:?}")));
    }
    let kafkas = rounds::play(case.described, &quality, |described, group| {
        match oracle.ask_one(case.strategy.name(), described) {
            Ok(named) => Ok(in_numbers(group, &named).0),
            Err(thrown) => Err(Fault::new("Kafka throws in a later round", thrown)),
        }
    });
    Ok(Some(Rounds { theirs: kafkas.ok(), ours }))
}

/// Our plan, and what we would send of it; valid, complete and safe.
fn ours(strategy: Strategy, group: &Group) -> Result<(Parts, Parts), Fault> {
    let mut plan = strategy.plan(group);
    check(group, &plan, Completeness::Full).map_err(|e| Fault::new("ours is no valid plan", e))?;
    let target = parts(&plan);
    if strategy == Strategy::CooperativeSticky {
        withhold(group, &mut plan);
        assert_safe(group, &plan).map_err(|e| Fault::new("ours is not safe", e))?;
    }
    Ok((target, parts(&plan)))
}

/// A plan's partitions, ascending.
pub(crate) fn parts(plan: &Plan) -> Parts {
    let sorted = |mut partitions: Vec<u32>| {
        partitions.sort_unstable();
        partitions
    };
    plan.assignments.iter().map(|assignment| sorted(assignment.partitions.clone())).collect()
}

/// Kafka's plan in numbers; or what is wrong with it, which is a fault if nothing in the group explains it.
fn read(
    case: &Case<'_>,
    answer: Answer,
    completeness: Completeness,
) -> Result<Result<Parts, Departure>, Fault> {
    let broken = |what: &dyn fmt::Display| Err(Fault::new("Kafka's plan is broken, unexpectedly", what));
    let named = match answer {
        Ok(named) => named,
        Err(thrown) => return threw(case, &thrown).map(Err),
    };
    let (parts, ghosts) = in_numbers(&case.group, &named);
    if named.len() != parts.len() {
        return broken(&"not all members are in it");
    }
    if ghosts {
        return if case.ownership.ghosts {
            Ok(Err(Departure::Ghosts))
        } else {
            broken(&"a ghost from nowhere")
        };
    }
    match check(&case.group, &Plan::of(parts.clone()), completeness) {
        Ok(()) => Ok(Ok(parts)),
        Err(Violation::Unsubscribed { member, topic, .. }) => {
            let asked = case.described.members.iter().find(|m| m.id == member).unwrap();
            let had = Told::by(asked, case.strategy).owned.iter().any(|(owned, _)| *owned == topic);
            match asked.topics.is_empty() {
                true => Ok(Err(Departure::EmptySubscription)),
                false if had => Ok(Err(Departure::BackToUnsubscribed)),
                false => broken(&"a member gets what it neither wants nor had"),
            }
        }
        Err(_) if case.ownership.ghosts => Ok(Err(Departure::Ghosts)),
        Err(violation) => broken(&violation),
    }
}

/// A plan in numbers, and whether there are partitions in it that don't exist.
fn in_numbers(group: &Group, named: &Named) -> (Parts, bool) {
    let mut parts = vec![Vec::new(); group.members().len()];
    let mut ghosts = false;
    for (id, topics) in named {
        let index = group.members().iter().position(|m| m.id == *id).unwrap();
        for (topic, partitions) in topics {
            let topic = group.topics().iter().find(|t| t.name == *topic);
            for &partition in partitions {
                match (topic, u32::try_from(partition)) {
                    (Some(topic), Ok(partition)) if partition < topic.partitions => {
                        parts[index].push(topic.first + partition);
                    }
                    _ => ghosts = true,
                }
            }
        }
        parts[index].sort_unstable();
    }
    (parts, ghosts)
}

/// Whether some member claims partitions of a topic that it doesn't want.
fn claims_unwanted(case: &Case<'_>) -> bool {
    case.described.members.iter().any(|member| {
        Told::by(member, case.strategy).owned.iter().any(|(topic, _)| !member.topics.contains(topic))
    })
}

/// Why Kafka threw.
fn threw(case: &Case<'_>, thrown: &str) -> Result<Departure, Fault> {
    if thrown.contains("No more unfilled consumers to be assigned") && case.ownership.ghosts {
        Ok(Departure::NoRoom)
    } else if thrown == NO_END && !case.group.same_subscription() {
        Ok(Departure::NoEnd)
    } else if thrown.contains("NullPointerException") && claims_unwanted(case) {
        Ok(Departure::BackToNobody)
    } else {
        Err(Fault::new("Kafka throws", thrown))
    }
}

/// Whether the group holds what Kafka gets wrong without its plan showing it.
fn excused(case: &Case<'_>) -> Option<Departure> {
    if !case.strategy.is_sticky() {
        return None;
    }
    let wants_nothing = case.described.members.iter().any(|member| member.topics.is_empty());
    let excuses = [
        (case.ownership.ghosts, Departure::GhostsCount),
        (case.ownership.ambiguous_in_java, Departure::AmbiguousClaims),
        (case.ownership.misread_in_java, Departure::MisreadGeneration),
        (wants_nothing && !case.group.same_subscription(), Departure::EmptySubscription),
        (claims_unwanted(case) && !case.group.same_subscription(), Departure::BackToUnsubscribed),
    ];
    excuses.into_iter().find_map(|(excused, departure)| excused.then_some(departure))
}

/// Kafka's plans of the group under other names and in another order of members.
fn under_other_names(case: &Case<'_>, oracle: &mut Oracle, rng: &mut Rng) -> Vec<Parts> {
    let renamed: Vec<_> = (0..RENAMINGS).map(|_| Renamed::at_random(case.described, rng)).collect();
    let name = case.strategy.target_name();
    let questions: Vec<_> = renamed.iter().map(|renamed| (name, &renamed.group)).collect();
    let answers = oracle.ask(&questions);
    let plans = renamed.iter().zip(answers).filter_map(|(renamed, answer)| {
        let named = renamed.back(answer.ok()?);
        Some(in_numbers(&case.group, &named).0)
    });
    plans.collect()
}

/// A plan in words.
fn show(group: &Group, parts: &Parts) -> String {
    let one = |(member, partitions): (&assignor_host::Member, &Vec<u32>)| {
        let named = group.by_name(partitions);
        let named: Vec<_> = named.iter().map(|t| format!("{}{:?}", t.topic, t.partitions)).collect();
        format!("{:?}: {}", member.id, named.join(" "))
    };
    group.members().iter().zip(parts).map(one).collect::<Vec<_>>().join("; ")
}
