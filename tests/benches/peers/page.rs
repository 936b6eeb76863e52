//! The page: what was measured, where, and how, as tables.

use std::fmt::Write as _;

use crate::cell::{COOPERATIVE, Cell, Family, RANGE, STICKY};
use crate::results::{Measured, Outcome, Results, geometric_mean};
use crate::side::{CAP, Pace, Side, Span, Times};

/// The strategies that Kafka's `AbstractStickyAssignor` is behind.
const STICKY_FAMILY: [&str; 2] = [STICKY, COOPERATIVE];
const KAFKA: [Family; 2] = [Family::Kafka, Family::KafkaAsWritten];
const EVERY_FAMILY: [Family; 4] = [Family::Kafka, Family::KafkaAsWritten, Family::FranzGo, Family::Growth];

/// The whole page.
pub(crate) fn page(results: &Results) -> String {
    let mut page = String::from(
        "# Benchmarks against the peers\n\n\
         The native strategies, Kafka's Java client and franz-go, in one run on one machine. Written by\n\
         `cargo xtask peers --write`; don't edit.\n\n## Outcome\n\n",
    );
    page.push_str(&summary(results));
    page.push_str(
        "\n![How many times faster than its peer each group is planned](benchmarks-ratios.svg)\n\n\
         ## Growth\n\n![Time and memory from a thousand partitions to a million](benchmarks-growth.svg)\n\n",
    );
    for strategy in [STICKY, COOPERATIVE, RANGE] {
        table(&mut page, results, strategy, Family::Growth, strategy);
    }
    page.push_str("\n## Kafka's shapes, as they are meant\n\n");
    page.push_str(
        "The shapes of Kafka's `ClientSideAssignorBenchmark`, with partitions in two of three racks (in all three,\n\
         rack-awareness is off) and with a joiner among members that own what they were given. `range` takes no notice of\n\
         ownership, so it has no joiner here.\n",
    );
    for strategy in [COOPERATIVE, RANGE] {
        table(&mut page, results, strategy, Family::Kafka, strategy);
    }
    page.push_str("\n## Kafka's shapes, as they are written\n\n");
    page.push_str(
        "What that benchmark measures: every partition in every rack, which turns rack-awareness off; and in place of the\n\
         joiner, a first assignment without it. Without racks and joiner the shapes are the same as above.\n",
    );
    for strategy in [COOPERATIVE, RANGE] {
        table(&mut page, results, strategy, Family::KafkaAsWritten, strategy);
    }
    page.push_str("\n## franz-go's sizes\n\nWithout racks, which franz-go takes only from a live cluster.\n");
    for strategy in STICKY_FAMILY {
        table(&mut page, results, strategy, Family::FranzGo, strategy);
    }
    page.push_str(&method(results));
    page
}

/// Whether the targets are met.
pub(crate) fn summary(results: &Results) -> String {
    let mut out = String::from(
        "How many times faster than the peer:\n\n\
         | | groups | geometric mean | least | most |\n|---|---:|---:|---:|---:|\n",
    );
    let lines: [(&str, &[&str], &[Family], Side); 6] = [
        ("Kafka's shapes: sticky strategies against Java", &STICKY_FAMILY, &KAFKA, Side::Java),
        ("Kafka's shapes: range against Java", &[RANGE], &KAFKA, Side::Java),
        (
            "franz-go's sizes: sticky strategies against franz-go",
            &STICKY_FAMILY,
            &[Family::FranzGo],
            Side::FranzGo,
        ),
        ("growth: sticky strategies against Java", &STICKY_FAMILY, &[Family::Growth], Side::Java),
        ("growth: sticky strategies against franz-go", &STICKY_FAMILY, &[Family::Growth], Side::FranzGo),
        ("growth: range against Java", &[RANGE], &[Family::Growth], Side::Java),
    ];
    for (name, strategies, families, peer) in lines {
        for (span, shown) in [(Span::Plan, "decoded group to plan"), (Span::Wire, "wire to wire")] {
            let cells = results.of(families).filter(|m| strategies.contains(&m.cell.strategy.as_str()));
            let mut ratios: Vec<f64> = cells.filter_map(|measured| measured.ratio(peer, span)).collect();
            ratios.sort_by(f64::total_cmp);
            let Some(mean) = geometric_mean(&ratios) else { continue };
            let (least, most) = (ratios.first().copied(), ratios.last().copied());
            let _ = writeln!(
                out,
                "| {name}, {shown} | {} | {} | {} | {} |",
                ratios.len(),
                significant(mean),
                significant(least.unwrap_or(f64::NAN)),
                significant(most.unwrap_or(f64::NAN)),
            );
        }
    }
    out.push('\n');
    for measured in results.of(&[Family::Growth]).filter(|m| m.cell.all_partitions() >= 1_000_000) {
        let said = measured.outcomes.iter().map(|outcome| {
            let peak = outcome.once.map_or(f64::NAN, |once| once.peak_resident as f64 / 1e6);
            let (name, time) = (peer_name(outcome.side), time(outcome, Span::Plan));
            format!("{name} {time} ms and {} MB", significant(peak))
        });
        let said = said.collect::<Vec<_>>().join(", ");
        let (strategy, kind) = (&measured.cell.strategy, kind(&measured.cell));
        let _ = writeln!(out, "- A million partitions, {strategy} ({kind}): {said}.");
    }
    out.push('\n');
    listed(&mut out, "Groups where a peer is faster", results, |measured, peer| {
        let slower = [Span::Plan, Span::Wire].map(|span| Some((span, measured.ratio(peer, span)?)));
        let slower: Vec<String> =
            slower.into_iter().flatten().filter(|(_, ratio)| *ratio < 1.0).map(said).collect();
        (!slower.is_empty()).then(|| slower.join(", "))
    });
    listed(&mut out, "Groups where a peer's process is smaller", results, |measured, peer| {
        let peak = |side| Some(measured.side(side)?.once?.peak_resident as f64 / 1e6);
        let (ours, theirs) = (peak(Side::Assignor)?, peak(peer)?);
        (theirs < ours).then(|| format!("{} against {} MB", significant(theirs), significant(ours)))
    });
    out
}

