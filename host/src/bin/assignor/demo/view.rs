//! What the demo shows: a line for each thing that happens, a table for each assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::bail;
use assignor_host::consumer::{Consumer, GroupEvent};
use assignor_host::{Cause, Event};

use super::flow::{self, Tally};
use super::members::{Happening, name};
use super::{PARTITIONS, WEIGHTS};
use crate::anatomy::printable;
use crate::assign::ranges;

/// The group as its members' events tell it.
pub(super) struct View {
    strategy: String,
    consumers: Vec<Arc<Consumer>>,
    tally: Arc<Mutex<Tally>>,
    /// To standard error: standard output is for the summary in JSON.
    aside: bool,
    begun: Instant,
    members: Vec<Assigned>,
    /// The fallback that decided last, until the generation that it decided begins.
    fell_back: Option<(&'static str, Cause)>,
    /// The fallback that decided the newest generation, if one did.
    decided: Option<(&'static str, Cause)>,
    generations: BTreeSet<i32>,
    settled: Option<i32>,
    /// Troubles told since then: each member has the same ones.
    troubles: BTreeSet<String>,
    fallbacks: BTreeMap<&'static str, u64>,
}

/// What a member has.
#[derive(Debug, Clone, Default)]
struct Assigned {
    generation: Option<i32>,
    partitions: Vec<u32>,
    leader: bool,
}

impl View {
    pub(super) fn new(
        strategy: &str,
        consumers: Vec<Arc<Consumer>>,
        tally: Arc<Mutex<Tally>>,
        aside: bool,
    ) -> Self {
        Self {
            strategy: strategy.to_owned(),
            consumers,
            tally,
            aside,
            begun: Instant::now(),
            members: vec![Assigned::default(); WEIGHTS.len()],
            fell_back: None,
            decided: None,
            generations: BTreeSet::new(),
            settled: None,
            troubles: BTreeSet::new(),
            fallbacks: BTreeMap::new(),
        }
    }

    /// The newest generation in which the members have all partitions among them.
    pub(super) fn settled(&self) -> Option<i32> {
        self.settled
    }

    /// Generations that the group went through.
    pub(super) fn rebalances(&self) -> usize {
        self.generations.len()
    }

    /// How often a native strategy decided instead, by the cause's code.
    pub(super) fn fallbacks(&self) -> &BTreeMap<&'static str, u64> {
        &self.fallbacks
    }

    /// Writes a line, with the time since the beginning.
    pub(super) fn say(&self, text: &str) {
        self.write(&format!("{:>6.1} s  {text}\n", self.begun.elapsed().as_secs_f64()));
    }

    /// Takes in what happened, and shows it if it is worth a line.
    ///
    /// # Errors
    /// If a consumer has ended.
    pub(super) fn show(&mut self, happening: Happening) -> anyhow::Result<()> {
        match happening {
            Happening::Group(member, event) => self.group(member, event),
            Happening::Strategy(member, event) => self.strategy(member, event),
            Happening::Poll(_, error) if error.is_retriable() => self.trouble(error.to_string()),
            Happening::Poll(member, error) => bail!("{} has ended: {error}", name(member)),
        }
        Ok(())
    }

    fn group(&mut self, member: usize, event: GroupEvent) {
        match event {
            GroupEvent::Assigned { generation, partitions, leader, .. } => {
                let partitions = partitions.into_iter().flat_map(|topic| topic.partitions).collect();
                self.assigned(member, Assigned { generation: Some(generation), partitions, leader });
            }
            GroupEvent::Lost { cause, .. } => {
                self.say(&format!("{} has lost its partitions: {cause}", name(member)));
            }
            GroupEvent::Trouble { message } => self.trouble(message),
            // Part of every rebalance, or told by the poll that fails.
            _ => {}
        }
    }

    fn assigned(&mut self, member: usize, assigned: Assigned) {
        let Some(generation) = assigned.generation else { return };
        if self.generations.insert(generation) {
            self.decided = self.fell_back.take();
        }
        if let Some(slot) = self.members.get_mut(member) {
            *slot = assigned;
        }
        let owned: BTreeSet<u32> = self.members.iter().flat_map(|m| m.partitions.iter().copied()).collect();
        let together = self.members.iter().all(|m| m.generation == Some(generation));
        if together && owned.len() == PARTITIONS as usize {
            self.settled = Some(generation);
            self.troubles.clear();
            self.say(&format!("generation {generation}, decided by {}", self.decider()));
            self.table();
        }
    }

    /// Who decided the newest generation, and why it was not the strategy.
    fn decider(&self) -> String {
        match &self.decided {
            None => self.strategy.clone(),
            Some((used, cause)) => {
                let text = self.with_names(&cause.to_string());
                format!("{used} (fallback): {} ({})", printable(&text), cause.code())
            }
        }
    }

    fn strategy(&mut self, member: usize, event: Event) {
        match event {
            Event::Fallback { used, cause, .. } => {
                *self.fallbacks.entry(cause.code()).or_default() += 1;
                self.fell_back = Some((used, cause));
            }
            // Whatever the one before decided, it did not come to a generation.
            Event::Replaced { .. } => self.fell_back = None,
            Event::CallFailed { call, cause, .. } => {
                self.say(&format!("{}: {call} failed: {cause} ({})", name(member), cause.code()));
            }
            Event::Benched { pause, failures, .. } => {
                self.say(&format!(
                    "{}: not asked for {pause:?} after {failures} failures in a row",
                    name(member)
                ));
            }
            _ => {}
        }
    }

    /// A line, unless another member has told the same.
    fn trouble(&mut self, message: String) {
        if self.troubles.insert(message.clone()) {
            self.say(&format!("trouble: {message}"));
        }
    }

    /// The demo's names in place of the ids that the broker gave.
    fn with_names(&self, text: &str) -> String {
        self.consumers.iter().enumerate().fold(text.to_owned(), |text, (index, consumer)| {
            let id = consumer.group_metadata().member_id;
            if id.is_empty() { text } else { text.replace(&id, &name(index)) }
        })
    }

    /// Who has what.
    fn table(&self) {
        let tally = flow::lock(&self.tally);
        let rows = self.members.iter().zip(WEIGHTS).enumerate().map(|(index, (member, weight))| {
            let mut sorted = member.partitions.clone();
            sorted.sort_unstable();
            [
                format!("{}{}", name(index), if member.leader { ", leader" } else { "" }),
                weight.to_string(),
                ranges(&sorted),
                tally.of_member(index).to_string(),
            ]
        });
        let header = ["member", "weight", "partitions", "records so far"];
        let terminal =
            if self.aside { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        if terminal {
            let mut table = comfy_table::Table::new();
            table.load_preset(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(header).add_rows(rows);
            self.write(&format!("{table}\n"));
        } else {
            for [member, weight, partitions, records] in rows {
                self.write(&format!(
                    "          {member}: weight {weight}, partitions {partitions}, {records} records so far\n"
                ));
            }
        }
    }

    fn write(&self, text: &str) {
        // Nobody left to read it: the demo goes on to its summary.
        let _ = if self.aside {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            std::io::stdout().write_all(text.as_bytes())
        };
    }
}
