//! `auto.offset.reset`: where to start in a partition without a valid committed offset.

use std::time::Duration;

/// Where to start in a partition without a valid committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the end.
    Latest,
    /// At the beginning.
    Earliest,
    /// At the first record that is no older than this; at the end if there is none (KIP-1106, `by_duration:PT24H`).
    ByDuration(Duration),
    /// Nowhere: `poll` reports [`ConsumerError::NoOffset`](super::ConsumerError::NoOffset) until the application seeks.
    None,
}

impl std::str::FromStr for OffsetReset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            "earliest" => Ok(Self::Earliest),
            "none" => Ok(Self::None),
            other => match other.strip_prefix("by_duration:").map(iso_duration) {
                Some(Some(duration)) => Ok(Self::ByDuration(duration)),
                Some(None) => Err(format!(
                    "auto.offset.reset={other}: give an ISO 8601 duration, as by_duration:P7D or by_duration:PT12H30M"
                )),
                None => Err(format!(
                    "auto.offset.reset={other}: give latest, earliest, by_duration:<ISO 8601 duration> or none"
                )),
            },
        }
    }
}

/// What Java's `Duration.parse` takes, but for signs and fractions other than of seconds: `P2D`, `PT36H`, `P1DT2H3M4.5S`.
fn iso_duration(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let text = text.strip_prefix('P')?;
    let (days, time) = match text.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (text, ""),
    };
    let mut total = Duration::ZERO;
    let mut any = false;
    for (mut part, units) in [(days, &[('D', 86_400)][..]), (time, &[('H', 3_600), ('M', 60)])] {
        for (unit, seconds) in units {
            if let Some((number, rest)) = part.split_once(*unit) {
                total = total.checked_add(Duration::from_secs(digits(number)?.checked_mul(*seconds)?))?;
                (part, any) = (rest, true);
            }
        }
        if let (Some(seconds), true) = (part.strip_suffix('S'), units.len() == 2) {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            let nanos = digits(&format!("{fraction:0<9}")).filter(|_| (1..=9).contains(&fraction.len()))?;
            total = total.checked_add(Duration::from_secs(digits(whole)?))?;
            total = total.checked_add(Duration::from_nanos(nanos))?;
            (part, any) = ("", true);
        }
        if !part.is_empty() {
            return None;
        }
    }
    any.then_some(total)
}

fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_java_reads_them() {
        for (text, milliseconds) in [
            ("P1D", 86_400_000),
            ("PT36H", 129_600_000),
            ("P1DT2H3M4.5S", 93_784_500),
            ("pt0.25s", 250),
            ("PT1M", 60_000),
        ] {
            let reset = format!("by_duration:{text}").parse();
            assert_eq!(reset, Ok(OffsetReset::ByDuration(Duration::from_millis(milliseconds))), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_words() {
        for text in [
            "",
            "P",
            "PT",
            "1D",
            "P-1D",
            "P1DT",
            "P1M",
            "PT1H1D",
            "PT1S1M",
            "PT+1S",
            "PT1.S",
            "PT18446744073709551615H",
        ] {
            let refused = format!("by_duration:{text}").parse::<OffsetReset>().unwrap_err();
            assert!(refused.contains("ISO 8601"), "{text}: {refused}");
        }
        assert!("newest".parse::<OffsetReset>().unwrap_err().contains("earliest"));
    }
}
