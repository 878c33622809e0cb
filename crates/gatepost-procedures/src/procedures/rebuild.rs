//! Changes of a running set: a reload, files added, changed or removed, and periodic tasks.
//!
//! A set is built beside the present one and swapped as a whole; after an error the present one
//! remains in use.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Procedures, ProceduresCore};
use crate::builtin::mail_report;
use crate::deferred_rules::DeferredRules;
use crate::difference::Difference;
use crate::in_force::{InForce, RefusedKind};
use crate::luau::ProcedureFolder;
use crate::set::{ProcedureSet, usable};
use crate::{ConfigurationProblem, ProceduresConfiguration};

impl Procedures {
    /// Replaces configuration and rules; messages being judged end with the set that they began
    /// with. After an error nothing changes. The number of judges and the length of their queue are
    /// those of the start.
    pub fn reload(
        &self,
        configuration: ProceduresConfiguration,
        rules: impl Into<DeferredRules>,
    ) -> Result<Vec<ConfigurationProblem>, Vec<ConfigurationProblem>> {
        self.reload_or_check(configuration, rules, true)
            .map(|(_, problems)| problems)
    }

    /// As [`Procedures::reload`], and returns the difference to the previous set. Without `install`
    /// it only returns the difference.
    pub fn reload_or_check(
        &self,
        configuration: ProceduresConfiguration,
        rules: impl Into<DeferredRules>,
        install: bool,
    ) -> Result<(Difference, Vec<ConfigurationProblem>), Vec<ConfigurationProblem>> {
        let _one_at_a_time = self.0.rebuilding.lock();
        let folder = ProcedureFolder::read(&configuration.procedures.path);
        let (set, problems) = ProcedureSet::build(
            Arc::new(configuration),
            rules.into(),
            folder,
            &self.0.statistics,
            &self.0.host,
        );
        if !usable(&problems) {
            return Err(problems);
        }
        let difference = Difference::between(&self.0.set.load(), &set);
        if install {
            self.0.install(set);
            self.0.statistics.in_force.lock().reloaded();
        }
        Ok((difference, problems))
    }

    /// Records a refused reload, which the status shows until a reload succeeds.
    pub fn refused(&self, problems: impl Iterator<Item = String>) {
        let mut in_force = self.0.statistics.in_force.lock();
        in_force.refuse(RefusedKind::Reload, problems);
    }

    /// The time since which the running set is in force, and the changes refused since.
    pub fn in_force(&self) -> InForce {
        self.0.statistics.in_force.lock().clone()
    }
}

impl ProceduresCore {
    /// Periodic work: publishes the summaries of `/dedupe`, advances the counts of the last day,
    /// mails the status, ends waits for rules. Returns the time until the next call is due.
    pub(crate) fn tick(&self, now: Instant) -> Duration {
        let set = self.set.load();
        for summary in self.host.memory.repetitions.end(now) {
            if let Some(sink) = &self.host.publications {
                sink.publish(summary);
            }
        }
        self.statistics.remember(now);
        set.rules.wake_overdue(now);
        let settings = &set.configuration.table.status;
        if !settings.mail_to.is_empty()
            && self.statistics.mail_is_due(settings.every.duration(), now)
        {
            mail_report(settings, &set.resources, &self.statistics);
        }
        self.host
            .memory
            .repetitions
            .next_end()
            .unwrap_or(Duration::MAX)
    }

    fn install(&self, set: ProcedureSet) {
        self.set.store(Arc::new(set));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// If the folder differs from `seen`, reads its procedures into a new set of the present
    /// configuration. A file that does not compile, or a missing one that a scope needs, leaves
    /// everything unchanged. Returns the present folder.
    pub(crate) fn recheck(&self, seen: &ProcedureFolder) -> ProcedureFolder {
        let _one_at_a_time = self.rebuilding.lock();
        let present = self.set.load_full();
        let folder = ProcedureFolder::read(&present.configuration.procedures.path);
        if folder == present.folder {
            // A refused change may have been reverted.
            self.statistics.in_force.lock().procedures_changed();
            return folder;
        }
        if folder == *seen {
            return folder;
        }
        let (configuration, rules) = (present.configuration.clone(), present.rules.clone());
        let (set, problems) = ProcedureSet::build(
            configuration,
            rules,
            folder.clone(),
            &self.statistics,
            &self.host,
        );
        for problem in &problems {
            tracing::warn!(target: "procedures", "{problem}");
        }
        if usable(&problems) {
            tracing::info!(target: "procedures", "the changed folder of procedures is in use");
            self.install(set);
            self.statistics.in_force.lock().procedures_changed();
        } else {
            let reasons = problems.iter().map(ToString::to_string);
            let mut in_force = self.statistics.in_force.lock();
            in_force.refuse(RefusedKind::Procedures, reasons);
            tracing::error!(target: "procedures", "the previous procedures remain in use");
        }
        folder
    }
}
