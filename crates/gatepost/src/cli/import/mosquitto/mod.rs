//! mosquitto.conf (2.0): listeners, bridges, limits, TLS, and the password and ACL files that it
//! names.

mod acl;
mod bridges;
mod listeners;
mod options;
mod passwords;

use std::path::Path;

use super::ImportError;
use super::plan::ImportPlan;
use bridges::Bridges;
use listeners::Listeners;

/// One line of a file with an option.
#[derive(Debug, Clone, Copy)]
struct OptionLine<'a> {
    place: &'a str,
    line: &'a str,
    name: &'a str,
    value: &'a str,
}

/// The state while lines are read.
#[derive(Default)]
struct MosquittoImport {
    plan: ImportPlan,
    listeners: Listeners,
    bridges: Bridges,
    acl_file: Option<String>,
    password_file: Option<String>,
}

/// Plans the import of this file.
pub(super) fn read(file: &Path) -> Result<ImportPlan, ImportError> {
    let mut import = MosquittoImport::default();
    import.read_file(file, 0)?;
    import.finish()
}

/// mosquitto itself bounds nothing here; a folder that includes itself must not be read endlessly.
const INCLUDES_MAX: usize = 8;

impl MosquittoImport {
    fn read_file(&mut self, file: &Path, depth: usize) -> Result<(), ImportError> {
        let text = std::fs::read_to_string(file).map_err(ImportError::at(file))?;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", file.display(), number + 1);
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let (name, value) = trimmed
                .split_once(char::is_whitespace)
                .unwrap_or((trimmed, ""));
            let option = OptionLine {
                place: &place,
                line,
                name,
                value: value.trim(),
            };
            if name == "include_dir" && depth < INCLUDES_MAX {
                self.read_folder(option, depth)?;
            } else {
                self.take(option);
            }
        }
        Ok(())
    }

    /// The files of a folder that end in `.conf`, sorted, as mosquitto reads them.
    fn read_folder(&mut self, option: OptionLine<'_>, depth: usize) -> Result<(), ImportError> {
        let folder = Path::new(option.value);
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let reason = format!("the folder cannot be read: {error}");
                self.plan.leave_out(option.place, option.line, reason);
                return Ok(());
            }
        };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let is_config = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "conf");
        let mut files: Vec<_> = paths.filter(is_config).collect();
        files.sort();
        for file in files {
            self.read_file(&file, depth + 1)?;
        }
        Ok(())
    }

    fn take(&mut self, option: OptionLine<'_>) {
        let is_taken = self.bridges.take(option, &mut self.plan)
            || self.listeners.take(option, &mut self.plan);
        if is_taken {
            return;
        }
        match option.name {
            "acl_file" => self.acl_file = Some(option.value.to_owned()),
            "password_file" => self.password_file = Some(option.value.to_owned()),
            _ => options::take(option, &mut self.plan),
        }
    }

    fn finish(mut self) -> Result<ImportPlan, ImportError> {
        let plan = &mut self.plan;
        self.listeners.finish(plan);
        self.bridges.finish(plan);
        if let Some(file) = &self.password_file {
            passwords::read(Path::new(file), plan)?;
        }
        if let Some(file) = &self.acl_file {
            acl::read(Path::new(file), plan)?;
            plan.set_text("access.default", "deny");
            plan.note(
                "mosquitto accepts a subscription to any filter and delivers what the ACL permits; \
                 Gatepost refuses a subscription that covers more than is granted",
            );
        }
        plan.note("sessions and retained messages of mosquitto.db are not imported");
        Ok(self.plan)
    }
}
