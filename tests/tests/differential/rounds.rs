//! Cooperative rebalances, one after the other, until nobody has to give anything up: who does rejoins.

use assignor_host::Group;
use assignor_host::described::DescribedGroup;

use super::judge::Fault;
use super::numbered;
use super::quality::{Parts, Quality};

/// After how many rebalances a group that still isn't at rest is left alone.
pub(crate) const PATIENCE: usize = 10;

/// How a group came to rest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest {
    /// In how many rebalances, [`PATIENCE`] if it didn't.
    pub(crate) rounds: usize,
    /// What members hold in the end, measured against what they held at first.
    pub(crate) end: Quality,
}

/// Plays rebalances until members hold what they are to hold. `send` gives what each member is sent.
pub(crate) fn play(
    described: &DescribedGroup,
    quality: &dyn Fn(&Parts) -> Quality,
    mut send: impl FnMut(&DescribedGroup, &Group) -> Result<Parts, Fault>,
) -> Result<Rest, Fault> {
    let mut state = described.clone();
    let mut generation = state.members.iter().filter_map(|m| m.generation).max().unwrap_or(0);
    let mut rounds = 0;
    loop {
        rounds += 1;
        let group = numbered(&state);
        let held = send(&state, &group)?;
        let mut claims = group.members().iter().zip(&held);
        let nobody_gives_up =
            claims.all(|(member, held)| member.claimed.iter().all(|p| held.binary_search(p).is_ok()));
        if nobody_gives_up || rounds == PATIENCE {
            return Ok(Rest { rounds, end: quality(&held) });
        }
        // Who is to give up does so, and everybody comes back.
        generation += 1;
        for member in &mut state.members {
            let index = group.members().iter().position(|m| m.id == member.id).unwrap();
            let owned = group.by_name(&held[index]);
            member.owned = owned.into_iter().map(|t| (t.topic, t.partitions)).collect();
            member.generation = Some(generation);
            member.user_data = Some(generation.to_be_bytes().to_vec());
        }
    }
}
