//! Shares partitions in proportion to what each consumer can take.
//!
//! Each member says in its configuration how much it can take, `assignor.strategy.weighted.weight`: a number greater than 0, at
//! most [`MAX_WEIGHT`], 1 if it is not set. A member with weight 2 gets twice as many partitions as one with weight 1, of all
//! topics together and of each topic as far as whole numbers allow. Everyone keeps what it owns where that fits, if members
//! tell what they own: under the cooperative protocol. Under the eager one the same group gets the same plan, and a member that
//! joins or leaves may move partitions of all.
//!
//! With `clicks` (6 partitions) and `orders` (3 partitions), and three members that own nothing yet:
//!
//! | member | weight | `clicks` | `orders` |
//! | --- | --- | --- | --- |
//! | `m1` | 1 | 1 | 1 |
//! | `m2` | 2 | 3 | 1 |
//! | `m3` | 1.5 | 2 | 1 |
//!
//! A member that sent no weight, or something that is none, counts as 1.

mod apportion;
mod blocks;
mod fill;
mod level;
mod share;
mod taken;
mod thin;

use assignor_guest_sdk::{Error, Group, Interest, Plan, Strategy, config, warn};
use serde::{Deserialize, Serialize};

/// The largest weight.
pub const MAX_WEIGHT: f64 = 1e6;

/// The strategy.
#[derive(Debug, Default)]
pub struct Weighted;

/// What a member tells the leader: one variant for each version of it, so that members of different versions can share a
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Capacity {
    /// A weight.
    V1 {
        /// How much the member can take, compared with others.
        weight: f64,
    },
}

impl Strategy for Weighted {
    fn name(&self) -> &str {
        "weighted"
    }

    fn subscription(&mut self, topics: Vec<String>) -> Result<Interest, Error> {
        let weight = config::get_or("weight", 1.0)?;
        if !is_weight(weight) {
            let reason = format!("a weight is a number greater than 0, at most {MAX_WEIGHT}");
            return Err(config::ConfigError::invalid("weight", weight, reason).into());
        }
        Ok(Interest::all(topics).with_user_data(&Capacity::V1 { weight })?)
    }

    fn assign(&self, group: &Group) -> Result<Plan, Error> {
        Ok(plan(group))
    }
}

/// The plan for a group; what [`Weighted`] returns, callable from anywhere.
pub fn plan(group: &Group) -> Plan {
    let mut unreadable = Vec::new();
    let weights: Vec<f64> = group
        .members()
        .map(|member| match member.user_data() {
            Ok(None) => 1.0,
            Ok(Some(Capacity::V1 { weight })) if is_weight(weight) => weight,
            _ => {
                unreadable.push(member.id());
                1.0
            }
        })
        .collect();
    if let [first, ..] = unreadable.as_slice() {
        warn!(
            "{} members sent something that is no weight and count as 1; the first is {first}",
            unreadable.len()
        );
    }
    share::share(group, &weights)
}

fn is_weight(weight: f64) -> bool {
    weight > 0.0 && weight <= MAX_WEIGHT
}

assignor_guest_sdk::export!(Weighted);

#[cfg(test)]
mod tests;
