//! Carries out what the [`Machine`] asks for: sockets, clock, strategies, positions. One thread, one loop.

mod actions;
mod answers;
mod messages;
mod pattern;
mod queries;
mod rebalance;
mod steps;
mod work;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::clock::Moment;
use super::config::ConsumerConfig;
use super::connection::{Channel, Settings};
use super::coordinator;
use super::error::{ConsumerError, GroupEvent};
use super::machine::{self, Coordinator, Machine, Membership, Revocation};
use super::metadata::Metadata;
use super::metrics::Metrics;
use super::offsets::Offsets;
use super::rebalance::Rebalance;
use super::services::{Ask, Asker, ConsumerServices};
use super::shared::Shared;
use super::strategist::{Asked, Strategist};
use crate::assignor::{Cancellation, Protocol};

use messages::Event;

pub(super) use messages::{Command, CommitError};
pub(super) use pattern::Pattern;
pub(super) use queries::Query;

/// How long a consumer may take to commit and to leave before it goes without, unless told otherwise.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Within which a strategy tells its subscription, or hears of its assignment. A plugin's own limit is far below.
const STRATEGY_LIMIT: Duration = Duration::from_secs(5);

/// The two connections to the coordinator: a broker answers one request of a connection at a time, and JoinGroup and SyncGroup
/// are answered when everybody is there.
struct Link {
    rebalance: Channel,
    rest: Channel,
}

type Observer = Arc<dyn Fn(&GroupEvent) + Send + std::marker::Sync>;

/// What the driver is made of.
pub(super) struct Parts {
    pub(super) config: Arc<ConsumerConfig>,
    pub(super) strategies: Vec<String>,
    pub(super) protocol: Protocol,
    pub(super) strategist: Strategist,
    pub(super) shared: Arc<Shared>,
    pub(super) observer: Observer,
    pub(super) commands: UnboundedReceiver<Command>,
    pub(super) metrics: Arc<Metrics>,
    /// Questions of other threads about offsets, and where those come from who ask for strategies.
    pub(super) asked: Receiver<Ask>,
    pub(super) asker: Asker,
}

/// What tasks need, and share.
struct Common {
    config: Arc<ConsumerConfig>,
    settings: Rc<Settings>,
    metadata: Metadata,
    strategist: Strategist,
    services: Arc<ConsumerServices>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    events: UnboundedSender<Event>,
    /// To the coordinator, once it is known; replaced when it moves.
    link: RefCell<Option<Rc<Link>>>,
}

impl Common {
    fn link(&self) -> Option<Rc<Link>> {
        self.link.borrow().clone()
    }
}

struct Driver {
    common: Rc<Common>,
    machine: Machine,
    strategies: Vec<String>,
    observer: Observer,
    watch: rebalance::Watch,
    /// Requests to the coordinator that a new connection makes void.
    requests: JoinSet<()>,
    /// What goes on whatever becomes of the coordinator.
    tasks: JoinSet<()>,
    /// Ends the running call of a strategy.
    running: Cancellation,
    /// Counts deliveries; positions that are located for an older one are void.
    delivery: u64,
    locating: Option<AbortHandle>,
    /// What the application is giving up.
    revocation: Option<Revocation>,
    correcting: bool,
    pattern: pattern::Watch,
    auto_commit_due: Option<Moment>,
    auto_committing: bool,
    look_up_due: Moment,
    looking_up: bool,
    closing: Option<Moment>,
    closed: bool,
}

