//! The rules that `sa-update` installs: a folder for each version of SpamAssassin, with the files
//! of each channel. SpamAssassin reads the folder of its version instead of the rules of its
//! package.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The folder of the rules in a distribution's package of SpamAssassin.
const PACKAGE_FOLDER: &str = "/usr/share/spamassassin";

/// The places of rules that are updated.
pub(crate) struct RuleUpdates<'s> {
    package: &'s Path,
    /// The newest folder of updates, if there is one.
    newest: Option<PathBuf>,
}

impl<'s> RuleUpdates<'s> {
    /// The updates in `folder`, which are read instead of the system's package.
    pub(crate) fn of_package(folder: &Path) -> Self {
        Self::new(Path::new(PACKAGE_FOLDER), folder)
    }

    fn new(package: &'s Path, folder: &Path) -> Self {
        Self {
            package,
            newest: newest(folder),
        }
    }

    /// The folder that is read for a path of the configuration.
    pub(crate) fn in_force<'p>(&'p self, path: &'p Path) -> Cow<'p, Path> {
        match &self.newest {
            Some(newest) if path == self.package => Cow::Borrowed(newest),
            _ => Cow::Borrowed(path),
        }
    }
}

/// The folder of the highest version that has rules. After an upgrade the folder of the version
/// before remains until `sa-update` runs again, and is still newer than the package.
fn newest(updates: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(updates).ok()?;
    let folders = folders.filter_map(|folder| Some(folder.ok()?.path()));
    let with_rules = folders.filter(|folder| has_rules(folder));
    with_rules
        .filter_map(|folder| Some((version(&folder)?, folder)))
        .max()
        .map(|(_, folder)| folder)
}

/// `4.000001` is 4.0.1.
fn version(folder: &Path) -> Option<(u32, u32)> {
    let (major, minor) = folder.file_name()?.to_str()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn has_rules(folder: &Path) -> bool {
    let is_rules = |path: &Path| path.extension().is_some_and(|extension| extension == "cf");
    let files = std::fs::read_dir(folder).into_iter().flatten();
    files
        .filter_map(Result::ok)
        .any(|file| is_rules(&file.path()))
}

#[cfg(test)]
mod tests {
    use super::super::{RuleFileEnvironment, read_paths};
    use super::*;

    #[test]
    fn the_newest_updates_replace_the_rules_of_the_package() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let put = |name: &str, text: &str| {
            let file = path(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, text).expect("written");
        };
        put("package/10.cf", "body OF_PACKAGE /a/\n");
        put("site/local.cf", "body OF_SITE /a/\n");
        let paths = [path("package"), path("site")];
        let language = RuleFileEnvironment {
            locale: "en_US".to_owned(),
            local_only: true,
        };
        let (package, updates) = (path("package"), path("updates"));
        let rules = || {
            let updates = RuleUpdates::new(&package, &updates);
            let read = read_paths(&paths, &[], &language, &updates).expect("folders");
            let names = read.rules.iter().map(|rule| rule.name.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(rules(), ["OF_PACKAGE", "OF_SITE"], "there are no updates");

        put("updates/3.004006/updates_org.cf", "body OLD /a/\n");
        put(
            "updates/4.000001/updates_org.cf",
            "include updates_org/20.cf\n",
        );
        put("updates/4.000001/updates_org/20.cf", "body NEW /a/\n");
        put("updates/4.000002/updates_org.pre", "# not yet complete\n");
        put("updates/sa-update-keys/keys.cf", "");
        assert_eq!(rules(), ["NEW", "OF_SITE"]);
    }
}
