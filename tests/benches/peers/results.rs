//! What was measured, and what follows from it.

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Family};
use crate::machine::Machine;
use crate::side::{CAP, Once, Side, Span, Times};

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// How long it took.
    pub(crate) seconds: u64,
    pub(crate) cells: Vec<Measured>,
}

/// A cell and what each of its sides took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) cell: Cell,
    pub(crate) outcomes: Vec<Outcome>,
}

/// One side's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) side: Side,
    /// `None` if it took longer than [`CAP`]: then there is nothing else.
    pub(crate) once: Option<Once>,
    pub(crate) plan: Option<Times>,
    pub(crate) wire: Option<Times>,
}

impl Outcome {
    pub(crate) fn times(&self, span: Span) -> Option<&Times> {
        match span {
            Span::Plan => self.plan.as_ref(),
            Span::Wire => self.wire.as_ref(),
        }
    }

    /// The median in nanoseconds; the cap where it took longer.
    pub(crate) fn at_least(&self, span: Span) -> Option<f64> {
        match &self.once {
            None => Some(CAP.as_nanos() as f64),
            Some(_) => self.times(span).map(Times::median),
        }
    }

    /// What a plan allocates, in bytes: after warm-up where that was measured.
    pub(crate) fn allocated(&self) -> Option<f64> {
        let warm = self.plan.as_ref().and_then(|times| times.allocated);
        warm.or_else(|| self.once.map(|once| once.allocated as f64))
    }

    /// A line of progress.
    pub(crate) fn shown(&self) -> String {
        let Some(once) = self.once else { return format!("{:?}: more than {CAP:?}", self.side) };
        let megabytes = |bytes: f64| bytes / 1e6;
        let span = |name, times: Option<&Times>| {
            times.map_or_else(String::new, |times| {
                let (median, spread) = (times.median() / 1e6, times.spread() * 100.0);
                format!(", {name} {median:.3} ms (spread {spread:.0} %)")
            })
        };
        format!(
            "{:?}: cold {:.1} ms{}{}, allocates {:.1} MB, process {:.0} MB, at first {:.0}",
            self.side,
            once.nanoseconds as f64 / 1e6,
            span("plan", self.plan.as_ref()),
            span("wire", self.wire.as_ref()),
            megabytes(self.allocated().unwrap_or_default()),
            megabytes(once.peak_resident as f64),
            megabytes(once.resident_before as f64),
        )
    }
}

impl Measured {
    pub(crate) fn side(&self, side: Side) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.side == side)
    }

    /// How many times faster we are than `peer`; at least, where it took longer than the cap.
    pub(crate) fn ratio(&self, peer: Side, span: Span) -> Option<f64> {
        Some(self.side(peer)?.at_least(span)? / self.side(Side::Assignor)?.at_least(span)?)
    }
}

impl Results {
    pub(crate) fn of(&self, families: &[Family]) -> impl Iterator<Item = &Measured> {
        self.cells.iter().filter(|measured| families.contains(&measured.cell.family))
    }
}

/// The geometric mean; `None` of nothing.
pub(crate) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (logarithms / ratios.len() as f64).exp())
}
