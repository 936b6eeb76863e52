//! Components made of the WebAssembly text in `tests/wat`.

use wasmparser::{ComponentAlias, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const CONTRACT: &str = include_str!("../../../wit/0.1.0/assignor.wit");

/// A file of `tests/wat`.
macro_rules! fields {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/wat/", $name, ".wat"))
    };
}
pub(crate) use fields;

macro_rules! default {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/wat/default/", $name, ".wat"))
    };
}

/// What stands in the fields that define a default themselves, and the default.
const DEFAULTS: [(&str, &str); 9] = [
    ("(export \"memory\")", default!("memory")),
    ("\"cabi_realloc\"", default!("cabi_realloc")),
    ("\"assignor:strategy/strategy@0.1.0#name\"", default!("name")),
    ("\"assignor:strategy/strategy@0.1.0#supported-protocols\"", default!("supported-protocols")),
    ("\"assignor:strategy/strategy@0.1.0#subscription\"", default!("subscription")),
    ("\"cabi_post_assignor:strategy/strategy@0.1.0#subscription\"", default!("post-subscription")),
    ("\"assignor:strategy/strategy@0.1.0#assign\"", default!("assign")),
    ("\"cabi_post_assignor:strategy/strategy@0.1.0#assign\"", default!("post-assign")),
    ("\"assignor:strategy/strategy@0.1.0#on-assignment\"", default!("on-assignment")),
];

/// The fields, completed to a strategy.
fn completed(fields: &str) -> String {
    let missing = DEFAULTS.iter().filter(|(mark, _)| !fields.contains(mark)).map(|(_, default)| *default);
    std::iter::once(fields).chain(missing).chain([default!("heap"), default!("plan")]).collect()
}

/// A component for the contract that the host runs.
pub(crate) fn component(fields: &str) -> Vec<u8> {
    encode(CONTRACT, &completed(fields))
}

/// A component for another contract, in which the pairs' first parts are replaced by their second: in the contract's text
/// and in the completed fields, wherever they occur.
pub(crate) fn component_for(edits: &[(&str, &str)], fields: &str) -> Vec<u8> {
    let edit = |text: &str| edits.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let contract = edit(CONTRACT);
    assert_ne!(contract, CONTRACT, "the contract's text has changed: nothing was edited");
    encode(&contract, &edit(&completed(fields)))
}

fn encode(contract: &str, text: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap_or_else(|e| panic!("{e}"));
    let mut resolve = Resolve::default();
    let package = resolve.push_source("assignor.wit", contract).unwrap_or_else(|e| panic!("{e:#}"));
    let world = resolve.select_world(&[package], Some("assignor")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    let mut encoder = ComponentEncoder::default().validate(true).module(&module).unwrap();
    encoder.encode().unwrap_or_else(|e| panic!("{e:#}"))
}

/// A strategy named so; the name must not need escapes.
pub(crate) fn named(name: &str) -> Vec<u8> {
    component(&format!(
        r#"(memory (export "memory") 16)
           (data (i32.const 128) "{name}")
           (func (export "assignor:strategy/strategy@0.1.0#name") (result i32)
             (i32.store (i32.const 0) (i32.const 128))
             (i32.store (i32.const 4) (i32.const {}))
             (i32.const 0))"#,
        name.len()
    ))
}

/// How many core modules, components and types the outermost component defines, and so the number that the next one gets.
/// wit-component defines modules and components in sections of their own only; types come from imports, exports and
/// aliases, too.
pub(crate) struct Defined {
    pub(crate) modules: u32,
    pub(crate) components: u32,
    pub(crate) types: u32,
}

impl Defined {
    pub(crate) fn by(component: &[u8]) -> Self {
        let mut defined = Self { modules: 0, components: 0, types: 0 };
        let mut depth = 0;
        for payload in Parser::new(0).parse_all(component) {
            let payload = payload.unwrap();
            match &payload {
                Payload::ModuleSection { .. } if depth == 0 => defined.modules += 1,
                Payload::ComponentSection { .. } if depth == 0 => defined.components += 1,
                Payload::ComponentTypeSection(types) if depth == 0 => defined.types += types.count(),
                Payload::ComponentAliasSection(aliases) if depth == 0 => {
                    defined.types +=
                        aliases.clone().into_iter().map(|a| u32::from(is_type(&a.unwrap()))).sum::<u32>();
                }
                _ => {}
            }
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                _ => {}
            }
        }
        defined
    }
}

fn is_type(alias: &ComponentAlias<'_>) -> bool {
    use wasmparser::{ComponentExternalKind, ComponentOuterAliasKind};
    matches!(
        alias,
        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Type, .. }
            | ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, .. }
    )
}
