//! What an instance is told that takes another's place: the last assignment, again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assignor_host::{
    Assignor, Context, FallbackPolicy, LoadError, Outcome, Protocol, Services, Strategy, TopicPartitions,
};

use super::support::{RUNTIME, config, group, load, nobody};
use super::wat::{component, fields};

/// How often the strategy's instance was told its assignment, and of which generation it was told last.
fn heard(strategy: &mut Strategy) -> (u8, u8) {
    let interest = strategy.subscription(&Context::default(), &["clicks".to_owned()]).unwrap();
    let [times, generation] = interest.user_data.unwrap()[..] else { panic!("two bytes") };
    (times, generation)
}

fn tell(strategy: &mut Strategy, generation: i32) {
    let mine = [TopicPartitions { topic: "clicks".into(), partitions: vec![0, 1] }];
    strategy.on_assignment(&Context::default(), &mine, None, generation).unwrap();
}

#[test]
fn an_instance_made_anew_after_a_trap_or_a_replacement_is_told_the_last_assignment_once() {
    let remembers = component(fields!("remembers"));
    let plugin = load(&remembers, config(&[])).unwrap();
    let mut strategy = Strategy::plugin(plugin, FallbackPolicy::default(), nobody());
    assert_eq!(heard(&mut strategy), (0, 0), "nothing to tell yet");
    tell(&mut strategy, 6);
    tell(&mut strategy, 7);
    assert_eq!(heard(&mut strategy), (2, 7), "the same instance");

    assert_eq!(strategy.decide(&Context::default(), &group()).outcome, Outcome::Fallback);
    assert_eq!(heard(&mut strategy), (1, 7), "a new instance");

    strategy.replace(&remembers).unwrap();
    assert_eq!(heard(&mut strategy), (1, 7), "new bytes");
}

#[test]
fn one_that_takes_the_place_of_a_file_that_could_not_be_loaded_is_told_it_too() {
    let cause = LoadError::Text;
    let policy = FallbackPolicy::default();
    let mut strategy =
        Strategy::degraded(&RUNTIME, "hostile", &[Protocol::Eager], config(&[]), cause, policy, nobody());
    tell(&mut strategy, 9);
    strategy.replace(&component(fields!("remembers"))).unwrap();
    assert_eq!(heard(&mut strategy), (1, 9));
}

#[test]
fn nothing_is_told_again_after_the_partitions_were_lost() {
    let remembers = component(fields!("remembers"));
    let plugin = load(&remembers, config(&[])).unwrap();
    let mut strategy = Strategy::plugin(plugin, FallbackPolicy::default(), nobody());
    tell(&mut strategy, 7);
    strategy.on_lost();
    strategy.replace(&remembers).unwrap();
    assert_eq!(heard(&mut strategy), (0, 0));
}

/// Notes what a strategy asks of its consumer.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Services for Asked {
    fn request_rebalance(&self, after: Duration, cause: &str) {
        assert_eq!(after, Duration::ZERO);
        self.0.lock().unwrap().push(cause.to_owned());
    }
}

#[test]
fn a_replacement_asks_the_consumer_for_a_rebalance_and_a_refused_one_does_not() {
    let remembers = component(fields!("remembers"));
    let plugin = load(&remembers, config(&[])).unwrap();
    let mut strategy = Strategy::plugin(plugin, FallbackPolicy::default(), nobody());
    let asked = Arc::new(Asked::default());
    let cx = Context { services: Arc::<Asked>::clone(&asked), ..Context::default() };
    strategy.on_assignment(&cx, &[], None, 1).unwrap();
    strategy.replace(b"no component").unwrap_err();
    assert!(asked.0.lock().unwrap().is_empty());
    strategy.replace(&remembers).unwrap();
    assert_eq!(*asked.0.lock().unwrap(), ["the strategy hostile was replaced"]);
}
