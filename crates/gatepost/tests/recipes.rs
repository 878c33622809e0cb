//! The recipes for delivery programs, as the documentation has them.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

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
    for name in ["spool", "log"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    let user = Command::new("id").arg("-un").output().expect("id runs");
    let group = Command::new("id").arg("-gn").output().expect("id runs");
    let name = |output: std::process::Output| {
        String::from_utf8(output.stdout)
            .expect("a name")
            .trim()
            .to_owned()
    };
    let recipe = recipe("Exim, by spamd's protocol")
        .replace(" 7830", &format!(" {}", gateway.port("spamd")));
    let (user, group, place) = (name(user), name(group), folder.display());
    let config = format!(
        "exim_user = {user}\nexim_group = {group}\nkeep_environment =\nprimary_hostname = mx.example\n\
         spool_directory = {place}/spool\nlog_file_path = {place}/log/%slog\nqueue_only = true\n\
         acl_smtp_rcpt = accept\n{recipe}"
    );
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
