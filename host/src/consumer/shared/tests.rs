use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn offsets(list: &[(u32, i64)]) -> Offsets {
    list.iter().map(|(p, offset)| (("t".to_owned(), *p), *offset)).collect()
}

fn identity(generation: i32) -> Identity {
    Identity { member_id: "m".into(), generation }
}

fn assigned(generation: i32) -> Assignment {
    let partitions = vec![TopicPartitions { topic: "t".into(), partitions: vec![0, 1] }];
    Assignment::new(identity(generation), false, "s".into(), partitions)
}

fn told(partitions: &[u32]) -> Vec<TopicPartitions> {
    vec![TopicPartitions { topic: "t".into(), partitions: partitions.to_vec() }]
}

/// The partitions that are fetched, and from where.
fn fetched(shared: &Shared) -> Vec<(u32, i64)> {
    let starts = shared.fetch(0).unwrap().unwrap().starts;
    starts.iter().map(|((_, p), start)| (*p, start.offset)).collect()
}

/// Assigned `t-0` from its committed offset 10 on, and `t-1`, whose position is not known yet; leased for ten seconds, inside `poll`.
fn polling() -> (Shared, Moment, u64) {
    let now = Moment::default() + SECOND * 100;
    let shared = Shared::new(now);
    shared.subscribed().unwrap();
    shared.assign(assigned(1), told(&[0, 1]));
    shared.start(offsets(&[(0, 10)]), true);
    shared.lease(now + SECOND * 10);
    shared.enter_poll(now).unwrap();
    let epoch = shared.fetch(0).unwrap().unwrap().epoch;
    (shared, now, epoch)
}

#[test]
fn records_count_as_processed_at_the_next_poll() {
    let (shared, now, epoch) = polling();
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Given);
    assert_eq!(shared.to_auto_commit(), None);
    assert_eq!(shared.to_commit().unwrap(), Some((identity(1), offsets(&[(0, 12)]))));
    shared.enter_poll(now).unwrap();
    assert_eq!(shared.to_auto_commit(), Some((identity(1), offsets(&[(0, 12)]))));
    shared.committed(&identity(1), &offsets(&[(0, 12)]));
    assert_eq!(shared.to_auto_commit(), None);
    assert_eq!(shared.to_commit().unwrap(), None);
}

#[test]
fn a_batch_of_an_earlier_epoch_is_not_handed_out() {
    let (shared, now, epoch) = polling();
    shared.unassign();
    shared.assign(assigned(2), told(&[0, 1]));
    shared.start(offsets(&[(0, 10)]), true);
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Over);
    assert_eq!(fetched(&shared), [(0, 10)]);
}

#[test]
fn nothing_is_handed_out_after_the_lease_until_it_is_renewed() {
    let (shared, now, epoch) = polling();
    let late = now + SECOND * 10;
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), late), HandOut::Wait);
    assert_eq!(shared.to_commit().unwrap(), None, "what was not handed out is not committed");
    shared.lease(late + SECOND);
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), late), HandOut::Given);
}

#[test]
fn partitions_are_given_up_only_while_the_application_is_inside_poll() {
    let (shared, now, epoch) = polling();
    shared.hand_out(epoch, &offsets(&[(0, 12)]), now);
    assert!(!shared.hold_in_poll(), "it holds records that it may still be processing");
    shared.enter_poll(now).unwrap();
    assert!(shared.hold_in_poll());
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 14)]), now), HandOut::Wait, "not while it is decided");
    let due = shared.suspend(&told(&[0, 1]), Assignment::processed);
    shared.release();
    assert_eq!(due, offsets(&[(0, 12)]));
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 14)]), now), HandOut::Over);
    assert_eq!(fetched(&shared), []);
    // Until they are gone, they can be committed.
    assert_eq!(shared.to_commit().unwrap(), Some((identity(1), offsets(&[(0, 12)]))));
    shared.drop_suspended();
    assert_eq!(shared.to_commit().unwrap(), None);
    assert!(shared.partitions().is_empty());
}

#[test]
fn partitions_that_stay_through_a_rebalance_keep_their_positions_and_are_committed_anew() {
    let (shared, now, epoch) = polling();
    shared.start(offsets(&[(1, 30)]), true);
    let epoch = shared.fetch(epoch).unwrap().unwrap().epoch;
    shared.suspend(&told(&[1]), Assignment::processed);
    shared.drop_suspended();
    let epoch = shared.fetch(epoch).unwrap().unwrap().epoch;
    let before = shared.fetch(0).unwrap().unwrap().starts;
    shared.joining();
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Given, "while it joins, too");
    shared.enter_poll(now).unwrap();
    assert_eq!(shared.to_commit(), Err(ConsumerError::RebalanceInProgress));
    assert_eq!(shared.to_auto_commit(), None);
    assert!(!shared.is_current(&identity(1)));

    shared.renew(identity(2));
    assert_eq!(shared.to_commit().unwrap(), Some((identity(2), offsets(&[(0, 12)]))));
    let new = Assignment::new(identity(2), false, "s".into(), told(&[0, 2]));
    let unplaced = shared.assign(new, told(&[2]));
    assert_eq!(unplaced.into_iter().collect::<Vec<_>>(), [("t".to_owned(), 2)]);
    shared.start(offsets(&[(2, 50), (0, 3)]), true);
    assert_eq!(fetched(&shared), [(0, 12), (2, 50)], "what has a position keeps it");
    let after = shared.fetch(0).unwrap().unwrap().starts;
    let stamp = |starts: &BTreeMap<Key, Start>| starts[&("t".to_owned(), 0)].stamp;
    assert_eq!(stamp(&before), stamp(&after), "the data path goes on");
    // An answer to a commit as the earlier identity still counts.
    shared.committed(&identity(1), &offsets(&[(0, 12)]));
    assert_eq!(shared.to_commit().unwrap(), None);
}

