//! `assignor assign`: what a strategy decides for a group that is written down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use assignor_host::builtin::STICKY;
use assignor_host::described::{DescribedGroup, DescribedMember, DescribedServices};
use assignor_host::{
    Assignor, Builtin, Context, Decision, Fallback, FallbackPolicy, Group, LoadError, MemberSubscription,
    Outcome, Plugin, Protocol, Runtime, RuntimeOptions, Strategy, Subscription, check_name, read_component,
};

use crate::files::read_text;
use crate::{bad_input, print};

/// Lets a strategy decide a group that is written down, as the group's leader would: asked, checked, and with the fallback behind it.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor assign --strategy range --group group.json
  assignor assign --strategy my-strategy.wasm --group - --config weight=2 --json < group.json

A group is one JSON object. All but a topic's partitions, a member's id and its topics may be left out:
  {\"context\": {\"group_id\": \"g\", \"leader\": \"m1\", \"generation\": 4, \"now_ms\": 0},
   \"nodes\":   [{\"id\": 1, \"host\": \"b1\", \"rack\": \"r1\"}],
   \"topics\":  {\"t\": {\"partitions\": 2, \"replicas\": [[1], [1]],
                     \"lag\": {\"begin\": [0, 0], \"end\": [9, 5], \"committed\": [3, -1]}}},
   \"members\": [{\"id\": \"m1\", \"instance_id\": \"i1\", \"topics\": [\"t\"], \"owned\": {\"t\": [0]}, \"generation\": 3,
                \"rack\": \"r1\", \"user_data\": \"<base64>\", \"config\": {\"weight\": \"2\"}}]}
Each member joins as a real one would: its own instance of the strategy, with --config and the member's config over it, is told what the
member owns, if anything is said of that, and asked for the topics and the user_data that the file doesn't give. Members of sticky, which
is eager, give up what they own before they join: only their user_data tells of it.

With --json, one object:
  {\"assignments\": {\"m1\": {\"t\": [0, 1]}}, \"assignor\": \"my-strategy\", \"outcome\": \"plugin\" | \"native\" | \"fallback\",
   \"cause\": null | {\"code\": \"trap\", \"message\": \"...\"}, \"took_us\": 12}

Exit codes: 0 decided, also by the fallback; 2 bad input, the message names the place; 3 with --strict, the fallback decided.")]
pub(crate) struct Assign {
    /// A built-in (cooperative-sticky, keep, range, roundrobin, sticky), the file of a component, or both: the name that it should have,
    /// and the file.
    #[arg(long, value_name = "NAME|FILE|NAME=FILE")]
    strategy: String,
    /// The group's file; - for standard input.
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    group: PathBuf,
    /// Configuration of the strategy, for all members.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., value_parser = key_value)]
    config: Vec<(String, String)>,
    /// What decides if the strategy fails.
    #[arg(long, value_name = "NAME", default_value = "keep", value_parser = ["keep", "range", "cooperative-sticky", "hold"])]
    fallback: String,
    /// Exit with 3 if the fallback decided.
    #[arg(long)]
    strict: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it is not KEY=VALUE".into()),
    }
}

/// The answer to programs.
#[derive(serde::Serialize)]
struct Answer<'a> {
    /// By member and topic.
    assignments: BTreeMap<&'a str, BTreeMap<String, Vec<u32>>>,
    /// Who decided.
    assignor: &'a str,
    outcome: &'static str,
    cause: Option<Told>,
    took_us: u128,
}

#[derive(serde::Serialize)]
struct Told {
    code: &'static str,
    message: String,
}

impl Assign {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let text = read_text(&self.group).map_err(bad_input)?;
        let described = DescribedGroup::parse(&text).map_err(bad_input)?;
        warn_of_unknown_topics(&described);
        let services = described.services();
        let context = described.leader().map_or_else(
            || Context { group_id: described.context.group_id.clone(), ..Context::default() },
            |leader| described.context_of(leader, &services),
        );
        let (strategy, group) = self.strategy(&described, &services)?;

