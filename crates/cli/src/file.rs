//! Whole files that flags name.

use std::fs::File;
use std::io::{self, Read};

use crate::{Exit, Fault};

/// No server takes a request of this size.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The bytes of the file; `-` is stdin.
pub(super) fn read(flag: &str, path: &str) -> Result<Vec<u8>, Fault> {
    let refused = |error: io::Error| Fault::new(Exit::Usage, format!("{flag} {path}: {error}"));
    let source: Box<dyn Read> =
        if path == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(refused)?) };
    let mut bytes = Vec::new();
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Fault::new(Exit::Usage, format!("{flag} {path}: larger than 64 MiB"))
            .help("keep it elsewhere, and send a reference to it"));
    }
    Ok(bytes)
}
