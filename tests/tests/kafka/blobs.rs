//! Subscriptions and assignments that no client writes.

/// Bytes as Kafka's protocol has them: big-endian, strings and arrays with their lengths before them.
#[derive(Clone, Default)]
pub(crate) struct Blob(Vec<u8>);

impl Blob {
    pub(crate) fn short(mut self, value: i16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn string(self, text: &[u8]) -> Self {
        self.short(i16::try_from(text.len()).unwrap()).raw(text)
    }

    pub(crate) fn strings(self, texts: impl ExactSizeIterator<Item: AsRef<[u8]>>) -> Self {
        let blob = self.int(i32::try_from(texts.len()).unwrap());
        texts.fold(blob, |blob, text| blob.string(text.as_ref()))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        self.int(i32::try_from(bytes.len()).unwrap()).raw(bytes)
    }

    pub(crate) fn ints(self, values: impl ExactSizeIterator<Item = i32>) -> Self {
        let blob = self.int(i32::try_from(values.len()).unwrap());
        values.fold(blob, Blob::int)
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// A subscription's beginning: this version, and these topics.
fn subscription(version: i16, topics: &[&str]) -> Blob {
    Blob::default().short(version).strings(topics.iter())
}

/// No user data.
const NONE: i32 = -1;

/// A partition that no topic of these tests has. One that a member claims to own is withheld from everybody else, be it a lie.
const NO_PARTITION: i32 = 77;

/// Subscriptions, each with what is wrong with it. `topic` is one that exists and that others read.
///
/// Lengths that are wrong are missing on purpose: Kafka's broker reads subscriptions, too, and that of 4.3.1 answers
/// nobody in the group any more when it can't, so that no leader ever sees such bytes. The decoder's own tests have them.
pub(crate) fn subscriptions(topic: &str) -> Vec<(&'static str, Vec<u8>)> {
    let blob = Blob::default;
    let plain = |topics: &[&str]| subscription(1, topics).int(NONE);
    let owned = |count: i32| subscription(3, &[topic]).int(NONE).int(1).string(topic.as_bytes()).int(count);
    let many = |count: usize, name: &dyn Fn(usize) -> String| {
        blob().short(0).strings((0..count).map(name).collect::<Vec<_>>().iter()).int(NONE).done()
    };
    vec![
        ("nothing at all", vec![]),
        ("one byte", vec![0]),
        ("version -1", subscription(-1, &[topic]).int(NONE).int(0).done()),
        ("version 32767", subscription(i16::MAX, &[topic]).int(NONE).int(0).int(7).short(-1).done()),
        (
            "a topic's name that is not UTF-8",
            blob().short(0).int(1).string(&[0xff, 0xfe, 0x80]).int(NONE).done(),
        ),
        ("illegal names of topics", plain(&["", ".", "..", "a b", "a/b", "\u{fc}", "a\nb", "a\0b"]).done()),
        ("a topic's name of 30,000 letters", plain(&[&"x".repeat(30_000)]).done()),
        ("names that nobody knows", plain(&["nobody-knows-1", "nobody-knows-2"]).done()),
        ("10,000 topics that nobody knows", many(10_000, &|n| format!("unknown-{n}"))),
        ("one topic 60,000 times", many(60_000, &|_| topic.to_owned())),
        ("900,000 bytes of user data", subscription(0, &[topic]).bytes(&vec![7; 900_000]).done()),
        (
            "owned partitions that can't be",
            owned(3).int(-1).int(i32::MIN).int(i32::MAX).int(5).short(-1).done(),
        ),
        (
            "200,000 owned partitions, all the same",
            subscription(1, &[topic])
                .int(NONE)
                .int(1)
                .string(topic.as_bytes())
                .ints((0..200_000).map(|_| NO_PARTITION).collect::<Vec<_>>().into_iter())
                .done(),
        ),
        ("a negative generation", owned(1).int(NO_PARTITION).int(i32::MIN).short(-1).done()),
        ("a rack of 30,000 letters", owned(0).int(5).string(&[b'r'; 30_000]).done()),
        ("a rack that is not UTF-8", owned(0).int(5).string(&[0xc3, 0x28]).done()),
        ("bytes behind the end", plain(&[topic]).int(0).raw(&[0xaa; 5_000]).done()),
    ]
}

/// Assignments, each with what is wrong with it.
pub(crate) fn assignments(topic: &str) -> Vec<(&'static str, Vec<u8>)> {
    let blob = Blob::default;
    let of = |topic: &str| blob().short(0).int(1).string(topic.as_bytes());
    let range = |numbers: std::ops::Range<i32>| numbers.collect::<Vec<_>>().into_iter();
    vec![
        ("nothing at all", vec![]),
        ("one byte", vec![9]),
        ("version -1", blob().short(-1).int(0).int(NONE).done()),
        ("version 32767", blob().short(i16::MAX).int(0).int(NONE).done()),
        ("a negative number of topics", blob().short(0).int(-1).done()),
        ("two billion topics", blob().short(0).int(i32::MAX).done()),
        ("two billion partitions", of(topic).int(i32::MAX).done()),
        ("a negative number of partitions", of(topic).int(-4).done()),
        ("a partition below zero", of(topic).ints(range(-3..2)).int(NONE).done()),
        ("a partition that isn't there", of(topic).ints(range(1_000_000..1_000_002)).int(NONE).done()),
        ("a partition twice", of(topic).ints([0, 0, 0].into_iter()).int(NONE).done()),
        ("100,000 partitions", of(topic).ints(range(0..100_000)).int(NONE).done()),
        ("a topic that is not subscribed to", of("another").ints(range(0..2)).int(NONE).done()),
        (
            "a topic's name that is not UTF-8",
            blob().short(0).int(1).string(&[0xff]).ints(range(0..1)).int(NONE).done(),
        ),
        ("two billion bytes of user data", of(topic).ints(range(0..1)).int(i32::MAX).done()),
        ("900,000 bytes of user data", of(topic).ints(range(0..1)).bytes(&vec![3; 900_000]).done()),
    ]
}

/// An assignment as a leader should write it.
pub(crate) fn assignment(topic: &str, partitions: &[i32]) -> Vec<u8> {
    let blob = Blob::default().short(0).int(1).string(topic.as_bytes());
    blob.ints(partitions.iter().copied()).int(NONE).done()
}
