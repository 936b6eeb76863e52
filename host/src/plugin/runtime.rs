//! The engine that all strategies of a process share, and how bytes become a compiled component.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use sha2::{Digest, Sha256};
use wasmtime::component::Linker;
use wasmtime::{Cache, CacheConfig, Config, Engine};

use super::limits::Limits;
use super::scan::{Outline, scan};
use super::store::State;
use super::ticker::{Ticker, Ticking};
use super::v0_1;
use crate::cause::LoadError;

/// How a [`Runtime`] is made.
#[derive(Debug, Clone, Default)]
pub struct RuntimeOptions {
    /// What strategies may use.
    pub limits: Limits,
    /// A folder that keeps compiled components between processes; none by default. What lies there is run without any
    /// check, so the folder must be this user's alone: it is made with mode 0700, and refused if others may enter it.
    pub cache: Option<PathBuf>,
}

/// Loads and runs strategies. A handle: clones share the engine.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    engine: Engine,
    linker: Linker<State>,
    limits: Arc<Limits>,
    ticker: Ticker,
    compiler: Arc<Compiler>,
}

/// A compiled component, not yet an instance. Shared by all the instances made of it.
pub struct Component {
    runtime: Runtime,
    pre: v0_1::Pre,
    outline: Outline,
    digest: String,
    size: u64,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Makes an engine.
    ///
    /// # Errors
    /// If the engine can't be made on this machine, or the cache folder isn't private.
    pub fn new(options: RuntimeOptions) -> Result<Self, LoadError> {
        let engine = Engine::new(&config(&options)?).map_err(host)?;
        let mut linker = Linker::new(&engine);
        v0_1::add_to_linker(&mut linker).map_err(host)?;
        let ticker = Ticker::start(&engine).map_err(|e| LoadError::Host(e.to_string()))?;
        Ok(Self(Arc::new(Inner {
            engine,
            linker,
            limits: Arc::new(options.limits),
            ticker,
            compiler: Arc::default(),
        })))
    }

    /// What strategies may use.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Verifies, scans and compiles a component, and checks that it fulfils the contract. Nothing of it is run.
    ///
    /// # Errors
    /// If it is not a component, too large or complex, built for another contract, imports something else than the contract
    /// offers, or does not compile in time.
    pub fn compile(&self, bytes: &[u8]) -> Result<Arc<Component>, LoadError> {
        let outline = scan(bytes, &self.0.limits)?;
        let digest = digest(bytes);
        let compiled = self.0.compiler.compile(&self.0.engine, bytes.to_vec(), &self.0.limits)?;
        let pre = v0_1::prepare(&self.0.linker, &compiled)
            .map_err(|e| LoadError::Contract(self.0.limits.text(&format!("{e:#}"))))?;
        Ok(Arc::new(Component { runtime: self.clone(), pre, outline, digest, size: bytes.len() as u64 }))
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn shared_limits(&self) -> Arc<Limits> {
        Arc::clone(&self.0.limits)
    }

    /// Lets running calls look at their clock until the guard goes.
    pub(super) fn tick(&self) -> Ticking {
        self.0.ticker.run()
    }
}

impl Component {
    /// The SHA-256 of its bytes, as `sha256:<hex>`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The version of the contract that it was built for.
    pub fn contract_version(&self) -> &str {
        &self.outline.contract
    }

    /// Names of what it imports.
    pub fn imports(&self) -> &[String] {
        &self.outline.imports
    }

    /// Names of what it exports.
    pub fn exports(&self) -> &[String] {
        &self.outline.exports
    }

    /// The runtime that compiled it.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(super) fn pre(&self) -> &v0_1::Pre {
        &self.pre
    }
}

/// The SHA-256 of a component's bytes, as OCI registries write it: `sha256:<hex>`.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn host(error: wasmtime::Error) -> LoadError {
    LoadError::Host(format!("{error:#}"))
}

/// Everything that a strategy doesn't need is off. Multi-memory stays on: without it wasmtime 48 panics while it compiles a
/// QuickJS component.
fn config(options: &RuntimeOptions) -> Result<Config, LoadError> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .wasm_multi_memory(true)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .cranelift_nan_canonicalization(true)
        .epoch_interruption(true)
        .max_wasm_stack(options.limits.stack_bytes)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(16));
    if let Some(folder) = &options.cache {
        private_folder(folder)
            .map_err(|reason| LoadError::Unreadable { path: folder.display().to_string(), reason })?;
        let mut cache = CacheConfig::new();
        cache.with_directory(folder);
        config.cache(Some(Cache::new(cache).map_err(host)?));
    }
    Ok(config)
}

#[cfg(unix)]
fn private_folder(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let make = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    make.and_then(|()| std::fs::metadata(folder)).map_err(|e| e.to_string()).and_then(|found| {
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            Ok(())
        } else {
            Err(format!(
                "others may enter it (mode {mode:o}), but compiled code in it is run unchecked; chmod 700 it"
            ))
        }
    })
}

#[cfg(not(unix))]
fn private_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())
}

/// One compile at a time, on a thread of its own, with a time limit. A compile can't be cancelled, so one that is past its
/// limit runs on, and until it ends no other is started beside it.
#[derive(Default)]
struct Compiler {
    state: Mutex<Compiling>,
    changed: Condvar,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Compiling {
    #[default]
    Idle,
    Running,
    Overdue,
}

/// Deep enough for cranelift on the largest function that passes the scan.
const COMPILE_STACK: usize = 8 << 20;

impl Compiler {
    fn lock(&self) -> MutexGuard<'_, Compiling> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: Compiling) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn compile(
        self: &Arc<Self>,
        engine: &Engine,
        bytes: Vec<u8>,
        limits: &Limits,
    ) -> Result<wasmtime::component::Component, LoadError> {
        let limit = limits.compile_time;
        let (mut state, waited) = self
            .changed
            .wait_timeout_while(self.lock(), limit, |s| *s == Compiling::Running)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() || *state == Compiling::Overdue {
            return Err(LoadError::CompilerBusy);
        }
        *state = Compiling::Running;
        drop(state);

        /// Tells that the compile has ended, however it did: by a panic, too.
        struct Ended(Arc<Compiler>);
        impl Drop for Ended {
            fn drop(&mut self) {
                self.0.set(Compiling::Idle);
            }
        }
        let ended = Ended(Arc::clone(self));
        let engine = engine.clone();
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("assignor-compile".into())
            .stack_size(COMPILE_STACK)
            .spawn(move || {
                let compiled = wasmtime::component::Component::from_binary(&engine, &bytes);
                drop(ended);
                // Nobody waits any more if the compile was late.
                let _ = sender.send(compiled);
            })
            .map_err(|e| LoadError::Host(e.to_string()))?;
        match receiver.recv_timeout(limit) {
            Ok(Ok(component)) => Ok(component),
            Ok(Err(error)) => Err(refused(&error, limits)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let mut state = self.lock();
                if *state == Compiling::Running {
                    *state = Compiling::Overdue;
                    self.changed.notify_all();
                }
                Err(LoadError::CompileTimeout { limit })
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(LoadError::Host("the compiler panicked".into())),
        }
    }
}

fn refused(error: &wasmtime::Error, limits: &Limits) -> LoadError {
    let text = limits.text(&format!("{error:#}"));
    if error.is::<wasmparser::BinaryReaderError>() {
        LoadError::Malformed(text)
    } else {
        LoadError::Compile(text)
    }
}
