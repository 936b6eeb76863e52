//! Records on standard output.

use std::io::{self, Write};

use assignor_host::consumer::Record;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One object a line.
    Json,
    /// The value as it is.
    Raw,
    /// The value for a terminal, which it must not steer.
    Terminal,
}

impl Format {
    pub(super) fn text(terminal: bool) -> Self {
        if terminal { Self::Terminal } else { Self::Raw }
    }

    pub(super) fn write(self, out: &mut impl Write, record: &Record) -> io::Result<()> {
        let value = record.value.as_deref().unwrap_or_default();
        match self {
            Self::Json => serde_json::to_writer(&mut *out, &object(record))?,
            Self::Raw => out.write_all(value)?,
            Self::Terminal => {
                let text = String::from_utf8_lossy(value);
                let harmless =
                    |c: char| if c.is_control() && c != '\t' && c != '\n' { '\u{fffd}' } else { c };
                out.write_all(text.chars().map(harmless).collect::<String>().as_bytes())?;
            }
        }
        out.write_all(b"\n")
    }
}

fn object(record: &Record) -> Value {
    let mut object = Map::new();
    object.insert("topic".into(), json!(&*record.topic));
    object.insert("partition".into(), json!(record.partition));
    object.insert("offset".into(), json!(record.offset));
    object.insert("timestamp_ms".into(), json!(record.timestamp_ms));
    insert(&mut object, "key", record.key.as_deref());
    insert(&mut object, "value", record.value.as_deref());
    let headers = record.headers.iter().map(|(name, value)| {
        let mut header = Map::new();
        header.insert("name".into(), json!(name));
        insert(&mut header, "value", value.as_deref());
        Value::Object(header)
    });
    object.insert("headers".into(), headers.collect());
    Value::Object(object)
}

fn insert(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => object.insert(name.into(), Value::Null),
        Some((_, Ok(text))) => object.insert(name.into(), json!(text)),
        Some((bytes, Err(_))) => object.insert(format!("{name}_base64"), json!(STANDARD.encode(bytes))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: Option<&[u8]>, value: Option<&[u8]>) -> Record {
        Record {
            topic: "t".into(),
            partition: 1,
            offset: 2,
            timestamp_ms: Some(3),
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: vec![("h".into(), Some(vec![0xff])), ("n".into(), None)],
        }
    }

    fn written(format: Format, record: &Record) -> Vec<u8> {
        let mut out = Vec::new();
        format.write(&mut out, record).unwrap();
        out
    }

    #[test]
    fn json_has_text_where_it_is_text_and_base64_where_not() {
        let line = written(Format::Json, &record(Some(b"k"), Some(b"\xfe\xff")));
        assert_eq!(line.last(), Some(&b'\n'));
        let told: Value = serde_json::from_slice(&line).unwrap();
        let expected = json!({
            "topic": "t", "partition": 1, "offset": 2, "timestamp_ms": 3, "key": "k", "value_base64": "/v8=",
            "headers": [{"name": "h", "value_base64": "/w=="}, {"name": "n", "value": null}],
        });
        assert_eq!(told, expected);
        let tombstone: Value = serde_json::from_slice(&written(Format::Json, &record(None, None))).unwrap();
        assert_eq!((&tombstone["key"], &tombstone["value"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn text_is_as_it_is_and_does_not_steer_a_terminal() {
        let odd = record(None, Some(b"a\x1b[2J\tb\xff"));
        assert_eq!(written(Format::Raw, &odd), b"a\x1b[2J\tb\xff\n");
        assert_eq!(written(Format::Terminal, &odd), "a\u{fffd}[2J\tb\u{fffd}\n".as_bytes());
    }
}
