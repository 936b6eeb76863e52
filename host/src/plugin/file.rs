//! Reading a component's file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::cause::LoadError;

/// Reads a component, no more of it than `limit` bytes.
///
/// # Errors
/// If it can't be read, is no file, or is larger.
pub fn read_component(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let unreadable =
        |e: io::Error| LoadError::Unreadable { path: path.display().to_string(), reason: e.to_string() };
    // Before it is opened: opening a pipe waits for its writer.
    let found = path.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(unreadable(io::Error::other("it is no file")));
    }
    if found.len() > limit {
        return Err(LoadError::TooLarge { size: found.len(), limit });
    }
    // It may grow meanwhile: then it is cut off, and refused as that.
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_limit_and_what_is_no_file_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.wasm");
        std::fs::write(&file, [1, 2, 3]).unwrap();
        assert_eq!(read_component(&file, 3), Ok(vec![1, 2, 3]));
        assert_eq!(read_component(&file, 2), Err(LoadError::TooLarge { size: 3, limit: 2 }));
        assert_eq!(read_component(folder.path(), 3).unwrap_err().code(), "unreadable");
        assert_eq!(read_component(&folder.path().join("b.wasm"), 3).unwrap_err().code(), "unreadable");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.wasm");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read_component(&pipe, 3).unwrap_err().to_string().contains("it is no file"));
    }
}
