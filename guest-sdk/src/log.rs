//! Lines for the consumer's log: [`trace!`](crate::trace), [`debug!`](crate::debug), [`info!`](crate::info),
//! [`warn!`](crate::warn), [`error!`](crate::error). The host cuts long lines and floods of lines.

use std::fmt;

pub use crate::bindings::assignor::strategy::log::Level;
use crate::imports::{Host, Imports};

/// Writes one line.
pub fn log(level: Level, text: &str) {
    Host::log(level, text);
}

/// Formats and writes one line; what the macros call.
#[doc(hidden)]
pub fn log_fmt(level: Level, text: fmt::Arguments<'_>) {
    match text.as_str() {
        Some(text) => log(level, text),
        None => log(level, &text.to_string()),
    }
}

/// Logs a line for following every step. Takes what [`format!`] takes.
#[macro_export]
macro_rules! trace {
    ($($text:tt)+) => { $crate::log::log_fmt($crate::log::Level::Trace, ::core::format_args!($($text)+)) };
}

/// Logs a line for finding a fault. Takes what [`format!`] takes.
#[macro_export]
macro_rules! debug {
    ($($text:tt)+) => { $crate::log::log_fmt($crate::log::Level::Debug, ::core::format_args!($($text)+)) };
}

/// Logs a line for knowing what goes on. Takes what [`format!`] takes.
#[macro_export]
macro_rules! info {
    ($($text:tt)+) => { $crate::log::log_fmt($crate::log::Level::Info, ::core::format_args!($($text)+)) };
}

/// Logs that something is wrong, and the strategy copes. Takes what [`format!`] takes.
#[macro_export]
macro_rules! warn {
    ($($text:tt)+) => { $crate::log::log_fmt($crate::log::Level::Warn, ::core::format_args!($($text)+)) };
}

/// Logs that something is wrong, and the result suffers. Takes what [`format!`] takes.
#[macro_export]
macro_rules! error {
    ($($text:tt)+) => { $crate::log::log_fmt($crate::log::Level::Error, ::core::format_args!($($text)+)) };
}
