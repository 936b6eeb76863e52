//! Which cargo and rustc make a core module of a Rust strategy.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The target that guests are built for: no WASI, no imports besides the contract's.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Where Debian's packages put the compiler, cargo and the standard library's source.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_SOURCE: &str = "/usr/lib/rustlib/src/rust";

/// A way to build for [`TARGET`].
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// The usual one: the standard library for the target is installed.
    Installed,
    /// Debian's compiler builds the standard library itself, from the source of the same version. For machines where rustup can't
    /// fetch the target.
    Debian {
        /// The linker: Debian's compiler brings none for this target.
        linker: PathBuf,
    },
}

impl Toolchain {
    /// The toolchain for a project in the folder `dir`, whose `rust-toolchain.toml` counts.
    ///
    /// # Errors
    /// If there is none; the message says what to install.
    pub(crate) fn find(dir: &Path) -> anyhow::Result<Self> {
        let libdir = rustc(dir, &["--print", "target-libdir", "--target", TARGET]);
        if libdir.is_ok_and(|libdir| Path::new(&libdir).is_dir()) {
            return Ok(Self::Installed);
        }
        if ![DEBIAN_RUSTC, DEBIAN_CARGO, DEBIAN_SOURCE].iter().all(|path| Path::new(path).exists()) {
            bail!(
                "the standard library for {TARGET} is not installed.\n\
                 Install it with `rustup target add {TARGET}`; on Debian, where rustup can't fetch it, with \
                 `apt-get install rustc-web cargo-web rust-web-src lld`"
            );
        }
        let linker = linker(dir).context(
            "Debian's Rust is there, but no linker for WebAssembly: install it with `apt-get install lld`",
        )?;
        Ok(Self::Debian { linker })
    }

    /// A cargo command in the folder `dir`, free of what a surrounding `cargo run` set for itself.
    pub(crate) fn cargo(&self, dir: &Path) -> Command {
        let mut cargo = match self {
            Self::Installed => Command::new("cargo"),
            Self::Debian { linker } => {
                let mut cargo = Command::new(DEBIAN_CARGO);
                cargo
                    .env("RUSTC", DEBIAN_RUSTC)
                    // Building the standard library is an unstable option of cargo.
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
                    // Names one of rustup's, which Debian's is not.
                    .env_remove("RUSTUP_TOOLCHAIN");
                cargo
            }
        };
        let set: Vec<OsString> = cargo.get_envs().map(|(key, _)| key.to_owned()).collect();
        for (key, _) in std::env::vars_os() {
            if !set.contains(&key) && meant_for_another_build(&key) {
                cargo.env_remove(key);
            }
        }
        // Relative to where the user is, not to the project.
        if let Some(target) = std::env::var_os("CARGO_TARGET_DIR")
            && let Ok(target) = std::path::absolute(target)
        {
            cargo.env("CARGO_TARGET_DIR", target);
        }
        cargo.current_dir(dir);
        cargo
    }

    /// Further arguments of `cargo build`.
    pub(crate) fn build_args(&self) -> &'static [&'static str] {
        match self {
            Self::Installed => &[],
            Self::Debian { .. } => &["-Zbuild-std=std,panic_abort"],
        }
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Installed => write!(f, "the installed target {TARGET}"),
            Self::Debian { .. } => {
                write!(f, "Debian's Rust, which builds the standard library for {TARGET} first")
            }
        }
    }
}

/// Whether an environment variable steers cargo in a way that was meant for the host: flags, wrappers, the compiler and the target of
/// a surrounding build would break the one for the guest.
fn meant_for_another_build(key: &OsStr) -> bool {
    let Some(key) = key.to_str() else { return false };
    key == "CARGO"
        || key == "CARGO_BUILD_TARGET"
        || key.starts_with("RUSTC")
        || key.starts_with("CARGO_BUILD_RUSTC")
        || key.ends_with("RUSTFLAGS")
}

/// rustup's own linker, or one of Debian's.
fn linker(dir: &Path) -> Option<PathBuf> {
    let bundled = || {
        let sysroot = rustc(dir, &["--print", "sysroot"]).ok()?;
        let host = rustc(dir, &["--print", "host-tuple"]).ok()?;
        Some(Path::new(&sysroot).join("lib/rustlib").join(host).join("bin/rust-lld"))
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::iter::once("wasm-ld".to_owned()).chain((14..=24).rev().map(|n| format!("wasm-ld-{n}")));
    bundled().into_iter().chain(named.flat_map(|name| on_path(&path, &name))).find(|linker| linker.is_file())
}

fn on_path(path: &OsStr, name: &str) -> Vec<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).collect()
}

/// One line that rustc prints.
fn rustc(dir: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("rustc").args(args).current_dir(dir).output().context("cannot run rustc")?;
    if !output.status.success() {
        bail!("rustc {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_surrounding_build_set_is_told_from_what_the_user_set() {
        for key in
            ["CARGO", "RUSTC", "RUSTC_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"]
        {
            assert!(meant_for_another_build(OsStr::new(key)), "{key}");
        }
        for key in ["CARGO_HOME", "CARGO_TARGET_DIR", "PATH", "RUSTUP_TOOLCHAIN", "CARGO_NET_OFFLINE"] {
            assert!(!meant_for_another_build(OsStr::new(key)), "{key}");
        }
    }
}
