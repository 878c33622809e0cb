//! Procedures in a separate folder, and their publications.
#![allow(dead_code, unreachable_pub)] // not every test uses everything

use std::fs;
use std::net::UdpSocket;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_message::{Envelope, Format, Listener, Message, Peer, Publication, Topic, Verdict};
use gatepost_procedures::{
    ConfigurationProblem, ProcedureAnswer, ProcedureArguments, ProcedureHost, ProcedureMail,
    ProcedureMailer, ProcedurePublications, Procedures, ProceduresConfiguration, ScopeSettings,
};
use gatepost_rules::RuleSet;
use gatepost_settings::Period;
use gatepost_store::ValueStore;
use parking_lot::Mutex;
use tempfile::TempDir;

/// Reached only by a defect.
pub const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Default)]
pub struct Notes(pub Mutex<Vec<Publication>>);

impl ProcedurePublications for Notes {
    fn publish(&self, publication: Publication) {
        self.0.lock().push(publication);
    }
}

/// Mail of procedures, as it would leave.
#[derive(Default)]
pub struct Mails(pub Mutex<Option<mpsc::Sender<ProcedureMail>>>);

impl ProcedureMailer for Mails {
    fn can_send(&self) -> bool {
        self.0.lock().is_some()
    }

    fn send(&self, mail: ProcedureMail) {
        let sender = self.0.lock();
        let sender = sender.as_ref().expect("asked before");
        sender.send(mail).expect("the test receives");
    }
}

pub struct Fixture {
    pub folder: TempDir,
    pub configuration: ProceduresConfiguration,
    pub values: ValueStore,
    pub notes: Arc<Notes>,
    pub mails: Arc<Mails>,
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut configuration = ProceduresConfiguration::default();
        folder.path().clone_into(&mut configuration.procedures.path);
        configuration.procedures.judges = 2;
        configuration.procedures.recheck = Period::milliseconds(20);
        configuration.procedures.luau.time_max = Period::seconds(60);
        Self {
            folder,
            configuration,
            values: ValueStore::in_memory(gatepost_store::ValueLimits {
                count_max: 1000,
                bytes_max: gatepost_settings::ByteSize::mebibytes(1),
            }),
            notes: Arc::default(),
            mails: Arc::default(),
        }
    }

    /// Adds a procedure.
    pub fn with(self, path: &str, source: &str) -> Self {
        let file = self.folder.path().join(format!("{path}.luau"));
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, source).expect("written");
        self
    }

    /// The mail that procedures send.
    pub fn mails(&self) -> mpsc::Receiver<ProcedureMail> {
        let (sender, mails) = mpsc::channel();
        *self.mails.0.lock() = Some(sender);
        mails
    }

    /// Adds a scope for all messages.
    pub fn run(mut self, members: &[&str]) -> Self {
        self.configuration.scopes.push(ScopeSettings {
            path: "/scope".to_owned(),
            run: members.iter().map(ToString::to_string).collect(),
            ..ScopeSettings::default()
        });
        self
    }

    pub fn try_start(&self) -> Result<Procedures, Vec<ConfigurationProblem>> {
        let rules = Arc::new(RuleSet::embedded());
        let host = ProcedureHost::new(self.values.clone(), Some(self.notes.clone()));
        let host = host.mailing(self.mails.clone());
        Procedures::start_in(self.configuration.clone(), rules, host).map(|(started, _)| started)
    }

    pub fn start(&self) -> Procedures {
        self.try_start().expect("a configuration without errors")
    }
}

/// A mail from bert to anna.
pub fn mail(text: &str) -> Message {
    let mut envelope = Envelope::new(Listener::Smtp, Peer::Address(([192, 0, 2, 1], 25).into()));
    envelope.client = Some("client.example".into());
    envelope.sender = Some("bert@example.net".into());
    envelope.recipients = vec!["anna@example.org".into()];
    let topic = Topic::new("anna").ok();
    Message::new(
        envelope,
        topic,
        Format::Mail,
        Bytes::copy_from_slice(text.as_bytes()),
    )
}

/// A publication in transit.
pub fn payload(topic: &str, body: &str) -> Message {
    let envelope = Envelope::new(Listener::Mqtt, Peer::Local);
    let topic = Topic::new(topic).ok();
    Message::new(
        envelope,
        topic,
        Format::Payload,
        Bytes::copy_from_slice(body.as_bytes()),
    )
}

pub async fn judge(procedures: &Procedures, message: Message) -> Verdict {
    procedures.judge(&Arc::new(message)).await
}

pub async fn call(procedures: &Procedures, path: &str, message: Message) -> ProcedureAnswer {
    let message = Arc::new(message);
    procedures
        .call(path, message, ProcedureArguments::none())
        .await
        .expect(path)
}

/// Waits for a condition.
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until so many messages wait for the network without a judge.
pub async fn until_waiting(procedures: &Procedures, count: usize) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while procedures.status().waiting_for_network != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("all of them wait");
}

/// A server of names that answers 127.0.0.2 to every question, on a signal; before, questions
/// wait.
pub fn answer_when_notified(server: UdpSocket) -> mpsc::Sender<()> {
    let (notify, signal) = mpsc::channel();
    thread::spawn(move || {
        if signal.recv().is_err() {
            return;
        }
        let mut question = [0; 512];
        while let Ok((length, from)) = server.recv_from(&mut question) {
            let mut answer = question[..length - 11].to_vec(); // without the OPT record
            answer[10..12].fill(0);
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            answer[7] = 1;
            answer.extend_from_slice(&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 2]);
            let _ = server.send_to(&answer, from);
        }
    });
    notify
}
