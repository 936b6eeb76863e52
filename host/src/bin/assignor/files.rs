//! Reading and writing what the commands work on.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes beside the file, then moves: a consumer that watches it must never see half of it.
pub(crate) fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, file));
    if written.is_err() {
        // What went wrong is told; that this half of it may stay, too, is of no interest.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// The largest text that is read: room for 10,000 members and a million partitions.
const MAX_TEXT: u64 = 256 << 20;

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// If it can't be read or is larger than any sensible text.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_TEXT + 1;
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MAX_TEXT {
        anyhow::bail!("{} has more than {MAX_TEXT} bytes", path.display());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        write_whole(&taken, b"x").unwrap_err();
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["taken"]);
    }
}
