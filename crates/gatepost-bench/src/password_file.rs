//! Files with a password: the arguments of a process are visible to all users of its host.

use std::fs;
use std::path::Path;

use crate::error::BenchError;

/// Reads the password in the first line of a file, if one is named.
pub(crate) fn read(path: Option<&Path>) -> Result<Option<String>, BenchError> {
    let Some(path) = path else {
        return Ok(None);
    };
    let text = fs::read_to_string(path).map_err(|error| BenchError::File {
        path: path.to_owned(),
        error,
    })?;
    Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
}
