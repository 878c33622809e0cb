//! `gatepost user`: users and their rights.
//!
//! The command writes to the database while the server runs, which applies each change within a
//! second; connections whose login is no longer valid then end. Where the config has a cluster, the
//! command changes the users of the cluster instead.

mod listing;
mod opening;
mod password;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use gatepost_backbone::BackboneError;
use gatepost_operations::{AuditEntry, AuditLog};
use gatepost_settings::Period;
use gatepost_store::StoreError;
use gatepost_users::{AccessSet, Effect, Users, UsersError};
use serde_json::{Value, json};

use super::database::NoDatabase;
use crate::config::{Config, ConfigSource, print_mistakes};
use crate::exit::EXIT_UNAVAILABLE;
use crate::users_marker::{self, UsersMarkerError};
use password::PasswordSource;

/// Manage users, their tokens and their rights
///
/// From the first user on, clients must log in: MQTT with user name and password (or a token as the
/// password), HTTP with Basic or Bearer. A running server applies changes within a second.
/// If the config names the NATS servers of a cluster, the command changes the users of all its
/// servers, and needs the NATS servers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost user add anna                           prompt for a password, add a user with all rights
  gatepost user grant anna publish,subscribe 'home/%u/#'   from now on only these topics
  gatepost user grant everyone subscribe 'news/#'  every peer may read the news
  gatepost user grant --deny anna publish home/anna/lock
  gatepost user token add anna --expires 90d --allow publish=alarms/#
  echo \"$PASSWORD\" | gatepost user passwd anna     the password from a pipe")]
pub(super) struct UserArguments {
    #[command(subcommand)]
    action: UserAction,
}

