//! A leader whose plugin can't be loaded leaves once, so that another member leads.

use super::*;

impl Member {
    /// Goes through a rebalance as the leader of so many members, its strategy degraded or not, and owns `t-0` afterwards.
    fn leads(&mut self, actions: &[Action], among: usize, degraded: bool) {
        self.machine.prepared(
            self.now,
            find(actions, prepare),
            vec![Interest::all(&["t".into()])],
            vec![degraded],
        );
        let mut sent = self.actions();
        sent.extend(self.pass(ms(2_000)));
        let others = (1..among).map(|n| member(&format!("n{n}")));
        let members = std::iter::once(member("m")).chain(others).collect();
        let actions = self.joined(find(&sent, join_id), leader(5, members));
        self.heartbeat(&actions, 0);
        let planned = Planned { blobs: vec![], counts: BTreeMap::new(), held_back: false, racks: None };
        self.machine.planned(self.now, find(&actions, assign_round), Ok(planned));
        let id = find(&self.actions(), sync_id);
        assert!(has(&self.synced(id, 0, &[("t", 0)]), delivery), "it decides, by its fallback");
    }

    /// The first rebalance.
    fn first(&mut self) -> Vec<Action> {
        self.machine.subscribe(self.now, vec!["t".into()]);
        let actions = self.poll();
        self.coordinator(&actions);
        actions
    }

    /// Hears of a rebalance, and begins it at a poll.
    fn again(&mut self) -> Vec<Action> {
        let beat = self.pass(ms(3_000));
        self.heartbeat(&beat, REBALANCE_IN_PROGRESS);
        self.poll()
    }
}

#[test]
fn a_degraded_leader_gives_up_in_good_order_leaves_and_comes_back_as_a_new_member() {
    for protocol in [Protocol::Eager, Protocol::Cooperative] {
        let mut m = Member::with(&["s"], |settings| settings.protocol = protocol);
        let actions = m.first();
        m.leads(&actions, 3, true);
        assert!(m.machine.waits_for_poll());
        let actions = m.poll();
        let Revocation { partitions, commit, .. } = find(&actions, revocation);
        assert_eq!((partitions.len(), commit), (1, Commit::Processed), "{protocol}: everything goes");
        assert_eq!(find(&actions, leave).1, "m");
        let actions = m.prepare(&actions);
        assert!(!has(&actions, join_id), "others come first");
        let sent = m.pass(ms(200));
        assert_eq!(find(&sent, join_request).0, "");
    }
}

#[test]
fn it_stays_where_there_is_nobody_else_and_where_it_is_static() {
    let mut m = Member::new(&["s"]);
    let actions = m.first();
    m.leads(&actions, 1, true);
    assert!(!m.machine.waits_for_poll());

    let mut m = Member::with(&["s"], |settings| settings.is_static = true);
    let actions = m.first();
    m.leads(&actions, 3, true);
    assert!(!m.machine.waits_for_poll());

    // One failed call is no broken plugin.
    let mut m = Member::new(&["s"]);
    let actions = m.first();
    m.leads(&actions, 3, false);
    assert!(!m.machine.waits_for_poll());
}

#[test]
fn it_does_not_leave_again_before_more_members_are_there_or_its_plugin_has_worked() {
    let mut m = Member::new(&["s"]);
    let actions = m.first();
    m.leads(&actions, 3, true);
    let actions = m.poll();
    assert!(has(&actions, leave));
    // The others can do no better: it leads again.
    m.leads(&actions, 3, true);
    assert!(!m.machine.waits_for_poll());
    let actions = m.again();
    m.leads(&actions, 2, true);
    assert!(!m.machine.waits_for_poll());
    // A fourth may.
    let actions = m.again();
    m.leads(&actions, 4, true);
    let actions = m.poll();
    assert!(has(&actions, leave));
    // It is mended, and breaks again.
    m.leads(&actions, 4, false);
    assert!(!m.machine.waits_for_poll());
    let actions = m.again();
    m.leads(&actions, 2, true);
    assert!(has(&m.poll(), leave));
}
