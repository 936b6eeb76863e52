//! What becomes of the bytes of keys and values.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::data::Header;

/// Why bytes can't be deserialized: any error, or a text.
pub type DeserializeError = Box<dyn std::error::Error + Send + Sync>;

/// Makes something of the bytes of a key or a value (Kafka: `Deserializer`).
///
/// A function is one, too:
///
/// ```
/// use assignor_host::consumer::{DeserializeError, Deserializer, Header};
///
/// fn celsius(_topic: &str, _: &[Header], bytes: Option<&[u8]>) -> Result<f64, DeserializeError> {
///     Ok(f64::from_be_bytes(bytes.ok_or("no value")?.try_into()?))
/// }
///
/// fn accepts(_: impl Deserializer<Output = f64>) {}
/// accepts(celsius);
/// ```
pub trait Deserializer {
    /// What it makes.
    type Output;

    /// Makes it. `bytes` is `None` where a record has no key, or where its value is a tombstone.
    ///
    /// # Errors
    /// If the bytes are not what they should be: [`ConsumerError::Deserialization`](super::ConsumerError::Deserialization).
    fn deserialize(
        &self,
        topic: &str,
        headers: &[Header],
        bytes: Option<&[u8]>,
    ) -> Result<Self::Output, DeserializeError>;
}

impl<T, F> Deserializer for F
where
    F: Fn(&str, &[Header], Option<&[u8]>) -> Result<T, DeserializeError>,
{
    type Output = T;

    fn deserialize(
        &self,
        topic: &str,
        headers: &[Header],
        bytes: Option<&[u8]>,
    ) -> Result<T, DeserializeError> {
        self(topic, headers, bytes)
    }
}

/// The bytes as they are. Who wants both key and value so reads them without a copy from the [`Consumer`](super::Consumer) itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes;

impl Deserializer for Bytes {
    type Output = Option<Vec<u8>>;

    fn deserialize(
        &self,
        _: &str,
        _: &[Header],
        bytes: Option<&[u8]>,
    ) -> Result<Self::Output, DeserializeError> {
        Ok(bytes.map(<[u8]>::to_vec))
    }
}

/// A text in UTF-8. What is none is an error; Java's `StringDeserializer` puts replacement characters in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text;

impl Deserializer for Text {
    type Output = Option<String>;

    fn deserialize(
        &self,
        _: &str,
        _: &[Header],
        bytes: Option<&[u8]>,
    ) -> Result<Self::Output, DeserializeError> {
        Ok(bytes.map(|bytes| std::str::from_utf8(bytes).map(str::to_owned)).transpose()?)
    }
}

/// JSON, as any type that serde can deserialize. The JSON value `null` is for that type to understand; `None` means no bytes at all.
pub struct Json<T>(PhantomData<fn() -> T>);

impl<T> Json<T> {
    /// Of this type.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> std::fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Json<{}>", std::any::type_name::<T>())
    }
}

impl<T: DeserializeOwned> Deserializer for Json<T> {
    type Output = Option<T>;

    fn deserialize(
        &self,
        _: &str,
        _: &[Header],
        bytes: Option<&[u8]>,
    ) -> Result<Self::Output, DeserializeError> {
        // serde_json bounds how deep values nest (128).
        Ok(bytes.map(serde_json::from_slice).transpose()?)
    }
}

/// Another deserializer, to which no bytes at all are an error: what is optional there is not here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Required<D>(pub D);

impl<D: Deserializer<Output = Option<T>>, T> Deserializer for Required<D> {
    type Output = T;

    fn deserialize(
        &self,
        topic: &str,
        headers: &[Header],
        bytes: Option<&[u8]>,
    ) -> Result<T, DeserializeError> {
        self.0.deserialize(topic, headers, bytes)?.ok_or_else(|| "there is none".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<D: Deserializer>(deserializer: D, bytes: Option<&[u8]>) -> Result<D::Output, String> {
        deserializer.deserialize("t", &[], bytes).map_err(|e| e.to_string())
    }

    #[test]
    fn bytes_texts_and_json_are_deserialized_and_absence_is_none() {
        assert_eq!(one(Bytes, Some(b"\xff")), Ok(Some(vec![0xff])));
        assert_eq!(one(Text, Some("ä".as_bytes())), Ok(Some("ä".to_owned())));
        assert_eq!(one(Json::<Vec<u8>>::new(), Some(b"[1, 2]")), Ok(Some(vec![1, 2])));
        assert_eq!(one(Bytes, None), Ok(None));
        assert_eq!(one(Text, None), Ok(None));
        assert_eq!(one(Json::<u8>::new(), None), Ok(None));
    }

    #[test]
    fn what_is_something_else_is_an_error_that_says_so() {
        assert!(one(Text, Some(b"\xff")).unwrap_err().contains("utf-8"));
        assert!(one(Json::<u8>::new(), Some(b"x")).unwrap_err().contains("line 1 column 1"));
        assert_eq!(one(Required(Text), None), Err("there is none".into()));
        assert_eq!(one(Required(Text), Some(b"")), Ok(String::new()));
        let deep = "[".repeat(100_000);
        assert!(
            one(Json::<serde_json::Value>::new(), Some(deep.as_bytes())).unwrap_err().contains("recursion")
        );
    }

    #[test]
    fn headers_and_topic_reach_a_function() {
        let describe = |topic: &str, headers: &[Header], _: Option<&[u8]>| {
            Ok::<_, DeserializeError>(format!("{topic} {}", headers.len()))
        };
        assert_eq!(describe.deserialize("t", &[("h".into(), None)], None).unwrap(), "t 1");
    }
}
