//! Another version of one procedure, tried beside the running set.
//!
//! The candidate is compiled with the present configuration, judges on a thread of its own and has
//! its own host, so a trial changes nothing in the running server.

use std::path::Path;
use std::sync::Arc;

use gatepost_message::Message;

use super::{Procedures, ProceduresCore};
use crate::ConfigurationProblem;
use crate::host::ProcedureHost;
use crate::luau::ProcedureFolder;
use crate::pool::JudgePool;
use crate::set::{ProcedureSet, usable};
use crate::status::ProcedureStatistics;

impl Procedures {
    /// The present procedures with the text of `file` at `path`, and the problems; no procedures if
    /// these are errors. Without `file` the procedures are as they are now.
    pub fn candidate(
        &self,
        path: &str,
        file: Option<&Path>,
        host: ProcedureHost,
    ) -> (Option<Self>, Vec<ConfigurationProblem>) {
        let present = self.0.set.load_full();
        let mut folder = ProcedureFolder::read(&present.configuration.procedures.path);
        if let Some(file) = file {
            folder.replace(path, file);
        }
        let statistics = ProcedureStatistics::new();
        let (configuration, rules) = (present.configuration.clone(), present.rules.clone());
        let settings = configuration.procedures.clone();
        let (set, problems) = ProcedureSet::build(configuration, rules, folder, &statistics, &host);
        if !usable(&problems) {
            return (None, problems);
        }
        let core = ProceduresCore::new(set, JudgePool::start(1, 1), &settings, statistics, host);
        (Some(Self(Arc::new(core))), problems)
    }

    /// Reads the folder of procedures immediately, instead of at the next interval.
    pub fn read_folder(&self) {
        self.0.recheck(&ProcedureFolder::default());
    }

    /// Every scope, in order, with the paths of the procedures that it runs.
    pub fn scopes(&self) -> Vec<(String, Vec<String>)> {
        self.0.set.load().scope_listing()
    }

    /// Whether the scope that judges this message runs the procedure at `path`.
    pub fn runs_for(&self, path: &str, message: &Message) -> bool {
        let set = self.0.set.load();
        let envelope = &message.envelope;
        let topic = message.topic.as_ref().map(gatepost_message::Topic::as_str);
        let scope = set.scope_for(envelope.listener, topic, &envelope.recipients);
        let scope = scope.and_then(|id| set.scope(id));
        scope.is_some_and(|scope| scope.chain.0.iter().any(|step| *step.path == *path))
    }
}
