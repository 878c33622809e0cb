//! The definition file of a peer.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::error::BenchError;

/// Folders with Debian's daemons that a user's `PATH` does not contain.
const MORE_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// Describes how to start one server and what it offers.
///
/// In commands, environment, files and offers, `{program}` is the program's path, `{folder}` a
/// temporary folder of this run, `{NAME}` the free port found for NAME in `ports`, and
/// `{message}` (CALL only) the message file's path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerDefinition {
    /// One line for the list of peers.
    pub about: String,
    /// The program that must be installed.
    pub program: String,
    /// The way to install it, shown if it is missing.
    #[serde(default)]
    pub install: Option<String>,
    /// An environment variable that may contain the program's path instead.
    #[serde(default)]
    pub program_variable: Option<String>,
    /// Further required programs; each name is a placeholder for its path.
    #[serde(default)]
    pub programs: BTreeMap<String, OtherProgram>,
    /// The command that prints the version; the first line with a digit is kept.
    #[serde(default)]
    pub version: Vec<String>,
    /// Names for which a free loopback port is found.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Commands that run first, each to its end.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The server's command; it stays in the foreground. Empty if there is none to start.
    #[serde(default)]
    pub command: Vec<String>,
    /// Additional environment variables.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The ports that accept connections once the server is ready: one name or a list.
    #[serde(default, deserialize_with = "one_or_many")]
    pub ready: Vec<String>,
    /// A text that one of its files must contain as well, if the server accepts connections before
    /// it is fully ready.
    #[serde(default)]
    pub ready_text: Option<ReadyText>,
    /// The time limit for readiness, in seconds.
    #[serde(default = "default_ready_seconds")]
    pub ready_seconds: u64,
    /// Scenario to URL or command; `SCENARIO-WAY` for `--over WAY`.
    pub offers: BTreeMap<String, String>,
    /// The publishers' target of an offer, if it is another one.
    #[serde(default)]
    pub publish: BTreeMap<String, String>,
    /// For WEB: the location of pages, and the notation of the insertion point.
    #[serde(default)]
    pub web: Option<WebPages>,
    /// Path within the folder to content.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The definition as it was read.
    #[serde(skip)]
    pub text: String,
}

/// A program besides the server, such as a client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherProgram {
    /// Its name.
    pub program: String,
    /// An environment variable that may contain its path instead.
    #[serde(default)]
    pub variable: Option<String>,
    /// A folder, relative to this program's own, that may contain a build that starts faster.
    #[serde(default)]
    pub statically_linked: Option<String>,
}

/// A text in a log that shows that a server is ready.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyText {
    /// The log, within the folder.
    pub file: String,
    /// The text in it.
    pub text: String,
}

/// The form in which a web server expects the nine pages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebPages {
    /// The file name of a page within the folder; `{size}` stands for its size.
    pub file: String,
    /// The text that the server replaces by time and date.
    pub insertion: String,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(name) => vec![name],
        OneOrMany::Many(names) => names,
    })
}

const fn default_ready_seconds() -> u64 {
    30
}

impl PeerDefinition {
    /// Its configuration for the record: its command and its files, with placeholders.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        let mut all = self.files.clone();
        if !self.command.is_empty() {
            all.insert("command".into(), self.command.join(" "));
        }
        for (name, value) in &self.environment {
            all.insert(format!("environment {name}"), value.clone());
        }
        all
    }

    /// The program's path.
    pub fn find_program(&self, peer: &str) -> Result<PathBuf, BenchError> {
        self.find(peer, &self.program, self.program_variable.as_deref())
    }

    /// The paths of the programs that an offer needs, by placeholder: the server, and the programs
    /// that the offer or its preparation names.
    pub fn find_programs(
        &self,
        peer: &str,
        offer: &str,
    ) -> Result<Vec<(String, PathBuf)>, BenchError> {
        let mut found = vec![("program".to_owned(), self.find_program(peer)?)];
        let texts = self.prepare.iter().flatten().chain(&self.command);
        let texts: Vec<&str> = texts.map(String::as_str).chain([offer]).collect();
        for (word, other) in &self.programs {
            let place = format!("{{{word}}}");
            if texts.iter().any(|text| text.contains(&place)) {
                let path = self.find_other(peer, other)?;
                found.push((word.clone(), path));
            }
        }
        Ok(found)
    }

    /// The path of a program besides the server, preferably of its static build if there is one.
    fn find_other(&self, peer: &str, other: &OtherProgram) -> Result<PathBuf, BenchError> {
        let variable = other.variable.as_deref();
        let Some(folder) = &other.statically_linked else {
            return self.find(peer, &other.program, variable);
        };
        let exe = env::current_exe().ok();
        let beside = exe.as_deref().and_then(Path::parent);
        let built = beside.map(|beside| beside.join(folder).join(&other.program));
        let is_named = variable.and_then(env::var_os).is_some();
        let path = match built.filter(|path| !is_named && path.is_file()) {
            Some(path) => path,
            None => self.find(peer, &other.program, variable)?,
        };
        if fs::read(&path).is_ok_and(|program| needs_loader(&program)) {
            eprintln!(
                "warning: {} is linked dynamically, so each start of it takes longer than that of \
                 the static build (make call)",
                path.display()
            );
        }
        Ok(path)
    }

    /// A program's path: from the variable, beside this program, on `PATH`, or in the folders of
    /// daemons.
    fn find(
        &self,
        peer: &str,
        program: &str,
        variable: Option<&str>,
    ) -> Result<PathBuf, BenchError> {
        let named = variable.and_then(env::var_os).map(PathBuf::from);
        if let Some(path) = named.filter(|path| path.is_file()) {
            return Ok(path);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let beside_us = env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.parent()?.to_owned()));
        let mut folders = beside_us
            .into_iter()
            .chain(env::split_paths(&path))
            .chain(MORE_FOLDERS.map(PathBuf::from));
        folders
            .find_map(|folder| {
                let candidate = folder.join(program);
                candidate.is_file().then_some(candidate)
            })
            .ok_or_else(|| BenchError::NotInstalled {
                peer: peer.to_owned(),
                program: program.to_owned(),
                searched: MORE_FOLDERS.join(", "),
                hint: self
                    .install
                    .as_ref()
                    .map(|install| format!("; to install: {install}"))
                    .unwrap_or_default(),
            })
    }
}

