//! `assignor group`: what a live group looks like.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use assignor_host::consumer::ConsumerConfig;
use assignor_host::consumer::describe::{
    DescribeError, GroupDescription, GroupList, MemberDescription, UserData, describe_group, list_groups,
};

use crate::anatomy::printable;
use crate::assign::ranges;
use crate::properties::Source;
use crate::{bad_input, print};

/// Describes a live group: its members, what each wants, told and has, its strategy, its lag, how even it is. Without a name, lists the
/// cluster's groups.
///
/// Looks only: it joins nothing and commits nothing. What members wrote is decoded within bounds; user data of Kafka's sticky strategies
/// is shown as what it says, any other in hexadecimal digits.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor group --bootstrap-server localhost:9092
  assignor group --bootstrap-server localhost:9092 orders-service
  assignor group --config consumer.properties orders-service --json | jq '.members[] | {id, assigned}'

With --json, one object:
  {\"group_id\": \"g\", \"state\": \"Stable\", \"coordinator\": \"localhost:9092\", \"protocol_type\": \"consumer\", \"strategy\": \"weighted\",
   \"members\": [{\"id\": \"m1\", \"instance_id\": null, \"client_id\": \"c\", \"host\": \"/127.0.0.1\", \"topics\": [\"t\"],
                \"owned\": {\"t\": [0]}, \"generation\": 3, \"rack\": null, \"user_data\": {\"bytes\": {\"length\": 1, \"begins\": \"02\"}},
                \"assigned\": {\"t\": [0]}, \"assigned_user_data\": null, \"problems\": []}],
   \"partitions\": [{\"topic\": \"t\", \"partition\": 0, \"owner\": \"m1\", \"committed\": 3, \"end\": 9, \"lag\": 6}],
   \"balance\": {\"fewest\": 1, \"most\": 1, \"imbalance\": 0, \"most_lag\": 6}, \"problems\": []}
and without a name {\"groups\": [{\"group_id\", \"protocol_type\", \"state\", \"kind\", \"coordinator\"}], \"problems\": []}.
What isn't known is null.

Exit codes: 0 described or listed, 1 there is no such group, it is of another type (KIP-848), or the brokers refuse or don't answer;
2 bad input.")]
pub(crate) struct Describe {
    #[command(flatten)]
    source: Source,
    /// The group; all groups are listed without.
    #[arg(value_name = "GROUP")]
    group: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Describe {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut properties = self.source.read()?;
        // Only looked at, yet a consumer's configuration has one.
        properties.insert("group.id".into(), self.group.clone().unwrap_or_else(|| "none".into()));
        let config = ConsumerConfig::from_properties(properties).map_err(bad_input)?;
        match &self.group {
            Some(group) => {
                let described = describe_group(&config, group).map_err(failed)?;
                print(self.json, &described, &in_words(&described))?;
            }
            None => {
                let list = list_groups(&config).map_err(failed)?;
                if list.groups.is_empty()
                    && let Some(problem) = list.problems.first()
                {
                    return Err(DescribeError::Unreachable(problem.clone()).into());
                }
                print(self.json, &list, &list_in_words(&list))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What is wrong with the configuration is the caller's.
fn failed(error: DescribeError) -> anyhow::Error {
    match error {
        DescribeError::Config(_) => bad_input(error),
        error => error.into(),
    }
}

fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(header).add_rows(rows);
    table.trim_fmt()
}

/// What isn't known.
const UNKNOWN: &str = "?";

fn number(number: Option<i64>) -> String {
    number.map_or_else(|| UNKNOWN.into(), |n| n.to_string())
}

fn list_in_words(list: &GroupList) -> String {
    let told = |text: &Option<String>| printable(text.as_deref().unwrap_or(UNKNOWN));
    let rows = list.groups.iter().map(|g| {
        [
            printable(&g.group_id),
            told(&g.kind),
            printable(&g.protocol_type),
            told(&g.state),
            printable(&g.coordinator),
        ]
    });
    let mut text = if list.groups.is_empty() {
        "no groups".to_owned()
    } else {
        table(["GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"], rows)
    };
    text.push('\n');
    problems(&mut text, &list.problems);
    text
}

fn in_words(group: &GroupDescription) -> String {
    let strategy = if group.strategy.is_empty() { "none" } else { &group.strategy };
    // Writing to a string can't fail, here and below.
    let mut text = String::new();
    let _ = writeln!(
        text,
        "group {}: {}, strategy {}, coordinator {}",
        printable(&group.group_id),
        printable(&group.state),
        printable(strategy),
        printable(&group.coordinator)
    );
    let owned = group.partitions.iter().filter(|p| p.owner.is_some()).count();
    let lag: i64 = group.partitions.iter().filter_map(|p| p.lag).fold(0, i64::saturating_add);
    let unknown = group.partitions.iter().filter(|p| p.lag.is_none()).count();
    let unknown = if unknown == 0 { String::new() } else { format!(", of {unknown} partitions not known") };
    let _ = writeln!(text, "{} members, {owned} partitions owned, lag {lag}{unknown}", group.members.len());
    if let Some(balance) = group.balance {
        let _ = writeln!(
            text,
            "a member has {} to {} partitions (imbalance {}); the furthest behind is {} records",
            balance.fewest,
            balance.most,
            balance.imbalance,
            number(balance.most_lag)
        );
    }
    members(&mut text, group);
    partitions(&mut text, group);
    problems(&mut text, &group.problems);
    text
}

fn members(text: &mut String, group: &GroupDescription) {
    if group.members.is_empty() {
        return;
    }
    let mut lags: BTreeMap<&str, i64> = BTreeMap::new();
    for partition in &group.partitions {
        if let (Some(owner), Some(lag)) = (&partition.owner, partition.lag) {
            let sum = lags.entry(owner).or_default();
            *sum = sum.saturating_add(lag);
        }
    }
    let rows = group.members.iter().map(|m| {
        [
            printable(&m.id),
            printable(m.instance_id.as_deref().unwrap_or("-")),
            printable(&m.client_id),
            printable(&m.host),
            m.partitions().to_string(),
            number(lags.get(m.id.as_str()).copied()),
            topics(&m.assigned),
        ]
    });
    let header = ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS", "LAG", "ASSIGNED"];
    let _ = writeln!(text, "\n{}", table(header, rows));
    text.push('\n');
    for member in &group.members {
        let _ = writeln!(text, "{} {}", printable(&member.id), told(member));
    }
}

/// What a member told when it joined.
fn told(member: &MemberDescription) -> String {
    let names: Vec<String> = member.topics.iter().map(|topic| printable(topic)).collect();
    let mut text = format!("asks for {}", if names.is_empty() { "nothing".into() } else { names.join(", ") });
    if !member.owned.is_empty() {
        let _ = write!(text, "; owned {}", topics(&member.owned));
    }
    if let Some(generation) = member.generation {
        let _ = write!(text, "; generation {generation}");
    }
    if let Some(rack) = &member.rack {
        let _ = write!(text, "; rack {}", printable(rack));
    }
    let mut data = |what: &str, data: &Option<UserData>| {
        if let Some(data) = data {
            let _ = write!(text, "; {what} {data}");
        }
    };
    data("user data", &member.user_data);
    data("the leader told it", &member.assigned_user_data);
    for problem in &member.problems {
        let _ = write!(text, "; {}", printable(problem));
    }
    text
}

fn topics(partitions: &BTreeMap<String, Vec<u32>>) -> String {
    let topics: Vec<String> = partitions
        .iter()
        .filter(|(_, partitions)| !partitions.is_empty())
        .map(|(topic, partitions)| format!("{} {}", printable(topic), ranges(partitions)))
        .collect();
    if topics.is_empty() { "-".into() } else { topics.join("; ") }
}

fn partitions(text: &mut String, group: &GroupDescription) {
    if group.partitions.is_empty() {
        return;
    }
    let rows = group.partitions.iter().map(|p| {
        [
            printable(&p.topic),
            p.partition.to_string(),
            p.committed.map_or_else(|| "-".into(), |n| n.to_string()),
            number(p.end),
            number(p.lag),
            printable(p.owner.as_deref().unwrap_or("-")),
        ]
    });
    let header = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OWNER"];
    let _ = writeln!(text, "\n{}", table(header, rows));
}

fn problems(text: &mut String, problems: &[String]) {
    for problem in problems {
        let _ = writeln!(text, "problem: {}", printable(problem));
    }
}
