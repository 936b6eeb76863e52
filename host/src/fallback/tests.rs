use super::*;
use crate::plan::Violation;
use crate::test_support::{group, member};

/// Answers each call with the next of the given outcomes.
struct Scripted(std::collections::VecDeque<Result<Plan, CallError>>);

impl Assignor for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn protocols(&self) -> &[Protocol] {
        &[Protocol::Eager]
    }
    fn subscription(&mut self, _: &Context, _: &[String]) -> Result<Interest, CallError> {
        Err(CallError::Trap("boom".into()))
    }
    fn assign(&mut self, _: &Context, _: &Group) -> Result<Plan, CallError> {
        self.0.pop_front().unwrap()
    }
}

fn trap() -> Result<Plan, CallError> {
    Err(CallError::Trap("boom".into()))
}

struct Setup {
    strategy: Strategy,
    events: Arc<Mutex<Vec<Event>>>,
}

fn strategy(fallback: Fallback, outcomes: Vec<Result<Plan, CallError>>) -> Setup {
    strategy_under(&[Protocol::Eager], fallback, outcomes)
}

fn strategy_under(
    protocols: &[Protocol],
    fallback: Fallback,
    outcomes: Vec<Result<Plan, CallError>>,
) -> Setup {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let policy = FallbackPolicy { fallback, ..FallbackPolicy::default() };
    let strategy = Strategy::new(
        "scripted".into(),
        protocols.to_vec(),
        Source::Native(Box::new(Scripted(outcomes.into()))),
        policy,
        Arc::new(move |event: &Event| sink.lock().unwrap().push(event.clone())),
    );
    Setup { strategy, events }
}

fn three() -> Group {
    let members = ["a", "b", "c"].map(|id| member(id, &["t"], None, &[]));
    group(&[("t", 6)], members.to_vec())
}

fn at(now_ms: u64) -> Context {
    Context { now_ms, ..Context::default() }
}

fn partitions(decision: &Decision) -> Vec<Vec<u32>> {
    decision.plan.assignments.iter().map(|a| a.partitions.clone()).collect()
}

fn cause(decision: &Decision) -> &'static str {
    decision.cause.as_ref().map_or("none", Cause::code)
}

/// A weighted plan, as range would never make it.
fn weighted() -> Vec<Vec<u32>> {
    vec![vec![0], vec![1, 2], vec![3, 4, 5]]
}

#[test]
fn a_hiccup_moves_nothing_even_under_eager_where_nobody_reports_what_they_own() {
    let setup = strategy(Fallback::Keep, vec![Ok(Plan::of(weighted())), trap()]);
    let good = setup.strategy.decide(&at(0), &three());
    assert_eq!((good.outcome, cause(&good)), (Outcome::Native, "none"));
    let bad = setup.strategy.decide(&at(1), &three());
    assert_eq!((bad.outcome, bad.decided_by.as_str(), cause(&bad)), (Outcome::Fallback, "keep", "trap"));
    assert_eq!(partitions(&bad), weighted());
    let events = setup.events.lock().unwrap();
    assert!(matches!(&events[..], [Event::Fallback { used: "keep", in_a_row: 1, .. }]), "{events:?}");
}

#[test]
fn a_broken_plan_is_a_failure_with_the_violation_as_its_cause() {
    let broken = Plan::of(vec![vec![0], vec![1, 2], vec![3, 4]]);
    let setup = strategy(Fallback::Range, vec![Ok(broken)]);
    let decision = setup.strategy.decide(&at(0), &three());
    assert_eq!(cause(&decision), "plan-incomplete");
    assert_eq!(partitions(&decision), [vec![0, 1], vec![2, 3], vec![4, 5]]);
    assert!(matches!(decision.cause, Some(Cause::Plan(Violation::Incomplete { missing: 1, .. }))));
}

