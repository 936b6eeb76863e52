//! Numbers for what members have in common: groups have thousands of members and mostly few distinct subscriptions.

use std::collections::HashMap;
use std::hash::Hash;

/// Distinct keys, numbered in the order in which they came.
pub(super) struct Distinct<K> {
    keys: Vec<K>,
    /// The numbers of keys from [`COMPARED`] on.
    known: HashMap<K, usize>,
}

/// The first so many keys are looked up by comparing, which is faster than hashing a thousand topics.
const COMPARED: usize = 16;

impl<K: Copy + Eq + Hash> Distinct<K> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), known: HashMap::new() }
    }

    /// The key's number; the count of keys so far if it is new.
    pub(super) fn number(&mut self, key: K) -> usize {
        let compared = self.keys.iter().take(COMPARED).position(|known| *known == key);
        compared.or_else(|| self.known.get(&key).copied()).unwrap_or_else(|| {
            let number = self.keys.len();
            if number >= COMPARED {
                self.known.insert(key, number);
            }
            self.keys.push(key);
            number
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number_whether_it_is_compared_or_looked_up() {
        let mut distinct = Distinct::new();
        for _ in 0..2 {
            let numbers: Vec<usize> = (100..100 + 3 * COMPARED).map(|key| distinct.number(key)).collect();
            assert_eq!(numbers, (0..3 * COMPARED).collect::<Vec<_>>());
        }
    }
}
