//! Hosts with an address of their own, each a network namespace with a cable to one switch.
//!
//! A test that needs them runs itself once more, in namespaces for its network, its mounts and its
//! processes. So no setting of the machine changes, and everything ends with the test, however it
//! ends. Where namespaces cannot be made, the test does on loopback what it can do there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{command, root, run, text_of};

/// Present in the environment of the test that runs itself again.
const INSIDE: &str = "GATEPOST_TEST_INSIDE_NAMESPACES";
const NETWORK: &str = "10.77.0";
/// An address of no interface: frames for it are lost.
const NOWHERE: &str = "02:00:00:00:00:01";
const PROBE: &str = "mount -t tmpfs none /run && mkdir /run/netns && ip netns add host1 && \
    ip link add switch type bridge && ip link add near1 type veth peer name far1 netns host1";

/// The place of a program: an address, and the namespace that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) address: String,
    /// No name: this process' own network.
    namespace: Option<String>,
}

impl Host {
    pub(crate) fn loopback() -> Self {
        Self {
            address: "127.0.0.1".to_owned(),
            namespace: None,
        }
    }

    /// The words before a program that runs there.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let nsenter =
            |name: &String| vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}")];
        self.namespace.as_ref().map_or_else(Vec::new, nsenter)
    }
}

/// The place of the test after [`enter`].
pub(crate) enum Place {
    /// In namespaces of its own.
    Inside(Network),
    /// It ran there, to its end.
    RanInside,
    /// Namespaces cannot be made.
    Outside,
}

/// Runs the test of this name in namespaces. Returns in both runs.
pub(crate) fn enter(test: &str) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Inside(Network::make());
    }
    let probe = unshare().args(["sh", "-c", PROBE]).output();
    let reason = match &probe {
        Ok(output) if output.status.success() => String::new(),
        Ok(output) => text_of(output),
        Err(error) => error.to_string(),
    };
    if !reason.is_empty() {
        eprintln!(
            "\n*** NETWORK NAMESPACES CANNOT BE MADE HERE ({}): no network and no disk fails in \
             this test. Run it as root. ***\n",
            reason.trim()
        );
        return Place::Outside;
    }
    let program = std::env::current_exe().expect("this program");
    let mut child = unshare()
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for line in lines.map_while(Result::ok) {
        println!("{line}");
    }
    let status = child.wait().expect("our child");
    assert!(status.success(), "{test} fails in its namespaces");
    Place::RanInside
}

fn unshare() -> Command {
    let mut unshare = command("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child"]);
    unshare.arg("--mount-proc");
    unshare
}

/// The switch, and what is connected to it.
pub(crate) struct Network {
    /// This process, where the clients are.
    pub(crate) clients: Host,
    slow_cables: Vec<(String, Child)>,
}

impl Network {
    /// Only in namespaces: /run is this test's own afterwards.
    fn make() -> Self {
        system("mount", "-t tmpfs none /run");
        std::fs::create_dir("/run/netns").expect("a folder");
        ip("link set lo up");
        ip("link add switch type bridge");
        ip(&format!("addr add {NETWORK}.1/24 dev switch"));
        ip("link set switch up");
        Self {
            clients: Host {
                address: format!("{NETWORK}.1"),
                namespace: None,
            },
            slow_cables: Vec::new(),
        }
    }

    /// Adds a host, with the last number of its address. Needs the network.
    pub(crate) fn add_host(name: &str, number: u8) -> Host {
        let address = format!("{NETWORK}.{number}");
        ip(&format!("netns add {name}"));
        ip(&format!(
            "link add {name} type veth peer name eth0 netns {name}"
        ));
        ip(&format!("link set {name} master switch up"));
        ip(&format!("-n {name} addr add {address}/24 dev eth0"));
        ip(&format!("-n {name} link set eth0 up"));
        ip(&format!("-n {name} link set lo up"));
        Host {
            address,
            namespace: Some(name.to_owned()),
        }
    }

    /// A disk of so many megabytes.
    pub(crate) fn disk(name: &str, megabytes: u32) -> PathBuf {
        let folder = Path::new("/run/disks").join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.display();
        system(
            "mount",
            &format!("-t tmpfs -o size={megabytes}m none {path}"),
        );
        folder
    }

    /// Loses what one host sends to another.
    pub(crate) fn cut(from: &Host, to: &Host) {
        let address = &to.address;
        neighbours(
            from,
            &format!("replace {address} lladdr {NOWHERE} nud permanent"),
        );
    }

    /// A host reaches all others again.
    pub(crate) fn mend_cuts(from: &Host) {
        neighbours(from, "flush nud permanent");
    }

    /// Delays what a host sends and receives, and loses a part of it.
    pub(crate) fn slow_down(&mut self, host: &Host, delay_ms: u32, loss_percent: u32) {
        let name = host.namespace.as_deref().expect("a host with a cable");
        ip(&format!(
            "link add {name}-near type veth peer name {name}-far"
        ));
        ip(&format!("link set {name} nomaster"));
        ip(&format!("link set {name}-far master switch up"));
        ip(&format!("link set {name}-near up"));
        let script = root().join("crates/gatepost/tests/cluster/faults/slow_cable.py");
        let mut child = command("python3")
            .arg(script)
            .args([name, &format!("{name}-near")])
            .args([delay_ms.to_string(), loss_percent.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        let read = BufReader::new(output).read_line(&mut line);
        assert!(read.is_ok() && line == "ready\n", "the slow cable is ready");
        self.slow_cables.push((name.to_owned(), child));
    }

    /// Ends the delay of a host.
    pub(crate) fn speed_up(&mut self, host: &Host) {
        let is_this = |(name, _): &mut (String, Child)| Some(&*name) == host.namespace.as_ref();
        for (name, mut child) in self.slow_cables.extract_if(.., is_this) {
            child.kill().expect("our child");
            child.wait().expect("our child");
            ip(&format!("link set {name} master switch"));
            ip(&format!("link del {name}-near"));
        }
    }
}

/// Changes what a host knows of its neighbours.
fn neighbours(host: &Host, change: &str) {
    let (place, device) = match &host.namespace {
        Some(name) => (format!("-n {name}"), "eth0"),
        None => (String::new(), "switch"),
    };
    ip(&format!("{place} neigh {change} dev {device}"));
}

fn ip(arguments: &str) {
    system("ip", arguments);
}

fn system(program: &str, arguments: &str) {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let output = run(program, &arguments, b"");
    let said = text_of(&output);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}
