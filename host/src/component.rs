//! From a core module to a component: the last step of building a strategy.
//!
//! Compilers make core modules. One that was built against the contract carries a custom section that says so, and
//! [`encode`] makes it a component. One written by hand in WebAssembly text carries none: [`encode_plain`] gives it the
//! contract's first.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The text of the newest contract, package `assignor:strategy`.
pub const CONTRACT: &str = include_str!("../wit/0.1.0/assignor.wit");

/// The name of the contract's world.
const WORLD: &str = "assignor";

/// Why a core module could not be made a component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentError {
    /// The module does not say which contract it was built for.
    #[error(
        "the module does not say which contract it was built for: export the strategy with the SDK's macro `export!`"
    )]
    NoContract,
    /// The module does not fit the contract: an export is missing or has another signature, or an import is unknown.
    #[error("the module does not fit the contract: {0}")]
    Unfit(String),
    /// The contract's own text does not parse. A fault of this crate.
    #[error("the contract does not parse: {0}")]
    Contract(String),
}

/// Makes a component of a core module that was built against the contract, as wit-bindgen's output is.
///
/// # Errors
/// If the module is no module, was not built against a contract or does not fit it.
pub fn encode(module: &[u8]) -> Result<Vec<u8>, ComponentError> {
    let (stripped, _) = wit_component::metadata::decode(module).map_err(unfit)?;
    // `None`: there was no contract section that could have been stripped.
    if stripped.is_none() {
        return Err(ComponentError::NoContract);
    }
    let mut encoder = ComponentEncoder::default().validate(true).module(module).map_err(unfit)?;
    encoder.encode().map_err(unfit)
}

/// Makes a component of a core module that knows nothing of the contract but exports and imports what it asks for, under
/// the names of the canonical ABI: `assignor:strategy/strategy@0.1.0#assign`.
///
/// # Errors
/// If the module is no module or does not fit the contract.
pub fn encode_plain(module: &[u8]) -> Result<Vec<u8>, ComponentError> {
    let contract = |e: &dyn std::fmt::Display| ComponentError::Contract(format!("{e:#}"));
    let mut resolve = Resolve::default();
    let package = resolve.push_source("assignor.wit", CONTRACT).map_err(|e| contract(&e))?;
    let world = resolve.select_world(&[package], Some(WORLD)).map_err(|e| contract(&e))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(unfit)?;
    encode(&module)
}

fn unfit(error: impl std::fmt::Display) -> ComponentError {
    ComponentError::Unfit(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_names_no_contract_is_told_from_one_that_does_not_fit() {
        let empty = wat::parse_str("(module)").unwrap();
        assert!(matches!(encode(&empty), Err(ComponentError::NoContract)));
        let error = encode_plain(&empty).unwrap_err();
        assert!(matches!(&error, ComponentError::Unfit(text) if text.contains("assignor:strategy/strategy")));
    }

    #[test]
    fn what_is_no_module_is_an_error() {
        for bytes in [&b""[..], b"(module)", b"\0asm", &[0xff; 64]] {
            assert!(encode(bytes).is_err(), "{bytes:?}");
            assert!(encode_plain(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_unknown_import_is_named() {
        let module = wat::parse_str(r#"(module (import "env" "launch" (func)))"#).unwrap();
        let error = encode_plain(&module).unwrap_err().to_string();
        assert!(error.contains("env"), "{error}");
    }
}
