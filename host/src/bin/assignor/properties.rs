//! Where the commands that talk to a cluster take a consumer's properties from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use crate::assign::key_value;
use crate::bad_input;

/// The largest file of properties that is read.
const MAX_FILE: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Source {
    /// A consumer's properties, a file as Java and Kafka's tools read it (ISO 8859-1, other characters as \uXXXX).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A property, in place of the file's; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// bootstrap.servers, in place of the file's.
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
}

impl Source {
    /// The file's properties, with the arguments' over them.
    pub(crate) fn read(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut properties = match &self.config {
            Some(path) => read_file(path).map_err(bad_input)?,
            None => BTreeMap::new(),
        };
        if let Some(servers) = &self.bootstrap_server {
            properties.insert("bootstrap.servers".into(), servers.clone());
        }
        properties.extend(self.set.iter().cloned());
        if properties.get("bootstrap.servers").is_none_or(|servers| servers.trim().is_empty()) {
            return Err(bad_input(anyhow!(
                "which brokers? Give --bootstrap-server HOST:PORT, or bootstrap.servers in --config FILE"
            )));
        }
        Ok(properties)
    }
}

fn read_file(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MAX_FILE {
        anyhow::bail!("{} has more than {MAX_FILE} bytes", path.display());
    }
    let properties =
        java_properties::read(bytes.as_slice()).with_context(|| format!("{}", path.display()))?;
    Ok(properties.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: Option<&Path>, set: &[(&str, &str)]) -> Source {
        let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Source { config: file.map(Path::to_owned), set, bootstrap_server: None }
    }

    #[test]
    fn files_are_read_as_java_reads_them_and_arguments_go_over_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consumer.properties");
        let text = b"# comment\nbootstrap.servers = a:1,\\\n   b:2\ngroup.id: caf\xe9\nclient.id=\\u00e4\n! too\nclient.rack=r1\n";
        std::fs::write(&file, text).unwrap();
        let read = source(Some(&file), &[("client.rack", "r2")]).read().unwrap();
        let get = |key: &str| read.get(key).map(String::as_str);
        assert_eq!(get("bootstrap.servers"), Some("a:1,b:2"));
        assert_eq!(
            (get("group.id"), get("client.id"), get("client.rack")),
            (Some("café"), Some("ä"), Some("r2"))
        );
        assert_eq!(read.len(), 4);
    }

    #[test]
    fn what_cannot_be_read_or_names_no_broker_is_bad_input() {
        let folder = tempfile::tempdir().unwrap();
        let missing = source(Some(&folder.path().join("missing")), &[]).read().unwrap_err();
        assert!(missing.is::<crate::BadInput>() && missing.to_string().contains("missing"), "{missing:#}");
        let file = folder.path().join("bad.properties");
        std::fs::write(&file, "a=\\u12").unwrap();
        assert!(source(Some(&file), &[]).read().unwrap_err().is::<crate::BadInput>());
        std::fs::write(&file, vec![b'#'; (MAX_FILE + 1) as usize]).unwrap();
        assert!(source(Some(&file), &[]).read().unwrap_err().to_string().contains("more than"));
        let nobody = source(None, &[("group.id", "g")]).read().unwrap_err();
        assert!(nobody.to_string().contains("--bootstrap-server"), "{nobody}");
    }
}
