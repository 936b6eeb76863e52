//! A broker that answers as a test says: bytes over real sockets, in versions without tagged fields.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::config::{Address, ConsumerConfig};

/// A request: its API, and its body.
pub(super) struct Request {
    pub(super) api: i16,
    pub(super) body: Bytes,
}

/// What answers: the bytes of a body, or silence.
pub(super) type Answer = Arc<dyn Fn(&mut Request) -> Option<Vec<u8>> + Send + Sync>;

/// The versions that the broker offers. See `body` for what each looks like.
const OFFERS: [(ApiKey, i16); 6] = [
    (ApiKey::ListOffsets, 2),
    (ApiKey::Metadata, 4),
    (ApiKey::OffsetFetch, 2),
    (ApiKey::FindCoordinator, 1),
    (ApiKey::DescribeGroups, 4),
    (ApiKey::ListGroups, 2),
];

/// Writes Kafka's types.
#[derive(Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn i8(mut self, n: i8) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i16(mut self, n: i16) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i32(mut self, n: i32) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn i64(mut self, n: i64) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }
    pub(super) fn null(self) -> Self {
        self.i16(-1)
    }
    pub(super) fn text(self, text: &str) -> Self {
        let mut body = self.i16(i16::try_from(text.len()).unwrap());
        body.0.extend(text.as_bytes());
        body
    }
    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut body = self.i32(i32::try_from(bytes.len()).unwrap());
        body.0.extend(bytes);
        body
    }
    pub(super) fn list<T>(self, items: &[T], each: impl Fn(Self, &T) -> Self) -> Self {
        let body = self.i32(i32::try_from(items.len()).unwrap());
        items.iter().fold(body, each)
    }
    pub(super) fn done(self) -> Option<Vec<u8>> {
        Some(self.0)
    }
}

impl Request {
    pub(super) fn is(&self, api: ApiKey) -> bool {
        self.api == api as i16
    }
    pub(super) fn text(&mut self) -> String {
        let length = usize::try_from(self.body.get_i16()).unwrap();
        String::from_utf8(self.body.copy_to_bytes(length).to_vec()).unwrap()
    }
    /// A list; a null one is empty.
    pub(super) fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.body.get_i32()).map(|_| each(self)).collect()
    }
    /// The partitions of ListOffsets by topic, and whether their first offsets are asked for.
    pub(super) fn list_offsets(&mut self) -> (bool, Vec<(String, Vec<i32>)>) {
        self.body.advance(5);
        let mut first = false;
        let topics = self.list(|r| {
            let topic = r.text();
            let partitions = r.list(|r| {
                let index = r.body.get_i32();
                first = r.body.get_i64() == -2;
                index
            });
            (topic, partitions)
        });
        (first, topics)
    }
    /// The partitions of OffsetFetch by topic.
    pub(super) fn offset_fetch(&mut self) -> Vec<(String, Vec<i32>)> {
        self.text();
        self.list(|r| (r.text(), r.list(|r| r.body.get_i32())))
    }
}

/// Topics, and something about each of their partitions.
type Topics<T> = [(String, Vec<T>)];

/// ListOffsets' answer: topics with index, error and offset.
pub(super) fn offsets(topics: &Topics<(i32, i16, i64)>) -> Option<Vec<u8>> {
    let partition =
        |b: Body, (index, error, offset): &(i32, i16, i64)| b.i32(*index).i16(*error).i64(-1).i64(*offset);
    Body::default().i32(0).list(topics, |b, (topic, list)| b.text(topic).list(list, partition)).done()
}

/// OffsetFetch's answer: topics with index, offset and error.
pub(super) fn committed(topics: &Topics<(i32, i64, i16)>, error: i16) -> Option<Vec<u8>> {
    let partition =
        |b: Body, (index, offset, error): &(i32, i64, i16)| b.i32(*index).i64(*offset).text("").i16(*error);
    Body::default().list(topics, |b, (topic, list)| b.text(topic).list(list, partition)).i16(error).done()
}

/// Metadata's answer: brokers by id, and topics with the leader of each partition.
pub(super) fn metadata(brokers: &[(i32, Address)], topics: &[(&str, &[i32])]) -> Option<Vec<u8>> {
    let indexed = |leaders: &[i32]| -> Vec<(i32, i32)> { (0..).zip(leaders.iter().copied()).collect() };
    Body::default()
        .i32(0)
        .list(brokers, |b, (id, at)| b.i32(*id).text(&at.host).i32(at.port.into()).null())
        .null()
        .i32(-1)
        .list(topics, |b, (topic, leaders)| {
            b.i16(0).text(topic).i8(0).list(&indexed(leaders), |b, (index, leader)| {
                b.i16(0).i32(*index).i32(*leader).list(&[*leader], |b, id| b.i32(*id)).i32(0)
            })
        })
        .done()
}

/// FindCoordinator's answer.
pub(super) fn coordinator(error: i16, at: &Address) -> Option<Vec<u8>> {
    Body::default().i32(0).i16(error).null().i32(1).text(&at.host).i32(at.port.into()).done()
}

/// A port that is listened on, before it is known how it answers.
pub(super) async fn listen() -> (TcpListener, Address) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, Address { host: "127.0.0.1".into(), port })
}

/// Answers on that port. A silent broker keeps its connections open.
pub(super) fn serve(listener: TcpListener, answer: Answer) {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, Arc::clone(&answer)));
        }
    });
}

async fn converse(mut stream: TcpStream, answer: Answer) {
    while let Ok(size) = stream.read_i32().await {
        let mut frame = vec![0; usize::try_from(size).unwrap()];
        stream.read_exact(&mut frame).await.unwrap();
        let mut frame = Bytes::from(frame);
        let (api, _version, correlation) = (frame.get_i16(), frame.get_i16(), frame.get_i32());
        let client_id = usize::try_from(frame.get_i16()).unwrap_or(0);
        frame.advance(client_id);
        let mut request = Request { api, body: frame };
        let body = if request.is(ApiKey::ApiVersions) {
            let offer =
                |b: Body, (api, version): &(ApiKey, i16)| b.i16(*api as i16).i16(*version).i16(*version);
            Body::default().i16(0).list(&OFFERS, offer).done()
        } else {
            answer(&mut request)
        };
        let Some(body) = body else { continue };
        let size = i32::try_from(body.len() + 4).unwrap();
        let frame = [&size.to_be_bytes()[..], &correlation.to_be_bytes(), &body].concat();
        if stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// A configuration for these brokers.
pub(super) fn config(servers: &[&Address], more: &[(&str, &str)]) -> ConsumerConfig {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let own = [
        ("bootstrap.servers", servers.join(",")),
        ("group.id", "g".into()),
        // In a newer one the request carries more.
        ("assignor.api.max.versions", "ApiVersions:0".into()),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
    let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ConsumerConfig::from_properties(own.chain(more).collect()).unwrap()
}
