//! Reading and writing what the commands work on.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use assignor_host::LoadError;

/// Reads a component, no more of it than `limit` bytes.
///
/// # Errors
/// If it can't be read, is no file, or is larger.
pub(crate) fn read_component(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let bytes = read_up_to(path, limit)
        .map_err(|e| LoadError::Unreadable { path: path.display().to_string(), reason: e.to_string() })?;
    let size = bytes.len() as u64;
    if size > limit { Err(LoadError::TooLarge { size, limit }) } else { Ok(bytes) }
}

/// At most one byte more than `limit`.
fn read_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes beside the file, then moves: a consumer that watches it must never see half of it.
pub(crate) fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    std::fs::write(&partial, bytes)?;
    std::fs::rename(&partial, file)
}
