//! What can be told of a file without compiling it: whether it is a component at all, which contract it was built for, and
//! whether compiling it is safe.

use wasmparser::{Operator, Parser, Payload};

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
    let mut complexity = Complexity { limits, functions: 0 };
    // How deep the parser is in nested modules and components.
    let mut depth = 0u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::CodeSectionEntry(body) => complexity.function(&body)?,
            _ => {}
        }
    }
    let contract = versions::check(&imports, &exports)?;
    Ok(Outline { imports, exports, contract })
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
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

/// Bounds what the compiler is given, since a compile can neither be cancelled nor bounded in memory.
struct Complexity<'a> {
    limits: &'a Limits,
    functions: u32,
}

impl Complexity<'_> {
    fn function(&mut self, body: &wasmparser::FunctionBody<'_>) -> Result<(), LoadError> {
        let Limits { functions, body_bytes, locals: locals_limit, locals_times_branches, .. } = *self.limits;
        self.functions += 1;
        if self.functions > functions {
            return Err(LoadError::TooComplex(format!("more than {functions} functions")));
        }
        let bytes = body.range().len();
        if bytes > body_bytes as usize {
            return Err(LoadError::TooComplex(format!(
                "a function of {bytes} bytes, the limit is {body_bytes}"
            )));
        }
        let mut locals: u64 = 0;
        for group in body.get_locals_reader().map_err(malformed)? {
            locals += u64::from(group.map_err(malformed)?.0);
        }
        if locals > u64::from(locals_limit) {
            return Err(LoadError::TooComplex(format!(
                "a function of {locals} locals, the limit is {locals_limit}"
            )));
        }
        // Too small to reach the limit even if each byte were a branch: most functions.
        if locals.saturating_mul(bytes as u64) <= locals_times_branches {
            return Ok(());
        }
        let mut branches: u64 = 0;
        for operator in body.get_operators_reader().map_err(malformed)? {
            match operator.map_err(malformed)? {
                Operator::Block { .. }
                | Operator::Loop { .. }
                | Operator::If { .. }
                | Operator::Else
                | Operator::Br { .. }
                | Operator::BrIf { .. } => branches += 1,
                Operator::BrTable { targets } => branches += u64::from(targets.len()) + 1,
                _ => {}
            }
        }
        let product = locals.saturating_mul(branches);
        if product > locals_times_branches {
            return Err(LoadError::TooComplex(format!(
                "a function of {locals} locals and {branches} branches; their product {product} is over {locals_times_branches}"
            )));
        }
        Ok(())
    }
}
