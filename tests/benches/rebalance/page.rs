//! What was measured, for people and for programs.

use serde::Serialize;

use crate::machine::Machine;
use crate::round::{Cell, Times};

/// A run of all that was asked for.
#[derive(Serialize)]
pub(crate) struct Run {
    pub(crate) machine: Machine,
    pub(crate) cells: Vec<Cell>,
}

/// A column's title, and what is in it.
type Column = (&'static str, fn(&Times) -> f64);

const COLUMNS: [Column; 5] = [
    ("all join: half have a record", |t| t.half),
    ("all join: each has one", |t| t.each),
    ("all join: settled", |t| t.settled),
    ("one more: has a record", |t| t.one_more),
    ("one more: settled", |t| t.settled_again),
];

impl Run {
    /// The median of each time, and the least and the greatest, in milliseconds.
    pub(crate) fn table(&self) -> String {
        let titles: Vec<&str> = COLUMNS.iter().map(|(title, _)| *title).collect();
        let mut lines = vec![
            format!(
                "{}, {} cores; load at the start: {}",
                self.machine.processor, self.machine.cores, self.machine.load
            ),
            "Milliseconds: median (least to greatest)".to_owned(),
            String::new(),
            format!("| strategy | heartbeat | members | client | {} |", titles.join(" | ")),
            format!("|{}", " --- |".repeat(4 + COLUMNS.len())),
        ];
        for cell in &self.cells {
            let values: Vec<String> =
                COLUMNS.iter().map(|(_, of)| spread(cell.rounds.iter().map(of))).collect();
            let (strategy, heartbeat) = (&cell.strategy, cell.heartbeat_ms);
            let (members, client) = (cell.members, cell.whose.name());
            lines.push(format!(
                "| {strategy} | {heartbeat} | {members} | {client} | {} |",
                values.join(" | ")
            ));
        }
        lines.join("\n")
    }
}

fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted[..] {
        [] => "-".to_owned(),
        [least, ..] => {
            let (middle, greatest) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
            format!("{middle:.0} ({least:.0} to {greatest:.0})")
        }
    }
}
