//! What the coordinator answers, and what follows from it (Kafka: the handlers in `AbstractCoordinator`).

use kafka_protocol::ResponseError as E;

use super::{Action, Beat, Delivery, Identity, Machine, Partitions, RequestId, Seeking, State, Then};
use crate::consumer::clock::Moment;
use crate::consumer::config::Address;
use crate::consumer::error::{ConsumerError, GroupEvent};
use crate::group::{MemberSubscription, Subscription};
use crate::wire;
use bytes::Bytes;

/// FindCoordinator's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::consumer) struct Coordinator {
    pub(in crate::consumer) error: i16,
    pub(in crate::consumer) host: String,
    pub(in crate::consumer) port: i32,
}

/// JoinGroup's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::consumer) struct Join {
    pub(in crate::consumer) error: i16,
    pub(in crate::consumer) generation: i32,
    pub(in crate::consumer) protocol: String,
    pub(in crate::consumer) leader: String,
    pub(in crate::consumer) member_id: String,
    pub(in crate::consumer) members: Vec<JoinedMember>,
    /// The leader is back, the plan of its group stands (KIP-814).
    pub(in crate::consumer) skip_assignment: bool,
}

/// A member as the leader sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::consumer) struct JoinedMember {
    pub(in crate::consumer) id: String,
    pub(in crate::consumer) instance_id: Option<String>,
    pub(in crate::consumer) metadata: Bytes,
}

/// SyncGroup's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::consumer) struct Sync {
    pub(in crate::consumer) error: i16,
    pub(in crate::consumer) assignment: Bytes,
}

impl Machine {
    /// FindCoordinator's answer, or why there is none.
    pub(in crate::consumer) fn coordinator_found(
        &mut self,
        now: Moment,
        id: RequestId,
        answer: Result<Coordinator, String>,
    ) {
        if self.coordinator != Seeking::Finding(id) {
            return;
        }
        let trouble = match answer {
            Ok(found) => match E::try_from_code(found.error) {
                None => match u16::try_from(found.port) {
                    Ok(port) if !found.host.is_empty() => {
                        self.coordinator = Seeking::Known;
                        self.actions.push_back(Action::Connect(Address { host: found.host, port }));
                        self.drive(now);
                        return;
                    }
                    _ => format!("the coordinator's address {}:{} is none", found.host, found.port),
                },
                Some(E::GroupAuthorizationFailed) => {
                    self.forget_coordinator(now);
                    self.fail(self.not_authorised());
                    return;
                }
                Some(E::InvalidGroupId) => {
                    self.forget_coordinator(now);
                    self.fail(ConsumerError::Refused(format!(
                        "group.id {:?} is invalid",
                        self.settings.group_id
                    )));
                    return;
                }
                Some(error) => format!("the coordinator is not available yet ({error:?})"),
            },
            Err(e) => format!("no broker names the coordinator: {e}"),
        };
        // The first tries often meet a cluster that is just creating its offsets topic: no trouble yet.
        if self.backoff.failures() >= 3 {
            self.trouble(trouble);
        }
        self.forget_coordinator(now);
        self.drive(now);
    }

    /// JoinGroup's answer, or why there is none.
    pub(in crate::consumer) fn joined(&mut self, now: Moment, id: RequestId, answer: Result<Join, String>) {
        if self.state != (State::Joining { id }) {
            return;
        }
        match answer {
            Ok(join) => match E::try_from_code(join.error) {
                None => self.join_accepted(now, join),
                Some(E::MemberIdRequired) => {
                    self.identity.member_id = join.member_id;
                    self.state = State::Waiting;
                }
                Some(error) => self.join_refused(now, error),
            },
            Err(e) => self.coordinator_lost(now, "JoinGroup", &e),
        }
        self.drive(now);
    }