        let decision = strategy.decide(&context, &group);
        let answer = answer(&group, &decision);
        print(self.json, &answer, &in_words(&answer, &decision))?;
        Ok(match decision.outcome {
            Outcome::Fallback if self.strict => ExitCode::from(3),
            _ => ExitCode::SUCCESS,
        })
    }

    /// The strategy, and the group as its members' instances of the strategy join it.
    fn strategy(
        &self,
        described: &DescribedGroup,
        services: &Arc<DescribedServices>,
    ) -> anyhow::Result<(Strategy, Group)> {
        let observer = Arc::new(|_: &_| ());
        if let Some(builtin) = Builtin::by_name(&self.strategy) {
            let group = self.joined(described, services, |_| Ok(builtin.clone()))?;
            return Ok((Strategy::native(Box::new(builtin), observer), group));
        }
        let (name, path) = self.file()?;
        let policy = FallbackPolicy {
            fallback: Fallback::by_name(&self.fallback).context("a fallback that the arguments allow")?,
            ..FallbackPolicy::default()
        };
        let runtime = Runtime::new(RuntimeOptions::default())?;
        let all = self.config()?;
        let config = config_of(described.leader(), &all);
        match load(&runtime, name, path, config.clone()) {
            Ok(plugin) => {
                let component = Arc::clone(plugin.component());
                let group = self.joined(described, services, |member| {
                    Plugin::new(&component, config_of(Some(member), &all))
                })?;
                Ok((Strategy::plugin(plugin, policy, observer), group))
            }
            Err(cause) => {
                let stem = || path.file_stem().unwrap_or_default().to_string_lossy();
                let name = name.map_or_else(stem, Into::into);
                let strategy =
                    Strategy::degraded(&runtime, &name, &[Protocol::Eager], config, cause, policy, observer);
                Ok((strategy, described.group()?))
            }
        }
    }

    /// The component's file, and the name that it should have, if given.
    fn file(&self) -> anyhow::Result<(Option<&str>, &Path)> {
        let path = Path::new(&self.strategy);
        if let Some((name, file)) = self.strategy.split_once('=').filter(|_| !path.exists()) {
            check_name(name).map_err(|e| bad_input(anyhow!("--strategy {:?}: {e}", self.strategy)))?;
            return Ok((Some(name), Path::new(file)));
        }
        // A mistyped name of a built-in is bad input; a file that isn't there is what a consumer falls back from.
        if !path.exists() && path.components().count() < 2 && path.extension().is_none() {
            let names = assignor_host::builtin::NAMES.join(", ");
            return Err(bad_input(anyhow!(
                "--strategy {:?}: no built-in has this name ({names}), and there is no such file",
                self.strategy
            )));
        }
        Ok((None, path))
    }

    /// The group after every member has told its own instance of the strategy what it owns, and asked it what to tell the leader,
    /// unless the description has its user data.
    fn joined<A: Assignor>(
        &self,
        described: &DescribedGroup,
        services: &Arc<DescribedServices>,
        instance: impl Fn(&DescribedMember) -> Result<A, LoadError>,
    ) -> anyhow::Result<Group> {
        let sticky = Builtin::by_name(&self.strategy).is_some_and(|builtin| builtin.name() == STICKY);
        let mut subscriptions = Vec::with_capacity(described.members.len());
        for member in &described.members {
            let mut joins = member.subscription();
            if member.user_data.is_none() {
                let context = described.context_of(member, services);
                ask(instance(member), &context, &mut joins);
            }
            if sticky {
                joins.subscription.owned.clear();
            }
            subscriptions.push(joins);
        }
        Ok(described.group_of(subscriptions)?)
    }

    /// The configuration of all members' strategies.
    fn config(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut config = BTreeMap::new();
        for (key, value) in &self.config {
            if config.insert(key.clone(), value.clone()).is_some() {
                return Err(bad_input(anyhow!("--config {key}: the key is given twice")));
            }
        }
        Ok(config)
    }
}

