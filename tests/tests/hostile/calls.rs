//! Faults of single calls: floods, waiting, cancelling, and what is left of an instance afterwards.

use std::io::Write;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assignor_host::{
    Assignor, Cancellation, Cause, Context, Event, FallbackPolicy, Limits, Node, Outcome, Plugin, Runtime,
    RuntimeOptions, Services, Strategy, TopicPartitions, Unavailable,
};

use super::support::{
    self, BOUND, Events, alone, assert_fell_back, beside_a_good_one, bounded, config, failed_calls,
    falls_back, group, load, nobody,
};
use super::wat::{component, fields, named};

fn strategy(fields: &str, events: &Events) -> Strategy {
    let plugin = load(&component(fields), config(&[])).unwrap();
    Strategy::plugin(plugin, FallbackPolicy::default(), events.observer())
}

#[test]
fn a_flood_of_host_calls_is_ended() {
    falls_back(component(fields!("host-calls-flood")), "host-calls");
}

#[test]
fn one_line_of_log_larger_than_anything_allowed() {
    falls_back(component(fields!("log-huge")), "host-bytes");
}

#[test]
fn user_data_larger_than_anything_allowed() {
    falls_back(component(fields!("user-data-huge")), "host-bytes");
}

#[test]
fn a_long_error_text_is_cut_and_a_huge_one_not_even_read() {
    let decision = falls_back(component(fields!("error-long")), "declined");
    let text = decision.cause.as_ref().map(Cause::to_string).unwrap();
    assert!(text.contains("xxx") && text.len() < 10_000, "{} bytes", text.len());
    falls_back(component(fields!("error-huge")), "host-bytes");
}

/// A log that keeps what is written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the consumer's log holds after the strategy has decided.
fn logged(fields: &'static str) -> String {
    let log = Log::default();
    let written = log.clone();
    let decision = beside_a_good_one(move || {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            strategy(fields, &Events::default()).decide(&Context::default(), &alone())
        })
    });
    assert_eq!(decision.outcome, Outcome::Plugin);
    String::from_utf8(std::mem::take(&mut written.0.lock().unwrap())).unwrap()
}

#[test]
fn a_flood_of_log_lines_is_cut_and_harms_nothing_else() {
    let log = logged(fields!("log-flood"));
    // 64 MB were given; 16 lines make the 1 MiB that is allowed, each cut to 8 KiB.
    assert!(log.len() < 200_000, "{} bytes", log.len());
    assert_eq!(log.matches("the rest is dropped").count(), 1, "told once");
    assert!(log.contains("xxx"));
}

#[test]
fn a_line_of_log_is_one_line() {
    let log = logged(fields!("log-forged"));
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("all is")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("INFO") && lines[0].contains("all is lost"), "{log}");
}

#[test]
fn what_a_strategy_says_before_it_traps_does_not_choose_the_cause() {
    falls_back(component(fields!("trap-forged")), "trap");
}

/// Knows a broker.
struct Known;

impl Services for Known {
    fn nodes(&self, _: Instant) -> Result<Vec<Node>, Unavailable> {
        Ok(vec![Node { id: 1, host: "b1".into(), rack: None }])
    }
}

#[test]
fn outside_assign_the_cluster_is_not_available() {
    let mut strategy = strategy(fields!("asks-outside-assign"), &Events::default());
    let interest = strategy.subscription(&context(Known), &["clicks".to_owned()]).unwrap();
    assert_eq!(interest.user_data, Some(vec![1]), "an error");
}

/// Answers late, and as slowly as the test wants.
struct Slow {
    takes: Duration,
    heeds_deadline: bool,
}

impl Services for Slow {
    fn end_offsets(&self, _: &str, deadline: Instant) -> Result<Vec<i64>, Unavailable> {
        let left = deadline.saturating_duration_since(Instant::now());
        std::thread::sleep(if self.heeds_deadline { self.takes.min(left) } else { self.takes });
        if self.takes > left { Err(Unavailable("too slow".into())) } else { Ok(vec![7; 5]) }
    }
}

fn context(services: impl Services + 'static) -> Context {
    Context { services: Arc::new(services), ..Context::default() }
}

#[test]
fn a_slow_answer_does_not_kill_an_innocent_strategy() {
    let decision = beside_a_good_one(|| {
        let mut limits = support::limits();
        limits.host_wait = BOUND;
        let slow = Slow { takes: 2 * limits.assign_time, heeds_deadline: true };
        let runtime = Runtime::new(RuntimeOptions { limits, cache: None }).unwrap();
        let plugin =
            Plugin::new(&runtime.compile(&component(fields!("asks-once"))).unwrap(), config(&[])).unwrap();
        let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), nobody());
        strategy.decide(&context(slow), &alone())
    });
    assert_eq!((decision.outcome, decision.cause), (Outcome::Plugin, None));
    assert!(decision.took > support::limits().assign_time);
}

