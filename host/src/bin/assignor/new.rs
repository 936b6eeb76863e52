//! `assignor new`: a project to start a strategy from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use crate::{bad_input, print};

/// Makes a folder with a working strategy, its unit test, a described group to try it on, and a README.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor new my-strategy --lang rust
  cd my-strategy
  cargo test
  assignor build
  assignor assign --strategy my-strategy.wasm --group group.json

Exit codes: 0 made, 1 it could not be written, 2 the name is not legal or taken.")]
pub(crate) struct New {
    /// The strategy's name: 1 to 64 of the characters A-Z a-z 0-9 . _ -. The folder gets the same name.
    name: String,
    /// The language to write it in.
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    lang: Language,
    /// Take the SDK from this folder, not from the registry.
    #[arg(long, value_name = "DIR")]
    sdk_path: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Language {
    Rust,
}

/// The files of a Rust project, and where they go. `{{name}}`, `{{package}}` and `{{sdk}}` are filled in.
const RUST: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../../../templates/rust/Cargo.toml.template")),
    ("src/lib.rs", include_str!("../../../templates/rust/lib.rs.template")),
    ("src/tests.rs", include_str!("../../../templates/rust/tests.rs.template")),
    ("group.json", include_str!("../../../templates/rust/group.json")),
    ("README.md", include_str!("../../../templates/rust/README.md.template")),
    (".gitignore", "/target\n*.wasm\n"),
];

/// What was made.
#[derive(serde::Serialize)]
struct Made {
    folder: PathBuf,
    files: Vec<&'static str>,
}

impl New {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        check_name(&self.name)?;
        let folder = PathBuf::from(&self.name);
        let sdk = match &self.sdk_path {
            None => format!("\"{}\"", env!("CARGO_PKG_VERSION")),
            Some(path) => {
                let path = path
                    .canonicalize()
                    .map_err(|e| bad_input(anyhow!("--sdk-path {}: {e}", path.display())))?;
                if !path.join("Cargo.toml").is_file() {
                    return Err(bad_input(anyhow!("--sdk-path {}: there is no Cargo.toml", path.display())));
                }
                format!("{{ path = {:?} }}", path.to_string_lossy())
            }
        };
        // Fails if it exists: nothing of the user's is ever written over.
        std::fs::create_dir(&folder).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => bad_input(anyhow!("{} exists already", folder.display())),
            _ => anyhow!("cannot make the folder {}: {e}", folder.display()),
        })?;
        let Language::Rust = self.lang;
        for (file, template) in RUST {
            let text = template
                .replace("{{name}}", &self.name)
                .replace("{{package}}", &package(&self.name))
                .replace("{{sdk}}", &sdk);
            write(&folder.join(file), &text)?;
        }
        let text = format!(
            "Made {0}. Next:\n  cd {0}\n  cargo test\n  assignor build\n  assignor assign --strategy {1}.wasm --group group.json\n",
            self.name,
            package(&self.name)
        );
        print(self.json, &Made { folder, files: RUST.map(|(file, _)| file).into() }, &text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().context("a file lies in a folder")?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(file, text))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The contract's rule, and what would make a folder elsewhere than here.
fn check_name(name: &str) -> anyhow::Result<()> {
    assignor_host::check_name(name).map_err(bad_input)?;
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(bad_input(anyhow!(
            "the name {name:?} can't be a folder's: begin it with a letter or digit"
        )));
    }
    Ok(())
}

/// The name of the cargo package: cargo takes no dots and no digit at the beginning.
fn package(name: &str) -> String {
    let package = name.replace('.', "-");
    if package.starts_with(|c: char| c.is_ascii_alphabetic()) {
        package
    } else {
        format!("strategy-{package}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_contracts_and_no_paths() {
        for good in ["weighted", "My.Strategy_2-x", "1st", &"x".repeat(64)] {
            check_name(good).unwrap();
        }
        for bad in ["", ".", "..", "-x", "a/b", "a b", "é", &"x".repeat(65), "range", "sticky", "keep"] {
            assert!(check_name(bad).unwrap_err().is::<crate::BadInput>(), "{bad}");
        }
    }

    #[test]
    fn packages_have_names_that_cargo_takes() {
        assert_eq!(package("weighted"), "weighted");
        assert_eq!(package("1.5-fold"), "strategy-1-5-fold");
    }

    #[test]
    fn the_rust_template_is_a_strategy_of_under_forty_lines() {
        let (_, strategy) = RUST.iter().find(|(file, _)| *file == "src/lib.rs").unwrap();
        assert!(strategy.lines().count() < 40, "{} lines", strategy.lines().count());
    }

    #[test]
    fn the_templates_group_is_one() {
        let (_, group) = RUST.iter().find(|(file, _)| *file == "group.json").unwrap();
        let described = assignor_host::described::DescribedGroup::parse(group.as_bytes()).unwrap();
        assert!(described.group().unwrap().partitions() > 0);
    }
}
