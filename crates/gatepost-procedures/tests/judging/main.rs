//! Scopes, chains and operators' own procedures, through the handle that listeners hold.

mod code;
mod reload;
mod scopes;
mod settings;

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Listener, Message, Peer, Topic, Verdict};
use gatepost_procedures::{
    ConfigurationProblem, ProcedureAnswer, ProcedureArguments, Procedures, ProceduresConfiguration,
    ScopeSettings,
};
use gatepost_rules::RuleSet;
use gatepost_settings::{ByteSize, Period};
use tempfile::TempDir;

/// A folder of procedures, and a configuration that finds them there.
struct Fixture {
    folder: TempDir,
    configuration: ProceduresConfiguration,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut configuration = ProceduresConfiguration::default();
        folder.path().clone_into(&mut configuration.procedures.path);
        configuration.procedures.judges = 2;
        configuration.procedures.recheck = Period::milliseconds(20);
        configuration.table.sizecheck.max = ByteSize(100);
        Self {
            folder,
            configuration,
        }
    }

    fn with(self, path: &str, source: &str) -> Self {
        self.write(path, source);
        self
    }

    fn write(&self, path: &str, source: &str) {
        let file = self.folder.path().join(format!("{path}.luau"));
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        // Renamed into place, so that a half-written file is never read.
        let draft = file.with_extension("draft");
        fs::write(&draft, source).expect("written");
        fs::rename(draft, file).expect("renamed");
    }

    fn scope(mut self, scope: ScopeSettings) -> Self {
        self.configuration.scopes.push(scope);
        self
    }

    fn try_start(&self) -> Result<Procedures, Vec<ConfigurationProblem>> {
        let rules = Arc::new(RuleSet::embedded());
        Procedures::start(self.configuration.clone(), rules).map(|(procedures, _)| procedures)
    }

    fn start(&self) -> Procedures {
        self.try_start().expect("a configuration without errors")
    }
}

fn scope(path: &str, run: &[&str]) -> ScopeSettings {
    ScopeSettings {
        path: path.to_owned(),
        run: run.iter().map(ToString::to_string).collect(),
        ..ScopeSettings::default()
    }
}

fn mail(body: &str) -> Message {
    let mut envelope = Envelope::new(Listener::Smtp, Peer::Local);
    envelope.sender = Some("anna@example.org".into());
    envelope.recipients = vec!["alarms+fire@localhost".into()];
    let topic = Topic::new("alarms/fire").ok();
    let body = Bytes::copy_from_slice(body.as_bytes());
    Message::new(envelope, topic, Format::Mail, body)
}

async fn judge(procedures: &Procedures, message: Message) -> Verdict {
    procedures.judge(&Arc::new(message)).await
}

async fn call(
    procedures: &Procedures,
    path: &str,
    arguments: ProcedureArguments,
) -> ProcedureAnswer {
    let message = Arc::new(mail(
        "Subject: hello\r\nX-Kind: test\r\n\r\nthe needle is here\r\n",
    ));
    procedures.call(path, message, arguments).await.expect(path)
}
