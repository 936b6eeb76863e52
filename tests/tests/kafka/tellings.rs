//! What each client's members tell their leader in JoinGroup, and how. All of it is read by ours; whoever leads copes with all of it.

use assignor_host::wire::{sticky_user_data, subscription};

use crate::troupe::Whose;

use Shape::{Absent, Empty, Four, Prefixed, Sticky};
use Whose::{FranzGo, Java, KafkaPython, Librdkafka, Ours};

/// What user data looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Absent,
    /// There, and of no bytes.
    Empty,
    /// Four bytes: a generation, or no topics and no generation.
    Four,
    /// What `sticky` tells: what it owned, and in which generation.
    Sticky,
    /// What `sticky` tells behind an int16 with the version, which no other client reads, Kafka's own included.
    Prefixed,
}

/// A client's way: the version of its subscriptions, its user data before it was assigned anything, and since.
fn way(whose: Whose, strategy: &str) -> (i16, Shape, Shape) {
    match (whose, strategy) {
        // A generation, -1 at first.
        (Ours | Java, "cooperative-sticky") => (3, Four, Four),
        (Ours | Java, "sticky") => (3, Absent, Sticky),
        // No topics, and no generation: for Kafka's cooperative-sticky these four bytes are generation 0.
        (FranzGo, "cooperative-sticky" | "sticky") => (3, Four, Sticky),
        (Librdkafka, "cooperative-sticky") => (3, Empty, Sticky),
        (Ours | Java | FranzGo, _) => (3, Absent, Absent),
        (Librdkafka, _) => (3, Empty, Empty),
        // It tells owned partitions, and never a generation.
        (KafkaPython, "cooperative-sticky") => (1, Empty, Empty),
        (KafkaPython, "sticky") => (0, Empty, Prefixed),
        (KafkaPython, _) => (0, Empty, Empty),
    }
}

/// Fails where a client tells its leader something in another way than is known.
pub(crate) fn judge(strategy: &str, whose: Whose, blob: &[u8]) {
    let version = i16::from_be_bytes([blob[0], blob[1]]);
    let told = subscription::decode(blob).unwrap();
    let shape = shape(told.user_data.as_deref());
    let (known, at_first, since) = way(whose, strategy);
    let as_known = version == known && [at_first, since].contains(&shape);
    assert!(as_known, "{}, {strategy}: version {version}, {shape:?}: {told:?}", whose.name());
    // Under an eager strategy everything is given up before a member joins again.
    assert!(
        strategy == "cooperative-sticky" || told.owned.is_empty(),
        "{}, {strategy}: {told:?}",
        whose.name()
    );
}

fn shape(user_data: Option<&[u8]>) -> Shape {
    match user_data {
        None => Absent,
        Some([]) => Empty,
        Some([_, _, _, _]) => Four,
        Some(bytes) if sticky_user_data::decode(bytes).is_ok() => Sticky,
        Some([0, 1, bytes @ ..]) if sticky_user_data::decode(bytes).is_ok() => Prefixed,
        Some(bytes) => panic!("what is {bytes:?}?"),
    }
}
