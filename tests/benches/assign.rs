//! What a plugin costs: the strategy `weighted` native and as a component, on the same groups in the same run.
//!
//! Members are full: all topics, owned partitions, a generation, a rack, an instance id, user data. `cargo xtask bench`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark stops where something is missing"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use assignor_guest_sdk as sdk;
use assignor_guest_sdk::Strategy as _;
use assignor_guest_sdk::bindings::assignor::strategy::types as raw;
use assignor_host::{
    Assignor, Completeness, Component, Context, Group, MemberSubscription, Plan, Plugin, Runtime,
    RuntimeOptions, Subscription, assert_safe, check, withhold,
};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use weighted::Weighted;

const TOPICS: u32 = 100;
const MEMBERS: [usize; 3] = [10, 100, 1_000];
const PARTITIONS: [u32; 3] = [1_000, 10_000, 100_000];

fn component(name: &str, runtime: &Runtime) -> Arc<Component> {
    runtime.compile(&assignor_tests::plugin(name)).unwrap()
}

fn plugin(component: &Arc<Component>, config: &[(&str, &str)]) -> Plugin {
    let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Plugin::new(component, config).unwrap()
}

/// Why the group rebalances.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    /// For nothing: the plan stays as it is.
    Settled,
    /// Every tenth member has just joined.
    Joining,
}

/// A group of full members of weights 1, 2 and 3 that own what `weighted` gave them before the cause.
fn full_group(component: &Arc<Component>, members: usize, partitions: u32, cause: Cause) -> Group {
    let counts: BTreeMap<String, u32> =
        (0..TOPICS).map(|topic| (format!("topic-{topic:03}"), partitions / TOPICS)).collect();
    let topics: Vec<String> = counts.keys().cloned().collect();
    let weights = ["1", "2", "3"].map(|weight| {
        let interest = plugin(component, &[("weight", weight)]).subscription(&Context::default(), &topics);
        interest.unwrap().user_data
    });
    let mut subscriptions: Vec<MemberSubscription> = (0..members)
        .map(|index| MemberSubscription {
            member_id: format!("consumer-{index:05}-6f1c2d3e-5a4b-4c8d-9e0f-{index:012}"),
            instance_id: Some(format!("instance-{index:05}")),
            subscription: Subscription {
                topics: topics.clone().into(),
                user_data: weights[index % weights.len()].clone(),
                owned: Vec::new(),
                generation: Some(7),
                rack: Some(format!("rack-{}", index % 3)),
            },
        })
        .collect();
    let joins = |index: usize| cause == Cause::Joining && index % 10 == 9;
    let before =
        (0..).zip(&subscriptions).filter(|(index, _)| !joins(*index)).map(|(_, member)| member.clone());
    let before = Group::new(&counts, before.collect()).unwrap();
    let plan = plugin(component, &[]).assign(&Context::default(), &before).unwrap();
    let mut owned = plan.assignments.iter().map(|assignment| before.by_name(&assignment.partitions));
    for (index, member) in subscriptions.iter_mut().enumerate() {
        if joins(index) {
            member.subscription.generation = None;
        } else {
            member.subscription.owned = owned.next().unwrap();
        }
    }
    Group::new(&counts, subscriptions).unwrap()
}

/// The same group as a strategy that is compiled in would have it.
fn native(group: &Group) -> sdk::Group {
    let topics = group.topics().iter();
    let topics = topics.map(|t| raw::Topic { name: t.name.clone(), first: t.first, count: t.partitions });
    let members = group.members().iter().cloned().map(|m| raw::Member {
        id: m.id,
        instance_id: m.instance_id,
        topics: m.topics,
        owned: m.owned,
        generation: m.generation,
        rack: m.rack,
        user_data: m.user_data,
    });
    sdk::Group::new(topics.collect(), members.collect())
}

fn assign(c: &mut Criterion) {
    let runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let weighted = component("weighted", &runtime);
    let cx = Context::default();
    for (cause, name) in [(Cause::Settled, "settled"), (Cause::Joining, "a tenth joins")] {
        let mut bench = c.benchmark_group(format!("assign, {name}"));
        for (members, partitions) in MEMBERS.into_iter().flat_map(|m| PARTITIONS.map(|p| (m, p))) {
            let size = format!("{members} members x {partitions} partitions");
            let group = full_group(&weighted, members, partitions, cause);
            let strategy = Weighted;
            let native = native(&group);
            bench.bench_function(BenchmarkId::new("native", &size), |b| {
                b.iter(|| strategy.assign(black_box(&native)).unwrap());
            });
            let mut warm = plugin(&weighted, &[]);
            bench.bench_function(BenchmarkId::new("plugin, warm", &size), |b| {
                b.iter(|| warm.assign(&cx, black_box(&group)).unwrap());
            });
            bench.bench_function(BenchmarkId::new("plugin, first call", &size), |b| {
                b.iter_batched(
                    || plugin(&weighted, &[]),
                    |mut fresh| {
                        let plan = fresh.assign(&cx, black_box(&group)).unwrap();
                        // Returned, so that taking the instance down is not counted.
                        (fresh, plan)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
        bench.finish();
    }
}

fn parts(c: &mut Criterion) {
    let runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    let weighted = component("weighted", &runtime);
    let (members, partitions) = (1_000, 100_000);
    let group = full_group(&weighted, members, partitions, Cause::Settled);
    let cx = Context::default();
    let plan = plugin(&weighted, &[]).assign(&cx, &group).unwrap();
    let mut bench = c.benchmark_group("parts of a call at 1000 members x 100000 partitions");

    // A guest that gives everyone what they own: nothing but crossing, there and back.
    let mut echo = plugin(&component("hostile", &runtime), &[("fault", "echo")]);
    bench.bench_function("marshalling, both ways", |b| {
        b.iter(|| echo.assign(&cx, black_box(&group)).unwrap());
    });
    let empty = Group::default();
    bench.bench_function("an empty call", |b| b.iter(|| echo.assign(&cx, black_box(&empty)).unwrap()));
    bench.bench_function("noun conversion", |b| {
        b.iter(|| assignor_host::noun_conversion(black_box(&group)));
    });
    bench.bench_function("plan check", |b| {
        b.iter(|| check(black_box(&group), black_box(&plan), Completeness::Full).unwrap());
    });
    bench.bench_function("withholding and assertion", |b| {
        b.iter_batched_ref(
            || plan.clone(),
            |plan: &mut Plan| {
                let withheld = withhold(black_box(&group), plan);
                assert_safe(&group, plan).unwrap();
                withheld
            },
            BatchSize::LargeInput,
        );
    });
    bench.finish();
}

fn life(c: &mut Criterion) {
    let mut bench = c.benchmark_group("life of a component");
    let bytes = assignor_tests::plugin("weighted");
    let runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    bench.bench_function("load from bytes", |b| b.iter(|| runtime.compile(black_box(&bytes)).unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(folder.path().join("compiled"));
    let cached = Runtime::new(RuntimeOptions { cache, ..RuntimeOptions::default() }).unwrap();
    cached.compile(&bytes).unwrap();
    bench.bench_function("load from cache", |b| b.iter(|| cached.compile(black_box(&bytes)).unwrap()));
    let component = runtime.compile(&bytes).unwrap();
    bench.bench_function("make an instance and probe it", |b| {
        b.iter_with_large_drop(|| plugin(black_box(&component), &[]));
    });
    bench.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(3));
    targets = assign, parts, life
}
criterion_main!(benches);