/// The configuration of a member's strategy: that of all members, and its own over it.
fn config_of(member: Option<&DescribedMember>, all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = member.into_iter().flat_map(|member| &member.config);
    all.iter().chain(own).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Fills in what the member's own instance tells the leader. Where that fails the member joins with all topics and no user data, as in
/// a real group.
fn ask<A: Assignor>(instance: Result<A, LoadError>, cx: &Context, joins: &mut MemberSubscription) {
    let Subscription { topics, owned, generation, .. } = &joins.subscription;
    let told = instance.map_err(|e| e.to_string()).and_then(|mut instance| {
        // Who says neither has just come.
        if !owned.is_empty() || generation.is_some_and(|generation| generation >= 0) {
            let generation = generation.unwrap_or(-1);
            let cx = Context { generation, ..cx.clone() };
            if let Err(error) = instance.on_assignment(&cx, owned, None, generation) {
                tracing::warn!(member = joins.member_id, "its strategy is not told what it owns: {error}");
            }
        }
        instance.subscription(cx, topics).map_err(|e| e.to_string())
    });
    match told {
        Ok(interest) => {
            joins.subscription.topics = interest.topics.into();
            joins.subscription.user_data = interest.user_data;
        }
        Err(error) => {
            tracing::warn!(member = joins.member_id, "joins with all topics and no user data: {error}");
        }
    }
}

fn load(
    runtime: &Runtime,
    name: Option<&str>,
    path: &Path,
    config: BTreeMap<String, String>,
) -> Result<Plugin, LoadError> {
    let bytes = read_component(path, runtime.limits().component_bytes)?;
    let plugin = Plugin::new(&runtime.compile(&bytes)?, config)?;
    match name.filter(|name| *name != plugin.name()) {
        Some(name) => {
            Err(LoadError::NameMismatch { found: plugin.name().to_owned(), expected: name.to_owned() })
        }
        None => Ok(plugin),
    }
}

fn warn_of_unknown_topics(described: &DescribedGroup) {
    for member in &described.members {
        for topic in member.topics.iter().filter(|topic| !described.topics.contains_key(*topic)) {
            tracing::warn!(
                member = member.id,
                topic,
                "subscribes to a topic that is not described: it counts as not existing"
            );
        }
    }
}

fn answer<'a>(group: &'a Group, decision: &'a Decision) -> Answer<'a> {
    let assignments = group.members().iter().zip(&decision.plan.assignments).map(|(member, assignment)| {
        let topics = group.by_name(&assignment.partitions).into_iter().map(|t| (t.topic, t.partitions));
        (member.id.as_str(), topics.collect())
    });
    Answer {
        assignments: assignments.collect(),
        assignor: &decision.decided_by,
        outcome: decision.outcome.code(),
        cause: decision.cause.as_ref().map(|c| Told { code: c.code(), message: c.to_string() }),
        took_us: decision.took.as_micros(),
    }
}

fn in_words(answer: &Answer<'_>, decision: &Decision) -> String {
    let mut text = String::new();
    let width = answer.assignments.keys().map(|id| id.chars().count()).max().unwrap_or_default();
    for (member, topics) in &answer.assignments {
        let part =
            |(topic, partitions): (&String, &Vec<u32>)| format!("{}: {}", shown(topic), ranges(partitions));
        let topics: Vec<String> = topics.iter().map(part).collect();
        let member = shown(member);
        let topics = if topics.is_empty() { "-".to_owned() } else { topics.join("   ") };
        // Writing to a string can't fail, here and below.
        let _ = writeln!(text, "{member:<width$}  {topics}");
    }
    let _ = write!(text, "decided by {} ({}) in {:?}", answer.assignor, answer.outcome, decision.took);
    if decision.withheld > 0 {
        let _ = write!(
            text,
            "; {} partitions are held back until another member has given them up",
            decision.withheld
        );
    }
    text.push('\n');
    if let Some(cause) = &decision.cause {
        let _ = writeln!(text, "cause: {} ({})", shown(&cause.to_string()), cause.code());
        if let Some(advice) = cause.advice() {
            let _ = writeln!(text, "advice: {advice}");
        }
    }
    text
}

/// A group that others wrote down must not steer the terminal.
fn shown(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Ascending numbers, neighbours drawn together: `0-3, 7`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let runs = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_drawn_together() {
        assert_eq!(ranges(&[0, 1, 2, 4, 6, 7, u32::MAX]), "0-2, 4, 6-7, 4294967295");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn configuration_is_split_at_the_first_equals_sign() {
        assert_eq!(key_value("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(key_value("a="), Ok(("a".into(), String::new())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
    }
}
