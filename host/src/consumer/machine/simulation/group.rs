//! A model of Kafka's group coordinator.

use super::*;

/// After `GroupMetadata` and `GroupCoordinator` of Kafka's classic groups.
#[derive(Default)]
pub(super) struct Group {
    pub(super) phase: Phase,
    pub(super) generation: i32,
    leader: String,
    pub(super) members: BTreeMap<String, Known>,
    /// The member id of each static member.
    statics: BTreeMap<String, String>,
    /// Older brokers answer heartbeats of a syncing group so.
    strict_heartbeats: bool,
    named: u32,
    /// Ids that were given with MEMBER_ID_REQUIRED.
    pending: BTreeSet<String>,
}

#[derive(Default, Clone, Copy, PartialEq, Debug)]
pub(super) enum Phase {
    #[default]
    Empty,
    Preparing {
        until: u64,
    },
    Completing {
        until: u64,
    },
    Stable,
}

#[derive(Default)]
pub(super) struct Known {
    expires: u64,
    protocols: Vec<(String, Bytes)>,
    pub(super) joining: Option<(usize, RequestId)>,
    syncing: Option<(usize, RequestId)>,
    pub(super) synced: bool,
    instance: Option<String>,
    assignment: Bytes,
}

pub(super) type Answers = Vec<(usize, RequestId, Message)>;

impl Group {
    pub(super) fn new(strict_heartbeats: bool) -> Self {
        Self { strict_heartbeats, ..Self::default() }
    }

    pub(super) fn join(
        &mut self,
        now: u64,
        node: usize,
        id: RequestId,
        (member_id, instance): (String, Option<String>),
        protocols: Vec<(String, Bytes)>,
    ) -> Answers {
        if let Some(instance) = &instance {
            let before = self.statics.get(instance).cloned();
            match before {
                Some(before) if member_id.is_empty() => {
                    return self.replace_static(now, (node, id), instance, &before, protocols);
                }
                Some(before) if before != member_id => return refuse_join(node, id, 82),
                None if member_id.is_empty() => {
                    let member_id = self.name(node);
                    self.pending.insert(member_id.clone());
                    self.statics.insert(instance.clone(), member_id.clone());
                    return self.join(now, node, id, (member_id, Some(instance.clone())), protocols);
                }
                _ => {}
            }
        }
        if member_id.is_empty() {
            let member_id = self.name(node);
            self.pending.insert(member_id.clone());
            let answer = Join { error: 79, member_id, ..Join::default() };
            return vec![(node, id, Message::Joined(answer))];
        }
        let known = self.members.contains_key(&member_id);
        if !known && !self.pending.remove(&member_id) {
            return refuse_join(node, id, 25);
        }
        let leads = self.leader == member_id;
        let member = self.members.entry(member_id.clone()).or_default();
        member.instance = instance;
        let changed = member.protocols != protocols;
        member.protocols = protocols;
        member.joining = Some((node, id));
        member.expires = u64::MAX;
        match self.phase {
            Phase::Empty => {
                self.phase = Phase::Preparing { until: now + 300 };
                Answers::new()
            }
            Phase::Preparing { .. } => self.try_complete(now, false),
            Phase::Stable if known && !leads && !changed => self.same_again(now, &member_id),
            Phase::Completing { .. } if known && !changed => self.same_again(now, &member_id),
            _ => self.prepare(now),
        }
    }

    fn name(&mut self, node: usize) -> String {
        self.named += 1;
        format!("{node}-{}", self.named)
    }

    /// A static member is back, and gets a new id. In a stable group nothing else changes (KIP-345, KIP-814).
    fn replace_static(
        &mut self,
        now: u64,
        (node, id): (usize, RequestId),
        instance: &str,
        before: &str,
        protocols: Vec<(String, Bytes)>,
    ) -> Answers {
        let Some(mut member) = self.members.remove(before) else {
            self.statics.remove(instance);
            return self.join(now, node, id, (String::new(), Some(instance.to_owned())), protocols);
        };
        let mut answers = Answers::new();
        if let Some((node, id)) = member.joining.take() {
            answers.extend(refuse_join(node, id, 82));
        }
        if let Some((node, id)) = member.syncing.take() {
            answers.push((node, id, Message::Synced(Sync { error: 82, ..Sync::default() })));
        }
        let member_id = self.name(node);
        let leads = self.leader == before;
        if leads {
            self.leader.clone_from(&member_id);
        }
        self.statics.insert(instance.to_owned(), member_id.clone());
        member.protocols = protocols;
        member.joining = Some((node, id));
        member.expires = u64::MAX;
        self.members.insert(member_id.clone(), member);
        answers.extend(match self.phase {
            Phase::Stable => {
                let mut again = self.same_again(now, &member_id);
                for (.., answer) in &mut again {
                    if let Message::Joined(join) = answer {
                        join.skip_assignment = leads;
                    }
                }
                again
            }
            Phase::Preparing { .. } => self.try_complete(now, false),
            _ => self.prepare(now),
        });
        answers
    }

    /// The answer to a member that joins again and changes nothing.
    fn same_again(&mut self, now: u64, member_id: &str) -> Answers {
        let members = self.listed(member_id);
        let (generation, leader) = (self.generation, self.leader.clone());
        let Some(member) = self.members.get_mut(member_id) else { return Answers::new() };
        member.expires = now + SESSION;
        let Some((node, id)) = member.joining.take() else { return Answers::new() };
        let answer = Join {
            error: 0,
            generation,
            protocol: "s".into(),
            leader,
            member_id: member_id.into(),
            members,
            skip_assignment: false,
        };
        vec![(node, id, Message::Joined(answer))]
    }

