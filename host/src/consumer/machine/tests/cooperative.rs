//! Cooperative rebalances (KIP-429): what stays is kept and handed out, what goes is given up first.

use super::*;

fn cooperative(strategies: &[&str]) -> Member {
    Member::with(strategies, |settings| settings.protocol = Protocol::Cooperative)
}

fn partitions(list: &[(&str, u32)]) -> Vec<TopicPartitions> {
    let list = list.iter().map(|(topic, p)| TopicPartitions { topic: (*topic).into(), partitions: vec![*p] });
    Partitions::of(list.collect()).listed()
}

/// What a JoinGroup says that the member owns, and since when.
#[track_caller]
fn claims(actions: &[Action]) -> (Vec<TopicPartitions>, Option<i32>) {
    let (_, protocols) = find(actions, join_request);
    let subscription = wire::subscription::decode(&protocols[0].1).unwrap();
    (subscription.owned, subscription.generation)
}

impl Member {
    /// Owns these partitions of topics `t` and `u`, in generation 5.
    fn owning(owned: &[(&str, u32)]) -> Self {
        let mut m = cooperative(&["s"]);
        m.machine.subscribe(m.now, vec!["t".into(), "u".into()]);
        let actions = m.poll();
        let mut sent = m.coordinator(&actions);
        sent.extend(m.prepare(&actions));
        assert_eq!(claims(&sent), (vec![], None));
        let actions = m.joined(find(&sent, join_id), follower(5));
        m.heartbeat(&actions, 0);
        let actions = m.synced(find(&actions, sync_id), 0, owned);
        assert_eq!(find(&actions, delivery).added, partitions(owned));
        m
    }

    /// Hears of a rebalance, and joins it at the next poll.
    fn rejoining(&mut self) -> Vec<Action> {
        let beat = self.pass(ms(3_000));
        self.heartbeat(&beat, REBALANCE_IN_PROGRESS);
        let actions = self.poll();
        self.prepare(&actions)
    }

    /// Goes on to SyncGroup of this generation. Its heartbeat is answered.
    fn syncing_again(&mut self, sent: &[Action], generation: i32) -> RequestId {
        let actions = self.joined(find(sent, join_id), follower(generation));
        self.heartbeat(&actions, 0);
        find(&actions, sync_id)
    }
}

#[test]
fn partitions_stay_owned_through_a_rebalance_and_are_claimed_with_their_generation() {
    let mut m = Member::owning(&[("t", 0), ("t", 1)]);
    let sent = m.rejoining();
    assert_eq!(claims(&sent), (partitions(&[("t", 0), ("t", 1)]), Some(5)));
    let id = m.syncing_again(&sent, 6);
    let actions = m.synced(id, 0, &[("t", 0), ("t", 1), ("u", 3)]);
    let renewed = |a: &Action| if let Action::Renew(identity) = a { Some(identity.generation) } else { None };
    assert_eq!(find(&actions, renewed), 6, "commits are the new generation's");
    let delivery = find(&actions, delivery);
    assert_eq!(delivery.partitions, partitions(&[("t", 0), ("t", 1), ("u", 3)]));
    assert_eq!(delivery.added, partitions(&[("u", 3)]));
    assert!(!has(&actions, revocation) && !has(&actions, lost));
    assert!(!m.machine.waits_for_poll(), "nothing was given up: no second round");
    assert_eq!(claims(&m.rejoining()), (partitions(&[("t", 0), ("t", 1), ("u", 3)]), Some(6)));
}

#[test]
fn what_is_processed_is_committed_before_joining_though_nothing_is_given_up() {
    let mut m = Member::owning(&[("t", 0)]);
    let beat = m.pass(ms(3_000));
    m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
    let revocation = find(&m.poll(), revocation);
    assert_eq!((revocation.partitions, revocation.commit), (vec![], Commit::Processed));
}

