//! `gatepost backup` and `gatepost restore`: the database as one file, and its restoration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gatepost_operations::{AuditEntry, AuditLog};
use gatepost_store::{
    BackupContents, BackupError, ExistingDatabase, restore_backup, verify_backup, write_backup,
};
use serde_json::json;

use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::{EXIT_DATA, EXIT_UNAVAILABLE};
use crate::system_user::SystemUser;

/// Write a backup of the database, while the server runs or without one
///
/// The file holds everything that was acknowledged before the command began: sessions with their
/// queues, retained messages, history, mailboxes, quarantine, journal, users and tokens, bans, what
/// the rules have learned, and the values of procedures. It is verified before it takes its name:
/// the structure of the file, and the checksum of each row. It is an SQLite database that only its
/// owner can read.
///
/// It does not contain files that you write yourself: the config, certificates and keys,
/// procedures, pages, rule folders; nor the logs (access.log, audit.log).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost backup /var/backups/gatepost-$(date +%F).db
  gatepost backup --verify FILE       verify a backup and list its contents

Exit codes: 0 whole; 65 the backup is unusable, or has rows that do not fit their checksum;
69 it could not be written; 78 wrong config")]
pub(super) struct BackupArguments {
    /// The file to write; an existing one is never overwritten
    file: PathBuf,
    /// Verify an existing backup instead, and list its contents
    #[arg(long)]
    verify: bool,
    /// Print the contents as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: ConfigSource,
}

/// Make a backup the database of this config; the server must not run
///
/// The backup is verified, copied into the data folder, and takes the database's name in one step.
/// A backup of a newer version is refused, and so is one that is damaged. Sessions, queues and
/// messages are those of the time of the backup: a message that was delivered since is delivered
/// again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost restore /var/backups/gatepost-2026-11-01.db
  gatepost restore --replace FILE     keep the present database as gatepost.db.replaced-N

Exit codes: 0 restored; 65 the backup is unusable; 69 a server runs, there is a database, or
the disk fails; 78 wrong config")]
pub(super) struct RestoreArguments {
    /// The backup
    file: PathBuf,
    /// Restore although there is a database, and keep that one under another name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    source: ConfigSource,
}

pub(super) fn run(arguments: &BackupArguments) -> ExitCode {
    let file = &arguments.file;
    let done = if arguments.verify {
        verify_backup(file)
    } else {
        match arguments.source.load() {
            Ok((config, _)) => write_backup(&config.data, file),
            Err(mistakes) => return print_mistakes(&mistakes),
        }
    };
    match done {
        Ok(contents) if arguments.json => {
            let rows: serde_json::Map<_, _> = contents
                .rows
                .iter()
                .map(|(name, count)| (name.clone(), json!(count)))
                .collect();
            let shown = json!({
                "bytes": contents.bytes, "schema": contents.schema, "rows": rows,
                "rows_damaged": contents.rows_damaged,
            });
            println!("{shown:#}");
            exit_code_of(&contents)
        }
        Ok(contents) => {
            print(file, &contents);
            exit_code_of(&contents)
        }
        Err(error) => failed(&error),
    }
}

pub(super) fn run_restore(arguments: &RestoreArguments) -> ExitCode {
    let config = match arguments.source.load() {
        Ok((config, _)) => config,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let existing = if arguments.replace {
        ExistingDatabase::Kept
    } else {
        ExistingDatabase::Refused
    };
    let is_new = !config.data.exists();
    let restored = restore_backup(&arguments.file, &config.data, &config.store, existing);
    match restored {
        Ok((contents, kept)) => {
            if is_new {
                give_to_server(&config);
            }
            print(&arguments.file, &contents);
            if let Some(kept) = kept {
                println!("the previous database is kept as {}", kept.display());
            }
            AuditLog::of(&config.data).record(&AuditEntry {
                actor: &format!("uid {}", rustix::process::getuid().as_raw()),
                origin: "gatepost restore",
                action: "restore",
                details: json!({ "file": arguments.file }),
            });
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = failed(&error);
            if matches!(error, BackupError::Exists(_)) {
                eprintln!("gatepost: --replace keeps it under another name and restores");
            }
            code
        }
    }
}

/// Makes a folder that root has created belong to the user that the server will run as.
fn give_to_server(config: &Config) {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let Ok(Some(user)) = SystemUser::find(&config.user) else {
        return;
    };
    let (uid, gid) = (Some(user.uid.as_raw()), Some(user.gid.as_raw()));
    let files = std::fs::read_dir(&config.data).into_iter().flatten();
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    for path in files.chain([config.data.clone()]) {
        if let Err(error) = std::os::unix::fs::chown(&path, uid, gid) {
            eprintln!("gatepost: {}: {error}", path.display());
        }
    }
}

fn print(file: &Path, contents: &BackupContents) {
    println!(
        "{}: {} bytes, schema {}",
        file.display(),
        contents.bytes,
        contents.schema
    );
    for (name, count) in &contents.rows {
        println!("  {name:<22} {count:>10}");
    }
}

/// Reports the defects of a file that was written or read.
fn exit_code_of(contents: &BackupContents) -> ExitCode {
    if contents.rows_damaged == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "gatepost: {} rows do not fit their checksum, so the disk of the server altered them; all \
            others are intact. `gatepost restore` accepts this file with store.on_damage = \
            \"recover\"",
        contents.rows_damaged
    );
    ExitCode::from(EXIT_DATA)
}

fn failed(error: &BackupError) -> ExitCode {
    eprintln!("gatepost: {error}");
    ExitCode::from(match error {
        BackupError::Unusable { .. }
        | BackupError::Store(gatepost_store::StoreError::Damaged { .. }) => EXIT_DATA,
        _ => EXIT_UNAVAILABLE,
    })
}