#[test]
fn an_answer_that_does_not_come_leaves_the_strategy_to_decide_without() {
    let decision = beside_a_good_one(|| {
        let slow = Slow { takes: BOUND, heeds_deadline: true };
        strategy(fields!("asks-once"), &Events::default()).decide(&context(slow), &alone())
    });
    assert_eq!((decision.outcome, decision.cause), (Outcome::Plugin, None));
}

#[test]
fn waiting_for_the_host_is_bounded() {
    for heeds_deadline in [true, false] {
        let decision = beside_a_good_one(move || {
            let slow = Slow { takes: support::limits().host_wait / 3, heeds_deadline };
            strategy(fields!("asks-for-ever"), &Events::default()).decide(&context(slow), &group())
        });
        // Once it has waited long enough it is told at once that there is no answer, and it doesn't take that for one.
        assert_fell_back(&decision, "host-calls");
        assert!(decision.took < 3 * support::limits().host_wait, "{:?}", decision.took);
    }
}

#[test]
fn the_hosts_own_work_for_a_strategy_is_bounded() {
    falls_back(component(fields!("built-in-flood")), "host-calls");
    let decision = beside_a_good_one(|| {
        let large = support::alone_with(500_000);
        strategy(fields!("built-in-flood"), &Events::default()).decide(&Context::default(), &large)
    });
    assert_eq!(decision.cause.unwrap().code(), "host-wait");
    assert!(decision.took < BOUND);
}

/// A fault of the consumer itself.
struct Panics;

impl Services for Panics {
    fn end_offsets(&self, _: &str, _: Instant) -> Result<Vec<i64>, Unavailable> {
        panic!("a service that panics");
    }
}

#[test]
fn a_panic_of_a_service_ends_in_the_fallback_and_not_in_the_process() {
    let decision = beside_a_good_one(|| {
        let strategy = strategy(fields!("asks-once"), &Events::default());
        let decision = strategy.decide(&context(Panics), &group());
        // The next call has an instance of its own.
        assert_eq!(strategy.decide(&Context::default(), &alone()).outcome, Outcome::Plugin);
        decision
    });
    assert_fell_back(&decision, "host");
    assert!(decision.cause.unwrap().to_string().contains("a service that panics"));
}

/// Tells when the strategy has begun.
struct Begun(Mutex<Sender<()>>);

impl Services for Begun {
    fn request_rebalance(&self, _: Duration, _: &str) {
        self.0.lock().unwrap().send(()).unwrap();
    }
}

fn begun() -> (Context, Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (context(Begun(Mutex::new(sender))), receiver)
}

#[test]
fn a_running_call_can_be_cancelled_and_is_not_to_blame() {
    beside_a_good_one(|| {
        let mut limits = Limits::default();
        // So long that only the cancellation can be what ends the call within the test's bound.
        limits.assign_time = 10 * BOUND;
        let runtime = Runtime::new(RuntimeOptions { limits, cache: None }).unwrap();
        let loops = runtime.compile(&component(fields!("says-hello-then-loops"))).unwrap();
        let plugin = Plugin::new(&loops, config(&[])).unwrap();
        let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), nobody());
        // More often than failures bench.
        for _ in 0..5 {
            let (cx, running) = begun();
            let cx = Context { cancellation: Cancellation::default(), ..cx };
            let cancellation = cx.cancellation.clone();
            let decision = std::thread::scope(|scope| {
                scope.spawn(move || {
                    running.recv().unwrap();
                    cancellation.cancel();
                });
                strategy.decide(&cx, &group())
            });
            assert_fell_back(&decision, "cancelled");
        }
    });
}

#[test]
fn a_call_that_is_cancelled_beforehand_is_not_made() {
    let (cx, running) = begun();
    cx.cancellation.cancel();
    let decision = strategy(fields!("says-hello-then-loops"), &Events::default()).decide(&cx, &group());
    assert_fell_back(&decision, "cancelled");
    assert!(running.try_recv().is_err());
}

