//! A private Postfix for a test: its config, queue and mailboxes are in a folder, and it listens on
//! a free port of this machine. It ends before its folder is removed. It needs the rights of root,
//! by `sudo` if the test does not have them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{PATIENCE, await_some, free_port, text_of};

/// A running Postfix.
pub(crate) struct Postfix {
    folder: tempfile::TempDir,
    port: u16,
}

/// The mail of this domain goes to mailboxes; any other to the next hop that the settings name.
pub(crate) const DOMAIN: &str = "boxes.example";
const USERS: [&str; 3] = ["anna", "bert", "carla"];

impl Postfix {
    /// Starts with `settings`, lines of `main.cf`, after those that make it private.
    pub(crate) fn start(settings: &str) -> Self {
        Self::start_with(settings, SMTP)
    }

    /// Starts with `services` too, lines of `master.cf`: those that listen on the network, of which
    /// `smtp` has this instance's port.
    pub(crate) fn start_with(settings: &str, services: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        // Its daemons run as another user and must get there.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("permissions");
        for name in ["etc", "spool", "data", "boxes"] {
            fs::create_dir(root.join(name)).expect("a folder");
        }
        let port = free_port();
        let postfix = Self { folder, port };
        fs::write(root.join("etc/main.cf"), main_cf(&root, settings)).expect("main.cf");
        fs::write(root.join("etc/master.cf"), master_cf(port, services)).expect("master.cf");
        let boxes = USERS
            .map(|user| format!("{user}@{DOMAIN} {user}/\n"))
            .concat();
        fs::write(root.join("etc/boxes"), boxes).expect("the mailboxes");
        // Postfix's `postsuper` appends to the log as the user postfix, and only after a crash: in
        // a log that root's first entry had created, it ends with "Permission denied".
        fs::write(root.join("data/log"), "").expect("the log");
        for name in ["data", "data/log", "boxes"] {
            let owned = as_root("chown")
                .arg("postfix")
                .arg(root.join(name))
                .output();
            assert!(owned.is_ok_and(|output| output.status.success()), "chown");
        }
        let started = postfix.control("start");
        assert!(started.status.success(), "{}", text_of(&started));
        await_some("Postfix's greeting", || postfix.greeting());
        postfix
    }

