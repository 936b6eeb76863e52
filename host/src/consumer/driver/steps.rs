//! The steps of a rebalance, and commits, as the driver takes them.

use std::rc::Rc;
use std::sync::Arc;

use super::{CommitError, Driver, Event, STRATEGY_LIMIT, work};
use crate::assignor::{Cancellation, Context};
use crate::consumer::clock::Moment;
use crate::consumer::error::{ConsumerError, GroupEvent};
use crate::consumer::machine::{Delivery, Identity};
use crate::consumer::offsets::Offsets;
use crate::consumer::shared::Assignment;
use crate::group::TopicPartitions;

impl Driver {
    /// For a new call of a strategy, which [`Action::CancelAssign`](super::Action::CancelAssign) ends.
    pub(super) fn context(&mut self, identity: &Identity) -> Context {
        self.running = Cancellation::default();
        Context {
            group_id: self.common.config.group_id.clone(),
            member_id: identity.member_id.clone(),
            instance_id: None,
            rack: self.common.config.client_rack.clone(),
            generation: identity.generation,
            now_ms: work::now_ms(),
            seed: work::seed(&self.common.config.group_id, &identity.member_id, identity.generation),
            services: Arc::clone(&self.common.services),
            cancellation: self.running.clone(),
        }
    }

    /// The partitions are given up: what was processed of them is committed while the strategies are asked.
    pub(super) fn revoked(&mut self, given_up: Option<Assignment>, now: Moment) {
        self.stop_locating();
        if let Some(assignment) = given_up {
            let partitions = assignment.partitions.clone();
            self.tell(&GroupEvent::Revoked { partitions });
            self.given_up = Some(assignment);
        }
        self.machine.may_rejoin(now);
        self.act();
    }

    pub(super) fn prepare(&mut self, round: u64, topics: Vec<String>, commit: bool, identity: &Identity) {
        let strategies = self.strategies.len();
        let cx = self.context(identity);
        let given_up =
            self.given_up.take().filter(|_| commit && self.common.config.auto_commit_interval.is_some());
        let commit = given_up.map(|a| self.committer(a.identity.clone(), a.processed()));
        self.spawn(move |common| async move {
            let asked = common.strategist.subscriptions(cx, topics, strategies, STRATEGY_LIMIT);
            let committed = async {
                match commit {
                    Some(commit) => commit.await,
                    None => Ok(()),
                }
            };
            let ((interests, mut troubles), committed) = tokio::join!(asked, committed);
            if let Err(e) = committed {
                troubles.push(format!("{}; what was not committed will be read again", e.text()));
            }
            Event::Prepared { round, interests, troubles }
        });
    }

    pub(super) fn deliver(&mut self, delivery: Delivery) {
        self.stop_locating();
        let number = self.delivery;
        let cx = self.context(&delivery.identity);
        let (strategy, partitions, user_data) =
            (delivery.strategy, delivery.partitions.clone(), delivery.user_data);
        let name = self.strategies.get(strategy).cloned().unwrap_or_default();
        self.told(strategy, name.clone(), cx, partitions, user_data);

        let assignment = Assignment::new(delivery.identity, delivery.leader, name, delivery.partitions);
        let common = Rc::clone(&self.common);
        let handle = self.tasks.spawn_local(work::locate(common, number, assignment));
        self.locating = Some(handle);
    }

    pub(super) fn told(
        &mut self,
        strategy: usize,
        name: String,
        cx: Context,
        partitions: Vec<TopicPartitions>,
        user_data: Option<Vec<u8>>,
    ) {
        let common = Rc::clone(&self.common);
        self.tasks.spawn_local(async move {
            let told = common.strategist.on_assignment(strategy, cx, partitions, user_data, STRATEGY_LIMIT);
            if let Err(e) = told.await {
                let message = format!(
                    "strategy {name:?} failed to hear of its assignment ({e}), which stands all the same"
                );
                let _ = common.events.send(Event::Trouble(message));
            }
        });
    }

    pub(super) fn located(&mut self, delivery: u64, result: Result<Assignment, ConsumerError>) {
        if delivery != self.delivery {
            return;
        }
        match result {
            Ok(assignment) => {
                let event = GroupEvent::Assigned {
                    generation: assignment.identity.generation,
                    partitions: assignment.partitions.clone(),
                    leader: assignment.leader,
                    strategy: assignment.strategy.clone(),
                };
                self.shared.install(assignment);
                self.tell(&event);
            }
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn stop_locating(&mut self) {
        self.delivery += 1;
        if let Some(handle) = self.locating.take() {
            handle.abort();
        }
    }

    pub(super) fn lose(&mut self, cause: String) {
        self.stop_locating();
        self.common.strategist.on_lost();
        if let Some(lost) = self.shared.lose(&cause) {
            self.tell(&GroupEvent::Lost { partitions: lost.partitions, cause });
        }
    }

    pub(super) fn correct(&mut self) {
        if self.correcting {
            return;
        }
        let Some((identity, offsets)) = self.shared.positions() else { return };
        self.correcting = true;
        self.spawn(move |common| async move {
            let result = work::correct(&common, offsets).await;
            Event::Corrected { identity, result }
        });
    }

    pub(super) fn commit_before_leaving(&mut self, identity: Identity) {
        let due = self.shared.give_up().filter(|a| a.identity == identity).map(|a| a.returned());
        let commit = due.filter(|offsets| !offsets.is_empty()).map(|o| self.committer(identity, o));
        self.spawn(move |_| async move {
            if let Some(commit) = commit
                && let Err(e) = commit.await
            {
                tracing::warn!("{}; what was not committed will be read again", e.text());
            }
            Event::CommittedBeforeLeaving
        });
    }

    pub(super) fn auto_commit(&mut self, now: Moment) {
        let (Some(interval), Some(due)) = (self.common.config.auto_commit_interval, self.auto_commit_due)
        else {
            return;
        };
        if now < due || self.auto_committing || self.closing.is_some() {
            return;
        }
        self.auto_commit_due = Some(now + interval);
        let Some((identity, offsets)) = self.shared.to_auto_commit() else { return };
        self.auto_committing = true;
        let commit = self.committer(identity, offsets);
        self.spawn(move |common| async move {
            let result = commit.await;
            // A rebalance begins, and commits before it joins.
            let rebalance = Err(CommitError::Final(ConsumerError::RebalanceInProgress));
            if let Err(e) = &result
                && result != rebalance
            {
                let message = format!("auto-commit: {}", e.text());
                let _ = common.events.send(Event::Trouble(message));
            }
            Event::AutoCommitDone
        });
    }

    /// One try to commit. What the answer says about the membership goes to the machine.
    pub(super) fn committer(
        &self,
        identity: Identity,
        offsets: Offsets,
    ) -> impl Future<Output = Result<(), CommitError>> + 'static {
        let common = Rc::clone(&self.common);
        async move {
            if offsets.is_empty() {
                return Ok(());
            }
            let link =
                common.link().ok_or_else(|| CommitError::NotNow("the coordinator is not known".into()))?;
            work::commit(&common, &link.rest, identity, offsets).await
        }
    }
}
