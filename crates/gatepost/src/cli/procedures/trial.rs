//! `gatepost procedures test`: runs one procedure on one message, and prints all its effects.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use gatepost_message::{
    Edit, Envelope, Format, Listener, Message, MessageId, Peer, Publication, Topic, edit,
};
use gatepost_operations::{format_of, message_of};
use gatepost_procedures::{
    ProcedureAnswer, ProcedureArguments, ProcedureHost, ProcedurePublications, Procedures,
};
use gatepost_rules::RuleSet;
use gatepost_store::{Store, ValueStore};

use super::{refused, start};
use crate::config::{Config, ConfigSource, Layers, print_mistakes};
use crate::exit::{EXIT_CONFIG, EXIT_UNAVAILABLE};

/// Longest text of a change that is shown.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// Run one procedure on one message and show its verdict, changes, time and memory
///
/// Nothing is delivered, published or stored; values of `store` are read from the data folder.
#[derive(Debug, Args)]
pub(super) struct TestArguments {
    #[command(flatten)]
    source: ConfigSource,
    /// A Luau file, or the path of a configured procedure or scope, such as /mail
    #[arg(value_name = "FILE")]
    procedure: String,
    /// A message file, - for standard input, or the id of a stored message
    #[arg(value_name = "MESSAGE")]
    message: String,
    /// Arguments for the procedure: -name value ...
    #[arg(
        value_name = "-NAME VALUE",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pairs: Vec<String>,
    /// The envelope sender
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,
    /// An envelope recipient (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    recipient: Vec<String>,
    /// The topic; without sender and recipients, the message is a payload rather than mail
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// The client's IP address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: std::net::IpAddr,
    /// The user who logged in
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// Records the publications that would have been made.
#[derive(Default)]
struct Notes(Mutex<Vec<Publication>>);

impl ProcedurePublications for Notes {
    fn publish(&self, publication: Publication) {
        if let Ok(mut notes) = self.0.lock() {
            notes.push(publication);
        }
    }
}

pub(super) fn run(arguments: &TestArguments) -> ExitCode {
    let (config, layers) = match arguments.source.load() {
        Ok(loaded) => loaded,
        Err(mistakes) => return print_mistakes(&mistakes),
    };
    let config_error = |text: String| {
        eprintln!("gatepost: {text}");
        ExitCode::from(EXIT_CONFIG)
    };
    let store = store_of(&config);
    let message = match message(arguments, store.as_ref()) {
        Ok(message) => Arc::new(message),
        Err(text) => return config_error(text),
    };
    let pairs = match pairs(&arguments.pairs) {
        Ok(pairs) => pairs,
        Err(text) => return config_error(text),
    };
    let notes = Arc::new(Notes::default());
    let (procedures, path) = match procedures(arguments, &config, &layers, store.as_ref(), &notes) {
        Ok(started) => started,
        Err(code) => return code,
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        return ExitCode::from(EXIT_UNAVAILABLE);
    };
    let started = Instant::now();
    let called = runtime.block_on(procedures.call(&path, Arc::clone(&message), pairs));
    let took = started.elapsed();
    match called {
        Ok(answer) => {
            show(&message, &answer, took, &notes);
            let errors = procedures.status().procedures;
            // Standard error has the cause, with file and line.
            if errors.iter().any(|one| one.errors > 0) {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(error) => config_error(format!(
            "{path}: {error}; gatepost procedures list names all"
        )),
    }
}

/// The database, if there is one, for values and for kept messages.
fn store_of(config: &Config) -> Option<Store> {
    config
        .data
        .join("gatepost.db")
        .exists()
        .then(|| Store::open_secondary(&config.data, &config.store).ok())?
}

fn procedures(
    arguments: &TestArguments,
    config: &Config,
    layers: &Layers,
    store: Option<&Store>,
    notes: &Arc<Notes>,
) -> Result<(Procedures, String), ExitCode> {
    let limits = config.procedures.values_limits();
    let values = store.and_then(|store| ValueStore::copy_of(store, limits).ok());
    let values = values.unwrap_or_else(|| ValueStore::in_memory(limits));
    let host = ProcedureHost::new(values, Some(notes.clone()));
    // This prints failures with file and line.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::INFO)
        .without_time()
        .try_init();
    let (rules, _) = RuleSet::load(&config.rules.paths, &config.rules);
    let file = Path::new(&arguments.procedure);
    if file
        .extension()
        .is_some_and(|extension| extension == "luau")
    {
        let started = Procedures::start_file(config.procedures(), Arc::new(rules), host, file);
        return started.map_err(|problems| refused(layers, &problems));
    }
    let (rules, _) = RuleSet::load(&config.rules.paths, &config.rules);
    let procedures = start(config, layers, Arc::new(rules), host)?;
    Ok((procedures, arguments.procedure.clone()))
}

fn message(arguments: &TestArguments, store: Option<&Store>) -> Result<Message, String> {
    let topic = arguments.topic.as_deref().map(Topic::new).transpose();
    let topic = topic.map_err(|error| format!("--topic: {error}"))?;
    if let (Ok(id), Some(store)) = (arguments.message.parse::<MessageId>(), store) {
        return kept(id, store)?.ok_or_else(|| format!("the data folder contains no message {id}"));
    }
    let body = match arguments.message.as_str() {
        "-" => {
            let mut body = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut body);
            read.map(|_| body)
        }
        file => std::fs::read(PathBuf::from(file)),
    };
    let body = body.map_err(|error| format!("{}: {error}", arguments.message))?;
    let is_payload =
        topic.is_some() && arguments.sender.is_none() && arguments.recipient.is_empty();
    let (listener, format) = if is_payload {
        (Listener::Mqtt, Format::Payload)
    } else {
        (Listener::Smtp, Format::Mail)
    };
    let mut envelope = Envelope::new(listener, Peer::Address((arguments.address, 0).into()));
    envelope.sender.clone_from(&arguments.sender);
    envelope.recipients.clone_from(&arguments.recipient);
    envelope.user.clone_from(&arguments.user);
    Ok(Message::new(envelope, topic, format, Bytes::from(body)))
}

/// A message that is kept as it arrived, or in quarantine.
fn kept(id: MessageId, store: &Store) -> Result<Option<Message>, String> {
    let describe = |error: gatepost_store::StoreError| error.to_string();
    let originals = store.originals(usize::MAX).map_err(describe)?;
    let original = originals.into_iter().find(|(one, ..)| *one == id);
    let (format, body) = match original {
        Some((_, format, body)) => (format, body),
        None => match store.quarantined(id).map_err(describe)? {
            Some(entry) => (format_of(&entry.journal), entry.body),
            None => return Ok(None),
        },
    };
    let story = store.journal_entry(id).map_err(describe)?;
    Ok(story.map(|story| message_of(&story, format, body)))
}

fn pairs(words: &[String]) -> Result<ProcedureArguments, String> {
    let mut arguments = ProcedureArguments::none();
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            return Err(format!(
                "'{}' has no value; write -name value",
                pair.concat()
            ));
        };
        let name = name.strip_prefix('-');
        let name = name.ok_or_else(|| {
            format!(
                "'{}' is not an argument; write -name \
            value",
                pair[0]
            )
        })?;
        arguments.push(name, value.as_str());
    }
    Ok(arguments)
}

