//! What each test does with a hostile strategy, and the strategy beside it that must not notice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use assignor_host::{
    Builtin, Component, Context, Decision, Event, FallbackPolicy, Group, Limits, LoadError,
    MemberSubscription, Observer, Outcome, Plugin, Protocol, Runtime, RuntimeOptions, Strategy, Subscription,
};

use super::wat;

/// Several times what the limits below allow for any single step, so that a busy machine doesn't fail a test, and far less
/// than forever.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// The limits of the tests: a second is short enough to wait for and too long for an innocent strategy on a busy machine.
pub(crate) fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.assign_time = Duration::from_secs(1);
    limits.call_time = Duration::from_secs(1);
    limits.host_wait = Duration::from_secs(1);
    limits
}

/// One for all tests, as it is one for all consumers of a process: hostile and sound strategies share its engine, its clock
/// and its compiler.
pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new(RuntimeOptions { limits: limits(), cache: None }).unwrap());

pub(crate) fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The strategy in these bytes.
pub(crate) fn load(bytes: &[u8], config: BTreeMap<String, String>) -> Result<Plugin, LoadError> {
    Plugin::new(&RUNTIME.compile(bytes)?, config)
}

/// The hostile strategy that is written in Rust, `tests/hostile`, as `cargo xtask plugins` builds it.
pub(crate) static RUST_GUEST: LazyLock<Arc<Component>> =
    LazyLock::new(|| RUNTIME.compile(&assignor_tests::plugin("hostile")).unwrap());

/// Members of unequal subscriptions, so that giving everything to anybody is wrong.
pub(crate) fn group() -> Group {
    let member = |id: &str, topics: &[&str]| MemberSubscription {
        member_id: id.into(),
        instance_id: None,
        subscription: Subscription {
            topics: topics.iter().map(|t| (*t).to_owned()).collect(),
            user_data: Some(b"a plugin's, not the fallback's".to_vec()),
            ..Subscription::default()
        },
    };
    let members =
        vec![member("m1", &["clicks", "orders"]), member("m2", &["clicks"]), member("m3", &["orders"])];
    Group::new(&[("clicks".to_owned(), 5), ("orders".to_owned(), 3)].into(), members).unwrap()
}

/// One member, to which everything may be given: for strategies that decide well, and otherwise misbehave.
pub(crate) fn alone() -> Group {
    alone_with(5)
}

/// The same with so many partitions.
pub(crate) fn alone_with(partitions: u32) -> Group {
    let member = MemberSubscription {
        member_id: "m1".into(),
        subscription: Subscription { topics: ["clicks".into()].into(), ..Subscription::default() },
        ..MemberSubscription::default()
    };
    Group::new(&[("clicks".to_owned(), partitions)].into(), vec![member]).unwrap()
}

/// What the fallback must decide for [`group`].
pub(crate) fn native() -> Decision {
    let keep = Builtin::by_name("keep").unwrap();
    Strategy::native(Box::new(keep), nobody()).decide(&Context::default(), &group())
}

/// An observer that looks away.
pub(crate) fn nobody() -> Observer {
    Arc::new(|_: &Event| {})
}

/// Collects events.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub(crate) fn observer(&self) -> Observer {
        let events = Arc::clone(&self.0);
        Arc::new(move |event: &Event| events.lock().unwrap().push(event.clone()))
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

