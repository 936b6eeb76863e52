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
    let mut assignment = Assignment::new(identity(generation), false, "s".into(), partitions);
    assignment.start(offsets(&[(0, 10)]), true);
    assignment
}

/// Assigned `t-0` from its committed offset 10 on, and `t-1`, whose position is not known yet; leased for ten seconds, inside `poll`.
fn polling() -> (Shared, Moment, u64) {
    let now = Moment::default() + SECOND * 100;
    let shared = Shared::new(now);
    shared.subscribed().unwrap();
    shared.install(assigned(1));
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
    assert!(shared.give_up_in_poll().is_some());
    shared.install(assigned(2));
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Over);
    assert_eq!(shared.fetch(epoch).unwrap().unwrap().offsets, offsets(&[(0, 10)]));
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
    assert_eq!(shared.give_up_in_poll(), None, "it holds records that it may still be processing");
    shared.enter_poll(now).unwrap();
    let given_up = shared.give_up_in_poll().flatten().unwrap();
    assert_eq!(given_up.processed(), offsets(&[(0, 12)]));
    assert!(shared.partitions().is_empty());
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
    shared.correct(&identity(1), &offsets(&[(0, 50)]));
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Over);
    assert_eq!(shared.fetch(epoch).unwrap().unwrap().offsets, offsets(&[(0, 50)]));
}

#[test]
fn partitions_without_a_position_do_not_hold_up_the_others() {
    let (shared, now, epoch) = polling();
    assert_eq!(shared.hand_out(epoch, &offsets(&[(0, 12)]), now), HandOut::Given);
    shared.start(&identity(1), offsets(&[(1, 0)]));
    let fetch = shared.fetch(epoch).unwrap().unwrap();
    assert_eq!(fetch.offsets, offsets(&[(0, 12), (1, 0)]));
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
