//! Files that settings name: secrets and templates.

use std::path::Path;

use ring::digest::{self, SHA256};

use crate::field_mistake::FieldMistake;

/// The text of a file that a setting names; `None` if the setting is empty.
pub(crate) fn file_text(file: &Path, field: &'static str) -> Result<Option<String>, FieldMistake> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    std::fs::read_to_string(file)
        .map(Some)
        .map_err(|error| FieldMistake::new(field, format!("{}: {error}", file.display())))
}

/// The first line of that file, without surrounding spaces.
pub(crate) fn first_line(file: &Path, field: &'static str) -> Result<Option<String>, FieldMistake> {
    let text = file_text(file, field)?;
    Ok(text.map(|text| text.lines().next().unwrap_or_default().trim().to_owned()))
}

/// A digest of these files: another one after any of them has changed.
pub(crate) fn digest_of<'f>(files: impl Iterator<Item = &'f Path>) -> Vec<u8> {
    let mut whole = digest::Context::new(&SHA256);
    for file in files {
        // A file that cannot be read is a mistake, which is found when the sink is started.
        let content = std::fs::read(file).unwrap_or_default();
        whole.update(digest::digest(&SHA256, &content).as_ref());
    }
    whole.finish().as_ref().to_vec()
}