/// Runs a consumer until it is closed.
pub(super) fn run(parts: Parts) -> Result<(), ConsumerError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|e| ConsumerError::Driver(e.to_string()))?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (events, received) = unbounded_channel();
        let Parts {
            config,
            strategies,
            protocol,
            strategist,
            shared,
            observer,
            commands,
            metrics,
            asked,
            asker,
        } = parts;
        let refusals = events.clone();
        // The driver has ended if nobody receives.
        let settings = Settings::new(&config, move |error| drop(refusals.send(Event::Failed(error))))?;
        let metadata = Metadata::new(&config, Rc::clone(&settings));
        let services =
            ConsumerServices::new(metadata.cluster(), Arc::downgrade(&shared), asker, Arc::clone(&metrics));
        let now = Moment::now();
        let machine = Machine::new(
            machine::Settings {
                group_id: config.group_id.clone(),
                rack: config.client_rack.clone(),
                session_timeout: config.session_timeout,
                heartbeat_interval: config.heartbeat_interval,
                max_poll_interval: config.max_poll_interval,
                retry_backoff: config.retry_backoff,
                retry_backoff_max: config.retry_backoff_max,
                strategies: strategies.clone(),
                protocol,
                is_static: config.group_instance_id.is_some(),
                seed: RandomState::new().hash_one(&config.group_id),
            },
            now,
        );
        let auto_commit_due = config.auto_commit_interval.map(|interval| now + interval);
        let common = Common {
            config,
            settings,
            metadata,
            strategist,
            services: Arc::new(services),
            metrics,
            shared,
            events,
            link: RefCell::new(None),
        };
        let common = Rc::new(common);
        tokio::task::spawn_local(answers::serve(Rc::clone(&common), asked));
        let driver = Driver {
            common,
            machine,
            strategies,
            observer,
            watch: rebalance::Watch::default(),
            requests: JoinSet::new(),
            tasks: JoinSet::new(),
            running: Cancellation::default(),
            delivery: 0,
            locating: None,
            revocation: None,
            correcting: false,
            pattern: pattern::Watch::default(),
            auto_commit_due,
            auto_committing: false,
            look_up_due: now,
            looking_up: false,
            closing: None,
            closed: false,
        };
        driver.run(received, commands).await;
        Ok(())
    })
}

impl Driver {
    async fn run(mut self, mut events: UnboundedReceiver<Event>, mut commands: UnboundedReceiver<Command>) {
        loop {
            let now = Moment::now();
            self.turn(now);
            if self.closed || self.closing.is_some_and(|deadline| now >= deadline) {
                break;
            }
            let pause = self.next_timeout().map_or(Duration::from_secs(60), |next| next.since(now));
            tokio::select! {
                Some(event) = events.recv() => self.event(event),
                // A rebalance listener may commit while the consumer closes.
                command = commands.recv(), if self.closing.is_none() || !commands.is_closed() => match command {
                    Some(command) => self.command(command),
                    // The consumer is gone without a word.
                    None => self.command(Command::Close {
                        commit: false,
                        membership: Membership::Default,
                        deadline: Moment::now() + CLOSE_TIMEOUT,
                    }),
                },
                () = self.common.shared.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
                Some(_) = self.requests.join_next(), if !self.requests.is_empty() => {}
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
            }
        }
        self.running.cancel();
    }

    /// Lets time pass, and does what is due.
    fn turn(&mut self, now: Moment) {
        let shared = Arc::clone(&self.common.shared);
        let (in_poll, last_poll) = shared.application();
        self.machine.application(in_poll, last_poll);
        if let Some((after, cause)) = shared.take_request() {
            self.machine.request_rebalance(now, after, cause);
        }
        if let Some(round) = shared.take_finished() {
            self.given_up(round, now);
        }
        self.machine.handle_timeout(now);
        self.act();
        if !self.machine.waits_for_poll() {
            shared.release();
        } else if shared.hold_in_poll() {
            self.machine.at_poll(now);
            self.act();
            shared.release();
        }
        shared.remind(now, self.reminder());
        self.watch_pattern(now);
        self.auto_commit(now);
        self.look_up(now);
    }

