//! What happens to groups: each disturbance is a script, after which every partition must give records again, everything
//! acknowledged must be read, and nothing may have been handed out after a lease.

use std::time::{Duration, Instant};

use assignor_tests::built;

use crate::broker::PLAINTEXT;
use crate::ledger::Mark;
use crate::process::Frozen;
use crate::stage::{EXTRA, EXTRA_PARTITIONS, GROUP, ORDERS, PATIENCE, SESSION_MS, Stage};

/// A script. It says when the harm was done.
pub(crate) struct Disturbance {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) act: fn(&mut Stage) -> Mark,
}

/// What a disturbance can be played with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Any client.
    Any,
    /// A client of ours with the strategy `weighted`, as a plugin.
    Plugin,
    /// A cluster of several nodes.
    Nodes,
}

const fn any(name: &'static str, act: fn(&mut Stage) -> Mark) -> Disturbance {
    Disturbance { name, needs: Needs::Any, act }
}

const fn plugin(name: &'static str, act: fn(&mut Stage) -> Mark) -> Disturbance {
    Disturbance { name, needs: Needs::Plugin, act }
}

const fn nodes(name: &'static str, act: fn(&mut Stage) -> Mark) -> Disturbance {
    Disturbance { name, needs: Needs::Nodes, act }
}

/// All of them.
pub(crate) const ALL: [Disturbance; 32] = [
    any("a member joins", joins),
    any("a member leaves", leaves),
    any("a member is killed", member_killed),
    any("the leader is killed", leader_killed),
    any("all members are killed", all_killed),
    any("every member is restarted, one after the other", rolling_restart),
    any("members come and go while the group rebalances", storm),
    any("from 3 members to 1, to 20, and back", scaled),
    any("a member stands still in poll, past its session", frozen_in_poll),
    any("a member stands still while it processes, past its session", frozen_in_process),
    any("the leader stands still, past its session", leader_frozen),
    any("a member stands still while the group rebalances", frozen_in_rebalance),
    any("a member stands still, within its session", frozen_shortly),
    any("the application is busy past max.poll.interval.ms", busy),
    any("the application is slow", slow_application),
    any("a member's connections are cut", cut),
    any("a member's connections are cut again and again", cut_again),
    any("a member's packets are lost, past its session", held),
    any("the broker is stopped and started", broker_stopped),
    any("the broker is killed and started", broker_killed),
    any("the broker stands still", broker_frozen),
    any("partitions are added", partitions_added),
    any("a topic is deleted, and created later", topic_deleted),
    any("a member subscribes to less, and to more again", subscription_changed),
    any("the leader asks for rebalances", rebalances_asked),
    any("a static member is killed, and comes back within its session", static_restarted),
    any("a static member stands still, and another takes its place", static_replaced),
    plugin("the plugin is replaced under load", plugin_replaced),
    plugin("the plugin traps", plugin_traps),
    plugin("the plugin never returns", plugin_loops),
    plugin("the plugin is slow", plugin_slow),
    nodes("the coordinator moves to another broker", coordinator_moves),
];

fn joins(stage: &mut Stage) -> Mark {
    let name = stage.prepare(&[]);
    stage.members[&name].ready();
    let mark = stage.mark();
    stage.members[&name].tell("start");
    stage.settled();
    mark
}

fn leaves(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let mark = stage.mark();
    stage.stop(&name);
    mark
}

fn member_killed(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let mark = stage.mark();
    stage.kill(&name);
    mark
}

fn leader_killed(stage: &mut Stage) -> Mark {
    let name = stage.leader();
    let mark = stage.mark();
    stage.kill(&name);
    mark
}

fn all_killed(stage: &mut Stage) -> Mark {
    let names: Vec<String> = stage.members.keys().cloned().collect();
    let mark = stage.mark();
    names.iter().for_each(|name| stage.kill(name));
    stage.join_all(names.len());
    mark
}

fn rolling_restart(stage: &mut Stage) -> Mark {
    let names: Vec<String> = stage.members.keys().cloned().collect();
    let mark = stage.mark();
    for name in names {
        stage.stop(&name);
        stage.join(&[]);
        stage.settled();
    }
    mark
}

fn storm(stage: &mut Stage) -> Mark {
    let new: Vec<String> = (0..4).map(|_| stage.prepare(&[])).collect();
    new.iter().for_each(|name| stage.members[name].ready());
    let (leaves, dies) = (stage.follower(), stage.leader());
    let mark = stage.mark();
    stage.members[&new[0]].tell("start");
    stage.members[&new[1]].tell("start");
    stage.kill(&dies);
    stage.members[&new[2]].tell("start");
    stage.stop(&leaves);
    stage.kill(&new[1]);
    stage.members[&new[3]].tell("start");
    mark
}

