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
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let policy = FallbackPolicy { fallback, ..FallbackPolicy::default() };
    let strategy = Strategy::new(
        "scripted".into(),
        vec![Protocol::Eager],
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
    assert!(matches!(&events[..], [Event::Fallback { used: "keep", failures: 1, .. }]), "{events:?}");
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

#[test]
fn an_observer_may_ask_the_strategy_and_replace_it() {
    let (told, events) = std::sync::mpsc::channel();
    let own = Arc::new(Mutex::new(None::<Strategy>));
    let seen = Arc::clone(&own);
    let strategy = Strategy::new(
        "scripted".into(),
        vec![Protocol::Eager],
        Source::Native(Box::new(Scripted([trap()].into()))),
        FallbackPolicy::default(),
        Arc::new(move |event: &Event| {
            let strategy = seen.lock().unwrap().take();
            // A replacement tells of itself, too.
            if let Some(strategy) = strategy {
                let replaced = strategy.replace(b"no component").map_err(|e| e.code());
                told.send((event.clone(), strategy.digest(), replaced)).unwrap();
            }
        }),
    );
    *own.lock().unwrap() = Some(strategy.clone());
    // On a thread of its own: if the observer waits for the strategy that waits for it, the test ends all the same.
    std::thread::spawn(move || strategy.decide(&at(0), &three()));
    let (event, digest, replaced) = events.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(matches!(event, Event::Fallback { .. }), "{event:?}");
    assert_eq!((digest, replaced), (None, Err("reserved-name")));
}
