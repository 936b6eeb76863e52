//! The thread on which strategies run: the driver goes on with heartbeats whatever a strategy does.
//!
//! The thread owns the strategies, so that no lock is ever held while one of them runs. Its queue is short and every question has a
//! time limit: a strategy that hangs costs its answer, never the consumer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::ConsumerError;
use crate::assignor::{Assignor, Context, Engagement, Interest, Protocol};
use crate::cause::CallError;
use crate::group::{Group, TopicPartitions};
use crate::plan::Plan;
use crate::plugin::panicked;

/// Room for a plugin's own stack (512 KiB of wasm by default) and the host's frames around it, and to spare for native ones.
const STACK: usize = 8 * 1024 * 1024;

/// Questions that may wait behind a strategy that hangs.
const QUEUE: usize = 8;

type Call = Box<dyn FnOnce(&mut [Box<dyn Assignor>]) + Send>;

/// What strategies told before a member joins, each in its place.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) interests: Vec<Interest>,
    pub(super) degraded: Vec<bool>,
    pub(super) troubles: Vec<String>,
}

/// Asks strategies, each named by its place in the list.
#[derive(Clone)]
pub(super) struct Strategist {
    queue: SyncSender<Call>,
}

/// The names of strategies, if a consumer can run them.
pub(super) fn names(assignors: &[Box<dyn Assignor>]) -> Result<Vec<String>, ConsumerError> {
    let names: Vec<String> = assignors.iter().map(|a| a.name().to_owned()).collect();
    if names.is_empty() {
        return Err(ConsumerError::Config("no strategy: a consumer needs at least one".into()));
    }
    for (index, name) in names.iter().enumerate() {
        // KAFKA-13204: the group could not tell which of the two is meant.
        if names.iter().take(index).any(|n| n == name) {
            return Err(ConsumerError::Config(format!("two strategies are named {name:?}")));
        }
    }
    Ok(names)
}

/// The protocol that all strategies support, cooperative first (Kafka: `ConsumerCoordinator`).
pub(super) fn protocol(assignors: &[Box<dyn Assignor>]) -> Result<Protocol, ConsumerError> {
    let common = |protocol: &Protocol| assignors.iter().all(|a| a.protocols().contains(protocol));
    [Protocol::Cooperative, Protocol::Eager].into_iter().find(common).ok_or_else(|| {
        let told =
            assignors.iter().map(|a| format!("{} ({})", a.name(), crate::names::protocols(a.protocols())));
        ConsumerError::Config(format!(
            "partition.assignment.strategy: these have no rebalance protocol in common: {}",
            told.collect::<Vec<_>>().join(", ")
        ))
    })
}

/// Takes the strategies for a consumer.
pub(super) fn engage(assignors: &mut [Box<dyn Assignor>]) -> Result<Vec<Engagement>, ConsumerError> {
    let engage = |assignor: &mut Box<dyn Assignor>| {
        assignor.engage().ok_or_else(|| {
            ConsumerError::Config(format!(
                "strategy {:?} is another consumer's, whose assignment it remembers: make a catalog for each consumer",
                assignor.name()
            ))
        })
    };
    assignors.iter_mut().map(engage).collect()
}

impl Strategist {
    /// Starts the thread. It ends when the last [`Strategist`] is dropped and the running call, if any, is over.
    ///
    /// After each call, and at first, `watch` may look at the strategies.
    pub(super) fn start(
        mut assignors: Vec<Box<dyn Assignor>>,
        watch: impl Fn(&[Box<dyn Assignor>]) + Send + 'static,
    ) -> Result<Self, ConsumerError> {
        let (queue, calls): (SyncSender<Call>, Receiver<Call>) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("assignor-strategy".into())
            .stack_size(STACK)
            .spawn(move || {
                watch(&assignors);
                for call in calls {
                    call(&mut assignors);
                    watch(&assignors);
                }
            })
            .map_err(|e| ConsumerError::Driver(format!("no thread for strategies: {e}")))?;
        Ok(Self { queue })
    }

