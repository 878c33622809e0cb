//! A running peer, which is stopped when it is dropped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::PeerDefinition;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::interrupt;
use crate::process::{Processors, WatchedServer, is_group_alive};
use crate::target::RunningTarget;

/// The time within which a server must end after it was requested to.
const STOP_SECONDS: u64 = 10;
/// Interval of the checks of a server that is starting or ending.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The file in the peer's folder for the server's output.
const LOG: &str = "output.log";

/// A running peer. Its folder and its processes are removed with it.
pub struct Running {
    name: String,
    child: Option<Child>,
    folder: Folder,
    words: BTreeMap<String, String>,
    start_seconds: Option<f64>,
}

impl Running {
    /// Starts a peer for one of its offers and waits until it is ready. `more` contains
    /// placeholders in addition to the standard ones; it runs only on `processors`, if given;
    /// `before_start` may put files into its folder.
    pub fn start(
        name: &str,
        definition: &PeerDefinition,
        offer: &str,
        more: &[(&str, String)],
        processors: Option<&Processors>,
        before_start: impl FnOnce(&Path) -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        let programs = definition.find_programs(name, offer)?;
        let folder = Folder::create()?;
        let mut words: BTreeMap<String, String> = more
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        for (word, path) in programs {
            words.insert(word, path.to_string_lossy().into_owned());
        }
        words.insert("folder".into(), folder.0.to_string_lossy().into_owned());
        for (port, number) in definition
            .ports
            .iter()
            .zip(free_ports(definition.ports.len())?)
        {
            words.insert(port.clone(), number.to_string());
        }
        let mut running = Self {
            name: name.to_owned(),
            child: None,
            folder,
            words,
            start_seconds: None,
        };
        running.write_files(definition)?;
        before_start(&running.folder.0)?;
        for command in &definition.prepare {
            running.prepare(command)?;
        }
        if !definition.command.is_empty() {
            running.launch(definition, processors)?;
        }
        Ok(running)
    }

    /// The target that it offers to a scenario, and that of its publishers if it is another one.
    pub fn target(&self, offer: &str, publish: Option<&str>) -> Result<RunningTarget, BenchError> {
        let publish = publish.map(|text| self.replace(text).parse()).transpose()?;
        Ok(RunningTarget {
            name: self.name.clone(),
            endpoint: self.replace(offer).parse()?,
            publish,
            watched: self
                .child
                .as_ref()
                .map(|child| WatchedServer::Process(child.id())),
            start_seconds: self.start_seconds,
        })
    }

    fn replace(&self, text: &str) -> String {
        self.words
            .iter()
            .fold(text.to_owned(), |text, (word, value)| {
                text.replace(&format!("{{{word}}}"), value)
            })
    }

    fn command(&self, words: &[String]) -> Command {
        let mut words = words.iter().map(|word| self.replace(word));
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .current_dir(&self.folder.0)
            .stdin(Stdio::null());
        command
    }

    fn not_ready(&self, reason: impl Into<String>) -> BenchError {
        BenchError::NotReady {
            peer: self.name.clone(),
            reason: reason.into(),
        }
    }

    fn write_files(&self, definition: &PeerDefinition) -> Result<(), BenchError> {
        for (name, content) in &definition.files {
            let path = self.folder.0.join(name);
            let write = || {
                fs::create_dir_all(path.parent().unwrap_or(&path))?;
                fs::write(&path, self.replace(content))
            };
            write().map_err(|error| BenchError::File {
                path: path.clone(),
                error,
            })?;
        }
        Ok(())
    }

    fn prepare(&self, words: &[String]) -> Result<(), BenchError> {
        let output = self.command(words).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(self.not_ready(format!("{} failed: {said}", words.join(" "))))
    }