    fn join_accepted(&mut self, now: Moment, join: Join) {
        self.backoff.reset();
        self.join_after = now;
        // What it said of the generation before is over.
        self.beat = None;
        let sent = self.first_join.take().unwrap_or(now);
        if join.generation != self.identity.generation {
            self.synced = false;
            // The generation began after one of the JoinGroups had come that are not answered before.
            self.intact_since(sent);
        }
        self.identity = Identity { member_id: join.member_id, generation: join.generation };
        // The coordinator's session timer runs from its answer on.
        self.kept_since(sent);
        self.beat_due = now;
        if self.stale {
            return self.prepare("the subscription changed".into());
        }
        let Some(strategy) = self.settings.strategies.iter().position(|s| *s == join.protocol) else {
            return self.fail(ConsumerError::Refused(format!(
                "the group runs {:?}, which this member does not list",
                join.protocol
            )));
        };
        if strategy != 0 && self.strategy != strategy {
            let wanted = self.settings.strategies.first().cloned().unwrap_or_default();
            let chosen = join.protocol.clone();
            self.actions.push_back(Action::Event(GroupEvent::FirstChoiceNotChosen { wanted, chosen }));
        }
        // A group of the new protocol has no leader, and answers with each member's own first name.
        let broker_assigns = join.leader.is_empty();
        if broker_assigns && !self.broker_assigns {
            self.actions
                .push_back(Action::Event(GroupEvent::BrokerAssigns { strategy: join.protocol.clone() }));
        }
        self.broker_assigns = broker_assigns;
        self.strategy = strategy;
        self.leader = join.leader == self.identity.member_id;
        self.members = join.members.len();
        self.watched.clear();
        if !self.leader || join.members.is_empty() {
            return self.send_sync(now, Vec::new());
        }
        let mut decoder = wire::subscription::Decoder::default();
        let members: Vec<MemberSubscription> =
            join.members.into_iter().map(|m| self.decode_member(m, &mut decoder)).collect();
        if join.skip_assignment {
            // A plan of its own would move partitions that nobody gave up (KAFKA-13435). What the group wants is watched all the
            // same, or nobody would notice new partitions.
            self.watched = members
                .iter()
                .flat_map(|m| m.subscription.topics.iter())
                .map(|topic| (topic.clone(), None))
                .collect();
            return self.send_sync(now, Vec::new());
        }
        let round = self.id();
        self.state = State::Assigning { round };
        let (identity, user_data) = (self.identity.clone(), self.syncs_refused == 0);
        self.actions.push_back(Action::Assign { round, strategy, identity, members, user_data });
    }

    /// A blob that can't be decoded is a member without topics: it gets nothing, and the others go on.
    fn decode_member(
        &mut self,
        member: JoinedMember,
        decoder: &mut wire::subscription::Decoder,
    ) -> MemberSubscription {
        let subscription = decoder.decode(&member.metadata).unwrap_or_else(|e| {
            self.trouble(format!(
                "the subscription of member {:?} can't be decoded ({e}): it gets no partitions",
                member.id
            ));
            Subscription::default()
        });
        MemberSubscription { member_id: member.id, instance_id: member.instance_id, subscription }
    }

    fn join_refused(&mut self, now: Moment, error: E) {
        self.state = State::Waiting;
        match error {
            E::UnknownMemberId | E::IllegalGeneration => {
                self.back_off(now);
                self.generation_over(error);
            }
            E::RebalanceInProgress | E::CoordinatorLoadInProgress => self.back_off(now),
            E::CoordinatorNotAvailable | E::NotCoordinator => self.forget_coordinator(now),
            error => self.refused(now, "JoinGroup", error),
        }
    }

    /// SyncGroup's answer, or why there is none.
    pub(in crate::consumer) fn synced(&mut self, now: Moment, id: RequestId, answer: Result<Sync, String>) {
        let State::Syncing { id: waiting, sent } = self.state else { return };
        if waiting != id {
            return;
        }
        match answer {
            Ok(sync) => match E::try_from_code(sync.error) {
                None => self.sync_accepted(now, sent, &sync.assignment),
                Some(error) => {
                    self.state = State::Waiting;
                    match error {
                        E::RebalanceInProgress => {}
                        E::UnknownMemberId | E::IllegalGeneration => {
                            self.back_off(now);
                            self.generation_over(error);
                        }
                        E::CoordinatorLoadInProgress => self.back_off(now),
                        E::CoordinatorNotAvailable | E::NotCoordinator => self.forget_coordinator(now),
                        E::UnknownServerError => self.lighten(now),
                        error => self.refused(now, "SyncGroup", error),
                    }
                }
            },
            Err(e) => self.coordinator_lost(now, "SyncGroup", &e),
        }
        self.drive(now);
    }

