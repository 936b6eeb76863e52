//! The properties that set what a plugin may use: one for each field of [`Limits`], which tells the defaults.

use std::time::Duration;

use crate::plugin::Limits;

/// Sets a limit; `None` if the number doesn't fit.
type Set = fn(&mut Limits, u64) -> Option<()>;

/// Times in milliseconds, sizes in bytes, all other limits in numbers.
pub(super) const KEYS: [(&str, Set); 21] = [
    ("assignor.limit.assign.ms", |l, n| set(&mut l.assign_time, millis(n))),
    ("assignor.limit.blocks", |l, n| set(&mut l.blocks, n.try_into().ok()?)),
    ("assignor.limit.body.bytes", |l, n| set(&mut l.body_bytes, n.try_into().ok()?)),
    ("assignor.limit.call.ms", |l, n| set(&mut l.call_time, millis(n))),
    ("assignor.limit.compile.ms", |l, n| set(&mut l.compile_time, millis(n))),
    ("assignor.limit.component.bytes", |l, n| set(&mut l.component_bytes, n)),
    ("assignor.limit.functions", |l, n| set(&mut l.functions, n.try_into().ok()?)),
    ("assignor.limit.host.bytes", |l, n| set(&mut l.host_bytes, n.try_into().ok()?)),
    ("assignor.limit.host.calls", |l, n| set(&mut l.host_calls, n)),
    ("assignor.limit.host.wait.ms", |l, n| set(&mut l.host_wait, millis(n))),
    ("assignor.limit.instances", |l, n| set(&mut l.instances, n.try_into().ok()?)),
    ("assignor.limit.locals", |l, n| set(&mut l.locals, n.try_into().ok()?)),
    ("assignor.limit.locals.times.branches", |l, n| set(&mut l.locals_times_branches, n)),
    ("assignor.limit.locals.times.branches.total", |l, n| set(&mut l.total_locals_times_branches, n)),
    ("assignor.limit.log.bytes", |l, n| set(&mut l.log_bytes, n.try_into().ok()?)),
    ("assignor.limit.memories", |l, n| set(&mut l.memories, n.try_into().ok()?)),
    ("assignor.limit.memory.bytes", |l, n| set(&mut l.memory_bytes, n)),
    ("assignor.limit.stack.bytes", |l, n| set(&mut l.stack_bytes, n.try_into().ok()?)),
    ("assignor.limit.table.elements", |l, n| set(&mut l.table_elements, n)),
    ("assignor.limit.text.bytes", |l, n| set(&mut l.text_bytes, n.try_into().ok()?)),
    ("assignor.limit.user.data.bytes", |l, n| set(&mut l.user_data_bytes, n.try_into().ok()?)),
];

fn set<T>(limit: &mut T, value: T) -> Option<()> {
    *limit = value;
    Some(())
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_sets_a_limit_of_its_own() {
        let mut all = Vec::new();
        for (key, set) in KEYS {
            let mut limits = Limits::default();
            assert_eq!(set(&mut limits, 7), Some(()), "{key}");
            assert!(!all.contains(&limits) && limits != Limits::default(), "{key}");
            all.push(limits);
        }
    }
}