fn scaled(stage: &mut Stage) -> Mark {
    let mut names: Vec<String> = stage.members.keys().cloned().collect();
    let mark = stage.mark();
    let rest = names.split_off(1);
    rest.iter().for_each(|name| stage.stop(name));
    stage.settled();
    stage.join_all(19);
    stage.settled();
    names.extend(
        stage.members.keys().filter(|name| !names.contains(name)).take(2).cloned().collect::<Vec<_>>(),
    );
    let leaving: Vec<String> = stage.members.keys().filter(|name| !names.contains(name)).cloned().collect();
    // All at once.
    leaving.iter().for_each(|name| stage.members[name].tell("stop"));
    leaving.iter().for_each(|name| stage.stop(name));
    mark
}

/// Whoever stands still in `poll` while there is nothing to hand out hands out nothing by chance as it is stopped; what there is
/// when it goes on is another's.
fn frozen_in_poll(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let topics: Vec<String> = stage.topics.keys().cloned().collect();
    topics.iter().for_each(|topic| stage.mute(topic));
    let frozen = stage.members[&name].freeze();
    let mark = stage.mark();
    topics.iter().for_each(|topic| stage.unmute(topic));
    stage.recovered(mark);
    drop(frozen);
    mark
}

/// Its client has fetched ahead, and may think that all of it is its own.
fn frozen_in_process(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    frozen_processing(stage, &name)
}

fn leader_frozen(stage: &mut Stage) -> Mark {
    let name = stage.leader();
    frozen_processing(stage, &name)
}

fn frozen_processing(stage: &mut Stage, name: &str) -> Mark {
    let frozen = stop_while_busy(stage, name, 1_500);
    let mark = stage.mark();
    stage.recovered(mark);
    drop(frozen);
    mark
}

/// Stops a member between two polls.
fn stop_while_busy(stage: &Stage, name: &str, busy_ms: u64) -> Frozen {
    let before = stage.ledger.events(name, "busy");
    stage.members[name].tell(&format!("busy {busy_ms}"));
    stage.wait("it is busy", |book| (book.events(name, "busy") > before).then_some(()));
    stage.members[name].freeze()
}

fn frozen_in_rebalance(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let new = stage.prepare(&[]);
    stage.members[&new].ready();
    let frozen = stop_while_busy(stage, &name, 1_500);
    let mark = stage.mark();
    stage.members[&new].tell("start");
    stage.recovered(mark);
    drop(frozen);
    mark
}

fn frozen_shortly(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let frozen = stop_while_busy(stage, &name, 100);
    let mark = stage.mark();
    std::thread::sleep(Duration::from_millis(SESSION_MS / 3));
    drop(frozen);
    mark
}

fn busy(stage: &mut Stage) -> Mark {
    let name = stage.join(&[("max.poll.interval.ms", "2500")]);
    stage.settled();
    let mark = stage.mark();
    stage.members[&name].tell("busy 4500");
    stage.recovered(mark);
    mark
}

fn slow_application(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let mark = stage.mark();
    stage.members[&name].tell("pace 700");
    stage.join(&[]);
    stage.settled();
    stage.members[&name].tell("pace 0");
    mark
}

fn cut(stage: &mut Stage) -> Mark {
    stage.join_proxied();
    stage.settled();
    let mark = stage.mark();
    stage.cut();
    mark
}

fn cut_again(stage: &mut Stage) -> Mark {
    stage.join_proxied();
    stage.settled();
    let mark = stage.mark();
    for _ in 0..10 {
        stage.cut();
        std::thread::sleep(Duration::from_millis(150));
    }
    mark
}

fn held(stage: &mut Stage) -> Mark {
    stage.join_proxied();
    stage.settled();
    let mark = stage.mark();
    stage.hold(true);
    stage.recovered(mark);
    stage.hold(false);
    mark
}

fn coordinator(stage: &mut Stage) -> i32 {
    let port = stage.admin.coordinator(GROUP);
    stage.cluster.node_of(port)
}

fn broker_stopped(stage: &mut Stage) -> Mark {
    let node = coordinator(stage);
    stage.cluster.node(node).stop();
    let mark = stage.mark();
    stage.cluster.node(node).start();
    mark
}

fn broker_killed(stage: &mut Stage) -> Mark {
    let node = coordinator(stage);
    stage.cluster.node(node).kill();
    let mark = stage.mark();
    stage.cluster.node(node).start();
    mark
}

fn broker_frozen(stage: &mut Stage) -> Mark {
    let node = coordinator(stage);
    let frozen = stage.cluster.node(node).freeze();
    let mark = stage.mark();
    std::thread::sleep(Duration::from_millis(SESSION_MS * 3 / 2));
    drop(frozen);
    mark
}

fn coordinator_moves(stage: &mut Stage) -> Mark {
    let node = coordinator(stage);
    stage.cluster.node(node).kill();
    let mark = stage.mark();
    // The group finds another broker; the partitions that only this one has wait for it.
    let gone = stage.cluster.node(node).port(PLAINTEXT);
    let start = Instant::now();
    while stage.admin.coordinator(GROUP) == gone {
        assert!(start.elapsed() < PATIENCE, "the coordinator does not move");
        std::thread::sleep(Duration::from_millis(50));
    }
    stage.settled();
    stage.cluster.node(node).start();
    mark
}

