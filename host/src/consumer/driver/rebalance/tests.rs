use std::time::Duration;

use super::*;
use crate::consumer::error::ConsumerError;
use crate::consumer::machine::{Commit, Coordinator, Delivery, Identity, Join, Planned, Revocation, Sync};
use crate::consumer::strategist::Asked;

fn at(ms: u64) -> Moment {
    Moment::default() + Duration::from_millis(ms)
}

fn identity() -> Identity {
    Identity { member_id: "m".into(), generation: 7 }
}

fn joining(cause: &str) -> Action {
    Action::Event(GroupEvent::Joining { cause: cause.into() })
}

fn join() -> Action {
    Action::Join { id: 1, member_id: "m".into(), reason: String::new(), protocols: Vec::new() }
}

fn prepare() -> Action {
    Action::Prepare { round: 1, topics: Vec::new(), identity: identity() }
}

/// A leader's rebalance, step by step, until its assignment is to be installed.
fn lead(watch: &mut Watch) {
    assert_eq!(watch.action("g", &joining("the group is rebalancing"), at(0)), None);
    let revocation =
        Revocation { round: 0, identity: identity(), partitions: Vec::new(), commit: Commit::Processed };
    watch.action("g", &Action::Revoke(revocation), at(0));
    watch.given_up(at(2));
    watch.action("g", &prepare(), at(2));
    watch.action("g", &Action::FindCoordinator(1), at(1));
    let nothing = Asked { interests: Vec::new(), degraded: Vec::new(), troubles: Vec::new() };
    watch.event(&Event::Prepared { round: 1, asked: nothing }, at(10));
    watch.event(&Event::Coordinator(1, Ok(Coordinator::default())), at(31));
    // MEMBER_ID_REQUIRED, and again.
    for sent in [40, 60] {
        watch.action("g", &join(), at(sent));
        watch.event(&Event::Joined(1, Ok(Join::default())), at(sent + 5));
    }
    let assign = Action::Assign {
        round: 2,
        strategy: 0,
        identity: identity(),
        members: vec![crate::MemberSubscription::default(); 3],
        user_data: true,
    };
    watch.action("g", &assign, at(65));
    let planned = Planned { blobs: Vec::new(), counts: [].into(), racks: None, held_back: false };
    watch.event(&Event::Planned { round: 2, planned: Ok(planned), troubles: Vec::new() }, at(95));
    let sync = Action::Sync { id: 3, identity: identity(), protocol: "range".into(), plan: Vec::new() };
    watch.action("g", &sync, at(95));
    watch.event(&Event::Synced(3, Ok(Sync::default())), at(100));
    let delivery = Delivery {
        identity: identity(),
        strategy: 0,
        leader: true,
        partitions: Vec::new(),
        added: Vec::new(),
        user_data: None,
    };
    watch.action("g", &Action::Deliver(delivery), at(100));
}

#[test]
fn a_rebalance_is_told_with_the_time_of_each_phase() {
    let mut watch = Watch::default();
    lead(&mut watch);
    let told = watch.installed(at(107)).unwrap();
    let ms = told.phases.each().map(|(name, took)| (name, took.as_millis()));
    let expected = [
        ("revoke", 2),
        ("prepare", 8),
        ("find_coordinator", 30),
        ("join", 10),
        ("assign", 30),
        ("sync", 5),
        ("install", 7),
    ];
    assert_eq!(ms, expected);
    assert_eq!((told.cause_code, told.outcome), ("group", RebalanceOutcome::Assigned));
    assert_eq!(
        (told.generation, told.strategy.as_str(), told.leader, told.members),
        (7, "range", true, Some(3))
    );
    assert_eq!(told.took, Duration::from_millis(107));
    assert_eq!(watch.installed(at(108)), None, "it is told once");
}

#[test]
fn one_that_another_begins_over_is_told_before_it() {
    let mut watch = Watch::default();
    watch.action("g", &joining("first subscription"), at(0));
    watch.action("g", &join(), at(5));
    let told = watch.action("g", &joining("the subscription changed"), at(9)).unwrap();
    assert_eq!((told.cause_code, told.outcome), ("subscribe", RebalanceOutcome::Superseded));
    // What was under way ends with it.
    assert_eq!((told.phases.join, told.generation), (Duration::from_millis(4), -1));
    assert_eq!(watch.installed(at(10)).unwrap().cause_code, "subscription-changed");
}

#[test]
fn errors_and_leaving_end_one_and_mean_nothing_outside() {
    let mut watch = Watch::default();
    let fail = Action::Fail(ConsumerError::Fenced);
    assert_eq!(watch.action("g", &fail, at(0)), None);
    assert_eq!(watch.action("g", &Action::Closed, at(0)), None);
    watch.event(&Event::LookedUp { answered: true }, at(0));
    for (action, outcome) in [(fail, RebalanceOutcome::Failed), (Action::Closed, RebalanceOutcome::Left)] {
        watch.action("g", &joining("anything"), at(1));
        let told = watch.action("g", &action, at(2)).unwrap();
        assert_eq!((told.outcome, told.cause_code), (outcome, "requested"));
    }
}

#[cfg(feature = "cli")]
#[test]
fn spans_tell_the_phases_inside_their_rebalance() {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::format::FmtSpan;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut watch = Watch::default();
        lead(&mut watch);
        watch.installed(at(107)).unwrap();
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let closed: Vec<&str> = text.lines().filter(|line| line.contains("close")).collect();
    for phase in Phase::ALL {
        let inside = format!("}}:{}: ", phase.name());
        assert!(closed.iter().any(|line| line.contains(&inside)), "{}: {text}", phase.name());
    }
    let whole = closed.last().unwrap();
    for field in
        ["group=\"g\"", "code=\"group\"", "generation=7", "leader=true", "members=3", "outcome=\"assigned\""]
    {
        assert!(whole.contains(field), "{field}: {whole}");
    }
}