    fn launch(
        &mut self,
        definition: &PeerDefinition,
        processors: Option<&Processors>,
    ) -> Result<(), BenchError> {
        let log = File::create(self.folder.0.join(LOG))?;
        let mut command = self.command(&definition.command);
        for (key, value) in &definition.environment {
            command.env(key, self.replace(value));
        }
        // A process group of its own: Ctrl-C is handled by the bench, and the peer's workers end
        // with it.
        command
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let started = clock::now();
        let spawned = match processors {
            Some(processors) => processors.spawn_on(&mut command),
            None => command.spawn(),
        };
        let child = spawned.map_err(|error| self.not_ready(error.to_string()))?;
        interrupt::end_with_us(child.id());
        self.child = Some(child);
        let deadline = started + definition.ready_seconds * clock::SECOND;
        for name in &definition.ready {
            let port = self.words.get(name).and_then(|port| port.parse().ok());
            let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(0)));
            self.wait_until(deadline, "it does not accept connections", || {
                TcpStream::connect(address).is_ok()
            })?;
        }
        if let Some(ready) = &definition.ready_text {
            let log = self.folder.0.join(&ready.file);
            let missing = format!("{} does not say \"{}\"", ready.file, ready.text);
            self.wait_until(deadline, &missing, || {
                fs::read(&log).is_ok_and(|said| contains(&said, ready.text.as_bytes()))
            })?;
        }
        if !definition.ready.is_empty() {
            self.start_seconds = Some(clock::seconds(clock::now() - started));
        }
        Ok(())
    }

    fn wait_until(
        &mut self,
        deadline: Nanoseconds,
        missing: &str,
        ready: impl Fn() -> bool,
    ) -> Result<(), BenchError> {
        loop {
            // If the server has ended, another program answers at its port.
            let is_ready = ready();
            let ended = self
                .child
                .as_mut()
                .is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if is_ready && !ended {
                return Ok(());
            }
            if ended || clock::now() > deadline || interrupt::interrupted() {
                let what = if ended { "it ended" } else { missing };
                let said = tail(&self.folder.0.join(LOG));
                return Err(self.not_ready(format!("{what}; it said: {said}")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            return;
        };
        let leader = child.id();
        // An error means that it has already ended.
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = clock::now() + STOP_SECONDS * clock::SECOND;
        // Its workers may outlive the process that was started: they would run into the next
        // measurement.
        while matches!(child.try_wait(), Ok(None)) || is_group_alive(leader) {
            if clock::now() > deadline {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        interrupt::forget_group(leader);
    }
}

/// The version that a peer's program reports, if any.
pub(crate) fn version(name: &str, definition: &PeerDefinition) -> Option<String> {
    let program = definition.find_program(name).ok()?;
    let words = definition.version.iter();
    let mut words = words.map(|word| word.replace("{program}", &program.to_string_lossy()));
    let output = Command::new(words.next()?)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text
        .lines()
        .find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    Some(line.trim().to_owned())
}

/// Different ports that were free a moment ago.
fn free_ports(count: usize) -> Result<Vec<u16>, BenchError> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()?;
    let ports = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()));
    ports.collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The end of a server's output, for its error message.
fn tail(path: &Path) -> String {
    const LENGTH: u64 = 2_000;
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(LENGTH);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}

/// A folder that is removed with its owner. Servers that change their user must be able to read it.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self, BenchError> {
        let name = format!("gatepost-bench-{}-{:x}", std::process::id(), clock::now());
        let path = std::env::temp_dir().join(name);
        let create = || {
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        };
        match create() {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(BenchError::File { path, error }),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that stays in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ() {
        let mut ports = free_ports(20).expect("ports");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }

    #[test]
    fn a_server_without_the_ready_text_in_its_log_is_not_ready() {
        let text = "about=\"x\"\nprogram=\"sh\"\nready_seconds=1\n\
            command=[\"{program}\",\"-c\",\"echo loading; sleep 20\"]\n[offers]\n\
            [ready_text]\nfile=\"peer.log\"\ntext=\"loaded\"\n";
        let text = text.replace("peer.log", LOG);
        let definition: PeerDefinition = toml::from_str(&text).expect("a definition");
        let Err(error) = Running::start("slow", &definition, "", &[], None, |_| Ok(())) else {
            panic!("it never said so");
        };
        assert!(
            error.to_string().contains("does not say \"loaded\""),
            "{error}"
        );

        let soon = text.replace("echo loading", "echo loading; sleep 0.1; echo loaded");
        let definition: PeerDefinition = toml::from_str(&soon).expect("a definition");
        Running::start("slow", &definition, "", &[], None, |_| Ok(())).expect("it says so");
    }

    #[test]
    fn workers_that_outlive_their_server_have_ended_when_it_is_dropped() {
        // The worker ends later than the process that was started, and writes a file before.
        let text = "about=\"x\"\nprogram=\"sh\"\n\
            command=[\"{program}\",\"-c\",\"(trap 'sleep 0.3; echo >$OUT; exit' TERM; echo up >up; \
            while :; do sleep 0.01; done) & wait\"]\n[offers]\n[environment]\n\
            OUT=\"OUTPUT\"\n[ready_text]\nfile=\"up\"\ntext=\"up\"\n";
        let folder = tempfile::tempdir().expect("a folder");
        let written = folder.path().join("written");
        let text = text.replace("OUTPUT", &written.to_string_lossy());
        let definition: PeerDefinition = toml::from_str(&text).expect("a definition");
        let running = Running::start("forks", &definition, "", &[], None, |_| Ok(()));
        drop(running.expect("it starts"));
        assert!(written.exists(), "the worker was still running");
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_output() {
        let text = "about=\"x\"\nprogram=\"sh\"\nports=[\"p\"]\nready=\"p\"\n\
            command=[\"{program}\",\"-c\",\"echo no such port {p}\"]\n[offers]\n";
        let definition: PeerDefinition = toml::from_str(text).expect("a definition");
        let Err(error) = Running::start("mine", &definition, "", &[], None, |_| Ok(())) else {
            panic!("it cannot be ready");
        };
        assert!(
            error.to_string().contains("mine did not become ready"),
            "{error}"
        );
        assert!(error.to_string().contains("no such port"), "{error}");
    }
}
