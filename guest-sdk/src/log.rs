//! Lines for the consumer's log: [`trace!`](crate::trace), [`debug!`](crate::debug), [`info!`](crate::info),
//! [`warn!`](crate::warn), [`error!`](crate::error). The host cuts long lines and floods of lines.

use std::fmt;
use std::panic::PanicHookInfo;

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

/// Logs panics from now on, as errors with message and place, before they trap: the host itself sees only that the guest
/// reached `unreachable`. [`export!`](crate::export) does this by itself; away from WebAssembly nothing changes.
pub fn report_panics() {
    if cfg!(target_arch = "wasm32") {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| std::panic::set_hook(Box::new(|info| log(Level::Error, &describe(info)))));
    }
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let message = info.payload_as_str().unwrap_or("a value that is no text");
    match info.location() {
        Some(place) => format!("panicked at {place}: {message}"),
        None => format!("panicked: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_described_by_message_and_place() {
        use std::sync::{Arc, Mutex};
        let seen = Arc::new(Mutex::new(String::new()));
        let (sink, before) = (Arc::clone(&seen), std::panic::take_hook());
        let me = std::thread::current().id();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == me {
                *sink.lock().unwrap() = describe(info);
            }
        }));
        let caught = std::panic::catch_unwind(|| panic!("weight of {} lost", "m1"));
        std::panic::set_hook(before);
        assert!(caught.is_err());
        let text = seen.lock().unwrap().clone();
        assert!(text.starts_with("panicked at guest-sdk/src/log.rs:"), "{text}");
        assert!(text.ends_with(": weight of m1 lost"), "{text}");
    }
}
