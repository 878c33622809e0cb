//! The recipes for OpenSMTPD, whose folders and users are fixed: it runs in a mount namespace of
//! its own, where private ones replace them, and needs the rights of root, as Postfix does.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::postfix::as_root;
use crate::support::{await_some, call_client, free_port, root};
use crate::{block, gateway, judging_gateway, proxy_settings, recipe, send, subjects, write_rules};

/// Puts the private files in their places and becomes smtpd; `$1` is the folder, `$2` what was
/// unpacked.
const START: &str = r#"
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/group" /etc/group
mount --bind "$1/var" /var
mkdir -p /usr/libexec
mount --bind "$2/usr/libexec" /usr/libexec
chown 65533:65533 "$1/anna"
exec "$2/usr/sbin/smtpd" -d -f "$1/smtpd.conf"
"#;
/// smtpd's own users, and one with a mailbox.
const USERS: [(&str, u32); 3] = [("opensmtpd", 65531), ("opensmtpq", 65532), ("anna", 65533)];

/// A running smtpd, in a folder of its own.
struct Smtpd {
    child: Child,
    folder: tempfile::TempDir,
}

impl Smtpd {
    /// Starts with this config, and waits until it listens on the port.
    fn start(folder: tempfile::TempDir, config: &str, port: u16) -> Self {
        let place = folder.path();
        // Its processes run as other users and must get there.
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("permissions");
        for part in ["var/spool", "var/run", "var/lib/opensmtpd/empty", "anna"] {
            fs::create_dir_all(place.join(part)).expect("a folder");
        }
        for file in ["passwd", "group"] {
            let mut lines = fs::read_to_string(Path::new("/etc").join(file)).expect("read");
            for (name, id) in USERS {
                let home = place.join(name);
                let rest = match file {
                    "passwd" => format!("{id}:{id}::{}:/bin/sh", home.display()),
                    _ => format!("{id}:"),
                };
                lines += &[name, ":x:", &rest, "\n"].concat();
            }
            fs::write(place.join(file), lines).expect("written");
        }
        fs::write(place.join("smtpd.conf"), config).expect("written");
        let log = File::create(place.join("log")).expect("a log");
        let child = as_root("unshare")
            .args(["--mount", "sh", "-ec", START, "sh"])
            .arg(place)
            .arg(root().join(".peers/opensmtpd"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("the program unshare");
        let smtpd = Self { child, folder };
        await_some("smtpd listens", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        smtpd
    }

    /// Waits for so many messages in a folder of anna's; their subjects.
    fn await_mail(&self, maildir: &str, count: usize) -> Vec<String> {
        let maildir = self.folder.path().join("anna").join(maildir);
        await_some(
            &format!("{count} messages in {}", maildir.display()),
            || {
                let subjects = subjects(&maildir);
                (subjects.len() >= count).then_some(subjects)
            },
        )
    }
}

impl Drop for Smtpd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log"));
            eprintln!("the log of smtpd:\n{}", log.unwrap_or_default());
        }
        let _ = as_root("kill").arg(self.child.id().to_string()).output();
        let _ = self.child.wait();
        // Files of its users cannot be removed without root.
        let _ = as_root("rm").arg("-rf").arg(self.folder.path()).output();
    }
}

#[test]
fn opensmtpd_asks_by_a_filter() {
    let home = tempfile::tempdir().expect("a folder");
    let gateway = gateway(home.path());
    let folder = tempfile::tempdir().expect("a folder");
    // A folder in which its own user may run the client.
    let client = folder.path().join("gatepost-call");
    fs::copy(call_client(), &client).expect("copied");
    let port = free_port();
    let client = format!("{} -p {}", client.display(), gateway.port("call"));
    let config = recipe("OpenSMTPD, by a filter")
        .replace("/usr/local/bin/gatepost-call", &client)
        .replace("port 25", &format!("port {port}"));
    let smtpd = Smtpd::start(folder, &config, port);
    let server = format!("127.0.0.1:{port}");
    let ask = |verdict: &str| {
        let body = format!(".one\n..two\nverdict: {verdict}");
        send(&server, "anna@localhost", verdict, &["--body", &body])
    };
    let reason = "a@client.example at 127.0.0.1 to anna@localhost";
    for (verdict, reply) in [
        ("accept", "<-  250 2.0.0".to_owned()),
        ("tag", "<-  250 2.0.0".to_owned()),
        ("quarantine", "<-  250 2.0.0".to_owned()),
        ("drop", format!("<** 550 5.7.1 {reason}")),
        ("reject", format!("<** 550 5.7.1 {reason}")),
        ("defer", format!("<** 451 4.7.1 {reason}")),
    ] {
        let text = ask(verdict);
        assert!(text.contains(&reply), "{verdict}: {text}");
    }
    assert_eq!(smtpd.await_mail("Maildir", 2), ["accept", "tag"]);
    assert_eq!(smtpd.await_mail("Maildir/.Junk", 1), ["quarantine"]);
    let new = smtpd.folder.path().join("anna/Maildir/new");
    let files = fs::read_dir(new).expect("a mailbox");
    let mail: Vec<String> = files
        .map(|file| fs::read_to_string(file.expect("a file").path()).expect("mail"))
        .collect();
    for mail in &mail {
        assert_eq!(
            mail.contains("X-Tag: 1"),
            mail.contains("Subject: tag"),
            "{mail}"
        );
        assert!(mail.contains("\n.one\n..two\n"), "{mail}");
    }
    // Without a gateway the sender keeps its mail, and smtpd continues.
    gateway.kill();
    for _ in 0..2 {
        let unreachable = ask("accept");
        assert!(
            unreachable.contains("<** 451 4.3.0 mail cannot be judged"),
            "{unreachable}"
        );
    }
}

#[test]
fn opensmtpd_asks_by_a_relay() {
    let home = tempfile::tempdir().expect("a folder");
    write_rules(home.path());
    let (front, back) = (free_port(), free_port());
    let settings = proxy_settings(back) + &block("OpenSMTPD, by a relay", "toml");
    let gateway = judging_gateway(home.path(), &settings);
    let config = recipe("OpenSMTPD, by a relay")
        .replace("port 25", &format!("port {front}"))
        .replace("port 10026", &format!("port {back}"))
        .replace("127.0.0.1:10025", &gateway.address("smtp").to_string());
    let folder = tempfile::tempdir().expect("a folder");
    let smtpd = Smtpd::start(folder, &config, back);
    let server = format!("127.0.0.1:{front}");
    for subject in ["BAD news", "good news"] {
        let text = send(&server, "anna@localhost", subject, &[]);
        assert!(text.contains("<-  250 2.0.0"), "{text}");
    }
    assert_eq!(smtpd.await_mail("Maildir", 1), ["good news"]);
    await_some("the spam in the quarantine", || {
        let output = crate::support::run("curl", &["-s", &gateway.url("/admin/quarantine")], b"");
        String::from_utf8_lossy(&output.stdout)
            .contains("BAD news")
            .then_some(())
    });
}
