//! mosquitto's password file: `NAME:HASH` in each line.

use std::path::Path;

use crate::cli::import::ImportError;
use crate::cli::import::plan::{ImportPlan, ImportedUser};

const NOT_HASHED: &str = "the password is not hashed by mosquitto_passwd: gatepost user add";

pub(super) fn read(file: &Path, plan: &mut ImportPlan) -> Result<(), ImportError> {
    let text = std::fs::read_to_string(file).map_err(ImportError::at(file))?;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", file.display(), number + 1);
        let (name, hash) = line.split_once(':').unwrap_or((line, ""));
        // The hash itself is not shown.
        if let Err(reason) = plan.check_user(name, hash.trim(), NOT_HASHED) {
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