#[test]
fn what_is_taken_away_is_given_up_at_a_poll_then_the_rest_is_installed_and_a_second_round_begins() {
    let mut m = Member::owning(&[("t", 0), ("t", 1)]);
    let sent = m.rejoining();
    m.machine.application(false, m.now);
    let id = m.syncing_again(&sent, 6);
    let actions = m.synced(id, 0, &[("t", 0), ("u", 3)]);
    // The application may be in the middle of records of t-1.
    assert!(!has(&actions, revocation) && !has(&actions, delivery));
    assert!(m.machine.waits_for_poll());
    let beat = m.pass(ms(3_000));
    assert!(has(&m.heartbeat(&beat, 0), lease), "meanwhile it is a member, and its lease goes on");

    m.machine.application(true, m.now);
    m.machine.at_poll(m.now);
    let actions = m.actions();
    let revocation = find(&actions, revocation);
    assert_eq!((&revocation.partitions, revocation.commit), (&partitions(&[("t", 1)]), Commit::Processed));
    assert_eq!(revocation.identity.generation, 6, "SyncGroup is answered: the new generation commits");
    assert!(!has(&actions, delivery), "first revoked, then assigned");
    let actions = m.given_up(&actions);
    let delivery = find(&actions, delivery);
    assert_eq!(delivery.partitions, partitions(&[("t", 0), ("u", 3)]));
    assert_eq!(delivery.added, partitions(&[("u", 3)]));

    // The second round, in which t-1 finds its new owner.
    assert!(m.machine.waits_for_poll());
    let actions = m.poll();
    assert_eq!(claims(&m.prepare(&actions)), (partitions(&[("t", 0), ("u", 3)]), Some(6)));
}