/// One strategy's instance is used up by a loop and cancelled, another strategy of the same component decides meanwhile.
#[test]
fn a_cancellation_touches_no_other_call() {
    let decision = beside_a_good_one(|| {
        let events = Events::default();
        let (cancelled, running) = begun();
        let looping = strategy(fields!("says-hello-then-loops"), &events);
        std::thread::scope(|scope| {
            let loops = scope.spawn(|| looping.decide(&cancelled, &group()));
            running.recv().unwrap();
            let other = strategy("", &events).decide(&Context::default(), &alone());
            cancelled.cancellation.cancel();
            assert_fell_back(&loops.join().unwrap(), "cancelled");
            other
        })
    });
    assert_eq!(decision.outcome, Outcome::Plugin);
}

#[test]
fn a_kept_instance_that_reaches_its_memory_limit_is_made_anew() {
    bounded(|| {
        let events = Events::default();
        let mut strategy = strategy(fields!("memory-leaks"), &events);
        let topics = vec!["clicks".to_owned()];
        // 4 MiB stay with each call, and 64 MiB are allowed.
        for _ in 0..100 {
            assert_eq!(strategy.subscription(&Context::default(), &topics).unwrap().topics, topics);
        }
        assert_eq!(events.all(), [], "no call has failed");
    });
}

#[test]
fn a_failed_subscription_joins_with_all_topics_and_no_user_data() {
    let cases = [
        (fields!("subscription-traps"), "trap"),
        (fields!("subscribes-to-strangers"), "unknown-topic"),
        (fields!("user-data-large"), "result-too-large"),
    ];
    for (fields, code) in cases {
        beside_a_good_one(move || {
            let events = Events::default();
            let mut strategy = strategy(fields, &events);
            let topics = vec!["clicks".to_owned(), "orders".to_owned()];
            let interest = strategy.subscription(&Context::default(), &topics).unwrap();
            assert_eq!((interest.topics, interest.user_data), (topics, None));
            assert_eq!(failed_calls(&events), [("subscription", code)]);
            // It may decide all the same.
            assert_eq!(strategy.decide(&Context::default(), &alone()).outcome, Outcome::Plugin);
        });
    }
}

#[test]
fn being_told_what_it_owns_can_fail_without_consequences() {
    beside_a_good_one(|| {
        let events = Events::default();
        let mut strategy = strategy(fields!("on-assignment-loops"), &events);
        let mine = [TopicPartitions { topic: "clicks".into(), partitions: vec![0, 1] }];
        strategy.on_assignment(&Context::default(), &mine, None, 1).unwrap();
        assert_eq!(failed_calls(&events), [("on-assignment", "deadline")]);
    });
}

#[test]
fn benched_after_three_failures_and_asked_again_after_the_pause() {
    bounded(|| {
        let events = Events::default();
        let traps = strategy(fields!("shadow-stack"), &events);
        let at = |now_ms| traps.decide(&Context { now_ms, ..Context::default() }, &group());
        let codes = [0, 1, 2, 3, 30_003].map(|now_ms| at(now_ms).cause.unwrap().code());
        assert_eq!(codes, ["trap", "trap", "trap", "benched", "trap"]);
    });
}

#[test]
fn a_replacement_that_cannot_be_loaded_leaves_the_running_strategy() {
    beside_a_good_one(|| {
        let events = Events::default();
        let running = strategy("", &events);
        let digest = running.digest();
        let replacements = [
            component(fields!("start-loops")),
            component(fields!("protocols-cooperative")),
            component("")[..1000].to_vec(),
            named("another"),
            vec![],
        ];
        let codes = replacements.map(|bytes| running.replace(&bytes).unwrap_err().code());
        assert_eq!(codes, ["deadline", "cooperative-only", "malformed", "name-mismatch", "not-wasm"]);
        assert!(events.all().iter().all(|event| matches!(event, Event::ReplaceFailed { .. })));
        assert_eq!(running.digest(), digest);
        assert_eq!(running.decide(&Context::default(), &alone()).outcome, Outcome::Plugin);
    });
}

#[test]
fn whatever_takes_its_place_the_good_one_can_come_back() {
    beside_a_good_one(|| {
        let replaced = strategy("", &Events::default());
        let bad = [
            (fields!("shadow-stack"), "trap"),
            (fields!("assign-loops"), "deadline"),
            (fields!("memories-grow"), "memory"),
            (fields!("list-amplified"), "host-bytes"),
        ];
        for (fields, code) in bad {
            replaced.replace(&component(fields)).unwrap();
            assert_eq!(replaced.decide(&Context::default(), &alone()).cause.unwrap().code(), code);
            replaced.replace(&component("")).unwrap();
            assert_eq!(replaced.decide(&Context::default(), &alone()).outcome, Outcome::Plugin);
        }
    });
}
