//! mosquitto's password file: `NAME:HASH` in each line.

use std::path::Path;

use crate::cli::import::ImportError;
use crate::cli::import::plan::{ImportPlan, ImportedUser};

pub(super) fn read(file: &Path, plan: &mut ImportPlan) -> Result<(), ImportError> {
    let text = std::fs::read_to_string(file).map_err(ImportError::at(file))?;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", file.display(), number + 1);
        let (name, hash) = line.split_once(':').unwrap_or((line, ""));
        // The hash itself is not shown.
        if let Err(reason) = check(name, hash, plan) {
            plan.leave_out(&place, name, reason);
            continue;
        }
        plan.users.push(ImportedUser {
            name: name.to_owned(),
            hash: hash.trim().to_owned(),
            admin: false,
        });
    }
    Ok(())
}

fn check(name: &str, hash: &str, plan: &ImportPlan) -> Result<(), String> {
    gatepost_users::check_user_name(name).map_err(|error| error.to_string())?;
    if !gatepost_users::is_foreign_hash(hash.trim()) {
        return Err("the password is not hashed by mosquitto_passwd: gatepost user add".to_owned());
    }
    let folded = name.to_lowercase();
    if plan
        .users
        .iter()
        .any(|user| user.name.to_lowercase() == folded)
    {
        return Err("another user's name differs in case only".to_owned());
    }
    Ok(())
}
