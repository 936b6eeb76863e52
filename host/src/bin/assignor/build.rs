//! `assignor build`: a Rust project to a component.

use std::borrow::Cow;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, anyhow, bail};
use cargo_metadata::{Artifact, Message, Metadata, MetadataCommand, Package};
use wasm_encoder::{ComponentSection as _, CustomSection};

use crate::files::write_whole;
use crate::inspect::Report;
use crate::toolchain::{TARGET, Toolchain};
use crate::{bad_input, print};

/// Compiles a Rust strategy and makes it a component, ready to be named in `partition.assignment.strategy`.
///
/// The result is loaded as a consumer would load it before it is written: what this command writes, runs.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  assignor build my-strategy
  assignor build my-strategy -o /srv/assignors/my-strategy.wasm

Rust's target wasm32-unknown-unknown is used where it is installed; else Debian's packages rustc-web, cargo-web and
rust-web-src, which build the standard library first (a minute, once per target folder).

Exit codes: 0 built and fit to run, 1 it does not compile or is not fit to run, 2 there is no such project.")]
pub(crate) struct Build {
    /// The project's folder, where its Cargo.toml is.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Where to write the component [default: DIR/PACKAGE.wasm].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A cargo profile of the project's own. By default the release profile, set to opt-level 3, LTO, one codegen unit and
    /// panic abort, the same for all projects so that they can share a target folder.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The release profile of guests. In the environment rather than in each project: cargo reads profiles in a workspace's root only.
/// Symbol names stay, for backtraces. Opt-level 3, not s: `weighted` takes 1.2 instead of 1.5 ms for 100,000 partitions, and is
/// no larger (169 KB against 206 KB).
const PROFILE: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3"),
    ("CARGO_PROFILE_RELEASE_LTO", "true"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
    ("CARGO_PROFILE_RELEASE_STRIP", "debuginfo"),
];

/// What was built.
#[derive(serde::Serialize)]
struct Built {
    component: PathBuf,
    #[serde(flatten)]
    report: Report,
}

impl Build {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let manifest = self.dir.join("Cargo.toml");
        let manifest = manifest.canonicalize().map_err(|e| {
            bad_input(anyhow!(
                "{}: {e}; name the folder of a Rust strategy, as `assignor new` makes one",
                manifest.display()
            ))
        })?;
        let dir = manifest.parent().context("a manifest lies in a folder")?;
        let toolchain = Toolchain::find(dir)?;
        let metadata = metadata(&toolchain, &manifest, dir)?;
        let package = package(&metadata, &manifest)?;
        let output = self.output.clone().unwrap_or_else(|| dir.join(format!("{}.wasm", package.name)));

        eprintln!("Building {} with {toolchain}", package.name);
        let module = self.compile(&toolchain, dir, package)?;
        let module = std::fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
        let mut component = assignor_host::component::encode(&module)
            .with_context(|| format!("{} compiles, but is no strategy", package.name))?;
        describe(&mut component, package);

        let report = Report::of(&component);
        if let Some(refusal) = &report.refusal {
            bail!("{} compiles, but a consumer would refuse it: {refusal}", package.name);
        }
        write_whole(&output, &component).with_context(|| format!("cannot write {}", output.display()))?;
        let text = format!(
            "{}: strategy {:?}, {} bytes\n{}\n",
            output.display(),
            report.name.as_deref().unwrap_or_default(),
            report.size.unwrap_or_default(),
            report.digest.as_deref().unwrap_or_default(),
        );
        print(self.json, &Built { component: output, report }, &text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Runs cargo, whose progress and diagnostics go to standard error, and returns the core module's file.
    ///
    /// `cargo rustc`, for the crate type: cargo leaves LTO out where a package makes an rlib, too, as those with unit tests do.
    fn compile(&self, toolchain: &Toolchain, dir: &Path, package: &Package) -> anyhow::Result<PathBuf> {
        let mut cargo = toolchain.cargo(dir);
        cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--target", TARGET]);
        cargo.arg("--message-format=json-render-diagnostics");
        cargo.args(toolchain.build_args()).args(["--package", &package.id.repr]);
        match &self.profile {
            Some(profile) => {
                cargo.args(["--profile", profile]);
            }
            None => {
                cargo.arg("--release").envs(PROFILE);
            }
        }
        let mut cargo = cargo.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
        let messages = BufReader::new(cargo.stdout.take().context("cargo's output is not captured")?);
        let mut module = None;
        for message in Message::parse_stream(messages) {
            if let Message::CompilerArtifact(artifact) = message?
                && artifact.package_id == package.id
            {
                module = wasm_file(&artifact).or(module);
            }
        }
        if !cargo.wait()?.success() {
            bail!("{} does not compile, see above", package.name);
        }
        module.with_context(|| format!("cargo made no .wasm file of {}", package.name))
    }
}

fn wasm_file(artifact: &Artifact) -> Option<PathBuf> {
    let file = artifact.filenames.iter().find(|file| file.extension() == Some("wasm"))?;
    Some(file.clone().into_std_path_buf())
}

/// What cargo knows of the project, asked with the cargo and the environment that will build it.
fn metadata(toolchain: &Toolchain, manifest: &Path, dir: &Path) -> anyhow::Result<Metadata> {
    let mut command = toolchain.cargo(dir);
    command.args(["metadata", "--format-version=1", "--no-deps", "--manifest-path"]).arg(manifest);
    let output = command.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("{}: {}", manifest.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(MetadataCommand::parse(String::from_utf8(output.stdout)?)?)
}

/// The package of the manifest itself, which must make a dynamic library: that is what cargo makes a core module of.
fn package<'a>(metadata: &'a Metadata, manifest: &Path) -> anyhow::Result<&'a Package> {
    let package = metadata.packages.iter().find(|p| p.manifest_path.as_std_path() == manifest);
    let package = package.ok_or_else(|| {
        bad_input(anyhow!(
            "{} is a workspace without a package of its own: name a member's folder",
            manifest.display()
        ))
    })?;
    if !package.targets.iter().any(|target| target.is_cdylib()) {
        return Err(bad_input(anyhow!(
            "{}: the package makes no dynamic library; add to it:\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]",
            manifest.display()
        )));
    }
    Ok(package)
}

/// Appends what the manifest tells of the package, in the custom sections that `wasm-tools metadata` and registries read.
fn describe(component: &mut Vec<u8>, package: &Package) {
    let fields = [
        ("version", Some(package.version.to_string())),
        ("description", package.description.clone()),
        ("authors", Some(package.authors.join(", "))),
        ("licenses", package.license.clone()),
        ("source", package.repository.clone()),
        ("homepage", package.homepage.clone()),
    ];
    for (name, value) in fields {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        let section = CustomSection { name: name.into(), data: Cow::Borrowed(value.as_bytes()) };
        section.append_to_component(component);
    }
}