fn said((span, ratio): (Span, f64)) -> String {
    format!("{} {} times", span.name(), significant(ratio))
}

/// Lists the cells and peers for which there is something to say, or says that there are none.
fn listed(out: &mut String, title: &str, results: &Results, say: impl Fn(&Measured, Side) -> Option<String>) {
    let _ = write!(out, "{title}: ");
    let mut none = true;
    for measured in results.of(&EVERY_FAMILY) {
        for peer in [Side::Java, Side::FranzGo] {
            if let Some(said) = say(measured, peer) {
                let _ = write!(out, "\n- {} ({}): {said}", measured.cell.name(), peer_name(peer));
                none = false;
            }
        }
    }
    out.push_str(if none { "none.\n\n" } else { "\n\n" });
}

/// A table of the cells of a family and strategy; nothing if there are none.
fn table(page: &mut String, results: &Results, title: &str, family: Family, strategy: &str) {
    let cells: Vec<&Measured> =
        results.of(&[family]).filter(|measured| measured.cell.strategy == strategy).collect();
    let Some(first) = cells.first() else { return };
    let sides = first.cell.sides.clone();
    let peers: Vec<Side> = sides.iter().copied().filter(|&side| side != Side::Assignor).collect();
    let mut head = vec!["members".to_owned(), "topics x partitions".into(), "group".into()];
    for &span in &first.cell.spans {
        let of = |side: &Side| format!("{} {}, ms", peer_name(*side), span.name());
        head.extend(sides.iter().map(of));
        head.extend(peers.iter().map(|peer| format!("{} / ours", peer_name(*peer))));
    }
    head.extend(sides.iter().map(|&side| format!("{} allocates, MB", peer_name(side))));
    head.extend(sides.iter().map(|&side| format!("{} process, MB", peer_name(side))));
    let _ = writeln!(page, "\n### {title}\n\n| {} |", head.join(" | "));
    let rule = |index| if index < 3 { "---" } else { "---:" };
    let _ = writeln!(page, "|{}|", (0..head.len()).map(rule).collect::<Vec<_>>().join("|"));
    for measured in cells {
        let cell = &measured.cell;
        let mut row =
            vec![cell.members.to_string(), format!("{} x {}", cell.topics, cell.partitions), kind(cell)];
        for &span in &cell.spans {
            row.extend(
                sides.iter().map(|&side| measured.side(side).map_or_else(String::new, |o| time(o, span))),
            );
            row.extend(peers.iter().map(|&peer| {
                let capped = measured.side(peer).is_some_and(|outcome| outcome.once.is_none());
                let ratio = measured.ratio(peer, span).map(significant).unwrap_or_default();
                if capped { format!("> {ratio}") } else { ratio }
            }));
        }
        let megabytes = |bytes: Option<f64>| bytes.map(|bytes| significant(bytes / 1e6)).unwrap_or_default();
        row.extend(sides.iter().map(|&s| megabytes(measured.side(s).and_then(Outcome::allocated))));
        let peak = |side| Some(measured.side(side)?.once?.peak_resident as f64);
        row.extend(sides.iter().map(|&side| megabytes(peak(side))));
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
}

/// What sets a group apart from others of its size.
fn kind(cell: &Cell) -> String {
    let racks = if cell.racks { ", racks" } else { "" };
    format!("{}, {}{racks}", cell.cause.shown(), cell.subscriptions.shown())
}

/// A median in milliseconds, and how far the intervals lie apart.
fn time(outcome: &Outcome, span: Span) -> String {
    match (&outcome.once, outcome.times(span)) {
        (None, _) => format!("> {} s", CAP.as_secs()),
        (Some(_), Some(times)) => {
            let few = if times.nanoseconds.len() < 2 { " (once)" } else { "" };
            format!("{}{few}", significant(times.median() / 1e6))
        }
        (Some(_), None) => String::new(),
    }
}

fn peer_name(side: Side) -> &'static str {
    match side {
        Side::Assignor => "Assignor",
        Side::Java => "Java",
        Side::FranzGo => "franz-go",
    }
}

