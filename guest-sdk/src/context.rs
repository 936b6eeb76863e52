//! Where and for whom the strategy runs.

use crate::imports::{Host, Imports};

/// `group.id` of the consumer; `None` while the host only probes the component.
pub fn group_id() -> Option<String> {
    Some(Host::group_id()).filter(|id| !id.is_empty())
}

/// This member's id; `None` before the broker has given one.
pub fn member_id() -> Option<String> {
    Some(Host::member_id()).filter(|id| !id.is_empty())
}

/// `group.instance.id` of this member; `None` for a dynamic member.
pub fn instance_id() -> Option<String> {
    Host::instance_id()
}

/// `client.rack` of this member.
pub fn rack() -> Option<String> {
    Host::rack()
}

/// The group's generation; `None` before the first one.
pub fn generation() -> Option<i32> {
    Some(Host::generation()).filter(|&generation| generation >= 0)
}

/// The time of the current call, in milliseconds since 1970-01-01 UTC. It stands still while the call runs, and is the same
/// when the call is replayed. There is no other clock.
pub fn now_ms() -> u64 {
    Host::now_ms()
}

/// A number to seed a random generator with, the same when the call is replayed. There are no other random numbers.
pub fn seed() -> u64 {
    Host::seed()
}