/// Whether an ELF program needs the dynamic loader, that is, has a program header of type
/// `PT_INTERP`.
fn needs_loader(program: &[u8]) -> bool {
    const PT_INTERP: usize = 3;
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at.checked_add(length)?)?;
        let value = bytes.iter().rev();
        Some(value.fold(0_usize, |value, &byte| value << 8 | usize::from(byte)))
    };
    // 64 bits, little-endian; other formats are not examined.
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    let headers = || {
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        Some((0..count).any(|index| number(start + index * size, 4) == Some(PT_INTERP)))
    };
    headers().unwrap_or(false)
}

/// All definitions by name.
#[derive(Debug, Clone)]
pub struct PeerDefinitions(BTreeMap<String, PeerDefinition>);

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../peers/", $name, ".toml")))),*]
    };
}

const BUILT_IN: [(&str, &str); 35] = built_in![
    "bare-loop",
    "caddy",
    "curl",
    "empty-process",
    "emqx",
    "gatepost",
    "gatepost-bridge",
    "gatepost-sizecheck",
    "gatepost-tls",
    "gatepost-transit",
    "h2o",
    "haraka",
    "haraka-rspamd",
    "hivemq-ce",
    "minimal-c",
    "moquette",
    "mosquitto",
    "mosquitto-bridge",
    "mosquitto-tls",
    "nats-server",
    "nats-server-durable",
    "nats-server-tls",
    "nchan",
    "nginx",
    "nginx-static",
    "nginx-tls",
    "ntfy",
    "redis",
    "rmqttd",
    "rspamd",
    "rumqttd",
    "smtp-sink",
    "spamassassin",
    "spamc",
    "spamd",
];

impl PeerDefinitions {
    /// The built-in definitions, and those of a folder.
    pub fn load(folder: Option<&Path>) -> Result<Self, BenchError> {
        let mut all = BTreeMap::new();
        for (name, text) in BUILT_IN {
            all.insert(name.to_owned(), parse(name, text)?);
        }
        for path in folder
            .map(definition_files)
            .transpose()?
            .unwrap_or_default()
        {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path).map_err(|error| BenchError::File {
                path: path.clone(),
                error,
            })?;
            all.insert(name, parse(&path.to_string_lossy(), &text)?);
        }
        Ok(Self(all))
    }

    /// The definition of this name.
    pub fn get(&self, name: &str) -> Result<&PeerDefinition, BenchError> {
        self.0
            .get(name)
            .ok_or_else(|| BenchError::UnknownPeer(name.to_owned()))
    }

    /// All definitions, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &PeerDefinition)> {
        self.0.iter()
    }
}

fn parse(name: &str, text: &str) -> Result<PeerDefinition, BenchError> {
    let mut definition: PeerDefinition =
        toml::from_str(text).map_err(|error| BenchError::Definition {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
    text.clone_into(&mut definition.text);
    let mut ready = definition.ready.iter();
    let unknown_port = ready.find(|ready| !definition.ports.contains(ready));
    if let Some(ready) = unknown_port {
        return Err(BenchError::Definition {
            name: name.to_owned(),
            reason: format!("ready = \"{ready}\" is not one of its ports"),
        });
    }
    Ok(definition)
}

fn definition_files(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let entries = fs::read_dir(folder).map_err(|error| BenchError::File {
        path: folder.to_owned(),
        error,
    })?;
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_definitions_are_well_formed() {
        let all = PeerDefinitions::load(None).expect("definitions");
        for (name, definition) in all.iter() {
            assert!(!definition.offers.is_empty(), "{name} offers nothing");
            assert!(!definition.about.is_empty(), "{name}");
        }
        assert!(all.get("gatepost").is_ok());
        assert!(matches!(all.get("nobody"), Err(BenchError::UnknownPeer(_))));
    }

    #[test]
    fn a_program_that_needs_the_loader_is_known() {
        let own = env::current_exe().and_then(fs::read).expect("this program");
        assert!(needs_loader(&own));
        assert!(!needs_loader(&own[..60]));
        assert!(!needs_loader(b"#!/bin/sh\n"));
    }

    #[test]
    fn mistakes_name_the_definition() {
        let error = parse("mine", "about = 1").expect_err("a mistake");
        assert!(error.to_string().contains("mine"), "{error}");
        let text = "about=\"x\"\nprogram=\"x\"\nready=\"p\"\n[offers]\nweb=\"http://x\"\n";
        assert!(
            parse("mine", text)
                .expect_err("a mistake")
                .to_string()
                .contains("ports")
        );
    }

    #[test]
    fn a_missing_program_is_reported() {
        let text = "about=\"x\"\nprogram=\"surely-not-installed\"\n[offers]\n";
        let definition = parse("mine", text).expect("a definition");
        let error = definition.find_program("mine").expect_err("not there");
        assert!(matches!(error, BenchError::NotInstalled { .. }));
    }
}
