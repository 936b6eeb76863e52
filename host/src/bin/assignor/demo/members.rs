//! The demo's consumers, each on a thread of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::anyhow;
use assignor_host::consumer::{Consumer, ConsumerConfig, ConsumerError, EmbeddedBroker, GroupEvent};
use assignor_host::{Component, Event, FallbackPolicy, Plugin, Strategy};

use super::flow::{self, Tally};
use super::{TOPIC, WEIGHTS};

/// Something to show: of which member (an index into [`WEIGHTS`]), and what.
#[derive(Debug)]
pub(super) enum Happening {
    Group(usize, GroupEvent),
    Strategy(usize, Event),
    /// A poll failed, for now or for good.
    Poll(usize, ConsumerError),
}

/// The consumers.
pub(super) struct Members {
    members: Vec<Member>,
    stop: Arc<AtomicBool>,
}

struct Member {
    strategy: Strategy,
    consumer: Arc<Consumer>,
    thread: JoinHandle<()>,
}

impl Members {
    /// One consumer for each weight, all of the same component.
    pub(super) fn start(
        broker: &EmbeddedBroker,
        component: &Arc<Component>,
        tally: &Arc<Mutex<Tally>>,
        happenings: &Sender<Happening>,
    ) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut members = Vec::new();
        for (index, weight) in WEIGHTS.into_iter().enumerate() {
            let plugin = Plugin::new(component, BTreeMap::from([("weight".to_owned(), weight.to_string())]))?;
            let tell = happenings.clone();
            // Nobody listens any more when the demo ends: nothing is left to show then, here and below.
            let observer = Arc::new(move |event: &Event| {
                let _ = tell.send(Happening::Strategy(index, event.clone()));
            });
            let strategy = Strategy::plugin(plugin, FallbackPolicy::default(), observer);

            let mut properties = broker.consumer_properties();
            properties.insert("group.id".into(), "demo".into());
            properties.insert("client.id".into(), name(index));
            let tell = happenings.clone();
            let consumer = Consumer::new(
                ConsumerConfig::from_properties(properties)?,
                vec![Box::new(strategy.clone())],
                move |event| {
                    let _ = tell.send(Happening::Group(index, event.clone()));
                },
            )?;
            consumer.subscribe(&[TOPIC])?;
            let consumer = Arc::new(consumer);
            let (polled, tally, stopped, tell) =
                (Arc::clone(&consumer), Arc::clone(tally), Arc::clone(&stop), happenings.clone());
            let thread =
                std::thread::Builder::new().name(format!("demo-{}", name(index))).spawn(move || {
                    while !stopped.load(Ordering::Relaxed) {
                        match polled.poll(Duration::from_millis(100)) {
                            Ok(records) => {
                                let mut tally = flow::lock(&tally);
                                records.iter().for_each(|record| tally.count(index, record));
                            }
                            Err(error) => {
                                let last = !error.is_retriable();
                                let _ = tell.send(Happening::Poll(index, error));
                                if last {
                                    break;
                                }
                            }
                        }
                    }
                })?;
            members.push(Member { strategy, consumer, thread });
        }
        Ok(Self { members, stop })
    }

    /// The consumers, in order.
    pub(super) fn consumers(&self) -> Vec<Arc<Consumer>> {
        self.members.iter().map(|member| Arc::clone(&member.consumer)).collect()
    }

    /// Puts other bytes in the strategy's place on every member, the leader last: it then starts a rebalance, and the others
    /// are to join it with what the new strategy tells.
    pub(super) fn replace(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let leads = |member: &&Member| member.consumer.group_metadata().is_leader;
        let (leaders, followers): (Vec<&Member>, Vec<&Member>) = self.members.iter().partition(leads);
        for member in followers.into_iter().chain(leaders) {
            member.strategy.replace(bytes)?;
        }
        Ok(())
    }

    /// Ends all consumers in good order.
    pub(super) fn close(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for member in self.members {
            member.thread.join().map_err(|_| anyhow!("a consumer's thread panicked"))?;
            member.consumer.close()?;
        }
        Ok(())
    }
}

/// What a member is called.
pub(super) fn name(index: usize) -> String {
    format!("c{}", index + 1)
}
