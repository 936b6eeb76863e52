//! What the end-to-end tests and benchmarks share.
#![expect(clippy::panic, reason = "helpers of tests fail as tests do")]

use std::path::PathBuf;

/// A file in cargo's target folder, where this test or benchmark is `<profile>/deps/<name>`.
///
/// # Panics
/// If it isn't there.
pub fn built(path: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap_or_else(|e| panic!("the path of this program: {e}"));
    let target = program.ancestors().nth(3).map(PathBuf::from).unwrap_or_default();
    let path = target.join(path);
    assert!(
        path.exists(),
        "{} is missing: run `cargo xtask plugins` or `cargo xtask java` first",
        path.display()
    );
    path
}

/// A component that `cargo xtask plugins` has built.
///
/// # Panics
/// If it isn't there.
pub fn plugin(name: &str) -> Vec<u8> {
    let path = built(&format!("plugins/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The Rust in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
