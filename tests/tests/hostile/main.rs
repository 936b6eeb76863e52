//! Strategies that do their worst. For each: the time that it takes is bounded, the cause has its own code, the group gets the
//! plan that it would get without the strategy, the host lives on, and a good strategy of another consumer notices nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of tests panic as tests do"
)]

mod bombs;
mod calls;
mod files;
mod guest;
mod support;
mod text;
mod told;
mod wat;