    fn listed(&self, member_id: &str) -> Vec<JoinedMember> {
        if self.leader != member_id {
            return Vec::new();
        }
        let listed = self.members.iter().map(|(id, m)| JoinedMember {
            id: id.clone(),
            instance_id: m.instance.clone(),
            metadata: m.protocols[0].1.clone(),
        });
        listed.collect()
    }

    fn prepare(&mut self, now: u64) -> Answers {
        let mut answers = Answers::new();
        for member in self.members.values_mut() {
            if let Some((node, id)) = member.syncing.take() {
                answers.push((node, id, Message::Synced(Sync { error: 27, ..Sync::default() })));
            }
        }
        self.phase = Phase::Preparing { until: now + MAX_POLL };
        answers.extend(self.try_complete(now, false));
        answers
    }

    fn try_complete(&mut self, now: u64, late: bool) -> Answers {
        if !late && self.members.values().any(|m| m.joining.is_none()) {
            return Answers::new();
        }
        let late: Vec<String> =
            self.members.iter().filter(|(_, m)| m.joining.is_none()).map(|(id, _)| id.clone()).collect();
        for id in late {
            self.drop(&id);
        }
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return Answers::new();
        }
        self.generation += 1;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        self.phase = Phase::Completing { until: now + MAX_POLL };
        for member in self.members.values_mut() {
            member.synced = false;
            member.assignment = Bytes::new();
        }
        let ids: Vec<String> = self.members.keys().cloned().collect();
        ids.iter().flat_map(|id| self.same_again(now, id)).collect()
    }

    pub(super) fn sync(
        &mut self,
        now: u64,
        node: usize,
        id: RequestId,
        identity: &Identity,
        plan: Vec<(String, Bytes)>,
    ) -> Answers {
        let refuse = |error| vec![(node, id, Message::Synced(Sync { error, ..Sync::default() }))];
        let leads = self.leader == identity.member_id;
        let Some(member) = self.members.get_mut(&identity.member_id) else { return refuse(25) };
        if identity.generation != self.generation {
            return refuse(22);
        }
        match self.phase {
            Phase::Empty => return refuse(25),
            Phase::Preparing { .. } => return refuse(27),
            Phase::Stable => {
                member.expires = now + SESSION;
                member.synced = true;
                let assignment = member.assignment.clone();
                return vec![(node, id, Message::Synced(Sync { error: 0, assignment }))];
            }
            Phase::Completing { .. } => {}
        }
        member.syncing = Some((node, id));
        member.synced = true;
        member.expires = now + SESSION;
        if !leads {
            return Answers::new();
        }
        self.phase = Phase::Stable;
        for (id, blob) in plan {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = blob;
            }
        }
        let mut answers = Answers::new();
        for member in self.members.values_mut() {
            if let Some((node, id)) = member.syncing.take() {
                member.expires = now + SESSION;
                let assignment = member.assignment.clone();
                answers.push((node, id, Message::Synced(Sync { error: 0, assignment })));
            }
        }
        answers
    }

    pub(super) fn heartbeat(&mut self, now: u64, identity: &Identity) -> i16 {
        let Some(member) = self.members.get_mut(&identity.member_id) else { return 25 };
        if identity.generation != self.generation {
            return 22;
        }
        member.expires = member.expires.max(now + SESSION);
        match self.phase {
            Phase::Preparing { .. } => 27,
            Phase::Completing { .. } if self.strict_heartbeats => 27,
            _ => 0,
        }
    }

    fn drop(&mut self, member_id: &str) -> Option<Known> {
        let member = self.members.remove(member_id)?;
        if let Some(instance) = &member.instance {
            self.statics.remove(instance);
        }
        // As Kafka does, before the next generation (`ClassicGroup.remove`).
        if self.leader == member_id {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        Some(member)
    }

    pub(super) fn remove(&mut self, now: u64, member_id: &str) -> Answers {
        let Some(member) = self.drop(member_id) else { return Answers::new() };
        let mut answers = Answers::new();
        if let Some((node, id)) = member.joining {
            answers.push((node, id, Message::Joined(Join { error: 25, ..Join::default() })));
        }
        if let Some((node, id)) = member.syncing {
            answers.push((node, id, Message::Synced(Sync { error: 25, ..Sync::default() })));
        }
        answers.extend(match self.phase {
            Phase::Stable | Phase::Completing { .. } => self.prepare(now),
            Phase::Preparing { .. } => self.try_complete(now, false),
            Phase::Empty => Answers::new(),
        });
        answers
    }

    pub(super) fn pass(&mut self, now: u64) -> Answers {
        let mut answers = Answers::new();
        let expired: Vec<String> =
            self.members.iter().filter(|(_, m)| m.expires <= now).map(|(id, _)| id.clone()).collect();
        for id in expired {
            answers.extend(self.remove(now, &id));
        }
        match self.phase {
            Phase::Preparing { until } if now >= until => answers.extend(self.try_complete(now, true)),
            Phase::Completing { until } if now >= until => {
                let late: Vec<String> =
                    self.members.iter().filter(|(_, m)| !m.synced).map(|(id, _)| id.clone()).collect();
                for id in late {
                    answers.extend(self.remove(now, &id));
                }
            }
            _ => {}
        }
        answers
    }
}

fn refuse_join(node: usize, id: RequestId, error: i16) -> Answers {
    vec![(node, id, Message::Joined(Join { error, ..Join::default() }))]
}
