//! The time since which the current configuration, rules and procedures are in force, and later
//! changes that were refused: a reload with an error, or a changed folder of procedures that does
//! not compile. So the status shows that the running configuration differs from the files.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;
use time::OffsetDateTime;
use time::macros::format_description;

/// Mistakes of one refusal that are kept.
const PROBLEMS_KEPT: usize = 10;

/// The running set, and the changes refused since it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InForce {
    /// The time at which the running config and rules were read.
    #[serde(rename = "since_unix_ms", serialize_with = "unix_ms")]
    pub since: SystemTime,
    /// The refused changes, at most one of each kind; removed when a later change of that kind
    /// succeeds.
    pub refused: Vec<RefusedChange>,
}

/// A change that did not come into force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RefusedChange {
    /// The kind of change that was refused.
    pub what: RefusedKind,
    /// The time of the attempt.
    #[serde(rename = "unix_ms", serialize_with = "unix_ms")]
    pub time: SystemTime,
    /// The first mistakes, one line each.
    pub problems: Vec<String>,
}

/// The kind of a refused change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedKind {
    /// A reload of config, rules and procedures.
    Reload,
    /// The folder of procedures, which is read again when it changes.
    Procedures,
}

impl InForce {
    pub(crate) fn new() -> Self {
        Self {
            since: SystemTime::now(),
            refused: Vec::new(),
        }
    }

    /// Records a successful reload, which includes the folder of procedures.
    pub(crate) fn reloaded(&mut self) {
        *self = Self::new();
    }

    /// Records that the changed folder of procedures came into force.
    pub(crate) fn procedures_changed(&mut self) {
        self.refused
            .retain(|refusal| refusal.what != RefusedKind::Procedures);
    }

    pub(crate) fn refuse(&mut self, what: RefusedKind, problems: impl Iterator<Item = String>) {
        self.refused.retain(|refusal| refusal.what != what);
        self.refused.push(RefusedChange {
            what,
            time: SystemTime::now(),
            problems: problems.take(PROBLEMS_KEPT).collect(),
        });
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "config and rules in force since {}",
            utc(self.since)
        )?;
        for refusal in &self.refused {
            let what = match refusal.what {
                RefusedKind::Reload => "the reload",
                RefusedKind::Procedures => "the change of the procedures",
            };
            writeln!(formatter, "{what} of {} was refused:", utc(refusal.time))?;
            for problem in &refusal.problems {
                writeln!(formatter, "  {problem}")?;
            }
        }
        Ok(())
    }
}

fn utc(time: SystemTime) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    OffsetDateTime::from(time).format(form).unwrap_or_default()
}

fn unix_ms<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    serializer.serialize_u64(since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn refused(in_force: &InForce) -> Vec<RefusedKind> {
        in_force
            .refused
            .iter()
            .map(|refusal| refusal.what)
            .collect()
    }

    #[test]
    fn a_refusal_is_reported_until_the_next_change() {
        let mut in_force = InForce::new();
        let problems = |count: usize| (0..count).map(|number| format!("mistake {number}"));
        in_force.refuse(RefusedKind::Reload, problems(2));
        in_force.refuse(RefusedKind::Procedures, problems(1));
        in_force.refuse(RefusedKind::Reload, problems(100));
        assert_eq!(
            refused(&in_force),
            [RefusedKind::Procedures, RefusedKind::Reload]
        );
        assert_eq!(in_force.refused[1].problems.len(), PROBLEMS_KEPT);
        in_force.procedures_changed();
        assert_eq!(refused(&in_force), [RefusedKind::Reload]);
        in_force.reloaded();
        assert!(in_force.refused.is_empty());
    }

    #[test]
    fn people_read_when_and_why() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let in_force = InForce {
            since: at(0),
            refused: vec![RefusedChange {
                what: RefusedKind::Reload,
                time: at(300),
                problems: vec!["a.cf:3: broken".to_owned()],
            }],
        };
        assert_eq!(
            in_force.to_string(),
            "config and rules in force since 1970-01-01 00:00:00 UTC\n\
             the reload of 1970-01-01 00:05:00 UTC was refused:\n  a.cf:3: broken\n"
        );
        let json = serde_json::to_value(&in_force).expect("is JSON");
        assert_eq!(json["refused"][0]["unix_ms"], 300_000);
        assert_eq!(json["refused"][0]["what"], "reload");
    }
}