/// Runs it on another thread and waits no longer than [`BOUND`].
pub(crate) fn bounded<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || sender.send(run()).unwrap());
    match receiver.recv_timeout(BOUND) {
        Ok(answer) => {
            thread.join().unwrap();
            answer
        }
        Err(RecvTimeoutError::Timeout) => panic!("not done after {BOUND:?}"),
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// It can't be loaded, for this reason; the group goes on without it, and for the same reason.
pub(crate) fn refused(bytes: Vec<u8>, code: &str) -> LoadError {
    cannot_load(move || load(&bytes, config(&[])), code)
}

/// As [`refused`].
pub(crate) fn cannot_load(
    load: impl FnOnce() -> Result<Plugin, LoadError> + Send + 'static,
    code: &str,
) -> LoadError {
    let error = beside_a_good_one(move || load().map(drop)).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    let events = Events::default();
    let degraded = Strategy::degraded(
        &RUNTIME,
        "hostile",
        &[Protocol::Eager],
        config(&[]),
        error.clone(),
        FallbackPolicy::default(),
        events.observer(),
    );
    assert_fell_back(&degraded.decide(&Context::default(), &group()), code);
    assert!(matches!(events.all().as_slice(), [Event::Fallback { used: "keep", .. }]));
    error
}

/// It can be loaded, and fails to decide, for this reason. Asked again it fails again: the host is as it was.
pub(crate) fn falls_back(bytes: Vec<u8>, code: &'static str) -> Decision {
    cannot_decide(move || load(&bytes, config(&[])), code)
}

/// As [`falls_back`].
pub(crate) fn cannot_decide(
    load: impl FnOnce() -> Result<Plugin, LoadError> + Send + 'static,
    code: &'static str,
) -> Decision {
    beside_a_good_one(move || {
        let plugin = load().unwrap_or_else(|e| panic!("can't be loaded: {e}"));
        let events = Events::default();
        let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), events.observer());
        let decisions = [(); 2].map(|()| strategy.decide(&Context::default(), &group()));
        for decision in &decisions {
            assert_fell_back(decision, code);
        }
        assert!(matches!(
            events.all().as_slice(),
            [Event::Fallback { used: "keep", .. }, Event::Fallback { used: "keep", .. }]
        ));
        let [decision, _] = decisions;
        decision
    })
}

/// The functions whose calls failed, each with its code. Nothing else may have happened.
pub(crate) fn failed_calls(events: &Events) -> Vec<(&'static str, &'static str)> {
    let codes = events.all().into_iter().map(|event| match event {
        Event::CallFailed { call, cause, .. } => (call, cause.code()),
        other => panic!("{other:?}"),
    });
    codes.collect()
}

/// A native strategy decided, for this reason, as it would have without the plugin.
pub(crate) fn assert_fell_back(decision: &Decision, code: &str) {
    let cause = decision.cause.as_ref().unwrap_or_else(|| panic!("decided by {}", decision.decided_by));
    assert_eq!(cause.code(), code, "{cause}");
    assert_eq!((decision.outcome, decision.decided_by.as_str()), (Outcome::Fallback, "keep"));
    assert_eq!(decision.plan, native().plan);
}

/// Runs it, within the bound, while a good strategy of another consumer is asked over and over on the same runtime. None of
/// its calls may fail.
pub(crate) fn beside_a_good_one<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let bystander = Bystander::start();
    let answer = bounded(run);
    bystander.stop();
    answer
}

/// A good strategy in another consumer.
struct Bystander {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU32>,
    thread: JoinHandle<Result<(), String>>,
}

impl Bystander {
    fn start() -> Self {
        static GOOD: LazyLock<Arc<Component>> =
            LazyLock::new(|| RUNTIME.compile(&wat::component("")).unwrap());
        let plugin = Plugin::new(&GOOD, config(&[])).unwrap();
        let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), nobody());
        let group = alone();
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&calls));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let decision = strategy.decide(&Context::default(), &group);
                if let Some(cause) = decision.cause {
                    return Err(cause.to_string());
                }
                counted.fetch_add(1, Ordering::Relaxed);
                // Others need the machine, too.
                std::thread::yield_now();
            }
            Ok(())
        });
        Self { stop, calls, thread }
    }

    fn stop(self) {
        // At least one whole call must have come after the hostile strategy's last.
        let before = self.calls.load(Ordering::Relaxed);
        while self.calls.load(Ordering::Relaxed) < before + 2 && !self.thread.is_finished() {
            std::thread::yield_now();
        }
        self.stop.store(true, Ordering::Relaxed);
        assert_eq!(self.thread.join().unwrap(), Ok(()), "the good strategy was disturbed");
    }
}
