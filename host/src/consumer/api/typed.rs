//! Records whose keys and values are what the application makes of them.

use std::borrow::Borrow;
use std::time::Duration;

use super::Consumer;
use super::stream::{RecordIter, RecordStream};
use crate::consumer::data::Record;
use crate::consumer::deserialize::{DeserializeError, Deserializer};
use crate::consumer::error::{ConsumerError, FieldKind, RecordDeserializationError};

/// A [`Consumer`] with a deserializer for keys and one for values. See [`Consumer::typed`].
#[derive(Debug)]
pub struct TypedConsumer<C, K, V> {
    consumer: C,
    key: K,
    value: V,
}

impl Consumer {
    /// This consumer's records with keys and values deserialized. Everything but reading goes through the consumer as before; to have both
    /// in one, make a [`TypedConsumer::new`] of a consumer or of an `Arc` of it.
    pub fn typed<K: Deserializer, V: Deserializer>(&self, key: K, value: V) -> TypedConsumer<&Self, K, V> {
        TypedConsumer::new(self, key, value)
    }
}

type Typed<K, V> = Record<<K as Deserializer>::Output, <V as Deserializer>::Output>;

impl<C: Borrow<Consumer>, K: Deserializer, V: Deserializer> TypedConsumer<C, K, V> {
    /// Reads this consumer's records with these deserializers.
    pub fn new(consumer: C, key: K, value: V) -> Self {
        Self { consumer, key, value }
    }

    /// The consumer.
    pub fn consumer(&self) -> &Consumer {
        self.consumer.borrow()
    }

    /// [`Consumer::poll`], with keys and values deserialized.
    ///
    /// # Errors
    /// As there, and [`ConsumerError::Deserialization`] where the next record can't be deserialized. Those before it are returned first. The
    /// position stays at the record, and every poll fails at it, until the application [seeks](Consumer::seek) past it.
    pub fn poll(&self, timeout: Duration) -> Result<Vec<Typed<K, V>>, ConsumerError> {
        self.fetch(timeout, self.consumer().config.max_poll_records)
    }

    fn fetch(&self, timeout: Duration, given: usize) -> Result<Vec<Typed<K, V>>, ConsumerError> {
        let mut fields = Vec::new();
        let records = self.consumer().fetch(timeout, given, |records| {
            fields.clear();
            for record in records {
                match self.fields(record) {
                    Ok(both) => fields.push(both),
                    Err(_) if !fields.is_empty() => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(fields.len())
        })?;
        let typed = records.into_iter().zip(fields).map(|(record, (key, value))| {
            let Record { topic, partition, offset, timestamp_ms, headers, .. } = record;
            Record { topic, partition, offset, timestamp_ms, key, value, headers }
        });
        Ok(typed.collect())
    }

    fn fields(&self, record: &Record) -> Result<(K::Output, V::Output), ConsumerError> {
        let Record { topic, headers, key, value, .. } = record;
        let failed = |field| {
            move |reason: DeserializeError| {
                let (record, reason) = (record.clone(), reason.to_string());
                let failed = RecordDeserializationError { record, field, reason };
                ConsumerError::Deserialization(Box::new(failed))
            }
        };
        let key = self.key.deserialize(topic, headers, key.as_deref()).map_err(failed(FieldKind::Key))?;
        let value = self.value.deserialize(topic, headers, value.as_deref());
        Ok((key, value.map_err(failed(FieldKind::Value))?))
    }

    fn poll_one(&self, timeout: Duration) -> Result<Option<Typed<K, V>>, ConsumerError> {
        Ok(self.fetch(timeout, 1)?.into_iter().next())
    }
}

impl<C, K, V> TypedConsumer<C, K, V>
where
    C: Borrow<Consumer> + Sync,
    K: Deserializer + Sync,
    V: Deserializer + Sync,
{
    /// [`Consumer::stream`], with keys and values deserialized.
    pub fn stream(&self) -> RecordStream<'_, K::Output, V::Output> {
        RecordStream::new(self.consumer(), Box::new(|limit| self.poll_one(limit)))
    }

    /// [`Consumer::iter`], with keys and values deserialized.
    pub fn iter(&self) -> RecordIter<'_, K::Output, V::Output> {
        RecordIter::new(Box::new(|limit| self.poll_one(limit)))
    }
}
