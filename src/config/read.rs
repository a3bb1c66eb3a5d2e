//! Reading files that others name: none may keep the daemon for ever, or fill its memory.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Opens a file that must be one: opening a named pipe would wait for its writer for ever, a device has no end.
///
/// # Errors
/// When it is no regular file or cannot be opened.
pub fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok((File::open(path)?, about))
}

/// Reads a regular file of at most so many bytes.
///
/// # Errors
/// When it is no regular file, is larger, or cannot be read.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    read_capped(open_regular(path)?.0, max_bytes)
}

/// Reads all of something that has at most so many bytes.
pub(super) fn read_capped(from: impl Read, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::other(format!("larger than {max_bytes} bytes")));
    }
    Ok(bytes)
}
