//! Why something was refused or failed: typed, with a stable code for programs and advice for people.

use std::time::Duration;

use crate::plan::Violation;

/// Why a component could not be loaded as a strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file can't be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The operating system's reason.
        reason: String,
    },
    /// Larger than the limit.
    #[error("the component has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes found (or at least that many).
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Neither a component nor anything else we know.
    #[error("this is no WebAssembly: {0}")]
    NotWasm(String),
    /// WebAssembly text.
    #[error("this is WebAssembly text, not a binary component")]
    Text,
    /// A core module.
    #[error("this is a core WebAssembly module, not a component")]
    CoreModule,
    /// An ahead-of-time compiled artifact, which runs unchecked native code.
    #[error("this is a precompiled artifact; only portable components are accepted")]
    Precompiled,
    /// Cut off, or not valid.
    #[error("the component is not valid: {0}")]
    Malformed(String),
    /// Would take too long or too much memory to compile.
    #[error("the component is too complex to compile safely: {0}")]
    TooComplex(String),
    /// The compiler refused it.
    #[error("the component does not compile: {0}")]
    Compile(String),
    /// Compiling took longer than allowed.
    #[error("compiling took longer than {limit:?}")]
    CompileTimeout {
        /// The time allowed.
        limit: Duration,
    },
    /// An earlier compile went past its time and still runs.
    #[error(
        "an earlier component is still being compiled past its time limit; no second compile is started beside it"
    )]
    CompilerBusy,
    /// Built for another contract.
    #[error("built for {found}, this host runs {supported}")]
    ContractVersion {
        /// What the component exports.
        found: String,
        /// What this host runs.
        supported: String,
    },
    /// Not an assignor at all, or one that misses a function.
    #[error("the component does not fulfil the contract: {0}")]
    Contract(String),
    /// Imports WASI.
    #[error("the component imports {0}, but strategies run without WASI")]
    Wasi(String),
    /// Imports something that the host does not offer.
    #[error("the component imports {0}, which this host does not offer")]
    UnknownImport(String),
    /// A call of the probe failed.
    #[error("{call} failed while the component was probed: {cause}")]
    Probe {
        /// The function.
        call: &'static str,
        /// What happened.
        cause: CallError,
    },
    /// Name is not 1 to 64 legal characters.
    #[error("the strategy's name {0:?} is not 1 to 64 of the characters A-Z a-z 0-9 . _ -")]
    BadName(String),
    /// The name of a built-in.
    #[error("the strategy's name {0:?} is reserved for a built-in")]
    ReservedName(String),
    /// Two strategies of one name (KAFKA-13204).
    #[error("two strategies are named {0:?}")]
    DuplicateName(String),
    /// The strategy's own name differs from the one it was given in the configuration.
    #[error("the strategy is named {found:?}, but the configuration names it {expected:?}")]
    NameMismatch {
        /// What the component says.
        found: String,
        /// What was configured, or what it was called before it was replaced.
        expected: String,
    },
    /// Another set of protocols than before it was replaced.
    #[error(
        "the strategy supports {found}, the one that it replaces {expected}; protocols can't change while the consumer runs"
    )]
    ProtocolsChanged {
        /// The new ones.
        found: String,
        /// The old ones.
        expected: String,
    },
    /// No protocols at all.
    #[error("the strategy supports no protocol")]
    NoProtocols,
    /// Supports the cooperative protocol only, which this version does not speak yet.
    #[error("the strategy supports the cooperative protocol only; this version runs eager rebalances")]
    CooperativeOnly,
    /// The host itself failed.
    #[error("the host failed while loading: {0}")]
    Host(String),
}

impl LoadError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::TooLarge { .. } => "too-large",
            Self::NotWasm(_) => "not-wasm",
            Self::Text => "text",
            Self::CoreModule => "core-module",
            Self::Precompiled => "precompiled",
            Self::Malformed(_) => "malformed",
            Self::TooComplex(_) => "too-complex",
            Self::Compile(_) => "compile",
            Self::CompileTimeout { .. } => "compile-timeout",
            Self::CompilerBusy => "compiler-busy",
            Self::ContractVersion { .. } => "contract-version",
            Self::Contract(_) => "contract",
            Self::Wasi(_) => "wasi",
            Self::UnknownImport(_) => "unknown-import",
            Self::Probe { cause, .. } => cause.code(),
            Self::BadName(_) => "bad-name",
            Self::ReservedName(_) => "reserved-name",
            Self::DuplicateName(_) => "duplicate-name",
            Self::NameMismatch { .. } => "name-mismatch",
            Self::ProtocolsChanged { .. } => "protocols-changed",
            Self::NoProtocols => "no-protocols",
            Self::CooperativeOnly => "cooperative-only",
            Self::Host(_) => "host",
        }
    }

    /// What to do next, where there is something to say.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Text => {
                "assemble it and wrap it as a component first, for example with `wasm-tools parse` and `wasm-tools component new`"
            }
            Self::CoreModule => "build it with `assignor build`, or wrap it with `wasm-tools component new`",
            Self::Precompiled => {
                "ship the .wasm component itself; the host compiles it, and caches the result privately"
            }
            Self::Wasi(_) => {
                "build without WASI: in Rust for wasm32-unknown-unknown, in Python with componentize-py's --stub-wasi, in JavaScript with stubWasi"
            }
            Self::NotWasm(_) | Self::Malformed(_) => "check that the file was copied whole",
            Self::TooLarge { .. } | Self::TooComplex(_) | Self::CompileTimeout { .. } => {
                "build it smaller (optimised, with LTO, stripped), or raise the limit if you trust its author"
            }
            Self::ContractVersion { .. } => "rebuild it with the SDK of a version that this host runs",
            Self::BadName(_) | Self::ReservedName(_) | Self::DuplicateName(_) => {
                "give the strategy another name"
            }
            Self::NameMismatch { .. } => {
                "configure it under its own name, or export the name that is configured"
            }
            Self::CooperativeOnly => "support the eager protocol, too",
            _ => return None,
        })
    }
}

