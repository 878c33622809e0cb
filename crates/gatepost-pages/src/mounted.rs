//! Folders that are served under a path (`pages.mounts`).
//!
//! By default their `.html` files are no templates: documentation may contain `{{`, and a template
//! runs code, so who may write to the folder of a program must not thereby be the author of pages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A folder under a path, as `"/usr/share/doc/x"` or `{ path = "app", templates = true }`.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq, Eq)]
#[serde(from = "MountValue", into = "MountValue")]
pub struct MountedFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether its `.html` files are templates. Otherwise they are served unchanged, as are files
    /// whose names begin with `_`.
    pub templates: bool,
}

/// The path of a mount with one slash at its beginning and none at its end; `None` for the whole
/// site, which is no mount.
pub(crate) fn mount_prefix(path: &str) -> Option<String> {
    let names = path.trim_matches('/');
    (!names.is_empty()).then(|| format!("/{names}"))
}

impl From<PathBuf> for MountedFolder {
    fn from(path: PathBuf) -> Self {
        let templates = false;
        Self { path, templates }
    }
}

#[derive(Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "write a folder, or { path = \"FOLDER\", templates = true }"
)]
enum MountValue {
    Plain(PathBuf),
    Table(MountTable),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct MountTable {
    path: PathBuf,
    #[serde(default)]
    templates: bool,
}

impl From<MountValue> for MountedFolder {
    fn from(value: MountValue) -> Self {
        match value {
            MountValue::Plain(path) => path.into(),
            MountValue::Table(MountTable { path, templates }) => Self { path, templates },
        }
    }
}

impl From<MountedFolder> for MountValue {
    fn from(MountedFolder { path, templates }: MountedFolder) -> Self {
        if templates {
            Self::Table(MountTable { path, templates })
        } else {
            Self::Plain(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_plain_unless_its_table_says_otherwise() {
        for (text, templates) in [
            ("\"doc\"", Some(false)),
            ("{\"path\":\"doc\"}", Some(false)),
            ("{\"path\":\"doc\",\"templates\":true}", Some(true)),
            ("{\"path\":\"doc\",\"template\":true}", None),
            ("{\"templates\":true}", None),
        ] {
            let read = serde_json::from_str::<MountedFolder>(text);
            let found = read.as_ref().ok().map(|mounted| mounted.templates);
            assert_eq!(found, templates, "{text}: {read:?}");
            if let Ok(mounted) = read {
                assert_eq!(mounted.path, PathBuf::from("doc"));
                let written = serde_json::to_string(&mounted).expect("JSON");
                let again: MountedFolder = serde_json::from_str(&written).expect("as written");
                assert_eq!(again, mounted, "{written}");
            }
        }
    }
}
