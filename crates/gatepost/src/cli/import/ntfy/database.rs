//! ntfy's user database: users with bcrypt hashes, their access, and tokens.

use std::path::Path;

use gatepost_users::{Access, AccessSet, EVERYONE, Effect};
use rusqlite::{Connection, OpenFlags};

use crate::cli::import::ImportError;
use crate::cli::import::plan::{ImportPlan, ImportedRule, ImportedUser};

/// The user that represents clients without a login.
const EVERYBODY: &str = "*";
const NOT_HASHED: &str = "the hash of its password is not bcrypt's";

struct AccessRow {
    user: String,
    topic: String,
    read: bool,
    write: bool,
}

pub(super) fn read(file: &Path, plan: &mut ImportPlan) -> Result<(), ImportError> {
    let failed = |error: rusqlite::Error| ImportError::Database {
        path: file.to_owned(),
        reason: error.to_string(),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(file, flags).map_err(failed)?;
    let place = file.display().to_string();
    for (name, hash, role) in users(&database).map_err(failed)? {
        let is_admin = role == "admin";
        match plan.check_user(&name, &hash, NOT_HASHED) {
            Ok(()) => plan.users.push(ImportedUser {
                name,
                hash,
                admin: is_admin,
            }),
            Err(reason) => plan.leave_out(&place, &format!("user {name}"), reason),
        }
    }
    for row in access(&database).map_err(failed)? {
        let line = format!("access {} {}", row.user, row.topic);
        if let Err(reason) = add(&row, plan) {
            plan.leave_out(&place, &line, reason);
        }
    }
    let tokens = "SELECT count(*) FROM user_token";
    let tokens: i64 = database
        .query_row(tokens, [], |row| row.get(0))
        .unwrap_or_default();
    if tokens > 0 {
        let reason = "make new ones by gatepost user token add: tokens of Gatepost begin with gp_";
        plan.leave_out(&place, &format!("{tokens} tokens"), reason);
    }
    Ok(())
}

fn users(database: &Connection) -> rusqlite::Result<Vec<(String, String, String)>> {
    let mut statement = database
        .prepare("SELECT user, pass, role FROM user WHERE role <> 'anonymous' ORDER BY user")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

fn access(database: &Connection) -> rusqlite::Result<Vec<AccessRow>> {
    let mut statement = database.prepare(
        "SELECT user.user, topic, read, write FROM user_access JOIN user ON user.id = user_id \
         ORDER BY user.user, topic",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(AccessRow {
            user: row.get(0)?,
            topic: row.get(1)?,
            read: row.get(2)?,
            write: row.get(3)?,
        })
    })?;
    rows.collect()
}

fn add(row: &AccessRow, plan: &mut ImportPlan) -> Result<(), String> {
    let subject = if row.user == EVERYBODY {
        EVERYONE
    } else if plan.users.iter().any(|user| user.name == row.user) {
        row.user.as_str()
    } else {
        return Err("the user is not imported".to_owned());
    };
    // ntfy stores patterns with % for any text, and \_ for an underscore.
    let topic = row.topic.replace("\\_", "_");
    let filter = match topic.as_str() {
        "%" => "#".to_owned(),
        topic if topic.contains('%') => {
            return Err(format!(
                "the pattern {} has no filter: MQTT's wildcards are whole levels",
                topic.replace('%', "*")
            ));
        }
        topic => topic.to_owned(),
    };
    let mut granted = AccessSet::NONE;
    if row.read {
        granted = granted.with(Access::Subscribe.into());
    }
    if row.write {
        granted = granted.with(Access::Publish.into());
    }
    let withheld = AccessSet::from(Access::Publish)
        .with(Access::Subscribe.into())
        .without(granted);
    // In ntfy the first matching rule decides: it denies every right that it does not grant.
    for (effect, access) in [(Effect::Allow, granted), (Effect::Deny, withheld)] {
        if !access.is_empty() {
            plan.rules.push(ImportedRule {
                subject: subject.to_owned(),
                effect,
                access,
                filter: filter.clone(),
            });
        }
    }
    Ok(())
}
