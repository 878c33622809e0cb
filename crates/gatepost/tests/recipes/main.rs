//! The recipes for delivery programs, as the documentation has them.

mod support;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::{Gateway, call_client, root, text_of};

/// The text between the fences below a heading of the recipes' page.
fn recipe(heading: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/recipes.md")).expect("the page");
    let (_, section) = page
        .split_once(&format!("## {heading}\n"))
        .unwrap_or_else(|| panic!("docs/recipes.md has {heading}"));
    let (_, fenced) = section.split_once("```\n").expect("a fence");
    let (text, _) = fenced.split_once("```").expect("its end");
    text.to_owned()
}

/// The recipe with the gateway of the test in place of the default address.
fn adapted(recipe: &str, gateway: &Gateway) -> String {
    let call = format!("{} -p {}", call_client().display(), gateway.port("call"));
    recipe.replace("gatepost-call", &call)
}

fn gateway(folder: &Path) -> Gateway {
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function(message) \
        return message:header('X-Verdict') or 'accept' end";
    std::fs::write(procedures.join("judge.luau"), code).expect("written");
    let settings = "rules.paths = []\n[[scope]]\npath = \"/mail\"\nrun = [\"/judge\"]\n";
    Gateway::start_in(folder, settings)
}

fn deliver(program: &str, arguments: &[&str], home: &Path, mail: &str) {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(arguments)
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("the peer {program} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(mail.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text_of(&output));
}

/// Subjects of the messages in a maildir.
fn subjects(maildir: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(maildir.join("new")) else {
        return Vec::new();
    };
    let mut subjects: Vec<String> = files
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
        .filter_map(|mail| Some(mail.split_once("Subject: ")?.1.lines().next()?.to_owned()))
        .collect();
    subjects.sort();
    subjects
}

#[test]
fn procmail_sorts_by_the_verdict() {
    let home = tempfile::tempdir().expect("a folder");
    let gateway = gateway(home.path());
    let rules = format!(
        "SHELL=/bin/sh\nMAILDIR={home}\nDEFAULT={home}/Inbox/\n{}",
        adapted(&recipe("procmail"), &gateway),
        home = home.path().display(),
    );
    let file = home.path().join("procmailrc");
    std::fs::write(&file, rules).expect("written");
    let file = file.to_str().expect("UTF-8");
    for (subject, field) in [("good", "X-None: 1"), ("bad", "X-Verdict: reject")] {
        let mail = format!("From: a@example.org\nSubject: {subject}\n{field}\n\ntext\n");
        deliver("procmail", &["-m", file], home.path(), &mail);
    }
    assert_eq!(subjects(&home.path().join("Inbox")), ["good"]);
    assert_eq!(subjects(&home.path().join("Spam")), ["bad"]);
    // Without a gateway mail is not lost.
    gateway.kill();
    let mail = "From: a@example.org\nSubject: unjudged\n\ntext\n";
    deliver("procmail", &["-m", file], home.path(), mail);
    assert_eq!(subjects(&home.path().join("Inbox")), ["good", "unjudged"]);
}

#[test]
fn maildrop_sorts_by_the_verdict() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a folder");
    let gateway = gateway(home.path());
    for maildir in ["Maildir", "Maildir/.Spam"] {
        for part in ["cur", "new", "tmp"] {
            std::fs::create_dir_all(home.path().join(maildir).join(part)).expect("a folder");
        }
    }
    let rules = format!(
        // For root it takes the home of the password file otherwise.
        "SHELL=\"/bin/sh\"\nHOME=\"{}\"\nDEFAULT=\"$HOME/Maildir\"\n{}",
        home.path().display(),
        adapted(&recipe("maildrop"), &gateway)
    );
    let file = home.path().join("filter");
    std::fs::write(&file, rules).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("private");
    let file = file.to_str().expect("UTF-8");
    for (subject, field) in [("good", "X-None: 1"), ("bad", "X-Verdict: reject")] {
        let mail = format!("From: a@example.org\nSubject: {subject}\n{field}\n\ntext\n");
        deliver("maildrop", &[file], home.path(), &mail);
    }
    assert_eq!(subjects(&home.path().join("Maildir")), ["good"]);
    assert_eq!(subjects(&home.path().join("Maildir/.Spam")), ["bad"]);
}

/// Speaks SMTP to an Exim of its own; gives what it answered.
fn exim(folder: &Path, config: &str, subject: &str) -> String {
    use std::io::Write;
    let program = root().join(".peers/exim4/usr/sbin/exim4");
    std::fs::write(folder.join("exim.conf"), config).expect("written");
    let mut child = Command::new(&program)
        .arg("-C")
        .arg(folder.join("exim.conf"))
        .arg("-bs")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "the peer {} of tests/install-peers: {error}",
                program.display()
            )
        });
    let mail = format!(
        "HELO client.example\r\nMAIL FROM:<a@client.example>\r\nRCPT TO:<b@mx.example>\r\nDATA\r\n\
         Subject: {subject}\r\nFrom: a@client.example\r\n\r\ntext\r\n.\r\nQUIT\r\n"
    );
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(mail.as_bytes())
        .expect("written");
    text_of(&child.wait_with_output().expect("it ends"))
}