    /// What each strategy tells the leader, and whether it is degraded. One that fails, or does not answer in time, takes all topics
    /// and sends no user data.
    pub(super) async fn subscriptions(
        &self,
        cx: Context,
        topics: Vec<String>,
        strategies: usize,
        limit: Duration,
    ) -> Asked {
        let mut troubles = Vec::new();
        let asked = topics.clone();
        let answers = self.ask(limit, move |assignors| {
            let ask = |a: &mut Box<dyn Assignor>| {
                let answer = guarded(|| a.subscription(&cx, &asked));
                let answer =
                    answer.map_err(|e| format!("strategy {:?} can't tell its subscription ({e})", a.name()));
                (answer, guarded(|| Ok(a.is_degraded())).unwrap_or_default())
            };
            assignors.iter_mut().map(ask).unzip::<_, _, Vec<_>, Vec<_>>()
        });
        let (answers, degraded) = answers.await.unwrap_or_else(|e| {
            troubles.push(format!("strategies don't tell their subscriptions ({e})"));
            (Vec::new(), Vec::new())
        });
        let mut interests: Vec<Interest> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(interest) if interest.topics.iter().all(|t| topics.contains(t)) => interest,
                Ok(_) => {
                    troubles.push("a strategy subscribes to a topic that it was not given".into());
                    Interest::all(&topics)
                }
                Err(trouble) => {
                    troubles.push(trouble);
                    Interest::all(&topics)
                }
            })
            .collect();
        interests.resize_with(strategies, || Interest::all(&topics));
        for trouble in &mut troubles {
            trouble.push_str("; joining with all topics and no user data");
        }
        Asked { interests, degraded, troubles }
    }

    /// One strategy's plan.
    pub(super) async fn assign(
        &self,
        strategy: usize,
        cx: Context,
        group: Arc<Group>,
        limit: Duration,
    ) -> Result<Plan, CallError> {
        let cancellation = cx.cancellation.clone();
        let plan = self.ask(limit, move |assignors| {
            let assignor =
                assignors.get_mut(strategy).ok_or_else(|| CallError::Host("no such strategy".into()))?;
            guarded(|| assignor.assign(&cx, &group))
        });
        plan.await.unwrap_or_else(|e| {
            cancellation.cancel();
            Err(e)
        })
    }

    /// Tells one strategy what this member owns now.
    pub(super) async fn on_assignment(
        &self,
        strategy: usize,
        cx: Context,
        partitions: Vec<TopicPartitions>,
        user_data: Option<Vec<u8>>,
        limit: Duration,
    ) -> Result<(), CallError> {
        let told = self.ask(limit, move |assignors| {
            let assignor =
                assignors.get_mut(strategy).ok_or_else(|| CallError::Host("no such strategy".into()))?;
            guarded(|| assignor.on_assignment(&cx, &partitions, user_data.as_deref(), cx.generation))
        });
        told.await.unwrap_or_else(Err)
    }

    /// Tells all strategies that the partitions are lost. Not waited for; it comes before the next question.
    pub(super) fn on_lost(&self) {
        let call: Call = Box::new(|assignors| {
            for assignor in assignors {
                // One that panics has nothing to answer here.
                let _ = guarded(|| {
                    assignor.on_lost();
                    Ok(())
                });
            }
        });
        if self.queue.try_send(call).is_err() {
            tracing::warn!("strategies aren't told that the partitions are lost: an earlier call still runs");
        }
    }

    async fn ask<T: Send + 'static>(
        &self,
        limit: Duration,
        question: impl FnOnce(&mut [Box<dyn Assignor>]) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let (answer, answered) = oneshot::channel();
        let call: Call = Box::new(move |assignors| {
            // Whom nobody waits for any more need not run.
            if !answer.is_closed() {
                let _ = answer.send(question(assignors));
            }
        });
        self.queue.try_send(call).map_err(|_| CallError::Host("an earlier call still runs".into()))?;
        match timeout(limit, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(CallError::Host("the strategies' thread ended".into())),
            Err(_) => Err(CallError::Deadline { limit }),
        }
    }
}

