//! Resolves a request's path to a file under the root, and never outside it.
//!
//! Invariants: a path is resolved only from names that are neither `.`, `..`, empty nor hidden;
//! and unless links may be followed, the file's real path is below the root's real path.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;

/// The state of a file: if it is equal again, so is the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// The time of the last change.
    pub modified: SystemTime,
    /// Its length in bytes.
    pub length: u64,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            length: metadata.len(),
        }
    }
}

/// The folder from which files are served.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    follow_symlinks: bool,
    listings: bool,
    /// Whether its `.html` files are templates.
    templates: bool,
}

/// The content at a request's path.
#[derive(Debug)]
pub enum LocatedContent {
    /// A file, by its path relative to the root.
    File(PathBuf),
    /// A folder with an index or a listing, requested without the final slash.
    Folder,
    /// A folder without an index, whose listing is shown.
    Listing(PathBuf),
    /// No content.
    Nothing,
}

/// A template's text.
#[derive(Debug)]
pub struct TemplateText {
    /// Its source.
    pub text: String,
    /// The file's state.
    pub stamp: FileStamp,
}

impl Root {
    /// The folder at `path`, which need not exist.
    pub fn new(path: &Path, follow_symlinks: bool) -> Self {
        Self {
            path: path.to_owned(),
            follow_symlinks,
            listings: false,
            templates: true,
        }
    }

    /// Enables listings of folders without an index.
    #[must_use]
    pub const fn with_listings(mut self, listings: bool) -> Self {
        self.listings = listings;
        self
    }

    /// Serves `.html` files unchanged, and with them the files whose names begin with `_`, which
    /// are parts of pages elsewhere.
    #[must_use]
    pub const fn with_templates(mut self, templates: bool) -> Self {
        self.templates = templates;
        self
    }

    /// Whether a file is a template. Letter case makes no difference: the code of `PAGE.HTML` must
    /// not be shown.
    pub(crate) fn is_template(&self, file: &Path) -> bool {
        self.templates && has_html_extension(file)
    }

    /// Finds the file for a request's decoded path: itself, with `.html`, or the folder's index.
    pub fn locate(&self, path: &str) -> LocatedContent {
        let Some(relative) = self.served_path(path) else {
            return LocatedContent::Nothing;
        };
        let is_file = |path: &Path| self.metadata(path).is_some_and(|found| found.is_file());
        if path.ends_with('/') || relative.as_os_str().is_empty() {
            let index = relative.join("index.html");
            return if is_file(&index) {
                LocatedContent::File(index)
            } else if self.is_listed(&relative) {
                LocatedContent::Listing(relative)
            } else {
                LocatedContent::Nothing
            };
        }
        if is_file(&relative) {
            return LocatedContent::File(relative);
        }
        let mut page = relative.clone().into_os_string();
        page.push(".html");
        let page = PathBuf::from(page);
        if is_file(&page) {
            return LocatedContent::File(page);
        }
        if is_file(&relative.join("index.html")) || self.is_listed(&relative) {
            return LocatedContent::Folder;
        }
        LocatedContent::Nothing
    }

    fn is_listed(&self, relative: &Path) -> bool {
        self.listings && self.metadata(relative).is_some_and(|found| found.is_dir())
    }

    /// The listing of a folder: each name with its state, folders with a trailing slash; sorted,
    /// without hidden entries and links that lead outside.
    pub fn list(&self, relative: &Path) -> Vec<(String, FileStamp)> {
        let Ok(folder) = fs::read_dir(self.path.join(relative)) else {
            return Vec::new();
        };
        let mut names: Vec<_> = folder
            .filter_map(|entry| {
                let mut name = entry.ok()?.file_name().into_string().ok()?;
                if self.is_hidden(name.as_bytes()) {
                    return None;
                }
                let metadata = self.metadata(&relative.join(&name))?;
                if metadata.is_dir() {
                    name.push('/');
                }
                Some((name, FileStamp::of(&metadata)))
            })
            .collect();
        names.sort_by(|one, other| one.0.cmp(&other.0));
        names
    }

    /// A request's path as a relative file path without hidden names.
    fn served_path(&self, path: &str) -> Option<PathBuf> {
        let relative = safe_path(path.strip_prefix('/')?)?;
        let hidden =
            |component: Component<'_>| self.is_hidden(component.as_os_str().as_encoded_bytes());
        (!relative.components().any(hidden)).then_some(relative)
    }

    /// Whether a name is never served: one that begins with `.`, or, beside templates, with `_`,
    /// which is a part of pages.
    fn is_hidden(&self, name: &[u8]) -> bool {
        name.starts_with(b".") || (self.templates && name.starts_with(b"_"))
    }

    /// The current state of a file.
    pub fn stamp(&self, relative: &Path) -> Option<FileStamp> {
        self.metadata(relative)
            .map(|metadata| FileStamp::of(&metadata))
    }

