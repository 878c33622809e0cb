//! Files that settings name: secrets and templates.

use std::path::Path;

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