/// A strategy that panics fails; it does not take the thread with it.
fn guarded<T>(call: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallError> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(CallError::Host(format!("the strategy {}", panicked(panic.as_ref())))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::STICKY;
    use crate::plan::Assignment;
    use std::sync::mpsc;

    const LIMIT: Duration = Duration::from_secs(10);

    enum Act {
        Panic,
        Decline,
        AlienTopic,
        Wait(Receiver<()>),
    }

    struct Actor(&'static str, Act);

    impl Assignor for Actor {
        fn name(&self) -> &str {
            self.0
        }
        fn protocols(&self) -> &[Protocol] {
            &[Protocol::Eager]
        }
        fn subscription(&mut self, _: &Context, _: &[String]) -> Result<Interest, CallError> {
            match &self.1 {
                Act::Panic => panic!("on purpose"),
                Act::Decline => Err(CallError::Declined("no".into())),
                Act::AlienTopic => Ok(Interest { topics: vec!["alien".into()], user_data: Some(vec![1]) }),
                Act::Wait(until) => {
                    let _ = until.recv();
                    Ok(Interest::default())
                }
            }
        }
        fn assign(&mut self, _: &Context, group: &Group) -> Result<Plan, CallError> {
            if let Act::Panic = self.1 {
                panic!("on purpose");
            }
            Ok(Plan { assignments: vec![Assignment::default(); group.members().len()] })
        }
    }

    fn topics() -> Vec<String> {
        vec!["t".into(), "u".into()]
    }

    #[tokio::test]
    async fn a_strategy_that_fails_panics_or_answers_wrongly_takes_all_topics_without_user_data() {
        let actors: Vec<Box<dyn Assignor>> = vec![
            Box::new(Actor("panics", Act::Panic)),
            Box::new(Actor("declines", Act::Decline)),
            Box::new(Actor("alien", Act::AlienTopic)),
        ];
        let strategist = Strategist::start(actors, |_| {}).unwrap();
        let asked = strategist.subscriptions(Context::default(), topics(), 3, LIMIT).await;
        let Asked { interests, troubles, .. } = asked;
        assert_eq!(interests, vec![Interest::all(&topics()); 3]);
        assert_eq!(troubles.len(), 3);
        assert!(troubles[0].contains("on purpose"));
        // The thread lives on.
        let plan = strategist.assign(0, Context::default(), Arc::default(), LIMIT).await;
        assert_eq!(plan, Err(CallError::Host("the strategy panicked: on purpose".into())));
        assert!(strategist.assign(1, Context::default(), Arc::default(), LIMIT).await.is_ok());
    }

    #[tokio::test]
    async fn a_strategy_that_hangs_costs_its_answer_only() {
        let (go, wait) = mpsc::channel();
        let strategist = Strategist::start(vec![Box::new(Actor("hangs", Act::Wait(wait)))], |_| {}).unwrap();
        let short = Duration::from_millis(20);
        let asked = strategist.subscriptions(Context::default(), topics(), 1, short).await;
        let Asked { interests, troubles, .. } = asked;
        assert_eq!(interests, [Interest::all(&topics())]);
        assert_eq!(troubles.len(), 1);
        let cx = Context::default();
        let plan = strategist.assign(0, cx.clone(), Arc::default(), short).await;
        assert_eq!(plan, Err(CallError::Deadline { limit: short }));
        assert!(cx.cancellation.is_cancelled());
        go.send(()).unwrap();
        assert!(strategist.assign(0, Context::default(), Arc::default(), LIMIT).await.is_ok());
    }

    #[test]
    fn aiokafka_1175_a_strategy_is_not_shared_by_two_consumers() {
        let list = ("partition.assignment.strategy".to_owned(), STICKY.to_owned());
        let observer: crate::Observer = Arc::new(|_| {});
        let catalog = || crate::Catalog::from_properties(&[list.clone()].into(), &observer).unwrap();
        let shared = catalog();
        let first = engage(&mut shared.assignors()).unwrap();
        let refused = engage(&mut shared.assignors()).unwrap_err();
        assert!(refused.to_string().contains("make a catalog for each consumer"), "{refused}");
        assert!(engage(&mut catalog().assignors()).is_ok());
        // Whoever comes after a consumer that is gone may have them.
        drop(first);
        assert!(engage(&mut shared.assignors()).is_ok());
    }

    struct Speaks(&'static str, &'static [Protocol]);

    impl Assignor for Speaks {
        fn name(&self) -> &str {
            self.0
        }
        fn protocols(&self) -> &[Protocol] {
            self.1
        }
        fn assign(&mut self, _: &Context, _: &Group) -> Result<Plan, CallError> {
            Ok(Plan::default())
        }
    }

    #[test]
    fn the_protocol_is_what_all_strategies_support_cooperative_first() {
        use Protocol::{Cooperative, Eager};
        let speaks = |list: &[&'static [Protocol]]| {
            let list = list.iter().map(|p| Box::new(Speaks("s", p)) as Box<dyn Assignor>);
            protocol(&list.collect::<Vec<_>>())
        };
        assert_eq!(speaks(&[&[Eager, Cooperative]]), Ok(Cooperative));
        assert_eq!(speaks(&[&[Cooperative, Eager], &[Eager]]), Ok(Eager));
        assert_eq!(speaks(&[&[Cooperative], &[Eager, Cooperative]]), Ok(Cooperative));
        let refused = speaks(&[&[Eager], &[Cooperative]]).unwrap_err().to_string();
        assert!(refused.contains("s (eager), s (cooperative)"), "{refused}");
    }

    #[test]
    fn kafka_13204_a_consumer_refuses_two_strategies_of_one_name() {
        let one = |name| -> Box<dyn Assignor> { Box::new(Actor(name, Act::Decline)) };
        assert!(names(&[]).is_err());
        let refused = names(&[one("a"), one("b"), one("a")]).unwrap_err();
        assert!(refused.to_string().contains("two strategies are named \"a\""), "{refused}");
        assert_eq!(names(&[one("b"), one("a")]).unwrap(), ["b", "a"]);
    }
}
