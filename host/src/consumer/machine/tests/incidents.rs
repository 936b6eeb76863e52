//! What went wrong in other clients, replayed: see `docs/incidents.md`.

use super::*;

/// A member as the leader sees it, subscribed to these topics.
fn subscriber(id: &str, topics: &[&str]) -> JoinedMember {
    let topics = topics.iter().map(|t| (*t).to_owned()).collect();
    let subscription = Subscription { topics, ..Subscription::default() };
    let metadata = wire::subscription::encode(&subscription, wire::HIGHEST_VERSION).unwrap().into();
    JoinedMember { metadata, ..member(id) }
}

fn counts(topics: &[(&str, u32)]) -> BTreeMap<String, u32> {
    topics.iter().map(|(topic, partitions)| ((*topic).to_owned(), *partitions)).collect()
}

/// The bytes that a JoinGroup carries for each strategy, decoded.
#[track_caller]
fn subscriptions(actions: &[Action]) -> Vec<(String, Subscription)> {
    let (_, protocols) = find(actions, join_request);
    protocols.into_iter().map(|(name, blob)| (name, wire::subscription::decode(&blob).unwrap())).collect()
}

/// A static leader came back; KIP-814 spares the group a plan. One that assigned all the same moved partitions that nobody had
/// given up, and one that returned no plan and watched nothing never noticed new partitions.
#[test]
fn kafka_13435_a_leader_that_shall_skip_assigns_nothing_and_watches_the_groups_topics() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let members = vec![subscriber("m", &["t"]), subscriber("n", &["t", "u", "gone"])];
    let actions = m.joined(id, Join { skip_assignment: true, ..leader(5, members) });
    assert!(!has(&actions, assign_round));
    m.heartbeat(&actions, 0);
    let (id, plan) = find(&actions, |a| match a {
        Action::Sync { id, plan, .. } => Some((*id, plan.clone())),
        _ => None,
    });
    assert!(plan.is_empty());
    assert_eq!(m.machine.watched().collect::<Vec<_>>(), ["gone", "t", "u"]);
    // As they are when it looks first, which may be before it is answered, they are what the plan stands on.
    m.machine.looked_up(m.now, &counts(&[("t", 4), ("u", 2)]), Some(7));
    assert!(find(&m.synced(id, 0, &[("t", 0)]), delivery).leader);
    m.machine.looked_up(m.now, &counts(&[("t", 4), ("u", 2)]), Some(7));
    assert!(!m.machine.waits_for_poll());
    m.machine.looked_up(m.now, &counts(&[("t", 4), ("u", 3)]), Some(7));
    assert!(m.machine.waits_for_poll());
    let joining = GroupEvent::Joining { cause: "topic u has 3 partitions, it was assigned with 2".into() };
    let actions = m.poll();
    assert!(actions.contains(&Action::Event(joining)), "{actions:?}");
    assert!(has(&m.prepare(&actions), join_id));
}

/// Closing before anything was assigned went through state that only the first assignment sets up, and crashed.
#[test]
fn librdkafka_4312_close_before_the_first_assignment_leaves_in_good_order() {
    // No member id is known yet: there is nobody to leave.
    let mut m = Member::new(&["s"]);
    m.joining();
    assert_eq!(m.close(true), [Action::Closed]);

    // The broker knows the id: it shall not wait for this member.
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    m.joined(id, Join { member_id: "m".into(), ..refused(MEMBER_ID_REQUIRED) });
    let actions = m.close(true);
    let (id, member_id) = find(&actions, leave);
    assert_eq!(member_id, "m");
    assert!(!has(&actions, revocation));
    m.machine.left(id);
    assert_eq!(m.actions(), [Action::Closed]);
}

/// Names were compared in another order than the configured one, so that members voted for what they did not prefer.
#[test]
fn librdkafka_3818_strategies_are_offered_in_the_configured_order() {
    let mut m = Member::new(&["roundrobin", "zebra", "range", "aardvark"]);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let actions = m.poll();
    let mut sent = m.coordinator(&actions);
    sent.extend(m.prepare(&actions));
    let names: Vec<String> = subscriptions(&sent).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["roundrobin", "zebra", "range", "aardvark"]);
}

/// Offsets of partitions that were given up were committed after the group had gone on, and refused (ILLEGAL_GENERATION): they
/// were read again by their new owners.
#[test]
fn librdkafka_3306_what_is_given_up_is_committed_in_its_generation_before_joining() {
    let mut m = Member::new(&["s"]);
    m.stable();
    let beat = m.pass(ms(3_000));
    m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
    m.machine.application(true, m.now);
    m.machine.at_poll(m.now);
    let actions = m.actions();
    let Revocation { identity, commit, .. } = find(&actions, revocation);
    assert_eq!((identity, commit), (Identity { member_id: "m".into(), generation: 5 }, Commit::Processed));
    for meanwhile in [actions.clone(), m.pass(ms(2_000))] {
        assert!(!has(&meanwhile, prepare) && !has(&meanwhile, join_id), "JoinGroup waits for the commit");
    }
    let actions = m.given_up(&actions);
    assert!(has(&m.prepare(&actions), join_id));
}

