//! What members tell of what they own is read and written.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use assignor_host::builtin::{COOPERATIVE_STICKY, STICKY};
use assignor_host::wire::{sticky_user_data, subscription};
use assignor_host::{Assignor as _, Builtin, Context, TopicPartitions};

use crate::wire::{Reader, Writer};

/// What a strategy takes a member to own by its subscription, and since which generation.
pub(crate) fn read(strategy: &str, request: &mut Reader<'_>, answer: &mut Writer) -> anyhow::Result<()> {
    let subscription = subscription::decode(request.blob()?)?;
    let user_data = subscription.user_data.as_deref();
    let (owned, generation) = match strategy {
        STICKY => {
            let told = sticky_user_data::sticky(user_data);
            (told.owned, told.generation)
        }
        COOPERATIVE_STICKY => {
            let told = || sticky_user_data::cooperative_generation(user_data);
            (subscription.owned, subscription.generation.or_else(told))
        }
        _ => bail!("members tell nothing under this strategy"),
    };
    answer.count(owned.iter().map(|of_topic| of_topic.partitions.len()).sum())?;
    for TopicPartitions { topic, partitions } in &owned {
        for &partition in partitions {
            answer.string(topic)?;
            answer.number(partition)?;
        }
    }
    answer.i8(i8::from(generation.is_some()));
    if let Some(generation) = generation {
        answer.i32(generation);
    }
    Ok(())
}

/// The user data of a member that was given partitions in a generation.
pub(crate) fn write(strategy: &str, request: &mut Reader<'_>, answer: &mut Writer) -> anyhow::Result<()> {
    let mut builtin = Builtin::by_name(strategy).context("there is no such strategy")?;
    let mut owned: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (topic, partition) in request.list(|partition| Ok((partition.string()?, partition.i32()?)))? {
        owned.entry(topic).or_default().push(u32::try_from(partition)?);
    }
    let owned: Vec<TopicPartitions> =
        owned.into_iter().map(|(topic, partitions)| TopicPartitions { topic, partitions }).collect();
    let generation = request.i32()?;

    let context = Context::default();
    builtin.on_assignment(&context, &owned, None, generation)?;
    let interest = builtin.subscription(&context, &[])?;
    answer.nullable_blob(interest.user_data.as_deref())
}
