//! Confinement by the kernel: Landlock for files, seccomp for system calls.
//!
//! A fault in a parser must not give access to the machine. From here on the process reads only its
//! configured folders and the files that the system's libraries need, writes only its data and its
//! logs, executes nothing, and is refused the system calls by which a process changes the machine.
//! Both apply to this thread and the threads that it starts, so this runs before there is another
//! one.
//!
//! The list of system calls names those that are refused: allocator, database, PCRE2's compiler of
//! patterns and the runtime use different ones by version and by kernel, and a forgotten one would
//! stop mail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gatepost_sinks::SinkSettings;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::error::StartError;
use crate::config::{Config, ConfigSource, SandboxMode};

/// The newest set of file accesses that is requested; older kernels confine those that they
/// support.
const FILE_ACCESSES: ABI = ABI::V5;

/// Files that libraries read: names, certificates, time zones, figures of the process and of its
/// cgroup.
const SYSTEM_READ: [&str; 9] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/run",
    "/dev",
    "/var/lib/spamassassin",
];
/// The folders of SQLite's temporary files, such as the undo log of a large statement.
const TEMPORARY_FOLDERS: [&str; 2] = ["/var/tmp", "/tmp"];
/// Files of the system that may be written.
const SYSTEM_WRITTEN: [&str; 1] = ["/dev/null"];

/// System calls that no server needs. They fail with EPERM.
const REFUSED_CALLS: [i64; 39] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_personality,
];

/// Confines the process. Without a kernel that can, `required` is an error and `on` a line in the
/// log.
pub(super) fn enter(config: &Config, source: &ConfigSource) -> Result<(), StartError> {
    if config.sandbox == SandboxMode::Off {
        return Ok(());
    }
    let files = confine_files(config, source);
    let calls = refuse_calls();
    let missing: Vec<String> = [("Landlock", files), ("seccomp", calls)]
        .into_iter()
        .filter_map(|(name, outcome)| outcome.err().map(|cause| format!("{name}: {cause}")))
        .collect();
    if missing.is_empty() {
        tracing::info!("confined by Landlock and seccomp");
        return Ok(());
    }
    let missing = missing.join("; ");
    if config.sandbox == SandboxMode::Required {
        return Err(StartError::Sandbox(missing));
    }
    tracing::warn!("the sandbox is incomplete: {missing}");
    Ok(())
}

fn confine_files(config: &Config, source: &ConfigSource) -> Result<(), String> {
    let failed = |error: landlock::RulesetError| error.to_string();
    let all = AccessFs::from_all(FILE_ACCESSES);
    // Executing is not included in reading here.
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let system = SYSTEM_READ.iter().map(PathBuf::from);
    let readable: BTreeSet<PathBuf> = system.chain(read_paths(config, source)).collect();
    for path in readable {
        ruleset = allow(ruleset, &path, read)?;
    }
    for path in written_folders(config) {
        ruleset = allow(ruleset, &path, all & !BitFlags::from(AccessFs::Execute))?;
    }
    for path in SYSTEM_WRITTEN {
        ruleset = allow(ruleset, Path::new(path), read | AccessFs::WriteFile)?;
    }
    let status = ruleset.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel does not support it".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Adds a rule for a path, if it exists.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let Ok(opened) = PathFd::new(path) else {
        return Ok(ruleset);
    };
    // Rights that are for folders only cannot be granted for a file.
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(FILE_ACCESSES)
    };
    ruleset
        .add_rule(PathBeneath::new(opened, access))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// The paths that the config names to be read. Certificates are replaced by renaming, so their
/// folders are allowed; so is the parent of a folder that does not exist yet, in which it may
/// appear.
fn read_paths(config: &Config, source: &ConfigSource) -> Vec<PathBuf> {
    let mut files: Vec<&Path> = source.file().into_iter().collect();
    let mut folders: Vec<&Path> = vec![&config.procedures.path, &config.pages.path];
    folders.extend(config.rules.paths.iter().map(PathBuf::as_path));
    let updates = config.rules.updates.as_path();
    // Without the folder, its parent would be permitted.
    folders.extend(Some(updates).filter(|updates| updates.exists()));
    folders.extend(config.rules.preferences.as_deref());
    folders.extend(config.rules.user_preferences.as_deref());
    folders.extend(config.pages.hosts.values().map(PathBuf::as_path));
    folders.extend(
        config
            .pages
            .mounts
            .values()
            .map(|mounted| mounted.path.as_path()),
    );
    files.extend(config.access.jwt.iter().map(|issuer| issuer.key.as_path()));
    for binding in config.listeners.bindings() {
        files.extend(binding.tls.files());
    }
    files.extend(config.backbone.files());
    files.extend(config.smarthost.files().map(PathBuf::as_path));
    files.extend(config.sink.iter().flat_map(SinkSettings::files));
    files.extend(
        config
            .topics
            .iter()
            .filter_map(|rule| rule.schema.as_deref()),
    );
    let of_procedures = config.procedure.files(&config.scope);
    files.extend(of_procedures.iter().map(PathBuf::as_path));
    for forward in [
        &config.listeners.smtp.forward,
        &config.listeners.lmtp.forward,
    ] {
        files.push(&forward.tls_ca);
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for file in files
        .into_iter()
        .filter(|file| !file.as_os_str().is_empty())
    {
        paths.push(place_of(file));
        if let Ok(target) = file.canonicalize() {
            paths.push(place_of(&target));
        }
    }
    for folder in folders
        .into_iter()
        .filter(|path| !path.as_os_str().is_empty())
    {
        if folder.exists() {
            paths.push(folder.to_owned());
        } else {
            paths.extend(parent_of(folder));
        }
    }
    paths
}

/// The folders in which the server creates, changes and removes files.
fn written_folders(config: &Config) -> Vec<PathBuf> {
    let mut folders = vec![config.data.clone(), std::env::temp_dir()];
    folders.extend(TEMPORARY_FOLDERS.map(PathBuf::from));
    if config.procedures.editable {
        folders.push(config.procedures.path.clone());
    }
    if !config.access_log.path.as_os_str().is_empty() {
        folders.extend(parent_of(&config.access_log.path));
    }
    folders
}

/// The folder of a file. A file in the root of all, such as a config that a container mounts there,
/// is permitted by itself.
fn place_of(file: &Path) -> PathBuf {
    parent_of(file).unwrap_or_else(|| file.to_owned())
}

/// The folder that a path is in, unless that is the root of all.
fn parent_of(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let is_root = parent
        .canonicalize()
        .is_ok_and(|real| real.parent().is_none());
    (!is_root).then(|| parent.to_owned())
}

fn refuse_calls() -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let calls: BTreeMap<i64, Vec<_>> = REFUSED_CALLS.iter().map(|&call| (call, vec![])).collect();
    let filter = SeccompFilter::new(
        calls,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        arch,
    );
    let filter = filter.map_err(|error| failed(&error))?;
    let program = BpfProgram::try_from(filter).map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_all_is_never_permitted() {
        for (file, expected) in [
            ("/gatepost.toml", "/gatepost.toml"),
            ("/etc/gatepost.toml", "/etc"),
            ("gatepost.toml", "."),
        ] {
            assert_eq!(place_of(Path::new(file)), Path::new(expected), "{file}");
        }
    }
}