    fn next_timeout(&self) -> Option<Moment> {
        let (in_poll, last_poll) = self.common.shared.application();
        let waits = !in_poll && self.common.shared.has_tasks();
        let due = [
            self.machine.next_timeout(),
            waits.then(|| last_poll + self.reminder()),
            self.pattern.due(),
            self.auto_commit_due.filter(|_| !self.auto_committing),
            (!self.looking_up && self.machine.watched().next().is_some()).then_some(self.look_up_due),
            self.closing,
        ];
        due.into_iter().flatten().min()
    }

    /// After so long a task that waits for a stream is woken, so that it polls: well before `max.poll.interval.ms` is over.
    fn reminder(&self) -> Duration {
        self.common.config.max_poll_interval / 3
    }

    fn command(&mut self, command: Command) {
        let now = Moment::now();
        match command {
            Command::Subscribe(topics) => {
                self.pattern.clear();
                self.machine.subscribe(now, topics);
            }
            Command::SubscribePattern(pattern) => self.pattern.set(pattern, now),
            Command::Unsubscribe(reply) => {
                self.pattern.clear();
                self.machine.unsubscribe(now);
                // Who asked may have given up waiting.
                let _ = reply.send(());
            }
            Command::Reset { partitions, end, stamp } => {
                let common = Rc::clone(&self.common);
                self.tasks.spawn_local(async move { work::seek_to(&common, partitions, end, stamp).await });
            }
            Command::Query(query) => {
                let common = Rc::clone(&self.common);
                self.tasks.spawn_local(async move { queries::answer(&common, query).await });
            }
            Command::Commit { identity, offsets, reply } => {
                let commit = self.committer(identity, offsets);
                self.tasks.spawn_local(async move {
                    reply(commit.await);
                });
            }
            Command::OutOfRange => self.correct(),
            Command::Close { commit, membership, deadline } => {
                self.closing.get_or_insert(deadline);
                self.machine.close(now, commit, membership);
            }
        }
        self.act();
    }

    fn event(&mut self, event: Event) {
        let now = Moment::now();
        self.watch.event(&event, now);
        match event {
            Event::Coordinator(id, answer) => self.machine.coordinator_found(now, id, answer),
            Event::CommittedBefore { round, troubles } => {
                self.troubles(troubles);
                self.tell_revoked(round, now);
            }
            Event::Prepared { round, asked: Asked { interests, degraded, troubles } } => {
                self.troubles(troubles);
                self.machine.prepared(now, round, interests, degraded);
            }
            Event::Joined(id, answer) => self.machine.joined(now, id, answer),
            Event::Planned { round, planned, troubles } => {
                self.troubles(troubles);
                let all = planned.as_ref().is_ok_and(|p| p.counts.values().all(|&count| count > 0));
                self.look_up_due = now + self.look_up_pause(all);
                self.machine.planned(now, round, planned);
            }
            Event::Synced(id, answer) => self.machine.synced(now, id, answer),
            Event::Beat(id, answer) => {
                self.common.metrics.heartbeat(answer.as_ref().ok().copied());
                self.machine.heartbeat_answered(now, id, answer);
            }
            Event::Left(id) => self.machine.left(id),
            Event::Committed { identity, offsets, code } => {
                if code == 0 {
                    self.common.shared.committed(&identity, &offsets);
                } else {
                    self.machine.commit_refused(now, &identity, code);
                }
            }
            Event::AutoCommitDone => self.auto_committing = false,
            Event::Located { delivery, offsets, committed } => {
                if delivery == self.delivery {
                    self.common.shared.start(offsets, committed);
                    self.installed(now);
                }
            }
            Event::Corrected { examined, result } => {
                self.correcting = false;
                match result {
                    Ok(offsets) => self.common.shared.correct(&examined, &offsets),
                    Err(ConsumerError::NoOffset { topic, partition }) => {
                        self.common.shared.correct(&examined, &Offsets::new());
                        self.common.shared.stick(&BTreeSet::from([(topic, partition)]));
                    }
                    Err(error) => self.fail(error),
                }
            }
            Event::Stuck { delivery, partitions } => {
                if delivery == self.delivery {
                    self.common.shared.stick(&partitions);
                    self.installed(now);
                }
            }
            Event::Listed { number, topics } => self.listed(number, topics, now),
            Event::LookedUp { answered } => self.looked_up(now, answered),
            Event::Trouble(message) => self.troubles(vec![message]),
            Event::Failed(error) => self.fail(error),
        }
        self.act();
    }

