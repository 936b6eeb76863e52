//! x
mod clock;
mod config;
mod connection;
mod error;
mod machine;
pub use config::{Address, ConsumerConfig, OffsetReset};
pub use error::{ConsumerError, GroupEvent};