/// Three significant digits.
pub(crate) fn significant(number: f64) -> String {
    let digits = 2 - (number.abs().max(1e-6).log10().floor() as i32);
    if digits >= 0 {
        return format!("{number:.*}", digits as usize);
    }
    let unit = 10f64.powi(-digits);
    format!("{:.0}", (number / unit).round() * unit)
}

fn method(results: &Results) -> String {
    let machine = &results.machine;
    let [plan, wire] = [Span::Plan, Span::Wire].map(|span| Pace::of(Side::Java, span, false));
    let intervals = |measured: &Measured| {
        let times = measured.outcomes.iter().flat_map(|o| [o.plan.as_ref(), o.wire.as_ref()]);
        times.flatten().map(Times::spread).collect::<Vec<_>>()
    };
    let mut spreads: Vec<f64> = results.cells.iter().flat_map(intervals).collect();
    spreads.sort_by(f64::total_cmp);
    let spread = |part: f64| {
        let index = ((spreads.len().saturating_sub(1)) as f64 * part) as usize;
        format!("{:.0} %", spreads.get(index).copied().unwrap_or_default() * 100.0)
    };
    format!(
        "\n## How it was measured\n\n\
         `cargo xtask peers --write`, {} groups in {} min, at commit {}. {}, {} cores, {} GiB, {}; load {} at the\n\
         start. {}; {}, kafka-clients 4.3.1 in JMH 1.37; {}, franz-go 1.22.3.\n\n\
         - Each group is written to a file that all sides read, members as the bytes they send in JoinGroup. Each side and\n\
         \x20 span runs in a process of its own, one after the other, with its runtime's defaults (Java: G1, a quarter of the\n\
         \x20 memory as heap; Go: two threads; ours: one thread, the system's allocator).\n\
         - {} intervals to warm up and {} that count (wire: {} and {}) on all sides, of {} ms in Java, whose compiler needs\n\
         \x20 time, and of {} ms elsewhere, each at least one plan long. The figure is the median of the intervals' means. From\n\
         \x20 the least to the greatest interval it is {} of the median at the median of all figures, and {} at nine of ten.\n\
         \x20 Where the intervals would take longer than {} s there are fewer; `(once)` is a single interval, and `> {} s` a\n\
         \x20 plan that did not end by then, which counts as {} s in means.\n\
         - **plan** is from decoded subscriptions to a plan by topic name. Java: `ConsumerPartitionAssignor.assign` on a\n\
         \x20 `Cluster` and subscriptions that share topic lists and names, as in Kafka's own benchmark. franz-go:\n\
         \x20 `ConsumerBalancer.BalanceOrError` (its sticky package is internal). Ours: `Group::new`, `with_racks`, `plan`,\n\
         \x20 under the cooperative protocol `withhold` (the peers do that inside), and `by_topic` into each member's topic\n\
         \x20 names (borrowed; the peers share theirs) and partitions; and freeing all that, the subscriptions included.\n\
         - **wire** is from the bytes of JoinGroup to the bytes of SyncGroup, everybody with their own codec.\n\
         - **allocates** is what one plan allocates in all: JMH's `gc.alloc.rate.norm`, Go's `MemStats.TotalAlloc`, ours by\n\
         \x20 counting. **process** is the peak resident size of a process that reads the group and plans once.\n\
         - Not measured: racks against franz-go; the check of a plan, which neither peer has.\n",
        results.cells.len(),
        results.seconds.div_ceil(60),
        machine.commit,
        machine.processor,
        machine.cores,
        machine.memory,
        machine.system,
        machine.load,
        machine.rust,
        machine.java,
        machine.go,
        plan.warm_ups,
        plan.measured,
        wire.warm_ups,
        wire.measured,
        plan.milliseconds,
        Pace::of(Side::Assignor, Span::Plan, false).milliseconds,
        spread(0.5),
        spread(0.9),
        Pace::MOST.as_secs(),
        CAP.as_secs(),
        CAP.as_secs(),
    )
}
