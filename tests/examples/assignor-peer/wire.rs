//! The numbers and strings that frames are made of, as the other side (tests/java/kafka-tests) writes and reads them: all
//! integers big-endian, a string an int16 length and UTF-8, -1 for none.

use anyhow::{Context as _, bail};
use bytes::{Buf as _, BufMut as _};

/// What is left of a request's body.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    pub(crate) fn i8(&mut self) -> anyhow::Result<i8> {
        Ok(self.0.try_get_i8()?)
    }

    pub(crate) fn i32(&mut self) -> anyhow::Result<i32> {
        Ok(self.0.try_get_i32()?)
    }

    /// As many bytes as the length before them says.
    pub(crate) fn blob(&mut self) -> anyhow::Result<&'a [u8]> {
        let length = self.i32()?;
        self.take(usize::try_from(length).context("a negative length of bytes")?)
    }

    pub(crate) fn nullable_string(&mut self) -> anyhow::Result<Option<String>> {
        let length = self.0.try_get_i16()?;
        if length == -1 {
            return Ok(None);
        }
        let utf8 = self.take(usize::try_from(length).context("a negative length of a string")?)?;
        Ok(Some(std::str::from_utf8(utf8)?.to_owned()))
    }

    pub(crate) fn string(&mut self) -> anyhow::Result<String> {
        self.nullable_string()?.context("a string is null")
    }

    /// A list of what `element` reads.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let count = self.i32()?;
        (0..count).map(|_| element(self)).collect()
    }

    pub(crate) fn end(&self) -> anyhow::Result<()> {
        if !self.0.is_empty() {
            bail!("{} bytes after the request", self.0.len());
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> anyhow::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).context("the request ends too early")?;
        self.0 = rest;
        Ok(taken)
    }
}

/// An answer's body in the making.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn into_body(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.0.put_i8(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.put_i32(value);
    }

    /// A number that Kafka has as an int32.
    pub(crate) fn number(&mut self, value: u32) -> anyhow::Result<()> {
        self.i32(i32::try_from(value)?);
        Ok(())
    }

    pub(crate) fn count(&mut self, count: usize) -> anyhow::Result<()> {
        self.i32(i32::try_from(count)?);
        Ok(())
    }

    pub(crate) fn string(&mut self, value: &str) -> anyhow::Result<()> {
        self.0.put_i16(i16::try_from(value.len())?);
        self.0.put_slice(value.as_bytes());
        Ok(())
    }

    pub(crate) fn nullable_blob(&mut self, value: Option<&[u8]>) -> anyhow::Result<()> {
        match value {
            None => self.i32(-1),
            Some(bytes) => {
                self.count(bytes.len())?;
                self.0.put_slice(bytes);
            }
        }
        Ok(())
    }
}