#[test]
fn partitions_of_topics_that_are_not_subscribed_any_more_are_given_up_before_joining() {
    let mut m = Member::owning(&[("t", 0), ("u", 3)]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.poll();
    assert_eq!(find(&actions, revocation).partitions, partitions(&[("u", 3)]));
    assert_eq!(claims(&m.prepare(&actions)), (partitions(&[("t", 0)]), Some(5)));
}

#[test]
fn a_subscription_that_changes_during_a_rebalance_is_settled_by_the_assignment() {
    // While JoinGroup is under way: its answer begins anew, and what is still owned is still claimed.
    let mut m = Member::owning(&[("t", 0), ("u", 3)]);
    let sent = m.rejoining();
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.joined(find(&sent, join_id), follower(6));
    let sent = m.prepare(&actions);
    assert_eq!(claims(&sent), (partitions(&[("t", 0), ("u", 3)]), Some(5)));
    let id = m.syncing_again(&sent, 7);
    m.synced(id, 0, &[("t", 0)]);
    assert_eq!(find(&m.poll(), revocation).partitions, partitions(&[("u", 3)]));

    // While it waits for a poll to give something up.
    let mut m = Member::owning(&[("t", 0), ("t", 1)]);
    let sent = m.rejoining();
    let id = m.syncing_again(&sent, 6);
    m.synced(id, 0, &[("t", 0)]);
    m.machine.subscribe(m.now, vec!["u".into()]);
    assert!(has(&m.poll(), delivery));
    let actions = m.poll();
    assert_eq!(find(&actions, revocation).partitions, partitions(&[("t", 0)]));
    assert_eq!(claims(&m.prepare(&actions)), (vec![], Some(6)));
}

/// What the newest generation is, and in which one the owned set was installed, differ then: Java's client tells the newest.
#[test]
fn after_a_rebalance_that_ended_in_another_one_claims_are_as_old_as_they_were() {
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let id = m.syncing_again(&sent, 6);
    let sent = m.synced(id, REBALANCE_IN_PROGRESS, &[]);
    assert_eq!(claims(&sent), (partitions(&[("t", 0)]), Some(5)));
    let id = m.syncing_again(&sent, 7);
    assert!(find(&m.synced(id, 0, &[("t", 0)]), delivery).added.is_empty());
}

#[test]
fn a_generation_that_is_gone_loses_everything_in_every_state() {
    // A heartbeat says so, while it is stable, gives up, or has its assignment and waits for a poll.
    for code in [UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION] {
        for state in ["stable", "gives up", "synced", "syncs"] {
            let mut m = Member::owning(&[("t", 0), ("t", 1)]);
            match state {
                "gives up" => {
                    let beat = m.pass(ms(3_000));
                    m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
                    m.machine.at_poll(m.now);
                    assert!(has(&m.actions(), revocation));
                }
                "synced" | "syncs" => {
                    let sent = m.rejoining();
                    let id = m.syncing_again(&sent, 6);
                    if state == "synced" {
                        m.synced(id, 0, &[("t", 0)]);
                        assert!(m.machine.waits_for_poll());
                    }
                }
                _ => {}
            }
            let beat = m.pass(ms(3_000));
            let actions = m.heartbeat(&beat, code);
            assert!(has(&actions, lost), "{state}");
            assert!(!has(&actions, revocation) && !has(&actions, delivery), "{state}");
            let sent = m.prepare(&actions);
            assert_eq!(claims(&sent), (vec![], None), "{state}");
            assert_eq!(find(&sent, join_request).0, if code == UNKNOWN_MEMBER_ID { "" } else { "m" });
        }
    }
    // JoinGroup or SyncGroup is told so.
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let actions = m.joined(find(&sent, join_id), refused(UNKNOWN_MEMBER_ID));
    assert!(has(&actions, lost));
    m.prepare(&actions);
    assert_eq!(claims(&m.pass(ms(200))), (vec![], None));
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let id = m.syncing_again(&sent, 6);
    assert!(has(&m.synced(id, ILLEGAL_GENERATION, &[]), lost));
}

#[test]
fn the_lease_goes_on_while_joining_by_heartbeats_but_not_past_the_rebalance_time_out() {
    let mut m = Member::owning(&[("t", 0)]);
    let start = m.now;
    let sent = m.rejoining();
    assert!(has(&sent, join_id));
    // The group waits for another member. Session 10 s, max.poll.interval.ms 60 s.
    let mut leased = start;
    for _ in 0..25 {
        let beat = m.pass(ms(3_000));
        let actions = m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
        assert!(!has(&actions, lost));
        leased = actions.iter().find_map(lease).unwrap_or(leased);
    }
    assert_eq!(leased, start + ms(60_000), "the group may have gone on without this member by then");
    // Its JoinGroup had come: it has what it had.
    let id = m.syncing_again(&sent, 6);
    let actions = m.synced(id, 0, &[("t", 0)]);
    assert_eq!(find(&actions, lease), m.now + ms(10_000));
    assert!(find(&actions, delivery).added.is_empty());
}

#[test]
fn a_generation_that_a_heartbeat_names_while_joining_may_just_be_followed_by_the_next() {
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let beat = m.pass(ms(3_000));
    assert_eq!(m.heartbeat(&beat, ILLEGAL_GENERATION), []);
    let id = m.syncing_again(&sent, 6);
    assert!(has(&m.synced(id, 0, &[("t", 0)]), delivery));
}

#[test]
fn without_a_sign_of_life_while_joining_the_partitions_are_lost_and_the_coordinator_is_looked_for() {
    let mut m = Member::owning(&[("t", 0)]);
    m.rejoining();
    assert!(!has(&m.pass(ms(9_999)), lost), "the last heartbeat was 3 s after the delivery");
    let actions = m.pass(ms(1));
    assert!(has(&actions, lost) && has(&actions, prepare));
    m.prepare(&actions);
    let actions = m.pass(ms(200));
    let actions = m.coordinator(&actions);
    assert_eq!(claims(&actions), (vec![], None));
}

#[test]
fn heartbeats_in_the_new_generation_prove_nothing_about_the_rebalance_before_sync_group_is_answered() {
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let joined = m.now;
    let actions = m.joined(find(&sent, join_id), follower(6));
    m.heartbeat(&actions, 0);
    let mut leased = joined;
    for _ in 0..25 {
        let beat = m.pass(ms(3_000));
        leased = m.heartbeat(&beat, 0).iter().find_map(lease).unwrap_or(leased);
    }
    // A member that has not synced is expelled a rebalance time-out after the generation began, which was not before it joined.
    assert_eq!(leased, joined + ms(60_000));
}

#[test]
fn without_polls_everything_is_lost_whatever_is_under_way() {
    for state in ["joins", "synced", "gives up"] {
        let mut m = Member::owning(&[("t", 0), ("t", 1)]);
        let sent = m.rejoining();
        if state != "joins" {
            let id = m.syncing_again(&sent, 6);
            m.synced(id, 0, &[("t", 0)]);
            if state == "gives up" {
                m.machine.at_poll(m.now);
                m.actions();
            }
        }
        // In a listener that takes its time, too.
        m.machine.application(false, m.now);
        let mut actions = Vec::new();
        for _ in 0..20 {
            actions = m.pass(ms(3_000));
            if has(&actions, heartbeat) {
                m.heartbeat(&actions, 0);
            }
        }
        assert!(has(&actions, lost), "{state}");
        assert_eq!(find(&actions, leave).1, "m", "{state}");
        assert!(m.machine.waits_for_poll(), "{state}");
    }
}

#[test]
fn close_gives_everything_up_in_a_stable_group_and_loses_it_in_a_rebalance() {
    let mut m = Member::owning(&[("t", 0), ("u", 3)]);
    let actions = m.close(true);
    let Revocation { partitions: given_up, commit, .. } = find(&actions, revocation);
    assert_eq!((given_up, commit), (partitions(&[("t", 0), ("u", 3)]), Commit::Returned));
    assert_eq!(find(&m.given_up(&actions), leave).1, "m");

    let mut m = Member::owning(&[("t", 0)]);
    m.rejoining();
    let actions = m.close(true);
    assert!(has(&actions, lost) && !has(&actions, revocation), "the coordinator takes no commit now");
    assert_eq!(find(&actions, leave).1, "m");

    // While it gives up a part, the rest follows.
    let mut m = Member::owning(&[("t", 0), ("t", 1)]);
    let sent = m.rejoining();
    let id = m.syncing_again(&sent, 6);
    m.synced(id, 0, &[("t", 0)]);
    m.machine.at_poll(m.now);
    let first = m.actions();
    assert_eq!(m.close(true), []);
    let second = m.given_up(&first);
    assert_eq!(find(&second, revocation).partitions, partitions(&[("t", 0)]));
    assert!(!has(&second, delivery));
    assert_eq!(find(&m.given_up(&second), leave).1, "m");

    // While it waits for a poll to do so: all at once.
    let mut m = Member::owning(&[("t", 0), ("t", 1)]);
    let sent = m.rejoining();
    let id = m.syncing_again(&sent, 6);
    m.synced(id, 0, &[("t", 0)]);
    assert_eq!(find(&m.close(true), revocation).partitions, partitions(&[("t", 0), ("t", 1)]));
}

#[test]
fn a_commit_that_is_refused_while_joining_says_nothing_about_the_partitions() {
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let identity = Identity { member_id: "m".into(), generation: 5 };
    for code in [ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS] {
        m.machine.commit_refused(m.now, &identity, code);
        assert_eq!(m.actions(), []);
    }
    let id = m.syncing_again(&sent, 6);
    m.machine.commit_refused(m.now, &identity, ILLEGAL_GENERATION);
    assert_eq!(m.actions(), [], "it was the generation before");
    assert!(has(&m.synced(id, 0, &[("t", 0)]), delivery));
}

#[test]
fn a_leader_that_assigns_what_was_not_asked_for_takes_nothing_away() {
    let mut m = Member::owning(&[("t", 0)]);
    let sent = m.rejoining();
    let id = m.syncing_again(&sent, 6);
    let actions = m.synced(id, 0, &[("alien", 0)]);
    assert!(!has(&actions, delivery) && !has(&actions, lost));
    m.prepare(&actions);
    assert_eq!(claims(&m.pass(ms(200))), (partitions(&[("t", 0)]), Some(5)));
}

/// franz-go 366, 686 and 1365: members of one group whose lists made some of them eager and others cooperative. What an eager member
/// has it gives up before it joins, whatever the group runs, and it needs no second round.
#[test]
fn an_eager_member_of_a_group_that_runs_a_cooperative_strategy_claims_nothing() {
    let mut m = Member::new(&["cooperative-sticky", "range"]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.poll();
    let mut sent = m.coordinator(&actions);
    sent.extend(m.prepare(&actions));
    let chosen = |generation| Join { protocol: "cooperative-sticky".into(), ..follower(generation) };
    let actions = m.joined(find(&sent, join_id), chosen(5));
    m.heartbeat(&actions, 0);
    m.synced(find(&actions, sync_id), 0, &[("t", 0), ("t", 1)]);
    let sent = m.rejoining();
    assert_eq!(claims(&sent), (vec![], None));
    let actions = m.joined(find(&sent, join_id), chosen(6));
    m.heartbeat(&actions, 0);
    let actions = m.synced(find(&actions, sync_id), 0, &[("t", 0)]);
    assert_eq!(find(&actions, delivery).added, partitions(&[("t", 0)]));
    assert!(!m.machine.waits_for_poll());
}
