//! A subscription to a pattern: the topics that match are looked up now and then (Kafka: `KafkaConsumer.subscribe(Pattern)`).

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use super::{Driver, Event};
use crate::consumer::clock::Moment;
use crate::consumer::config::is_legal_name;
use crate::consumer::error::ConsumerError;

/// A compiled pattern may be so large, in bytes: far more than a pattern of names needs.
const MAX_SIZE: usize = 1 << 20;

/// A pattern of topic names, which matches a whole name or doesn't match.
#[derive(Debug, Clone)]
pub(in crate::consumer) struct Pattern(Regex);

impl Pattern {
    /// # Errors
    /// If it is no regular expression, or too large a one.
    pub(in crate::consumer) fn new(pattern: &str) -> Result<Self, ConsumerError> {
        let compile = |pattern: &str| RegexBuilder::new(pattern).size_limit(MAX_SIZE).build();
        // By itself first: a parenthesis too many must not end ours.
        compile(pattern).and_then(|_| compile(&format!(r"\A(?:{pattern})\z"))).map(Self).map_err(|e| {
            ConsumerError::IllegalArgument(format!("the pattern {pattern:?} is not usable: {e}"))
        })
    }

    fn matches(&self, topic: &str) -> bool {
        is_legal_name(topic) && self.0.is_match(topic)
    }
}

/// The driver's watch over the topics that match.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pattern: Option<Pattern>,
    /// Of the pattern: what was looked up for an earlier one does not count.
    number: u64,
    due: Moment,
    looking: bool,
}

impl Watch {
    pub(super) fn set(&mut self, pattern: Pattern, now: Moment) {
        *self = Self { pattern: Some(pattern), number: self.number + 1, due: now, looking: false };
    }

    pub(super) fn clear(&mut self) {
        *self = Self { number: self.number + 1, ..Self::default() };
    }

    /// When to look next.
    pub(super) fn due(&self) -> Option<Moment> {
        (self.pattern.is_some() && !self.looking).then_some(self.due)
    }
}

impl Driver {
    /// Looks the cluster's topics up, when it is time to.
    pub(super) fn watch_pattern(&mut self, now: Moment) {
        let Some(pattern) = self.pattern.pattern.clone().filter(|_| !self.pattern.looking) else { return };
        if now < self.pattern.due || self.closing.is_some() {
            return;
        }
        self.pattern.looking = true;
        let number = self.pattern.number;
        self.spawn(move |common| async move {
            let exclude = common.config.exclude_internal_topics;
            let matches = |topic: &str, internal: bool| !(internal && exclude) && pattern.matches(topic);
            let topics = common.metadata.matching(matches).await;
            if let Err(e) = &topics {
                tracing::info!(error = %e, "the cluster's topics; trying again");
            }
            Event::Listed { number, topics: topics.ok() }
        });
    }

    /// Subscribes to what matches. As long as nothing does, and nothing did before, there is nothing to join the group for.
    pub(super) fn listed(&mut self, number: u64, topics: Option<BTreeSet<String>>, now: Moment) {
        if number != self.pattern.number {
            return;
        }
        let config = &self.common.config;
        let pause = if topics.is_some() { config.metadata_max_age } else { config.retry_backoff_max };
        self.pattern.due = now + pause;
        self.pattern.looking = false;
        if let Some(topics) = topics {
            let topics: Vec<String> = topics.into_iter().collect();
            self.common.shared.subscribe_to(topics.clone());
            self.machine.subscribe(now, topics);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names_as_in_java() {
        let pattern = Pattern::new("orders|orders-eu.*").unwrap();
        assert!(["orders", "orders-eu", "orders-eu.new"].iter().all(|t| pattern.matches(t)));
        assert!(!["my-orders", "orders2", "orders\n", ""].iter().any(|t| pattern.matches(t)));
        assert!(!Pattern::new(".*").unwrap().matches("no/topic"));
    }

    #[test]
    fn what_is_no_pattern_or_too_large_a_one_is_refused_in_words() {
        for (pattern, word) in [("a)|(b", "unopened"), ("(", "unclosed"), ("(a{1000}){1000}", "size limit")] {
            let refused = Pattern::new(pattern).unwrap_err();
            assert_eq!(refused.code(), "illegal-argument");
            assert!(refused.to_string().contains(word), "{refused}");
        }
    }

    #[test]
    fn what_was_looked_up_for_an_earlier_pattern_does_not_count() {
        let mut watch = Watch::default();
        assert_eq!(watch.due(), None);
        watch.set(Pattern::new("a").unwrap(), Moment::default());
        let first = watch.number;
        watch.looking = true;
        assert_eq!(watch.due(), None, "one look at a time");
        watch.set(Pattern::new("b").unwrap(), Moment::default());
        assert_eq!(watch.due(), Some(Moment::default()));
        watch.clear();
        assert_eq!(watch.due(), None);
        assert!(watch.number > first + 1);
    }
}