#[test]
fn after_three_failures_in_a_row_range_evens_out_and_the_strategy_is_benched() {
    let outcomes = vec![Ok(Plan::of(weighted())), trap(), trap(), trap(), Ok(Plan::of(weighted()))];
    let setup = strategy(Fallback::Keep, outcomes);
    let used: Vec<_> = (0..5).map(|_| setup.strategy.decide(&at(0), &three())).collect();
    let by: Vec<_> = used.iter().map(|d| d.decided_by.as_str()).collect();
    assert_eq!(by, ["scripted", "keep", "keep", "range", "range"]);
    assert_eq!(cause(&used[4]), "benched");
    // After the pause it is asked again, and works.
    let again = setup.strategy.decide(&at(31_000), &three());
    assert_eq!((again.outcome, partitions(&again)), (Outcome::Native, weighted()));
    assert!(setup.events.lock().unwrap().iter().any(|e| matches!(e, Event::Benched { failures: 3, .. })));
}

#[test]
fn declining_and_being_cancelled_never_bench() {
    let decline = || Err(CallError::Declined("not today".into()));
    let setup =
        strategy(Fallback::Keep, vec![decline(), decline(), decline(), decline(), Err(CallError::Cancelled)]);
    let causes: Vec<_> = (0..5).map(|_| cause(&setup.strategy.decide(&at(0), &three()))).collect();
    assert_eq!(causes, ["declined", "declined", "declined", "declined", "cancelled"]);
}

#[test]
fn the_plan_of_a_cancelled_call_is_not_taken_for_what_members_own() {
    let outcomes = vec![Ok(Plan::of(weighted())), Err(CallError::Cancelled), trap()];
    let setup = strategy(Fallback::Keep, outcomes);
    setup.strategy.decide(&at(0), &three());
    let alone = group(&[("t", 6)], vec![member("a", &["t"], None, &[])]);
    assert_eq!(partitions(&setup.strategy.decide(&at(0), &alone)), [[0, 1, 2, 3, 4, 5]]);
    assert_eq!(partitions(&setup.strategy.decide(&at(0), &three())), weighted());
}

#[test]
fn hold_leaves_orphans_unassigned() {
    let setup = strategy(Fallback::Hold, vec![trap()]);
    let members = vec![member("a", &["t"], Some(1), &[0]), member("b", &["t"], Some(1), &[1])];
    let decision = setup.strategy.decide(&at(0), &group(&[("t", 3)], members));
    assert_eq!((decision.decided_by.as_str(), partitions(&decision)), ("hold", vec![vec![0], vec![1]]));
}

#[test]
fn whatever_decides_what_another_member_owns_is_withheld() {
    let members = || vec![member("a", &["t"], Some(1), &[0, 1]), member("b", &["t"], Some(1), &[])];
    let swap = Plan::of(vec![vec![0], vec![1]]);
    let setup = strategy(Fallback::Keep, vec![Ok(swap), trap()]);
    let decision = setup.strategy.decide(&at(0), &group(&[("t", 2)], members()));
    assert_eq!((partitions(&decision), decision.withheld), (vec![vec![0], vec![]], 1));
    let decision = setup.strategy.decide(&at(0), &group(&[("t", 2)], members()));
    assert_eq!((partitions(&decision), decision.withheld), (vec![vec![0, 1], vec![]], 0));
}

#[test]
fn the_fallback_never_reads_a_plugins_user_data() {
    let mut one = member("a", &["t"], None, &[]);
    one.subscription.user_data = Some(vec![1, 2, 3]);
    let group = group(&[("t", 1)], vec![one]);
    assert!(group.without_user_data().members().iter().all(|m| m.user_data.is_none()));
}

#[test]
fn a_failing_subscription_joins_with_all_topics_and_is_told() {
    let mut setup = strategy(Fallback::Keep, vec![]);
    let topics = vec!["t".to_owned()];
    assert_eq!(setup.strategy.subscription(&at(0), &topics), Ok(Interest::all(&topics)));
    let events = setup.events.lock().unwrap();
    assert!(matches!(&events[..], [Event::CallFailed { call: "subscription", .. }]), "{events:?}");
}