fn partitions_added(stage: &mut Stage) -> Mark {
    let more = stage.topics[ORDERS] + 4;
    let mark = stage.mark();
    stage.admin.grow(ORDERS, more);
    stage.topics.insert(ORDERS.into(), more);
    stage.unmute(ORDERS);
    mark
}

fn topic_deleted(stage: &mut Stage) -> Mark {
    stage.producer.topic(EXTRA, 0);
    stage.producer.flush();
    let mark = stage.mark();
    stage.admin.delete_topic(EXTRA);
    stage.ledger.deleted(EXTRA);
    stage.topics.remove(EXTRA);
    stage.settled();
    stage.producer.renew();
    stage.admin.create_topic(EXTRA, EXTRA_PARTITIONS);
    stage.topics.insert(EXTRA.into(), EXTRA_PARTITIONS);
    stage.unmute(EXTRA);
    mark
}

fn subscription_changed(stage: &mut Stage) -> Mark {
    let name = stage.follower();
    let mark = stage.mark();
    let before = stage.wait("now", |book| Some(book.assignments(&name)));
    stage.members[&name].tell(&format!("subscribe {ORDERS}"));
    stage.wait("a rebalance", |book| (book.assignments(&name) > before).then_some(()));
    stage.settled();
    stage.members[&name].tell(&format!("subscribe {EXTRA},{ORDERS}"));
    mark
}

fn rebalances_asked(stage: &mut Stage) -> Mark {
    let name = stage.leader();
    let mark = stage.mark();
    for _ in 0..3 {
        let before = stage.wait("now", |book| Some(book.assignments(&name)));
        stage.members[&name].tell("rebalance");
        stage.wait("a rebalance", |book| (book.assignments(&name) > before).then_some(()));
    }
    mark
}

const INSTANCE: [(&str, &str); 1] = [("group.instance.id", "static-1")];

/// Nobody else notices: its partitions wait for it.
fn static_restarted(stage: &mut Stage) -> Mark {
    let old = stage.join(&INSTANCE);
    stage.settled();
    let new = stage.prepare(&INSTANCE);
    stage.members[&new].ready();
    let leader = stage.leader();
    let before = stage.wait("now", |book| Some(book.assignments(&leader)));
    stage.kill(&old);
    let mark = stage.mark();
    stage.members[&new].tell("start");
    stage.recovered(mark);
    let after = stage.wait("now", |book| Some(book.assignments(&leader)));
    assert_eq!(before, after, "the leader saw a rebalance");
    mark
}

/// The one that stood still is fenced, and ends.
fn static_replaced(stage: &mut Stage) -> Mark {
    let old = stage.join(&INSTANCE);
    stage.settled();
    let new = stage.prepare(&INSTANCE);
    stage.members[&new].ready();
    let frozen = stop_while_busy(stage, &old, 200);
    let mark = stage.mark();
    stage.members[&new].tell("start");
    stage.recovered(mark);
    stage.ledger.ending(&old);
    drop(frozen);
    stage.wait("the old one ends", |book| (!book.is_alive(&old)).then_some(()));
    stage.kill(&old);
    mark
}

/// The strategy's own name, under which a hostile component takes its place.
const WEIGHTED: &str = "weighted";

fn replace(stage: &Stage, name: &str, component: &str) {
    let path = built(&format!("plugins/{component}.wasm"));
    let before = stage.ledger.events(name, "Replaced");
    stage.members[name].tell(&format!("replace {WEIGHTED} {}", path.display()));
    stage.wait("it is replaced", |book| (book.events(name, "Replaced") > before).then_some(()));
}

/// The leader's plugin is replaced by a hostile one, which does what is configured; and back again, after a rebalance or two.
fn replaced(stage: &mut Stage, fault: &str, fallback: bool) -> Mark {
    let more = [("assignor.strategy.weighted.fault", fault), ("assignor.strategy.weighted.ms", "40")];
    let leader = stage.lead_with(&more);
    let before = stage.ledger.events(&leader, "Fallback");
    let mark = stage.mark();
    replace(stage, &leader, "hostile");
    if fallback {
        stage.wait("a fallback", |book| (book.events(&leader, "Fallback") > before).then_some(()));
    }
    stage.join(&[]);
    stage.settled();
    replace(stage, &leader, WEIGHTED);
    mark
}

fn plugin_replaced(stage: &mut Stage) -> Mark {
    replaced(stage, "", false)
}

fn plugin_traps(stage: &mut Stage) -> Mark {
    replaced(stage, "trap", true)
}

fn plugin_loops(stage: &mut Stage) -> Mark {
    replaced(stage, "loop", true)
}

fn plugin_slow(stage: &mut Stage) -> Mark {
    replaced(stage, "busy", false)
}