    /// A group whose subscriptions and assignments do not fit into one record of `__consumer_offsets` (`message.max.bytes`, 1 MiB by
    /// default) is refused with an unknown error (Kafka: `GroupCoordinatorService`). Strategies' user data must not keep it from
    /// its partitions: that of assignments goes first, then that of subscriptions. The next rebalance tries with it again.
    fn lighten(&mut self, now: Moment) {
        self.syncs_refused = self.syncs_refused.saturating_add(1);
        // JoinGroup and heartbeats succeed meanwhile; the pauses grow all the same.
        self.backoff.at_least(self.syncs_refused - 1);
        self.back_off(now);
        let whose = if self.syncs_refused == 1 { "assignments" } else { "assignments and subscriptions" };
        self.trouble(format!(
            "SyncGroup was refused ({:?}), as brokers do when a group's data is larger than message.max.bytes; trying again without user data in {whose}",
            E::UnknownServerError
        ));
        if self.syncs_refused == 1 {
            return;
        }
        for (_, blob) in &mut self.protocols {
            // They are ours: what we wrote can be read and written again.
            let without = wire::subscription::decode(blob).and_then(|subscription| {
                let subscription = Subscription { user_data: None, ..subscription };
                wire::subscription::encode(&subscription, wire::HIGHEST_VERSION)
            });
            if let Ok(without) = without {
                *blob = without.into();
            }
        }
    }

    fn sync_accepted(&mut self, now: Moment, sent: Moment, assignment: &[u8]) {
        // An empty blob is an empty assignment: the leader knew nothing of this member.
        let decoded =
            if assignment.is_empty() { Ok((Vec::new(), None)) } else { wire::assignment::decode(assignment) };
        let (partitions, user_data) = match decoded {
            Ok(decoded) => decoded,
            Err(e) => {
                self.trouble(format!("the leader's assignment can't be decoded ({e}); joining again"));
                self.back_off(now);
                self.state = State::Waiting;
                return;
            }
        };
        // Bytes of an older subscription may have been answered (Kafka: ConsumerCoordinator.onJoinComplete). What is owned stays so,
        // and is claimed again.
        let assigned = Partitions::of(partitions);
        if let Some(alien) = assigned.topics().find(|topic| !self.topics.contains(topic)) {
            let cause =
                format!("the leader assigned topic {alien:?}, to which this member is not subscribed");
            self.trouble(format!("{cause}; joining again"));
            self.back_off(now);
            return self.prepare(cause);
        }
        self.backoff.reset();
        self.syncs_refused = 0;
        self.synced = true;
        self.kept_since(sent);
        self.intact_since(sent);
        if self.owns() {
            self.actions.push_back(Action::Renew(self.identity.clone()));
        }
        self.due = Some(Delivery {
            identity: self.identity.clone(),
            strategy: self.strategy,
            leader: self.leader,
            partitions: assigned.listed(),
            added: assigned.without(&self.owned.partitions).listed(),
            user_data,
        });
        if self.taken().is_empty() {
            self.deliver(now);
        } else {
            self.state = State::Synced;
        }
    }

    /// Heartbeat's answer, or why there is none.
    pub(in crate::consumer) fn heartbeat_answered(
        &mut self,
        now: Moment,
        id: RequestId,
        answer: Result<i16, String>,
    ) {
        let Some(Beat { sent, .. }) = self.beat.take_if(|beat| beat.id == id) else { return };
        // While JoinGroup or SyncGroup is under way, its answer tells more.
        let awaits =
            matches!(self.state, State::Joining { .. } | State::Assigning { .. } | State::Syncing { .. });
        match answer.map(E::try_from_code) {
            Ok(None) => {
                self.backoff.reset();
                self.kept_since(sent);
                if self.synced {
                    self.intact_since(sent);
                }
            }
            Ok(Some(E::RebalanceInProgress)) => {
                // While it assigns or syncs, older brokers say this of every heartbeat.
                self.kept_since(sent);
                self.hear_of_rebalance();
            }
            Ok(Some(error @ (E::UnknownMemberId | E::IllegalGeneration))) => self.generation_lost(error),
            Ok(Some(E::CoordinatorNotAvailable | E::NotCoordinator)) | Err(_) if !awaits => {
                self.forget_coordinator(now);
            }
            Ok(Some(E::FencedInstanceId)) => self.fail(ConsumerError::Fenced),
            Ok(Some(E::GroupAuthorizationFailed)) => self.fail(self.not_authorised()),
            // Otherwise the next heartbeat tells, or the lease.
            Ok(Some(_)) | Err(_) => {}
        }
        self.drive(now);
    }