/// Why a call into a strategy failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The strategy returned an error: it declines to decide.
    #[error("the strategy declined: {0}")]
    Declined(String),
    /// A trap: a panic, an uncaught exception, a bad memory access.
    #[error("the strategy trapped: {0}")]
    Trap(String),
    /// Exports a function with another signature than the contract's. Told when the first instance is made.
    #[error("the strategy does not fulfil the contract: {0}")]
    Contract(String),
    /// Used up its stack.
    #[error("the strategy overflowed its stack: {0}")]
    Stack(String),
    /// Ran longer than its time budget.
    #[error("the strategy ran longer than its {limit:?}")]
    Deadline {
        /// The budget of guest time.
        limit: Duration,
    },
    /// Kept the host busy for longer than its budget.
    #[error("what the strategy asked of the host took longer than {limit:?}")]
    HostWait {
        /// The budget of the host's time.
        limit: Duration,
    },
    /// Wanted more memory than it may have.
    #[error("the strategy wanted {wanted} bytes of memory, the limit is {limit}")]
    Memory {
        /// Bytes it would have had in all.
        wanted: u64,
        /// Bytes it may have in all.
        limit: u64,
    },
    /// Wanted more of another bounded thing: table elements, instances, memories.
    #[error("the strategy wanted more {what} than the limit of {limit}")]
    Resource {
        /// Of what.
        what: &'static str,
        /// How many it may have.
        limit: u64,
    },
    /// Called the host too often.
    #[error("the strategy called the host more than {limit} times")]
    HostCalls {
        /// How often it may.
        limit: u64,
    },
    /// Handed the host too many bytes.
    #[error("the strategy handed the host more than {limit} bytes")]
    HostBytes {
        /// How many it may.
        limit: u64,
    },
    /// Returned too many bytes.
    #[error("the strategy returned {size} bytes of {what}, the limit is {limit}")]
    ResultTooLarge {
        /// Of what.
        what: &'static str,
        /// How many it returned (or at least that many).
        size: u64,
        /// How many it may.
        limit: u64,
    },
    /// Answered `subscription` with a topic that was not given.
    #[error("the strategy subscribes to {0:?}, which it was not given")]
    UnknownTopic(String),
    /// The caller gave up on the call: the consumer closes, or a new generation began.
    #[error("the call was cancelled")]
    Cancelled,
    /// The host itself failed.
    #[error("the host failed: {0}")]
    Host(String),
}

impl CallError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Declined(_) => "declined",
            Self::Trap(_) => "trap",
            Self::Contract(_) => "contract",
            Self::Stack(_) => "stack",
            Self::Deadline { .. } => "deadline",
            Self::HostWait { .. } => "host-wait",
            Self::Memory { .. } => "memory",
            Self::Resource { .. } => "resource",
            Self::HostCalls { .. } => "host-calls",
            Self::HostBytes { .. } => "host-bytes",
            Self::ResultTooLarge { .. } => "result-too-large",
            Self::UnknownTopic(_) => "unknown-topic",
            Self::Cancelled => "cancelled",
            Self::Host(_) => "host",
        }
    }
}

/// Why a native strategy decided instead of the one that was configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// It could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Its plan is broken.
    #[error(transparent)]
    Plan(#[from] Violation),
    /// It failed too often and is not asked for a while.
    #[error("benched for another {remaining:?} after {failures} failures in a row, the last: {last}")]
    Benched {
        /// How long it is still not asked.
        remaining: Duration,
        /// Failures in a row.
        failures: u32,
        /// The last one's text.
        last: String,
    },
}

impl Cause {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Load(e) => e.code(),
            Self::Call(e) => e.code(),
            Self::Plan(e) => e.code(),
            Self::Benched { .. } => "benched",
        }
    }

    /// What to do next, where there is something to say.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Load(e) => e.advice(),
            _ => None,
        }
    }
}