    /// The leader looks whether topics have changed: now and then, and soon while a topic isn't there.
    fn look_up(&mut self, now: Moment) {
        let watched: BTreeSet<String> = self.machine.watched().cloned().collect();
        if watched.is_empty() || self.looking_up || now < self.look_up_due {
            return;
        }
        self.looking_up = true;
        self.spawn(move |common| async move {
            let answer = common.metadata.refresh(&watched).await;
            if let Err(e) = &answer {
                tracing::debug!(error = %e, "metadata");
            }
            Event::LookedUp { answered: answer.is_ok() }
        });
    }

    /// Until the next look, if all topics exist, or some don't.
    fn look_up_pause(&self, all: bool) -> Duration {
        let config = &self.common.config;
        if all { config.metadata_max_age } else { config.retry_backoff_max.min(config.metadata_max_age) }
    }

    fn looked_up(&mut self, now: Moment, answered: bool) {
        self.looking_up = false;
        if !answered {
            self.look_up_due = now + self.look_up_pause(false);
            return;
        }
        let watched: Vec<String> = self.machine.watched().cloned().collect();
        let config = &self.common.config;
        let (counts, racks) = self
            .common
            .metadata
            .with(|cluster| (cluster.counts(&watched), work::watched_racks(config, cluster, &watched)));
        self.look_up_due = now + self.look_up_pause(counts.len() == watched.len());
        self.machine.looked_up(now, &counts, racks);
    }

    fn fail(&mut self, error: ConsumerError) {
        self.tell(&GroupEvent::Failed { error: error.clone() });
        self.common.shared.report(error);
    }

    fn troubles(&self, messages: Vec<String>) {
        for message in messages {
            self.tell(&GroupEvent::Trouble { message });
        }
    }

    /// The newest assignment is installed, as far as is known where its partitions start.
    fn installed(&mut self, now: Moment) {
        let ended = self.watch.installed(now);
        self.rebalanced(ended);
    }

    fn rebalanced(&self, ended: Option<Rebalance>) {
        if let Some(rebalance) = ended {
            self.common.metrics.rebalanced(&rebalance);
            self.tell(&GroupEvent::Rebalanced(rebalance));
        }
    }

    fn tell(&self, event: &GroupEvent) {
        let group = self.common.config.group_id.as_str();
        match event {
            GroupEvent::Trouble { message } => tracing::warn!(group, "{message}"),
            GroupEvent::Failed { error } => tracing::error!(group, code = error.code(), "{error}"),
            GroupEvent::Lost { cause, .. } => tracing::warn!(group, "partitions lost: {cause}"),
            GroupEvent::FirstChoiceNotChosen { wanted, chosen } => {
                tracing::warn!(group, "first choice {wanted:?} not chosen, the group runs {chosen:?}");
            }
            GroupEvent::BrokerAssigns { strategy } => tracing::error!(
                group,
                "the broker assigns the partitions (KIP-848): {strategy:?} is not asked any more; remove the members with \
                 group.protocol=consumer, and set assignor.block-upgrade=true to keep them out"
            ),
            GroupEvent::Rebalanced(rebalance) => tracing::info!(
                group,
                cause = rebalance.cause_code,
                outcome = rebalance.outcome.code(),
                generation = rebalance.generation,
                took = ?rebalance.took,
                phases = ?rebalance.phases,
                "rebalance over"
            ),
            event => tracing::info!(group, ?event),
        }
        (self.observer)(event);
    }
}
