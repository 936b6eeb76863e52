//! The steps of a rebalance, and commits, as the driver takes them.

use std::rc::Rc;

use super::{CommitError, Driver, Event, STRATEGY_LIMIT, work};
use crate::assignor::{Cancellation, Context};
use crate::consumer::clock::Moment;
use crate::consumer::error::{ConsumerError, GroupEvent};
use crate::consumer::machine::{Commit, Delivery, Identity, Revocation};
use crate::consumer::offsets::{self, Commits, Offsets};
use crate::consumer::shared::Assignment;
use crate::group::TopicPartitions;

impl Driver {
    /// For a new call of a strategy, which [`Action::CancelAssign`](super::Action::CancelAssign) ends.
    pub(super) fn context(&mut self, identity: &Identity) -> Context {
        self.running = Cancellation::default();
        Context {
            group_id: self.common.config.group_id.clone(),
            member_id: identity.member_id.clone(),
            instance_id: self.common.config.group_instance_id.clone(),
            rack: self.common.config.client_rack.clone(),
            generation: identity.generation,
            now_ms: work::now_ms(),
            seed: work::seed(&self.common.config.group_id, &identity.member_id, identity.generation),
            services: self.common.services.clone(),
            cancellation: self.running.clone(),
        }
    }

    /// What is given up is suspended at once. What is due is committed, the listener hears of it, and then it is gone.
    pub(super) fn revoke(&mut self, revocation: Revocation) {
        let Revocation { round, identity, partitions, commit } = revocation.clone();
        let auto_commit = self.common.config.auto_commit_interval.is_some();
        let offsets = self.common.shared.suspend(&partitions, |assignment| match commit {
            Commit::Processed if auto_commit => assignment.processed(),
            Commit::Returned => assignment.returned(),
            Commit::Processed | Commit::Nothing => Offsets::new(),
        });
        if !partitions.is_empty() {
            self.tell(&GroupEvent::Revoked { partitions });
        }
        self.revocation = Some(revocation);
        if offsets.is_empty() {
            return self.tell_revoked(round, Moment::now());
        }
        // Members are waited for, so a coordinator that is away may cost some time, but not all of it.
        let config = &self.common.config;
        let limit = config.request_timeout.min(config.max_poll_interval / 4);
        let limit = self.closing.map_or(limit, |end| limit.min(end.since(Moment::now()) / 2));
        self.spawn(move |common| async move {
            let committed = work::commit_within(&common, limit, identity, offsets).await;
            let troubles =
                committed.err().map(|e| format!("{}; what was not committed will be read again", e.text()));
            Event::CommittedBefore { round, troubles: troubles.into_iter().collect() }
        });
    }

    /// The listener's turn, if there is one and it has something to hear.
    pub(super) fn tell_revoked(&mut self, round: u64, now: Moment) {
        let Some(revocation) = self.revocation.as_ref().filter(|r| r.round == round) else { return };
        let partitions = revocation.partitions.clone();
        if partitions.is_empty() || !self.common.shared.tell_revoked(round, partitions) {
            self.given_up(round, now);
        }
    }

    /// The listener has heard.
    pub(super) fn given_up(&mut self, round: u64, now: Moment) {
        if self.revocation.take_if(|r| r.round == round).is_some() {
            self.common.shared.drop_suspended();
            self.watch.given_up(now);
            self.machine.revoked(now, round);
        }
    }

    pub(super) fn prepare(&mut self, round: u64, topics: Vec<String>, identity: &Identity) {
        let strategies = self.strategies.len();
        let cx = self.context(identity);
        self.spawn(move |common| async move {
            let asked = common.strategist.subscriptions(cx, topics, strategies, STRATEGY_LIMIT).await;
            Event::Prepared { round, asked }
        });
    }

    pub(super) fn deliver(&mut self, delivery: Delivery) {
        self.stop_locating();
        let Delivery { identity, strategy, leader, partitions, added, user_data } = delivery;
        let cx = self.context(&identity);
        let name = self.strategies.get(strategy).cloned().unwrap_or_default();
        // User data that only keeps the broker from assigning is nobody's.
        let user_data = user_data.filter(|bytes| bytes != work::NO_UPGRADE);
        self.told(strategy, name.clone(), cx, partitions.clone(), user_data);

        let event = GroupEvent::Assigned {
            generation: identity.generation,
            partitions: partitions.clone(),
            leader,
            strategy: name.clone(),
        };
        let assignment = Assignment::new(identity, leader, name, partitions);
        let unplaced = self.common.shared.assign(assignment, added);
        self.tell(&event);
        if unplaced.is_empty() {
            self.installed(Moment::now());
        } else {
            let common = Rc::clone(&self.common);
            self.locating = Some(self.tasks.spawn_local(work::locate(common, self.delivery, unplaced)));
        }
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

    pub(super) fn stop_locating(&mut self) {
        self.delivery += 1;
        if let Some(handle) = self.locating.take() {
            handle.abort();
        }
    }

    pub(super) fn lose(&mut self, cause: String) {
        self.stop_locating();
        self.revocation = None;
        self.common.strategist.on_lost();
        if let Some(partitions) = self.common.shared.lose(&cause) {
            self.common.metrics.lost(&partitions);
            self.tell(&GroupEvent::Lost { partitions, cause });
        }
    }

    /// This consumer is no member any more. What a strategy remembers stays: a member that comes back tells what it had.
    pub(super) fn unassign(&mut self) {
        self.stop_locating();
        self.common.shared.unassign();
    }

    pub(super) fn correct(&mut self) {
        let examined = self.common.shared.positions();
        if self.correcting || examined.is_empty() {
            return;
        }
        self.correcting = true;
        self.spawn(move |common| async move {
            let result = work::correct(&common, examined.clone()).await;
            Event::Corrected { examined, result }
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
        let Some((identity, offsets)) = self.common.shared.to_auto_commit() else { return };
        self.auto_committing = true;
        let commit = self.committer(identity, offsets::plain(offsets));
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
        offsets: Commits,
    ) -> impl Future<Output = Result<(), CommitError>> + 'static {
        let common = Rc::clone(&self.common);
        async move { work::commit(&common, identity, offsets).await }
    }
}
