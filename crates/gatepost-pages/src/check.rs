//! Mistakes in pages and in the settings of paths that can be found without a request, for
//! `gatepost check`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::engine::{PageLimits, check};
use crate::error::TemplateError;
use crate::mounted::mount_prefix;
use crate::readers::SitePath;
use crate::resolve::{Root, has_html_extension};
use crate::settings::PagesSettings;

/// The number of pages that are checked.
const PAGES_MAX: usize = 10_000;
/// The depth to which folders are followed; a link may lead back to its own folder.
const DEPTH_MAX: usize = 16;

/// Checks the templates of the folder, of each host and of each mount that has some. The files of
/// the errors have the folder's path before their own.
pub fn errors_of_pages(settings: &PagesSettings) -> Vec<TemplateError> {
    let limits = PageLimits {
        steps: settings.steps_max,
        output_bytes: settings.output_max.as_usize(),
        memory_bytes: settings.memory_max.as_usize(),
        time: settings.time_max.duration(),
    };
    let mounts = settings.mounts.values().filter(|mounted| mounted.templates);
    let folders = std::iter::once(&settings.path)
        .chain(settings.hosts.values())
        .chain(mounts.map(|mounted| &mounted.path));
    let mut errors = Vec::new();
    for folder in folders {
        let root = Arc::new(Root::new(folder, settings.follow_symlinks));
        let mut names = Vec::new();
        collect(folder, "", DEPTH_MAX, &mut names);
        names.sort();
        for name in names {
            let Some(template) = root.template(&name) else {
                continue;
            };
            for mut error in check::errors(&root, &name, &template.text, limits) {
                error.file = folder.join(&error.file).display().to_string();
                errors.push(error);
            }
        }
    }
    errors
}

/// The paths of `pages.access` that lead to nothing on any host: a misspelt one restricts no page.
pub fn paths_without_content(settings: &PagesSettings) -> Vec<&SitePath> {
    let paths = settings.access.keys();
    paths.filter(|path| !has_content(settings, path)).collect()
}

fn has_content(settings: &PagesSettings, path: &SitePath) -> bool {
    let path = path.as_str().trim_end_matches('/');
    let below = |path: &str, folder: &str| {
        let below = path.strip_prefix(folder)?;
        (below.is_empty() || below.starts_with('/')).then(|| below.to_owned())
    };
    let mut mounts = settings.mounts.iter();
    let is_mounted = mounts.any(|(mount, mounted)| {
        mount_prefix(mount).is_some_and(|mount| {
            below(&mount, path).is_some()
                || below(path, &mount).is_some_and(|rest| exists(&mounted.path, &rest))
        })
    });
    let mut folders = std::iter::once(&settings.path).chain(settings.hosts.values());
    is_mounted || folders.any(|folder| exists(folder, path))
}

/// Whether a folder contains a file, a folder or a page with this path, which begins with a slash.
fn exists(folder: &Path, path: &str) -> bool {
    let below = path.trim_start_matches('/');
    folder.join(below).exists() || folder.join(format!("{below}.html")).exists()
}

/// The names of the pages below a folder, and of the parts that pages include.
fn collect(folder: &Path, below: &str, depth: usize, names: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder.join(below)) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') || names.len() >= PAGES_MAX {
            continue;
        }
        let name = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let is_folder = fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
        if is_folder && depth > 0 {
            collect(folder, &name, depth - 1, names);
        } else if !is_folder && has_html_extension(Path::new(&name)) {
            names.push(name);
        }
    }
}