    /// What a commit's answer says about the membership.
    pub(in crate::consumer) fn commit_refused(&mut self, now: Moment, identity: &Identity, error: i16) {
        if *identity != self.identity {
            return;
        }
        match E::try_from_code(error) {
            Some(error @ (E::UnknownMemberId | E::IllegalGeneration)) => self.generation_lost(error),
            Some(E::RebalanceInProgress) => self.hear_of_rebalance(),
            Some(E::CoordinatorNotAvailable | E::NotCoordinator | E::RequestTimedOut)
                if matches!(self.state, State::Revoking { .. } | State::Synced | State::Stable { .. }) =>
            {
                self.forget_coordinator(now);
            }
            Some(E::FencedInstanceId) => self.fail(ConsumerError::Fenced),
            _ => {}
        }
        self.drive(now);
    }

    fn hear_of_rebalance(&mut self) {
        if let State::Stable { .. } = self.state {
            self.rejoin.get_or_insert_with(|| "the group is rebalancing".into());
        }
    }

    /// LeaveGroup is answered, or will not be.
    pub(in crate::consumer) fn left(&mut self, id: RequestId) {
        if self.state == (State::Leaving { id }) {
            self.closed();
        }
    }

    /// A heartbeat or commit was told that the generation is gone.
    fn generation_lost(&mut self, error: E) {
        match self.state {
            // JoinGroup's answer tells: the generation that a heartbeat named may just have been followed by the next.
            State::Joining { .. } | State::Idle | State::Leaving { .. } | State::Failed | State::Closed => {}
            // Too late to begin anew: it ends in any case.
            State::Revoking { then: Then::Unsubscribe | Then::Close, .. } => {}
            _ => self.generation_over(error),
        }
    }

    /// The generation is gone. After ILLEGAL_GENERATION the member id stays good; after UNKNOWN_MEMBER_ID it does not.
    fn generation_over(&mut self, error: E) {
        if error == E::UnknownMemberId {
            self.reset()
        } else {
            self.reset_generation()
        }
        if self.owns() || matches!(self.state, State::Revoking { .. } | State::Synced | State::Stable { .. })
        {
            return self.lose(gone(error));
        }
        // The bytes claim nothing: they serve again.
        if let State::Assigning { .. } | State::Syncing { .. } | State::Waiting = self.state {
            self.cancel_assign();
            self.state = State::Waiting;
        }
    }

    fn coordinator_lost(&mut self, now: Moment, request: &str, error: &str) {
        self.trouble(format!("{request} failed ({error}); looking for the coordinator again"));
        self.state = State::Waiting;
        self.forget_coordinator(now);
    }

    fn refused(&mut self, now: Moment, request: &str, error: E) {
        self.back_off(now);
        let error = match error {
            E::GroupAuthorizationFailed => self.not_authorised(),
            E::GroupMaxSizeReached => ConsumerError::GroupFull { group: self.settings.group_id.clone() },
            E::FencedInstanceId => ConsumerError::Fenced,
            E::InconsistentGroupProtocol => ConsumerError::InconsistentProtocol {
                group: self.settings.group_id.clone(),
                listed: self.settings.strategies.join(", "),
            },
            E::InvalidSessionTimeout => ConsumerError::Refused(format!(
                "session.timeout.ms={} is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
                self.settings.session_timeout.as_millis()
            )),
            E::InvalidGroupId => {
                ConsumerError::Refused(format!("group.id {:?} is invalid", self.settings.group_id))
            }
            E::UnsupportedVersion if self.settings.is_static => ConsumerError::Refused(format!(
                "it does not know this {request}; brokers before Kafka 2.3 know no group.instance.id"
            )),
            E::UnsupportedVersion => ConsumerError::Refused(format!("it does not know this {request}")),
            other => {
                // Brokers add errors: what isn't known is tried again.
                self.trouble(format!("{request} was refused ({other:?}); trying again"));
                return;
            }
        };
        self.fail(error);
    }

    fn not_authorised(&self) -> ConsumerError {
        ConsumerError::GroupAuthorization { group: self.settings.group_id.clone() }
    }
}

fn gone(error: E) -> &'static str {
    match error {
        E::UnknownMemberId => "the group does not know this member any more",
        _ => "the group has gone on to another generation without this member",
    }
}