    /// The greeting: Postfix's master listens before the server that answers has started.
    fn greeting(&self) -> Option<()> {
        let mut stream = TcpStream::connect(self.address()).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut code = [0; 3];
        stream.read_exact(&mut code).ok()?;
        (&code == b"220").then_some(())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// `postfix COMMAND` on this instance.
    pub(crate) fn control(&self, command: &str) -> Output {
        let mut postfix = as_root("postfix");
        postfix.arg("-c").arg(self.folder.path().join("etc"));
        postfix.arg(command).output().expect("postfix runs")
    }

    /// `kill -9` of all its processes.
    pub(crate) fn kill(&self) {
        let file = self.folder.path().join("spool/pid/master.pid");
        let master = fs::read_to_string(file).expect("a running Postfix");
        let master = master.trim();
        // It leads a process group with all that it has started: one signal ends them all, and no
        // further one is started meanwhile that would continue to listen.
        let mut kill = as_root("kill");
        let killed = kill.args(["-9", "--", &format!("-{master}")]).output();
        let killed = killed.expect("kill runs");
        assert!(killed.status.success(), "{}", text_of(&killed));
    }

    /// Starts it again after [`Postfix::kill`].
    pub(crate) fn start_after_kill(&self) {
        // The check of its queue fails while a killed process ends a system call on a file there.
        await_some("a Postfix that starts again", || {
            let started = self.control("start");
            if !started.status.success() {
                eprintln!("{}", text_of(&started));
            }
            started.status.success().then_some(())
        });
    }

    /// A program of Postfix's own, such as `postqueue`, on this instance.
    pub(crate) fn program(&self, name: &str, arguments: &[&str]) -> Output {
        let mut program = as_root(name);
        program.arg("-c").arg(self.folder.path().join("etc"));
        program.args(arguments).output().expect("it runs")
    }

    /// A message given to `sendmail` on standard input.
    pub(crate) fn sendmail(&self, arguments: &[&str], message: &[u8]) -> Output {
        let etc = self.folder.path().join("etc");
        let etc = etc.to_str().expect("UTF-8");
        let all = [&["-C", etc], arguments].concat();
        super::run("sendmail", &all, message)
    }

    /// All messages in the mailbox of a user at [`DOMAIN`].
    pub(crate) fn mailbox(&self, user: &str) -> Vec<String> {
        let new = self.folder.path().join("boxes").join(user).join("new");
        let Ok(files) = fs::read_dir(new) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
        paths.sort();
        let read =
            |path: &PathBuf| String::from_utf8_lossy(&fs::read(path).expect("mail")).into_owned();
        paths.iter().map(read).collect()
    }

    /// Waits until a mailbox holds so many messages.
    pub(crate) fn await_mail(&self, user: &str, count: usize) -> Vec<String> {
        await_some(&format!("{count} messages for {user}"), || {
            let mail = self.mailbox(user);
            (mail.len() >= count).then_some(mail)
        })
    }

    /// Sends so many numbered messages for anna to this Postfix over one connection.
    pub(crate) fn send_numbered(&self, count: usize) {
        let script = format!(
            "import smtplib\nserver = smtplib.SMTP('127.0.0.1', {})\n\
             for number in range({count}):\n    \
             server.sendmail('otto@example.org', ['anna@boxes.example'], \
             f'Subject: numbered {{number}}.\\r\\n\\r\\n' + 'text\\r\\n' * 500)\n",
            self.port
        );
        let output = super::run("python3", &["-c", &script], b"");
        assert!(output.status.success(), "{}", text_of(&output));
    }

    /// Waits until each of the numbered messages has come from here to the mailbox of `receiver`.
    pub(crate) fn await_numbered(&self, receiver: &Self, count: usize) {
        await_some("every message", || {
            let mail = receiver.mailbox("anna");
            (numbers(&mail).len() == count).then_some(())
        });
        let arrived = receiver.mailbox("anna").len();
        // Each of the 20 deliveries at once can have been accepted without its sender hearing it.
        assert!(arrived <= count + 20, "{arrived} for {count}");
        await_some("an empty queue", || {
            self.queue().contains("empty").then_some(())
        });
    }

    /// The output of `postqueue -p`.
    pub(crate) fn queue(&self) -> String {
        text_of(&self.program("postqueue", &["-p"]))
    }

    /// Waits until the log contains a text: a process of its own writes the lines, some time after
    /// the reply. Returns the log.
    pub(crate) fn await_log(&self, text: &str) -> String {
        await_some(&format!("'{text}' in the log of Postfix"), || {
            let log = self.log();
            log.contains(text).then_some(log)
        })
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("data/log")).unwrap_or_default()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of Postfix:\n{}", self.log());
        }
        self.control("abort");
        // Files of root and postfix cannot be removed without root.
        let _ = as_root("rm").arg("-rf").arg(self.folder.path()).output();
    }
}

/// The numbers that arrived.
fn numbers(mail: &[String]) -> BTreeSet<usize> {
    let number = |mail: &String| {
        let (_, rest) = mail.split_once("Subject: numbered ")?;
        rest.split_once('.')?.0.parse().ok()
    };
    mail.iter().filter_map(number).collect()
}

pub(crate) fn as_root(program: &str) -> Command {
    if rustix::process::getuid().is_root() {
        return super::command(program);
    }
    let mut command = super::command("sudo");
    command.arg("-n").arg(program);
    command
}

fn main_cf(root: &Path, settings: &str) -> String {
    let root = root.display();
    format!(
        "compatibility_level = 3.6
queue_directory = {root}/spool
data_directory = {root}/data
maillog_file = {root}/data/log
maillog_file_prefixes = {root}
multi_instance_enable = no
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mx.example
mydestination =
mynetworks = 127.0.0.0/8
smtp_address_preference = ipv4
smtp_host_lookup = native
disable_dns_lookups = yes
alias_maps =
local_recipient_maps =
smtpd_peername_lookup = no
virtual_mailbox_domains = {DOMAIN}
virtual_mailbox_base = {root}/boxes
virtual_mailbox_maps = texthash:{root}/etc/boxes
virtual_minimum_uid = 1
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{uid}
smtpd_error_sleep_time = 0
smtp_connection_cache_on_demand = no
queue_run_delay = 1s
minimal_backoff_time = 1s
maximal_backoff_time = 1s
{settings}
",
        uid = postfix_uid(),
    )
}

fn postfix_uid() -> String {
    let output = super::run("id", &["-u", "postfix"], b"");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The service that listens on the network, unless a test names others.
const SMTP: &str = "smtp inet n - n - - smtpd";

fn master_cf(port: u16, services: &str) -> String {
    let services = match services.strip_prefix("smtp ") {
        Some(rest) => format!("127.0.0.1:{port} {rest}"),
        None => services.to_owned(),
    };
    format!(
        "{services}
pickup unix n - n 1 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
lmtp unix - - n - - lmtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
"
    )
}
