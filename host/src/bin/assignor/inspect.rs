//! `assignor inspect`: what a file is, and whether a consumer would run it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use assignor_host::{
    Assignor as _, Limits, LoadError, Plugin, Protocol, Runtime, RuntimeOptions, digest, read_component,
};

use crate::anatomy::{Anatomy, Kind, printable};
use crate::print;

/// Tells what a file is: name, contract, imports, size, digest, origin, and whether this host would run it.
///
/// Takes any file and says what is wrong with it. Nothing but the strategy's name and protocols is asked, in the same sandbox
/// and with the same limits as in a consumer.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor inspect my-strategy.wasm
  assignor inspect my-strategy.wasm --json | jq .refusal.code

Exit codes: 0 this host would run it, 1 it would not (the reason is told).")]
pub(crate) struct Inspect {
    /// The file.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was found out.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    /// Bytes; absent if the file was not read whole.
    pub(crate) size: Option<u64>,
    /// Of the whole file, as registries write it; absent if it was not read whole.
    pub(crate) digest: Option<String>,
    /// The version of the contract that it was built for.
    pub(crate) contract: Option<String>,
    /// Its name in the group's protocol.
    pub(crate) name: Option<String>,
    /// The rebalance protocols that it supports.
    pub(crate) protocols: Vec<String>,
    #[serde(flatten)]
    pub(crate) anatomy: Anatomy,
    /// Whether this host would run it.
    pub(crate) runs: bool,
    /// Why not.
    pub(crate) refusal: Option<Refusal>,
}

/// Why this host would not run it.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Refusal {
    /// Stable, for programs.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// What to do next.
    pub(crate) advice: Option<&'static str>,
}

impl Inspect {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let report = match read_component(&self.file, Limits::default().component_bytes) {
            Ok(bytes) => Report::of(&bytes),
            Err(error) => Report::refused(&error),
        };
        let code = if report.runs { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        let text = format!("{}\n{report}", printable(&self.file.to_string_lossy()));
        print(self.json, &report, &text)?;
        Ok(code)
    }
}

impl Report {
    /// Looks into the bytes of a file, then loads them as a consumer would.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut report = Self {
            size: Some(bytes.len() as u64),
            digest: Some(digest(bytes)),
            contract: None,
            name: None,
            protocols: Vec::new(),
            anatomy: Anatomy::of(bytes),
            runs: false,
            refusal: None,
        };
        match report.load(bytes) {
            Ok(()) => report.runs = true,
            Err(error) => report.refusal = Some(Refusal::of(&error)),
        }
        report
    }

    /// Of a file that could not be read.
    fn refused(error: &LoadError) -> Self {
        Self {
            size: None,
            digest: None,
            contract: None,
            name: None,
            protocols: Vec::new(),
            anatomy: Anatomy::default(),
            runs: false,
            refusal: Some(Refusal::of(error)),
        }
    }

    /// Fills in what only loading tells.
    fn load(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let runtime = Runtime::new(RuntimeOptions::default())?;
        let component = runtime.compile(bytes)?;
        self.contract = Some(component.contract_version().to_owned());
        let plugin = Plugin::new(&component, BTreeMap::new())?;
        self.name = Some(plugin.name().to_owned());
        self.protocols = plugin.protocols().iter().map(Protocol::to_string).collect();
        Ok(())
    }
}

impl Refusal {
    fn of(error: &LoadError) -> Self {
        Self { code: error.code(), message: printable(&error.to_string()), advice: error.advice() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |key: &str, value: &str| {
            if value.is_empty() { Ok(()) } else { writeln!(f, "  {key:<13}{value}") }
        };
        line(
            "kind",
            match self.anatomy.kind {
                Some(Kind::Component) => "component",
                Some(Kind::CoreModule) => "core module",
                None => "",
            },
        )?;
        line("name", self.name.as_deref().unwrap_or_default())?;
        line("protocols", &self.protocols.join(", "))?;
        line("contract", self.contract.as_deref().unwrap_or_default())?;
        line("size", &self.size.map(|size| format!("{size} bytes")).unwrap_or_default())?;
        line("digest", self.digest.as_deref().unwrap_or_default())?;
        line("imports", &self.anatomy.imports.join("\n               "))?;
        line("exports", &self.anatomy.exports.join("\n               "))?;
        for (key, text) in &self.anatomy.metadata.texts {
            line(key, text)?;
        }
        for (field, values) in &self.anatomy.metadata.producers {
            line(field, &values.iter().map(String::as_str).collect::<Vec<_>>().join(", "))?;
        }
        match &self.refusal {
            None => line("verdict", "this host would run it"),
            Some(refusal) => line("verdict", &format!("this host would not run it: {refusal}")),
        }
    }
}