/// The config of an Exim of its own in this folder, with a recipe behind what makes it private.
fn exim_config(folder: &Path, recipe: &str) -> String {
    for name in ["spool", "log"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    let name = |option| {
        let output = Command::new("id").arg(option).output().expect("id runs");
        let name = String::from_utf8(output.stdout).expect("a name");
        name.trim().to_owned()
    };
    let (user, group, place) = (name("-un"), name("-gn"), folder.display());
    format!(
        "exim_user = {user}\nexim_group = {group}\nkeep_environment =\nprimary_hostname = mx.example\n\
         spool_directory = {place}/spool\nlog_file_path = {place}/log/%slog\nqueue_only = true\n\
         acl_smtp_rcpt = accept\n{recipe}"
    )
}

#[test]
fn exim_asks_spamd() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    std::fs::write(
        folder.join("rules.cf"),
        "header BAD Subject =~ /^BAD/\nscore BAD 12.5\n",
    )
    .expect("written");
    let gateway = Gateway::start_in(folder, "rules.paths = [\"rules.cf\"]\n");
    let recipe = recipe("Exim, by spamd's protocol")
        .replace(" 7830", &format!(" {}", gateway.port("spamd")));
    let config = exim_config(folder, &recipe);
    let good = exim(folder, &config, "good news");
    assert!(good.contains("250 OK id="), "{good}");
    let bad = exim(folder, &config, "BAD news");
    assert!(bad.contains("550 spam score 12.5"), "{bad}");
    let spooled: Vec<String> = std::fs::read_dir(folder.join("spool/input"))
        .expect("a spool")
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
        .collect();
    assert!(
        spooled
            .iter()
            .any(|file| file.contains("X-Spam-Score: 0.0 (/)")),
        "{spooled:?}"
    );
}

#[test]
fn exim_asks_by_call() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function(message) \
        if (message:header('Subject') or ''):find('BAD') then return 'reject', 'not this' end end";
    std::fs::write(procedures.join("judge.luau"), code).expect("written");
    let settings = "rules.paths = []\n[[scope]]\npath = \"/mail\"\nrun = [\"/judge\"]\n";
    let gateway = Gateway::start_in(folder, settings);
    let config = exim_config(folder, &adapted(&recipe("Exim, by call"), &gateway));
    let good = exim(folder, &config, "good news");
    assert!(good.contains("250 OK id="), "{good}");
    let bad = exim(folder, &config, "BAD news");
    assert!(bad.contains("550 not this"), "{bad}");
    // Without a gateway mail passes.
    gateway.kill();
    let unjudged = exim(folder, &config, "BAD news");
    assert!(unjudged.contains("250 OK id="), "{unjudged}");
}

/// A clamd of its own, with one signature of ours: no virus, and no database to be fetched.
struct Clamd(Child);

impl Clamd {
    fn start(folder: &Path) -> Self {
        let unpacked = root().join(".peers/clamav");
        let bytes: Vec<String> = SIGNATURE
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let signature = bytes.concat();
        std::fs::create_dir(folder.join("signatures")).expect("a folder");
        std::fs::write(
            folder.join("signatures/own.ndb"),
            format!("Own.Signature:0:*:{signature}\n"),
        )
        .expect("written");
        let place = folder.display();
        let config = format!(
            "Foreground yes\nDatabaseDirectory {place}/signatures\nLocalSocket {place}/clamd\n"
        );
        std::fs::write(folder.join("clamd.conf"), config).expect("written");
        let child = Command::new(unpacked.join("usr/sbin/clamd"))
            .arg("-c")
            .arg(folder.join("clamd.conf"))
            .env("LD_LIBRARY_PATH", unpacked.join("lib"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer clamd of tests/install-peers");
        let clamd = Self(child);
        support::await_some("clamd listens", || {
            UnixStream::connect(folder.join("clamd")).ok()
        });
        clamd
    }
}

impl Drop for Clamd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SIGNATURE: &str = "a text that nothing but this test holds to be a virus";
/// The same in a file beside a text.
const ATTACHED: &str = "YSB0ZXh0IHRoYXQgbm90aGluZyBidXQgdGhpcyB0ZXN0IGhvbGRzIHRvIGJlIGEgdmlydXM=";

#[test]
fn clamd_finds_viruses() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    let clamd = Clamd::start(folder);
    let recipe = recipe("ClamAV").replace(
        "/run/clamav/clamd.ctl",
        &folder.join("clamd").display().to_string(),
    );
    let gateway = Gateway::start_in(folder, &format!("rules.paths = []\n{recipe}"));
    let ask = |mail: &str| {
        std::fs::write(folder.join("mail"), mail).expect("written");
        let output = Command::new(call_client())
            .args(["-p", &gateway.port("call"), "/mail"])
            .arg(folder.join("mail"))
            .output()
            .expect("it runs");
        (output.status.code(), text_of(&output))
    };
    let head = "From: a@example.org\r\nSubject: x\r\n";
    let clean = ask(&format!("{head}\r\nnothing\r\n"));
    assert_eq!(clean.0, Some(0), "{}", clean.1);
    let attached = format!(
        "{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nlook\r\n\
         --b\r\nContent-Type: application/octet-stream; name=x.bin\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{ATTACHED}\r\n--b--\r\n"
    );
    for mail in [format!("{head}\r\n{SIGNATURE}\r\n"), attached] {
        let (code, text) = ask(&mail);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("Own.Signature"), "{text}");
    }
    // A virus scanner that is away lets nothing pass.
    drop(clamd);
    let (code, text) = ask(&format!("{head}\r\nnothing\r\n"));
    assert_eq!(code, Some(75), "{text}");
}
