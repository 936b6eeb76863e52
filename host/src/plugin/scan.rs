//! What can be told of a file without compiling it: whether it is a component at all, which contract it was built for, and
//! whether compiling it is safe.

use wasmparser::{Parser, Payload};

use super::complexity::Complexity;
use super::limits::Limits;
use super::versions;
use crate::cause::LoadError;

/// What a component says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outline {
    /// Names of what it imports.
    pub(super) imports: Vec<String>,
    /// Names of what it exports.
    pub(super) exports: Vec<String>,
    /// The version of `assignor:strategy` whose `strategy` interface it exports.
    pub(super) contract: String,
}

/// Looks a file over: its kind, size, imports, contract and complexity.
pub(super) fn scan(bytes: &[u8], limits: &Limits) -> Result<Outline, LoadError> {
    let size = bytes.len() as u64;
    if size > limits.component_bytes {
        return Err(LoadError::TooLarge { size, limit: limits.component_bytes });
    }
    refuse_other_kinds(bytes)?;

    let mut imports = Vec::new();
    let mut exports = Vec::new();
    let mut complexity = Complexity::new(limits);
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(malformed)?;
        complexity.see(&payload)?;
        match payload {
            Payload::ComponentImportSection(section) if complexity.at_top() => {
                for import in section {
                    imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if complexity.at_top() => {
                for export in section {
                    exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    let contract = versions::check(&imports, &exports)?;
    Ok(Outline { imports, exports, contract })
}

pub(super) fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(error.to_string())
}

/// The header says what a file is; each kind gets a message of its own.
fn refuse_other_kinds(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::NotWasm("the file is empty".into()));
    }
    if Parser::is_component(bytes) {
        return Ok(());
    }
    if Parser::is_core_wasm(bytes) {
        return Err(LoadError::CoreModule);
    }
    if wasmtime::Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"(component") || text.starts_with(b"(module") || text.starts_with(b";;") {
        return Err(LoadError::Text);
    }
    if b"\0asm".starts_with(bytes.get(..4).unwrap_or(bytes)) {
        let what = match bytes.get(4..8) {
            None => "the file ends within the header".to_owned(),
            Some(version) => format!("unknown version {version:02x?} in the header"),
        };
        return Err(LoadError::Malformed(what));
    }
    let start: Vec<String> = bytes.iter().take(4).map(|b| format!("{b:02x}")).collect();
    Err(LoadError::NotWasm(format!(
        "it begins with the bytes {}, WebAssembly with 00 61 73 6d",
        start.join(" ")
    )))
}