#[test]
fn the_listener_is_called_in_order_and_nothing_is_handed_out_before() {
    let (shared, now, epoch) = polling();
    shared.listen(true);
    shared.assign(Assignment::new(identity(2), false, "s".into(), told(&[0, 1])), told(&[]));
    let epoch = shared.fetch(epoch).unwrap().unwrap().epoch;
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Wait);
    let call = shared.begin_call(now).unwrap();
    assert_eq!(call.told, Told::Assigned);
    assert!(shared.in_listener());
    assert_eq!(shared.application(), (false, now), "its time is time between polls");
    assert_eq!(shared.begin_call(now), None, "one at a time");
    shared.finish_call(now);
    assert!(!shared.in_listener() && shared.application().0);
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Given);

    shared.enter_poll(now).unwrap();
    shared.suspend(&told(&[0]), Assignment::processed);
    assert!(shared.tell_revoked(7, told(&[0])));
    assert_eq!(shared.begin_call(now).unwrap(), Call { told: Told::Revoked(7), partitions: told(&[0]) });
    assert_eq!(shared.take_finished(), None);
    // Lost meanwhile: what it has heard of is not told twice.
    assert_eq!(shared.lose("expelled"), Some(told(&[1])));
    shared.finish_call(now);
    assert_eq!(shared.take_finished(), Some(7));
    assert_eq!(shared.begin_call(now).unwrap(), Call { told: Told::Lost, partitions: told(&[1]) });
    shared.finish_call(now);

    // A call that nobody has begun gives way to the news that all is lost.
    shared.assign(assigned(3), told(&[0, 1]));
    shared.suspend(&told(&[0]), Assignment::processed);
    assert!(shared.tell_revoked(8, told(&[0])));
    assert_eq!(shared.lose("expelled"), Some(told(&[0, 1])));
    let calls: Vec<Told> = std::iter::from_fn(|| {
        let call = shared.begin_call(now)?;
        shared.finish_call(now);
        Some(call.told)
    })
    .collect();
    assert_eq!(calls, [Told::Assigned, Told::Lost]);

    // Whoever stops listening holds up nobody.
    shared.assign(assigned(4), told(&[0, 1]));
    shared.suspend(&told(&[0]), Assignment::processed);
    assert!(shared.tell_revoked(9, told(&[0])));
    shared.listen(false);
    assert_eq!(shared.take_finished(), Some(9));
    assert_eq!(shared.begin_call(now), None);
    assert!(!shared.tell_revoked(10, told(&[1])));
}

#[test]
fn a_commit_of_lost_partitions_fails_once_and_says_why() {
    let (shared, now, epoch) = polling();
    shared.hand_out(epoch, &offsets(&[(0, 12)]), now);
    shared.lose("expelled");
    let error = shared.to_commit().unwrap_err();
    assert_eq!(error, ConsumerError::CommitFailed("expelled".into()));
    assert_eq!(shared.to_commit().unwrap(), None);
}

#[test]
fn a_commit_of_an_earlier_generation_changes_nothing() {
    let (shared, now, epoch) = polling();
    shared.hand_out(epoch, &offsets(&[(0, 12)]), now);
    shared.committed(&identity(0), &offsets(&[(0, 12)]));
    assert_eq!(shared.to_commit().unwrap(), Some((identity(1), offsets(&[(0, 12)]))));
}

#[test]
fn corrected_positions_are_a_new_epoch() {
    let (shared, now, epoch) = polling();
    let stamp = || shared.fetch(0).unwrap().unwrap().starts[&("t".to_owned(), 0)].stamp;
    let before = stamp();
    shared.correct(&offsets(&[(0, 10)]), &offsets(&[(0, 50)]));
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Over);
    assert_eq!(fetched(&shared), [(0, 50)]);
    assert_ne!(stamp(), before, "the data path begins anew");
    // What has been read on since it was looked at is right as it is.
    shared.correct(&offsets(&[(0, 10)]), &offsets(&[(0, 70)]));
    assert_eq!(fetched(&shared), [(0, 50)]);
}

#[test]
fn partitions_without_a_position_do_not_hold_up_the_others() {
    let (shared, now, epoch) = polling();
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Given);
    shared.start(offsets(&[(1, 0)]), false);
    assert_eq!(fetched(&shared), [(0, 12), (1, 0)]);
    assert_eq!(shared.partitions()[0].partitions, [0, 1]);
    // A start that is not the group's committed offset yet is committed, as Java does.
    assert_eq!(shared.to_auto_commit(), Some((identity(1), offsets(&[(1, 0)]))));
}

#[test]
fn a_healable_error_is_reported_once_another_one_always() {
    let (shared, now, _) = polling();
    let healable = ConsumerError::GroupFull { group: "g".into() };
    shared.report(healable.clone());
    assert_eq!(shared.enter_poll(now), Err(healable));
    assert_eq!(shared.enter_poll(now), Ok(()));
    shared.report(ConsumerError::Fenced);
    assert_eq!(shared.enter_poll(now), Err(ConsumerError::Fenced));
    assert_eq!(shared.enter_poll(now), Err(ConsumerError::Fenced));
}

#[test]
fn polling_needs_a_subscription_and_ends_with_close() {
    let now = Moment::default();
    let shared = Shared::new(now);
    assert_eq!(shared.enter_poll(now), Err(ConsumerError::NotSubscribed));
    assert!(shared.close());
    assert!(!shared.close());
    assert_eq!(shared.enter_poll(now), Err(ConsumerError::Closed));
}