#[derive(Debug, Subcommand)]
enum UserAction {
    /// Add a user
    Add {
        /// Its name: no / + # % : , = and no control characters
        name: String,
        /// Permit everything, including $SYS and the quarantine
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        password: PasswordArguments,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Set another password; connections made with the old one end, tokens remain valid
    Passwd {
        /// The user's name
        name: String,
        #[command(flatten)]
        password: PasswordArguments,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Switch a user off or on, or change whether it is an administrator
    Set {
        /// The user's name
        name: String,
        /// Whether it may log in
        #[arg(long, value_name = "yes|no", required_unless_present = "admin")]
        enabled: Option<YesNo>,
        /// Whether it may do everything
        #[arg(long, value_name = "yes|no")]
        admin: Option<YesNo>,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Permit or deny a user access to the topics of a filter
    ///
    /// A user without any allow rule may do everything that is not denied; a user with one may do
    /// only what is allowed. A user's own rules come before those for `everyone`; among each, a
    /// rule that denies comes before one that allows.
    Grant {
        /// A user, `everyone`, or `anonymous` (peers that did not log in)
        subject: String,
        /// publish, subscribe, retain or all, joined by commas
        access: AccessSet,
        /// A topic filter; %u stands for the user's name, %c for the MQTT client id
        filter: String,
        /// Deny instead
        #[arg(long)]
        deny: bool,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Remove a rule
    Revoke {
        /// The user or group
        subject: String,
        /// publish, subscribe, retain or all, joined by commas
        access: AccessSet,
        /// The filter, as it was granted
        filter: String,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Create or revoke tokens, which replace the password at a login
    Token {
        #[command(subcommand)]
        action: TokenAction,
    },
    /// List users with their rules and tokens
    List {
        /// Only this one
        name: Option<String>,
        /// As JSON, one array
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Remove a user with its rules and tokens
    Remove {
        /// The user's name
        name: String,
        #[command(flatten)]
        source: ConfigSource,
    },
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Create a token and print it; it is not shown again
    Add {
        /// The user's name
        name: String,
        /// The purpose of the token, as a label
        #[arg(long, default_value = "")]
        label: String,
        /// The time after which it expires, such as 90d; without it, never
        #[arg(long, value_name = "TIME")]
        expires: Option<Period>,
        /// Restrict it to this (repeatable); without it, it has all rights of its user
        #[arg(long, value_name = "ACCESS=FILTER", value_parser = scope)]
        allow: Vec<(AccessSet, String)>,
        #[command(flatten)]
        source: ConfigSource,
    },
    /// Revoke a token; connections made with it end
    Remove {
        /// The token's id, as `gatepost user list` shows it
        id: String,
        #[command(flatten)]
        source: ConfigSource,
    },
}

#[derive(Debug, Args)]
struct PasswordArguments {
    /// Read the password from the first line of this file; - is standard input
    ///
    /// Without this option, the command prompts for it, or reads it from standard input if that is
    /// not a terminal.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

/// The reason why nothing was done.
#[derive(Debug, thiserror::Error)]
enum UserError {
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Marker(#[from] UsersMarkerError),
    #[error(transparent)]
    Database(#[from] NoDatabase),
    #[error("the users are those of a cluster, which cannot be reached: {0}; nothing was changed")]
    Cluster(BackboneError),
    #[error(
        "the users in this database are those of a cluster: name the server's config by --config, \
         so that all servers follow the change; nothing was changed"
    )]
    OfCluster,
    #[error("this machine has no data folder {0}: no users are known here")]
    NoData(PathBuf),
    #[error("the password cannot be read: {0}")]
    Password(#[from] password::PasswordError),
    #[error("the command cannot run as the data folder's owner: {0}")]
    Owner(std::io::Error),
    #[error("the threads cannot be started: {0}")]
    Threads(std::io::Error),
}

impl UserError {
    const fn exit_code(&self) -> u8 {
        /// BSD's `EX_NOINPUT` and `EX_DATAERR`.
        const EXIT_NO_INPUT: u8 = 66;
        const EXIT_DATA: u8 = 65;
        match self {
            Self::Password(_) => EXIT_NO_INPUT,
            Self::Users(UsersError::Store(_))
            | Self::Store(_)
            | Self::Marker(_)
            | Self::Database(_)
            | Self::Cluster(_)
            | Self::OfCluster
            | Self::NoData(_)
            | Self::Owner(_)
            | Self::Threads(_) => EXIT_UNAVAILABLE,
            Self::Users(_) => EXIT_DATA,
        }
    }
}

fn scope(text: &str) -> Result<(AccessSet, String), String> {
    let (access, filter) = text
        .split_once('=')
        .ok_or("write ACCESS=FILTER, such as publish=alarms/#")?;
    let access = access
        .parse()
        .map_err(|error: gatepost_users::UnknownAccess| error.to_string())?;
    Ok((access, filter.to_owned()))
}

impl UserAction {
    const fn source(&self) -> &ConfigSource {
        match self {
            Self::Add { source, .. }
            | Self::Passwd { source, .. }
            | Self::Set { source, .. }
            | Self::Grant { source, .. }
            | Self::Revoke { source, .. }
            | Self::List { source, .. }
            | Self::Remove { source, .. } => source,
            Self::Token { action } => match action {
                TokenAction::Add { source, .. } | TokenAction::Remove { source, .. } => source,
            },
        }
    }
}

impl UserAction {
    fn password_file(&self) -> Option<&Path> {
        match self {
            Self::Add { password, .. } | Self::Passwd { password, .. } => {
                password.password_file.as_deref()
            }
            _ => None,
        }
    }

    /// The entry in the audit log; `None` for an action that changes nothing.
    fn change(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::Add { name, admin, .. } => ("user add", json!({ "name": name, "admin": admin })),
            Self::Passwd { name, .. } => ("user passwd", json!({ "name": name })),
            Self::Set {
                name,
                enabled,
                admin,
                ..
            } => {
                let flag = |set: &Option<YesNo>| set.map(|set| set == YesNo::Yes);
                let (enabled, admin) = (flag(enabled), flag(admin));
                let details = json!({ "name": name, "enabled": enabled, "admin": admin });
                ("user set", details)
            }
            Self::Grant {
                subject,
                access,
                filter,
                deny,
                ..
            } => {
                let effect = if *deny { "deny" } else { "allow" };
                let details = json!({
                    "subject": subject, "effect": effect, "access": access, "filter": filter,
                });
                ("user grant", details)
            }
            Self::Revoke {
                subject,
                access,
                filter,
                ..
            } => {
                let details = json!({ "subject": subject, "access": access, "filter": filter });
                ("user revoke", details)
            }
            Self::Token { action } => match action {
                TokenAction::Add { name, label, .. } => {
                    ("token add", json!({ "name": name, "label": label }))
                }
                TokenAction::Remove { id, .. } => ("token remove", json!({ "id": id })),
            },
            Self::List { .. } => return None,
            Self::Remove { name, .. } => ("user remove", json!({ "name": name })),
        })
    }
}

pub(super) fn run(arguments: &UserArguments) -> ExitCode {
    let config = match arguments.action.source().load() {
        Ok((config, _)) => config,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    match act_on(&config, &arguments.action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn act_on(config: &Config, action: &UserAction) -> Result<(), UserError> {
    let changes = action.change().is_some();
    opening::announce(config, changes)?;
    // The database may be new, and holds hashes of passwords.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let actor = format!("uid {}", rustix::process::getuid().as_raw());
    // Root may read this file even if the server's user may not.
    let source = action
        .password_file()
        .map(PasswordSource::open)
        .transpose()?
        .unwrap_or(PasswordSource::Standard);
    let source = match action {
        // Without a password, no database is created.
        UserAction::Add { name, .. } => {
            gatepost_users::check_user_name(name).map_err(UsersError::from)?;
            PasswordSource::Known(source.read(name)?)
        }
        _ => source,
    };
    let opened = opening::open(config, changes)?;
    let done = opened.runtime.block_on(act(&opened.users, action, source));
    let are_shared = opened.are_shared();
    let users = opened.close();
    done?;
    match action {
        // The servers of a cluster do this themselves.
        _ if are_shared => {}
        UserAction::Add { .. } => users_marker::added(&config.data)?,
        UserAction::Remove { .. } => users_marker::removed(&config.data, &users)?,
        _ => {}
    }
    if let Some((what, details)) = action.change() {
        AuditLog::of(&config.data).record(&AuditEntry {
            actor: &actor,
            origin: "gatepost user",
            action: what,
            details,
        });
    }
    Ok(())
}

async fn act(users: &Users, action: &UserAction, source: PasswordSource) -> Result<(), UserError> {
    match action {
        UserAction::Add { name, admin, .. } => {
            let is_first = !users.any();
            let password = source.read(name)?;
            users.add(name, password, *admin).await?;
            if is_first {
                eprintln!("{name} is the first user: from now on, clients must log in");
            }
        }
        UserAction::Passwd { name, .. } => {
            if !users.has(name) {
                return Err(UsersError::NoUser(name.clone()).into());
            }
            let password = source.read(name)?;
            users.set_password(name, password).await?;
        }
        UserAction::Set {
            name,
            enabled,
            admin,
            ..
        } => {
            let disabled = enabled.map(|enabled| enabled == YesNo::No);
            let admin = admin.map(|admin| admin == YesNo::Yes);
            users.set_standing(name, disabled, admin).await?;
        }
        UserAction::Grant {
            subject,
            access,
            filter,
            deny,
            ..
        } => {
            let effect = if *deny { Effect::Deny } else { Effect::Allow };
            users.grant(subject, effect, *access, filter).await?;
        }
        UserAction::Revoke {
            subject,
            access,
            filter,
            ..
        } => users.revoke(subject, *access, filter).await?,
        UserAction::Token { action } => act_on_token(users, action).await?,
        UserAction::List { name, json, .. } => listing::print(users, name.as_deref(), *json)?,
        UserAction::Remove { name, .. } => users.remove(name).await?,
    }
    Ok(())
}

async fn act_on_token(users: &Users, action: &TokenAction) -> Result<(), UserError> {
    match action {
        TokenAction::Add {
            name,
            label,
            expires,
            allow,
            ..
        } => {
            let seconds = expires.map(|period| period.duration().as_secs());
            let scope = (!allow.is_empty()).then(|| allow.clone());
            let token = users.create_token(name, label, seconds, scope).await?;
            println!("{}", token.expose());
        }
        TokenAction::Remove { id, .. } => users.remove_token(id).await?,
    }
    Ok(())
}
