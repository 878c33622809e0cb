//! Checks that the folders can be used, and that there is space for messages.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use gatepost_settings::ByteSize;
use rustix::fs::{Access, access, statvfs};

use super::DeployReport;
use crate::config::Config;

/// Permission bits of others.
const OTHERS: u32 = 0o007;
/// Free space below this multiple of the reserve is soon used up.
const COMFORTABLE_TIMES: u64 = 2;

pub(super) fn check(config: &Config, report: &mut DeployReport) {
    writable("data", &config.data, report);
    if let Some(parent) = config.access_log.path.parent() {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        writable("the folder of access_log.path", parent, report);
    }
    readable("pages.path", &config.pages.path, report);
    readable("procedures.path", &config.procedures.path, report);
    for path in &config.rules.paths {
        readable("rules.paths", path, report);
    }
    readable("rules.updates", &config.rules.updates, report);
    space(config, report);
}

/// The folder, or its nearest existing parent.
fn existing(path: &Path) -> &Path {
    let mut above = path
        .ancestors()
        .filter(|folder| !folder.as_os_str().is_empty());
    above
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("."))
}

fn writable(name: &str, path: &Path, report: &mut DeployReport) {
    let shown = path.display();
    let folder = existing(path);
    if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        let error = std::io::Error::from(error);
        report.warn(format!("{name}: {shown} cannot be written: {error}"));
        return;
    }
    let Ok(metadata) = std::fs::metadata(path) else {
        report.note(format!("{name}: {shown} will be made at the first start"));
        return;
    };
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS != 0 && name == "data" {
        report.warn(format!(
            "{name}: {shown} is open to other users (mode {mode:04o}): chmod o= {shown}"
        ));
    } else {
        report.note(format!("{name}: {shown} can be written (mode {mode:04o})"));
    }
}

fn readable(name: &str, path: &Path, report: &mut DeployReport) {
    let shown = path.display();
    if !path.exists() {
        return;
    }
    match access(path, Access::READ_OK) {
        Ok(()) => {}
        Err(error) => {
            let error = std::io::Error::from(error);
            report.warn(format!("{name}: {shown} cannot be read: {error}"));
        }
    }
}

fn space(config: &Config, report: &mut DeployReport) {
    let folder = existing(&config.data);
    let system = match statvfs(folder) {
        Ok(system) => system,
        Err(error) => {
            let error = std::io::Error::from(error);
            report.warn(format!("the disk of {}: {error}", folder.display()));
            return;
        }
    };
    let total = ByteSize(system.f_blocks.saturating_mul(system.f_frsize));
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let reserve = config.store.reserve.of(total).bytes();
    let megabytes = |bytes: u64| format!("{} MB", bytes / 1_000_000);
    let words = format!(
        "{} free for data, of which store.reserve keeps {}",
        megabytes(free),
        megabytes(reserve)
    );
    if free <= reserve {
        report.warn(format!("{words}: no message would be accepted"));
    } else if free < reserve.saturating_mul(COMFORTABLE_TIMES) {
        report.warn(format!("{words}: little is left for messages"));
    } else {
        report.note(words);
    }
}