/// Strategies were asked about the topics that the client knew of, not the ones that the consumer had subscribed to.
#[test]
fn kafkajs_545_strategies_are_asked_about_this_consumers_topics_only() {
    let mut m = Member::new(&["s"]);
    let id = m.joining();
    let actions = m.joined(id, leader(5, vec![member("m"), subscriber("n", &["other", "t"])]));
    m.heartbeat(&actions, 0);
    let planned =
        Planned { blobs: vec![], counts: counts(&[("other", 9), ("t", 4)]), held_back: false, racks: None };
    m.machine.planned(m.now, find(&actions, assign_round), Ok(planned));
    let id = find(&m.actions(), sync_id);
    m.synced(id, 0, &[("t", 0)]);
    m.machine.looked_up(m.now, &counts(&[("other", 10), ("t", 4)]), None);
    let actions = m.poll();
    let asked = find(&actions, |a| match a {
        Action::Prepare { topics, .. } => Some(topics.clone()),
        _ => None,
    });
    assert_eq!(asked, ["t"]);
    assert_eq!(subscriptions(&m.prepare(&actions))[0].1.topics[..], ["t"]);
}

/// Goes through two generations, in which the group runs one strategy and then another, and returns what it was given in each.
fn through(list: &[&str], chosen: [&str; 2], given: [&[u32]; 2]) -> [Vec<u32>; 2] {
    let mut m = Member::new(list);
    m.machine.subscribe(m.now, vec!["t".into()]);
    let mut actions = m.poll();
    let mut sent = m.coordinator(&actions);
    let rounds = chosen.into_iter().zip(given).zip(5..);
    let delivered: Vec<Vec<u32>> = rounds
        .map(|((protocol, given), generation)| {
            sent.extend(m.prepare(&actions));
            for (name, subscription) in subscriptions(&sent) {
                assert_eq!(subscription.owned, [], "{name}: everything was given up");
                assert_eq!(subscription.generation, None, "{name}");
            }
            let id = find(&sent, join_id);
            sent = m.joined(id, Join { protocol: protocol.into(), ..follower(generation) });
            m.heartbeat(&sent, 0);
            let assigned: Vec<_> = given.iter().map(|&partition| ("t", partition)).collect();
            let delivery = find(&m.synced(find(&sent, sync_id), 0, &assigned), delivery);
            assert_eq!(list[delivery.strategy], protocol);
            let beat = m.pass(ms(3_000));
            m.heartbeat(&beat, REBALANCE_IN_PROGRESS);
            actions = m.poll();
            assert!(has(&actions, revocation), "it gives up what it has before it joins again");
            sent.clear();
            delivery.partitions.into_iter().flat_map(|t| t.partitions).collect()
        })
        .collect();
    delivered.try_into().unwrap()
}

/// A client took itself for an eager one because its list held an eager strategy, and went through a cooperative rebalance with
/// the group: partitions were lost, and no second round followed. Here the list alone decides, for the member's whole life.
#[test]
fn franz_go_366_a_member_with_a_mixed_list_is_eager_whichever_strategy_is_chosen() {
    let given = through(&["cooperative-sticky", "range"], ["cooperative-sticky"; 2], [&[0, 1], &[1]]);
    assert_eq!(given, [vec![0, 1], vec![1]]);
}

/// First bounce of an upgrade: the last member that only knew range left, the group went on cooperatively, and the one that
/// stayed took partitions for its own from which it did not read.
#[test]
fn franz_go_686_when_the_last_eager_member_leaves_the_whole_assignment_is_taken_anew() {
    let given =
        through(&["cooperative-sticky", "range"], ["range", "cooperative-sticky"], [&[0], &[0, 1, 2]]);
    assert_eq!(given, [vec![0], vec![0, 1, 2]]);
}

/// A member that only knew range joined a cooperative group: the others were assigned anew what they had not given up, and read
/// each of those partitions from two places at once.
#[test]
fn franz_go_1365_when_an_eager_member_joins_nothing_is_held_on_to() {
    let given =
        through(&["cooperative-sticky", "range"], ["cooperative-sticky", "range"], [&[0, 1, 2], &[0, 1]]);
    assert_eq!(given, [vec![0, 1, 2], vec![0, 1]]);
}
