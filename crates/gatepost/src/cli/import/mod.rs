//! `gatepost import`: imports the configuration and the users of mosquitto or ntfy.

mod mosquitto;
mod ntfy;
mod plan;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use gatepost_operations::{AuditEntry, AuditLog};
use gatepost_store::{Store, StoreError};
use gatepost_users::{Users, UsersError};
use serde_json::json;

use crate::config::Config;
use crate::exit::{EXIT_DATA, EXIT_UNAVAILABLE};
use crate::users_marker::{self, UsersMarkerError};
use plan::ImportPlan;

const CONFIG_FILE: &str = "gatepost.toml";
const DATA_FOLDER: &str = "gatepost-data";

/// Import mosquitto's or ntfy's configuration, users and access rules
///
/// Prints the gatepost.toml that it would write, the users and rules, and every line that is not
/// imported, with the reason. With --write, the file and a database with users and rules are
/// written into a folder; users keep their passwords.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost import /etc/mosquitto/mosquitto.conf
  gatepost import /etc/mosquitto/mosquitto.conf --write ./gatepost
  gatepost import /etc/ntfy/server.yml --write ./gatepost
  gatepost serve --config ./gatepost/gatepost.toml")]
pub(super) struct ImportArguments {
    /// mosquitto.conf, or ntfy's server.yml
    file: PathBuf,
    /// The program whose file it is [default: by its name: .yml and .yaml are ntfy's]
    #[arg(long, value_name = "SERVER")]
    from: Option<ImportFormat>,
    /// Write gatepost.toml and the database into this folder, which must not have them
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ImportFormat {
    Mosquitto,
    Ntfy,
}

/// The reasons why nothing was imported.
#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("{}: {cause}", .path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("{}: {reason}", .path.display())]
    Database { path: PathBuf, reason: String },
    #[error("{} exists already; name a folder without one", .0.display())]
    Exists(PathBuf),
    #[error(
        "the users in {} are those of a cluster, which would replace imported ones; name another \
         folder", .0.display()
    )]
    OfCluster(PathBuf),
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Marker(#[from] UsersMarkerError),
    #[error("the runtime cannot start: {0}")]
    Runtime(io::Error),
}

impl ImportError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { path, cause }
    }

    const fn exit_code(&self) -> u8 {
        match self {
            Self::Users(_) | Self::Database { .. } => EXIT_DATA,
            _ => EXIT_UNAVAILABLE,
        }
    }
}

pub(super) fn run(arguments: &ImportArguments) -> ExitCode {
    match import(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn import(arguments: &ImportArguments) -> Result<(), ImportError> {
    let file = &arguments.file;
    let is_yaml = file
        .extension()
        .is_some_and(|extension| extension == "yml" || extension == "yaml");
    let by_name = if is_yaml {
        ImportFormat::Ntfy
    } else {
        ImportFormat::Mosquitto
    };
    let mut plan = match arguments.from.unwrap_or(by_name) {
        ImportFormat::Mosquitto => mosquitto::read(file)?,
        ImportFormat::Ntfy => ntfy::read(file)?,
    };
    let origin = file.display().to_string();
    match &arguments.write {
        None => print!("{}{}", plan.config(&origin, Path::new("")), heading(&plan)),
        Some(folder) => write(&mut plan, &origin, folder)?,
    }
    match plan.left_out_count() {
        0 => {}
        1 => eprintln!("1 line is not imported"),
        count => eprintln!("{count} lines are not imported"),
    }
    Ok(())
}

fn heading(plan: &ImportPlan) -> String {
    let mut text = String::new();
    for (file, _) in plan.secret_files() {
        for part in ["\n# With --write, ", file, " contains the password.\n"] {
            text.push_str(part);
        }
    }
    let commands = plan.commands();
    if !commands.is_empty() {
        text.push_str("\n# In the database, with --write:\n");
        text.push_str(&commands);
    }
    text
}

/// Writes the config, and a database with users and rules beside it.
fn write(plan: &mut ImportPlan, origin: &str, folder: &Path) -> Result<(), ImportError> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(ImportError::at(folder))?;
    let folder = folder.canonicalize().map_err(ImportError::at(folder))?;
    let (config, data) = (folder.join(CONFIG_FILE), folder.join(DATA_FOLDER));
    for path in [&config, &data] {
        if path.exists() {
            return Err(ImportError::Exists(path.clone()));
        }
    }
    // The database holds hashes of passwords.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    import_users(plan, origin, &data)?;
    for (file, secret) in plan.secret_files() {
        write_private(&folder.join(file), &format!("{secret}\n"))?;
    }
    plan.set_text("data", &data.display().to_string());
    write_private(&config, &plan.config(origin, &folder))?;
    println!("{}", config.display());
    println!("{} users, {} rules", plan.users.len(), plan.rules.len());
    let has_admin = plan.users.iter().any(|user| user.admin);
    if !plan.users.is_empty() && !has_admin {
        println!(
            "no user is an administrator: gatepost user add NAME --admin --config {}",
            config.display()
        );
    }
    Ok(())
}

/// Writes a new file that only its owner can read.
fn write_private(path: &Path, text: &str) -> Result<(), ImportError> {
    let options = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = options.map_err(ImportError::at(path))?;
    file.write_all(text.as_bytes())
        .map_err(ImportError::at(path))
}

fn import_users(plan: &ImportPlan, origin: &str, data: &Path) -> Result<(), ImportError> {
    let config = Config::default();
    let store = Store::open_secondary(data, &config.store)?;
    if gatepost_backbone::follows_cluster(&store)? {
        return Err(ImportError::OfCluster(data.to_owned()));
    }
    let users = Users::open(store.clone(), &config.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ImportError::Runtime)?;
    let done: Result<(), UsersError> = runtime.block_on(async {
        for user in &plan.users {
            users.import(&user.name, &user.hash, user.admin).await?;
        }
        for rule in &plan.rules {
            let granted = users.grant(&rule.subject, rule.effect, rule.access, &rule.filter);
            granted.await?;
        }
        Ok(())
    });
    store.close();
    done?;
    if !plan.users.is_empty() {
        users_marker::added(data)?;
    }
    AuditLog::of(data).record(&AuditEntry {
        actor: &format!("uid {}", rustix::process::getuid().as_raw()),
        origin: "gatepost import",
        action: "import",
        details: json!({
            "from": origin, "users": plan.users.len(), "rules": plan.rules.len(),
        }),
    });
    Ok(())
}
