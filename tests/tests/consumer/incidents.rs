//! What went wrong in other clients, replayed in a live group: see `host/docs/incidents.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use assignor_host::builtin::STICKY;
use assignor_host::consumer::{Consumer, EmbeddedBroker};
use assignor_host::wire::sticky_user_data;
use assignor_host::{Assignor, CallError, Context, Group, Interest, Plan, Protocol, TopicPartitions};

use crate::support::{TOPIC, Watched, broker, builtin, config};

const PARTITIONS: u32 = 6;

/// What passed between a group and the strategies of its members, in order.
#[derive(Debug, Clone)]
enum Note {
    /// A member was told what it owns.
    Told { member: &'static str, generation: i32, partitions: BTreeSet<u32> },
    /// A member told its user data.
    Tells { member: &'static str, user_data: Option<Vec<u8>> },
    /// The leader saw this user data.
    Sees { user_data: Vec<Option<Vec<u8>>> },
}

/// Kafka's sticky strategy, and what passes through it.
struct Spy {
    member: &'static str,
    sticky: Box<dyn Assignor>,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl Spy {
    fn note(&self, note: Note) {
        self.notes.lock().unwrap().push(note);
    }
}

impl Assignor for Spy {
    fn name(&self) -> &str {
        self.sticky.name()
    }
    fn protocols(&self) -> &[Protocol] {
        self.sticky.protocols()
    }
    fn subscription(&mut self, cx: &Context, topics: &[String]) -> Result<Interest, CallError> {
        let interest = self.sticky.subscription(cx, topics)?;
        self.note(Note::Tells { member: self.member, user_data: interest.user_data.clone() });
        Ok(interest)
    }
    fn assign(&mut self, cx: &Context, group: &Group) -> Result<Plan, CallError> {
        assert!(group.members().iter().all(|m| m.claimed.is_empty()), "members of eager groups own nothing");
        self.note(Note::Sees { user_data: group.members().iter().map(|m| m.user_data.clone()).collect() });
        self.sticky.assign(cx, group)
    }
    fn on_assignment(
        &mut self,
        cx: &Context,
        partitions: &[TopicPartitions],
        user_data: Option<&[u8]>,
        generation: i32,
    ) -> Result<(), CallError> {
        let told = partitions.iter().flat_map(|t| t.partitions.iter().copied()).collect();
        self.note(Note::Told { member: self.member, generation, partitions: told });
        self.sticky.on_assignment(cx, partitions, user_data, generation)
    }
    fn on_lost(&mut self) {
        self.sticky.on_lost();
    }
}

/// Two members, a third comes and goes: all in this process, each with a sticky strategy of its own.
struct Story {
    notes: Vec<Note>,
    /// What each member had while there were two, three and two again.
    had: [BTreeMap<&'static str, BTreeSet<u32>>; 3],
}

/// Played once; each test looks at it in its own way.
static STORY: LazyLock<Story> = LazyLock::new(|| {
    let broker = broker(PARTITIONS);
    let mut group = Watched::new(&broker);
    let notes: Arc<Mutex<Vec<Note>>> = Arc::default();
    let spy = |member| -> Vec<Box<dyn Assignor>> {
        vec![Box::new(Spy { member, sticky: builtin(STICKY), notes: Arc::clone(&notes) })]
    };
    let all = PARTITIONS as usize;
    let a = group.join("a", spy("a"), &[]);
    group.settled(&["a"], all);
    let b = group.join("b", spy("b"), &[]);
    let two = group.settled(&["a", "b"], all);
    let c = group.join("c", spy("c"), &[]);
    let three = group.settled(&["a", "b", "c"], all);
    c.leave();
    let two_again = group.settled(&["a", "b"], all);
    let had = [two, three, two_again].map(|generation| group.assignments[&generation].clone());
    let notes = notes.lock().unwrap().clone();
    a.leave();
    b.leave();
    Story { notes, had }
});

/// A member that joins again.
struct Again {
    member: &'static str,
    /// What it tells.
    tells: sticky_user_data::Told,
    /// What it had been told before, in which generation.
    had: BTreeSet<u32>,
    generation: i32,
}

impl Again {
    /// The partitions that it says it had.
    fn owned(&self) -> BTreeSet<u32> {
        assert!(self.tells.owned.iter().all(|t| t.topic == TOPIC));
        self.tells.owned.iter().flat_map(|t| t.partitions.iter().copied()).collect()
    }
}

/// All members that joined again, in order.
fn joined_again() -> Vec<Again> {
    let mut last: BTreeMap<&str, (i32, BTreeSet<u32>)> = BTreeMap::new();
    let mut again = Vec::new();
    for note in &STORY.notes {
        match note {
            Note::Told { member, generation, partitions } => {
                last.insert(member, (*generation, partitions.clone()));
            }
            Note::Tells { member, user_data } => match (last.get(member), user_data) {
                (Some((generation, had)), Some(bytes)) => {
                    let tells = sticky_user_data::decode(bytes).unwrap();
                    again.push(Again { member, tells, had: had.clone(), generation: *generation });
                }
                (None, None) => {}
                (last, user_data) => panic!("{member} was told {last:?} and tells {user_data:?}"),
            },
            Note::Sees { .. } => {}
        }
    }
    let times = |member| again.iter().filter(|again| again.member == member).count();
    assert!(times("a") >= 3 && times("b") >= 2, "{:?}", STORY.notes);
    again
}

/// User data was there when a member wrote it and gone when the leader read it: sticky moved partitions as it pleased.
#[test]
fn sarama_1493_user_data_reaches_the_leader_of_every_later_rebalance() {
    let mut told: BTreeMap<&str, &Option<Vec<u8>>> = BTreeMap::new();
    // Of each rebalance, how many members the leader saw with user data and without.
    let mut seen = Vec::new();
    for note in &STORY.notes {
        match note {
            Note::Tells { member, user_data } => {
                told.insert(member, user_data);
            }
            Note::Sees { user_data } => {
                assert!(user_data.iter().all(|bytes| told.values().any(|told| *told == bytes)));
                let with = user_data.iter().filter(|bytes| bytes.is_some()).count();
                seen.push((with, user_data.len() - with));
            }
            Note::Told { .. } => {}
        }
    }
    // A plan that comes too late is made again.
    seen.dedup();
    assert_eq!(seen, [(0, 1), (1, 1), (2, 1), (2, 0)], "only a member that comes has nothing to tell");
    // And so sticky sticks: of what the two have, the third takes its share only, and gives it back.
    let [two, three, two_again] = &STORY.had;
    let kept = |before: &BTreeMap<_, BTreeSet<u32>>, after: &BTreeMap<_, BTreeSet<u32>>, member| {
        before[member].intersection(&after[member]).count()
    };
    for member in ["a", "b"] {
        assert_eq!((two[member].len(), three[member].len(), two_again[member].len()), (3, 2, 3));
        assert_eq!((kept(two, three, member), kept(three, two_again, member)), (2, 2));
    }
}

/// What a member owned was cleared when it revoked it, before it joined: it told that it owned nothing.
#[test]
fn franz_go_253_a_member_tells_what_it_had_though_it_has_given_it_up_before_joining() {
    for again in joined_again() {
        assert!(!again.had.is_empty());
        assert_eq!(again.owned(), again.had, "{}", again.member);
    }
}

/// The state of the strategy was the class's: each consumer of a process told the partitions of the one that was assigned last.
#[test]
fn aiokafka_1175_consumers_of_one_process_tell_what_each_of_them_has() {
    for again in joined_again() {
        for note in &STORY.notes {
            if let Note::Told { member, generation, partitions } = note
                && *member != again.member
                && *generation == again.generation
            {
                assert!(again.owned().is_disjoint(partitions), "{} tells what {member} has", again.member);
            }
        }
    }
}

/// The function that sets the generation was never called: each member told -1 for ever, and no claim was newer than another.
#[test]
fn aiokafka_1176_a_member_tells_the_generation_in_which_it_was_assigned() {
    let mut before = BTreeMap::new();
    for Again { member, tells, generation, .. } in joined_again() {
        assert_eq!(tells.generation, Some(generation), "{member}");
        assert!(generation > 0 && before.insert(member, generation).is_none_or(|b| b <= generation));
    }
}

/// A consumer that was closed before its first assignment brought the process down.
#[test]
fn librdkafka_4312_a_consumer_can_be_closed_before_its_first_assignment() {
    let broker: EmbeddedBroker = broker(1);
    for polls in 0..3 {
        let config = config(&broker.consumer_properties(), "closes", &[]);
        let consumer = Consumer::new(config, vec![builtin(STICKY)], |_| {}).unwrap();
        consumer.subscribe(&[TOPIC]).unwrap();
        for _ in 0..polls {
            consumer.poll(Duration::ZERO).unwrap();
        }
        let start = Instant::now();
        consumer.close().unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "it waits for its assignment: {:?}",
            start.elapsed()
        );
        assert!(consumer.assignment().is_empty());
    }
}