    /// Opens a file that [`Root::locate`] found.
    pub fn open(&self, relative: &Path) -> Option<(File, FileStamp)> {
        self.real(relative)?;
        let file = File::open(self.path.join(relative)).ok()?;
        let stamp = FileStamp::of(&file.metadata().ok()?);
        Some((file, stamp))
    }

    /// Reads a whole file of at most `bytes_max`.
    pub fn read(&self, relative: &Path, bytes_max: u64) -> Option<(Bytes, FileStamp)> {
        let (file, stamp) = self.open(relative)?;
        let mut content = Vec::with_capacity(stamp.length.min(bytes_max) as usize);
        file.take(bytes_max + 1).read_to_end(&mut content).ok()?;
        (content.len() as u64 <= bytes_max).then(|| (Bytes::from(content), stamp))
    }

    /// Reads a template that another one includes or extends; its name is a path from the root.
    pub fn template(&self, name: &str) -> Option<TemplateText> {
        /// Whether a file can be a template rather than data.
        const TEMPLATE_BYTES_MAX: u64 = 4 << 20;
        let relative = safe_path(name)?;
        let (content, stamp) = self.read(&relative, TEMPLATE_BYTES_MAX)?;
        let text = String::from_utf8_lossy(&content).into_owned();
        Some(TemplateText { text, stamp })
    }

    fn metadata(&self, relative: &Path) -> Option<Metadata> {
        self.real(relative)?;
        fs::metadata(self.path.join(relative)).ok()
    }

    /// The real path of a file relative to the real root; `None` if it is outside.
    pub(crate) fn target(&self, relative: &Path) -> Option<PathBuf> {
        let real = self.real(relative)?;
        let below = real.strip_prefix(self.path.canonicalize().ok()?).ok()?;
        Some(below.to_owned())
    }

    /// The real path of the file, if it may be served.
    fn real(&self, relative: &Path) -> Option<PathBuf> {
        let real = self.path.join(relative).canonicalize().ok()?;
        if self.follow_symlinks {
            return Some(real);
        }
        real.starts_with(self.path.canonicalize().ok()?)
            .then_some(real)
    }
}

/// Whether a file's name ends in `.html`, in any letter case.
pub(crate) fn has_html_extension(file: &Path) -> bool {
    let extension = file.extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
}

/// A relative path that cannot lead upwards.
fn safe_path(path: &str) -> Option<PathBuf> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut safe = PathBuf::new();
    if path.is_empty() {
        return Some(safe);
    }
    for name in path.split('/') {
        if name.is_empty() || name == "." || name == ".." || name.contains(['\0', '\\']) {
            return None;
        }
        safe.push(name);
    }
    Some(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write("secret.txt", "outside");
        write("pages/status.html", "status");
        write("pages/docs/index.html", "docs");
        write("pages/_layout.html", "layout");
        write("pages/.htaccess", "hidden");
        write("pages/a.css", "css");
        std::os::unix::fs::symlink("../secret.txt", folder.path().join("pages/link.txt"))
            .expect("a link");
        let root = Root::new(&folder.path().join("pages"), false);
        (folder, root)
    }

    fn located(root: &Root, path: &str) -> String {
        match root.locate(path) {
            LocatedContent::File(path) => path.display().to_string(),
            LocatedContent::Folder => "folder".into(),
            LocatedContent::Listing(_) => "listing".into(),
            LocatedContent::Nothing => "nothing".into(),
        }
    }

    #[test]
    fn paths_find_files_pages_and_indexes() {
        let (_folder, root) = root();
        for (path, expected) in [
            ("/status", "status.html"),
            ("/status.html", "status.html"),
            ("/a.css", "a.css"),
            ("/docs/", "docs/index.html"),
            ("/docs", "folder"),
            ("/", "nothing"),
            ("/status/", "nothing"),
            ("/a.css/", "nothing"),
        ] {
            assert_eq!(located(&root, path), expected, "{path}");
        }
    }

    #[test]
    fn nothing_outside_the_root_is_served() {
        let (folder, root) = root();
        for path in [
            "/../secret.txt",
            "/docs/../../secret.txt",
            "/./status",
            "//status",
            "/docs//index.html",
            "/..\\secret.txt",
            "/.htaccess",
            "/_layout",
            "/link.txt",
            "/status\0",
            "status",
            "",
        ] {
            assert_eq!(located(&root, path), "nothing", "{path:?}");
        }
        let listed = Root::new(&folder.path().join("pages"), false).with_listings(true);
        let names: Vec<_> = listed
            .list(Path::new(""))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["a.css", "docs/", "status.html"]);
        assert!(matches!(listed.locate("/"), LocatedContent::Listing(_)));
        let linked = Root::new(&folder.path().join("pages"), true);
        assert_eq!(located(&linked, "/link.txt"), "link.txt");
    }

    #[test]
    fn templates_may_include_parts_but_not_leave_the_root() {
        let (_folder, root) = root();
        assert!(root.template("_layout.html").is_some());
        assert!(root.template("../secret.txt").is_none());
        assert!(root.template("link.txt").is_none());
    }
}
