//! What a WebAssembly file tells of itself, fit to run or not: imports, exports, who made it with what.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{CustomSectionReader, KnownCustom, Parser, Payload};

/// How many imports, exports or producers are listed: the file may be hostile, and nobody reads more.
const MAX_LISTED: usize = 200;

/// How many characters of one name or text are shown.
const MAX_TEXT: usize = 300;

/// The custom sections that hold one text each (the tool conventions of `wasm-tools metadata`, and OCI's annotations).
const TEXTS: [&str; 7] = ["version", "description", "authors", "licenses", "source", "homepage", "revision"];

/// What was found. All of it up to the first fault in the file.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Anatomy {
    /// Component or core module; absent if the file is neither.
    pub(crate) kind: Option<Kind>,
    /// Names of what the outermost component or module wants.
    pub(crate) imports: Vec<String>,
    /// Names of what it offers.
    pub(crate) exports: Vec<String>,
    /// Who made it, under which licence, and so on.
    pub(crate) metadata: Metadata,
}

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Component,
    CoreModule,
}

/// What custom sections tell.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Metadata {
    /// One text per section, by its name.
    #[serde(flatten)]
    pub(crate) texts: BTreeMap<String, String>,
    /// Languages and tools, by the field of the producers section; of all modules inside, too.
    pub(crate) producers: BTreeMap<String, BTreeSet<String>>,
}

impl Anatomy {
    /// Looks into any bytes. Stops at the first fault and keeps what it has: why the file is faulty is for the loader to say.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut anatomy = Self::default();
        if Parser::is_component(bytes) {
            anatomy.kind = Some(Kind::Component);
        } else if Parser::is_core_wasm(bytes) {
            anatomy.kind = Some(Kind::CoreModule);
        } else {
            return anatomy;
        }
        let mut depth = 0u32;
        for payload in Parser::new(0).parse_all(bytes) {
            let Ok(payload) = payload else { break };
            match &payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) => anatomy.metadata.read(section, depth == 0),
                _ if depth == 0 => anatomy.names(payload),
                _ => {}
            }
        }
        anatomy
    }

    /// Imports and exports of the outermost level.
    fn names(&mut self, payload: Payload<'_>) {
        let (list, names): (_, Box<dyn Iterator<Item = String> + '_>) = match payload {
            Payload::ComponentImportSection(section) => (
                &mut self.imports,
                Box::new(section.into_iter().map_while(Result::ok).map(|i| i.name.name.to_owned())),
            ),
            Payload::ComponentExportSection(section) => (
                &mut self.exports,
                Box::new(section.into_iter().map_while(Result::ok).map(|e| e.name.name.to_owned())),
            ),
            Payload::ImportSection(section) => (
                &mut self.imports,
                Box::new(
                    section.into_imports().map_while(Result::ok).map(|i| format!("{}::{}", i.module, i.name)),
                ),
            ),
            Payload::ExportSection(section) => (
                &mut self.exports,
                Box::new(section.into_iter().map_while(Result::ok).map(|e| e.name.to_owned())),
            ),
            _ => return,
        };
        let room = MAX_LISTED.saturating_sub(list.len());
        list.extend(names.take(room).map(|name| printable(&name)));
    }
}

impl Metadata {
    fn read(&mut self, section: &CustomSectionReader<'_>, outermost: bool) {
        if let KnownCustom::Producers(producers) = section.as_known() {
            for field in producers.into_iter().map_while(Result::ok) {
                let known = self.producers.entry(field.name.to_owned()).or_default();
                let room = MAX_LISTED.saturating_sub(known.len());
                let values = field.values.into_iter().map_while(Result::ok).take(room);
                known.extend(values.map(|v| printable(&format!("{} {}", v.name, v.version))));
            }
        } else if outermost
            && TEXTS.contains(&section.name())
            && let Ok(text) = std::str::from_utf8(section.data())
        {
            self.texts.entry(section.name().to_owned()).or_insert_with(|| printable(text));
        }
    }
}

/// Fit for one line of a terminal: no control characters, not endless.
pub(crate) fn printable(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", line.split_at(end).0),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_tells_its_outermost_names_and_everybodys_tools() {
        let component = wat::parse_str(
            r#"(component
                 (import "a:b/c@1.0.0" (instance))
                 (core module (@producers (language "Rust" "") (processed-by "rustc" "1.95"))
                   (import "inner" "one" (func)) (func (export "inner")))
                 (@custom "licenses" "Apache-2.0")
                 (@producers (processed-by "wit-component" "0.254"))
                 (component $empty) (instance $i (instantiate $empty)) (export "d:e/f" (instance $i)))"#,
        )
        .unwrap();
        let found = Anatomy::of(&component);
        assert_eq!(found.kind, Some(Kind::Component));
        assert_eq!((found.imports, found.exports), (vec!["a:b/c@1.0.0".into()], vec!["d:e/f".into()]));
        assert_eq!(found.metadata.texts["licenses"], "Apache-2.0");
        let tools = &found.metadata.producers["processed-by"];
        assert!(tools.contains("rustc 1.95") && tools.contains("wit-component 0.254"), "{tools:?}");
    }

    #[test]
    fn a_core_module_tells_its_names() {
        let module =
            wat::parse_str(r#"(module (import "env" "f" (func)) (memory (export "memory") 1))"#).unwrap();
        let found = Anatomy::of(&module);
        assert_eq!(found.kind, Some(Kind::CoreModule));
        assert_eq!((found.imports, found.exports), (vec!["env::f".into()], vec!["memory".into()]));
    }

    #[test]
    fn what_is_cut_off_or_no_wasm_is_told_as_far_as_it_goes() {
        let module =
            wat::parse_str(r#"(module (import "env" "f" (func)) (memory (export "memory") 1))"#).unwrap();
        for end in 0..module.len() {
            let found = Anatomy::of(&module[..end]);
            assert!(found.imports.len() <= 1 && found.exports.len() <= 1);
        }
        assert_eq!(Anatomy::of(b"(module)"), Anatomy::default());
    }

    #[test]
    fn what_is_shown_has_an_end_and_no_control_characters() {
        let shown = printable(&format!("\u{1b}[31mred\n{}", "x".repeat(MAX_TEXT)));
        assert!(shown.chars().count() <= MAX_TEXT + 1 && !shown.chars().any(char::is_control), "{shown}");
    }
}