fn show(message: &Message, answer: &ProcedureAnswer, took: Duration, notes: &Notes) {
    let verdict = &answer.verdict;
    let line = |name: &str, value: &str| println!("{name:<10} {value}");
    line("verdict", verdict.action.name());
    if !verdict.procedure.is_empty() {
        line("by", &verdict.procedure);
    }
    if !verdict.reason.is_empty() {
        line("reason", &verdict.reason);
    }
    if let Some(score) = verdict.score {
        line("score", &score.to_string());
    }
    for hit in &verdict.hits {
        line("rule", &format!("{} {:.3}", hit.name, hit.score));
    }
    for (name, value) in &verdict.tags {
        line("tag", &format!("{name}: {value}"));
    }
    for edit in &verdict.edits {
        line("change", &in_words(edit));
    }
    if !verdict.edits.is_empty() {
        let size = edit::applied(message, &verdict.edits).size;
        line("size", &format!("{} bytes, before {}", size, message.size));
    }
    if let Ok(notes) = notes.0.lock() {
        for one in notes.iter() {
            line(
                "publish",
                &format!("{} {}", one.topic, excerpt(&one.payload)),
            );
        }
    }
    for text in answer.text.lines() {
        line("text", text);
    }
    line("time", &format!("{:.3} ms", took.as_secs_f64() * 1000.0));
    if answer.cost.steps > 0 {
        line("steps", &answer.cost.steps.to_string());
        line(
            "memory",
            &format!("{:.1} KiB", answer.cost.memory_bytes as f64 / 1024.0),
        );
    }
}

fn in_words(edit: &Edit) -> String {
    match edit {
        Edit::PrependField(field) => format!("first field {}: {}", field.name(), field.value()),
        Edit::AppendField(field) => format!("last field {}: {}", field.name(), field.value()),
        Edit::ReplaceField { field, occurrence } => {
            format!(
                "field {} ({occurrence}) is now: {}",
                field.name(),
                field.value()
            )
        }
        Edit::RemoveField { name, occurrence } => format!("field {name} ({occurrence}) is gone"),
        Edit::ReplaceBody(body) => format!("body of {} bytes: {}", body.len(), excerpt(body)),
        Edit::SetPayload {
            payload,
            content_type,
        } => {
            let kind = content_type.as_deref().unwrap_or("no type");
            format!(
                "payload of {} bytes ({kind}): {}",
                payload.len(),
                excerpt(payload)
            )
        }
    }
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let start: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    start.escape_debug().to_string()
}