#[test]
fn a_follower_that_becomes_leader_keeps_at_least_what_it_saw() {
    let mut setup = strategy(Fallback::Keep, vec![trap()]);
    let mine = [TopicPartitions { topic: "t".into(), partitions: vec![1, 5] }];
    let cx = Context { member_id: "b".into(), ..Context::default() };
    setup.strategy.on_assignment(&cx, &mine, None, 7).unwrap();
    let decision = setup.strategy.decide(&cx, &three());
    assert_eq!(partitions(&decision), [vec![0, 3], vec![1, 5], vec![2, 4]]);
}

/// Otherwise members that join later would get nothing for as long as the strategy declines.
#[test]
fn from_the_third_fallback_in_a_row_on_range_evens_out_whatever_the_cause() {
    let decline = || Err(CallError::Declined("not today".into()));
    let mut outcomes = vec![Ok(Plan::of(weighted()))];
    outcomes.extend([
        decline(),
        trap(),
        Err(CallError::Cancelled),
        decline(),
        Ok(Plan::of(weighted())),
        decline(),
    ]);
    let setup = strategy(Fallback::Keep, outcomes);
    let decisions: Vec<_> = (0..7).map(|_| setup.strategy.decide(&at(0), &three())).collect();
    let by: Vec<_> = decisions.iter().map(|d| d.decided_by.as_str()).collect();
    assert_eq!(by, ["scripted", "keep", "keep", "keep", "range", "scripted", "keep"]);
    assert!(!setup.events.lock().unwrap().iter().any(|e| matches!(e, Event::Benched { .. })));
}

/// A member that tells what it owns of topic `t`, and in user data what a plugin wants to know.
fn owner(id: &str, owned: &[u32]) -> crate::group::MemberSubscription {
    let mut member = member(id, &["t"], Some(1), owned);
    // As a generation of Kafka's CooperativeStickyAssignor it would be the highest.
    member.subscription.user_data = Some(vec![0x7f, 0xff, 0xff, 0xff]);
    member
}

#[test]
fn under_the_cooperative_protocol_cooperative_sticky_evens_out_and_moves_only_what_it_must() {
    let group = group(&[("t", 6)], vec![owner("a", &[0, 3, 4, 5]), owner("b", &[1]), owner("c", &[2])]);
    let both = [Protocol::Eager, Protocol::Cooperative];
    let evened = [vec![0, 3], vec![1], vec![2]];
    let setup = strategy_under(&both, Fallback::Keep, vec![trap(), trap(), trap()]);
    let decisions: Vec<_> = (0..3).map(|_| setup.strategy.decide(&at(0), &group)).collect();
    let by: Vec<_> = decisions.iter().map(|d| d.decided_by.as_str()).collect();
    assert_eq!(by, ["keep", "keep", "cooperative-sticky"]);
    assert_eq!((partitions(&decisions[2]).as_slice(), decisions[2].withheld), (&evened[..], 2));

    let at_once = strategy_under(&both, Fallback::CooperativeSticky, vec![trap()]);
    assert_eq!(partitions(&at_once.strategy.decide(&at(0), &group)), evened);
}

#[test]
fn an_observer_may_call_the_strategy_of_which_it_is_told() {
    let slot: Arc<Mutex<Option<Strategy>>> = Arc::default();
    let (to, told) = std::sync::mpsc::channel();
    let observed = Arc::clone(&slot);
    let observer: Observer = Arc::new(move |event: &Event| {
        let strategy = observed.lock().unwrap().clone().unwrap();
        to.send((event.clone(), strategy.digest())).unwrap();
    });
    let scripted = Scripted(vec![trap()].into());
    let policy = FallbackPolicy { bench_after: 1, ..FallbackPolicy::default() };
    let source = Source::Native(Box::new(scripted));
    let strategy = Strategy::new("scripted".into(), vec![Protocol::Eager], source, policy, observer);
    *slot.lock().unwrap() = Some(strategy.clone());
    // On a thread of its own: a deadlock must fail the test, not hang it.
    std::thread::spawn(move || strategy.decide(&at(0), &three()));
    let patience = Duration::from_secs(10);
    assert!(matches!(told.recv_timeout(patience).unwrap(), (Event::Benched { failures: 1, .. }, None)));
    assert!(matches!(told.recv_timeout(patience).unwrap(), (Event::Fallback { in_a_row: 1, .. }, None)));
}
