//! A group as all sides read it: written once to a file, so that it is the same group for all of them.
//!
//! ```text
//! strategy   string
//! brokers    [id int32, rack string]
//! topics     [name string, partitions int32, replicas of each partition int32, ids of their brokers int32...]
//! members    [id string, subscription bytes]
//! ```
//! All as Kafka writes them: integers are big-endian, a string has an int16 length before it, bytes and lists have an int32.
//! A subscription is what a member sends in JoinGroup (`ConsumerProtocolSubscription`, version 3).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::Context as _;
use assignor_host::wire::HIGHEST_VERSION;
use assignor_host::wire::subscription::{self, Decoder};
use assignor_host::{MemberSubscription, Subscription};

/// What a leader knows before it plans.
#[derive(Debug, Clone, Default)]
pub(crate) struct Input {
    /// The strategy's name.
    pub(crate) strategy: String,
    /// The rack of each broker.
    pub(crate) brokers: BTreeMap<i32, String>,
    /// The brokers of each partition of each topic.
    pub(crate) topics: BTreeMap<String, Vec<Vec<i32>>>,
    /// Each member's id and what it sent.
    pub(crate) members: Vec<(String, Vec<u8>)>,
}

impl Input {
    /// How many partitions each topic has.
    pub(crate) fn partition_counts(&self) -> BTreeMap<String, u32> {
        let count = |partitions: &Vec<_>| u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        self.topics.iter().map(|(name, partitions)| (name.clone(), count(partitions))).collect()
    }

    /// The members as a leader decodes them.
    pub(crate) fn decoded(&self) -> anyhow::Result<Vec<MemberSubscription>> {
        let mut decoder = Decoder::default();
        self.members
            .iter()
            .map(|(id, blob)| {
                let subscription = decoder.decode(blob)?;
                Ok(MemberSubscription { member_id: id.clone(), instance_id: None, subscription })
            })
            .collect()
    }

    /// Adds a member.
    pub(crate) fn join(&mut self, id: String, subscription: &Subscription) -> anyhow::Result<()> {
        self.members.push((id, subscription::encode(subscription, HIGHEST_VERSION)?));
        Ok(())
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut out = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
        string(&mut out, &self.strategy)?;
        length(&mut out, self.brokers.len())?;
        for (id, rack) in &self.brokers {
            out.write_all(&id.to_be_bytes())?;
            string(&mut out, rack)?;
        }
        length(&mut out, self.topics.len())?;
        for (name, partitions) in &self.topics {
            string(&mut out, name)?;
            length(&mut out, partitions.len())?;
            length(&mut out, partitions.first().map_or(0, Vec::len))?;
            for broker in partitions.iter().flatten() {
                out.write_all(&broker.to_be_bytes())?;
            }
        }
        length(&mut out, self.members.len())?;
        for (id, blob) in &self.members {
            string(&mut out, id)?;
            length(&mut out, blob.len())?;
            out.write_all(blob)?;
        }
        Ok(out.flush()?)
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let mut from = BufReader::new(file);
        let mut input = Self { strategy: read_string(&mut from)?, ..Self::default() };
        for _ in 0..int(&mut from)? {
            input.brokers.insert(int(&mut from)?, read_string(&mut from)?);
        }
        for _ in 0..int(&mut from)? {
            let name = read_string(&mut from)?;
            let (partitions, replicas) = (int(&mut from)?, int(&mut from)?);
            let brokers = (0..partitions).map(|_| (0..replicas).map(|_| int(&mut from)).collect());
            input.topics.insert(name, brokers.collect::<anyhow::Result<_>>()?);
        }
        for _ in 0..int(&mut from)? {
            let id = read_string(&mut from)?;
            let mut blob = vec![0; usize::try_from(int(&mut from)?)?];
            from.read_exact(&mut blob)?;
            input.members.push((id, blob));
        }
        Ok(input)
    }
}

fn length(out: &mut impl Write, length: usize) -> anyhow::Result<()> {
    Ok(out.write_all(&i32::try_from(length)?.to_be_bytes())?)
}

fn string(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    out.write_all(&i16::try_from(text.len())?.to_be_bytes())?;
    Ok(out.write_all(text.as_bytes())?)
}

fn int(from: &mut impl Read) -> anyhow::Result<i32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(i32::from_be_bytes(bytes))
}

fn read_string(from: &mut impl Read) -> anyhow::Result<String> {
    let mut length = [0; 2];
    from.read_exact(&mut length)?;
    let mut text = vec![0; usize::try_from(i16::from_be_bytes(length))?];
    from.read_exact(&mut text)?;
    Ok(String::from_utf8(text)?)
}
