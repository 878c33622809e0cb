//! The recipes for Exim, each with an Exim of its own that speaks SMTP on its standard input.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Gateway, root, text_of};
use crate::{adapted, block, gateway, recipe, write_rules};

/// Speaks SMTP to an Exim of its own, with a mail whose body names its subject; returns its
/// answers.
fn exim(folder: &Path, config: &str, subject: &str) -> String {
    exim_with(folder, config, subject, &format!("it is {subject}"))
}

fn exim_with(folder: &Path, config: &str, subject: &str, body: &str) -> String {
    let program = root().join(".peers/exim4/usr/sbin/exim4");
    std::fs::write(folder.join("exim.conf"), config).expect("written");
    let mut child = Command::new(&program)
        .arg("-C")
        .arg(folder.join("exim.conf"))
        .args(["-bs", "-oMa", "192.0.2.9"])
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
         Subject: {subject}\r\nFrom: a@client.example\r\n\r\n{body}\r\n.\r\nQUIT\r\n"
    );
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(mail.as_bytes())
        .expect("written");
    text_of(&child.wait_with_output().expect("it ends"))
}

/// The config of an Exim of its own in this folder, with a recipe after the lines that make it
/// private.
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
        "exim_user = {user}\nexim_group = {group}\nkeep_environment =\n\
         primary_hostname = mx.example\n\
         spool_directory = {place}/spool\nlog_file_path = {place}/log/%slog\nqueue_only = true\n\
         acl_smtp_rcpt = accept\n{recipe}"
    )
}

/// The messages in its queue.
fn spooled(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("spool/input")).expect("a spool");
    files
        .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
        .collect()
}

#[test]
fn exim_asks_spamd() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    write_rules(folder);
    let gateway = Gateway::start_in(folder, "rules.paths = [\"rules.cf\"]\n");
    let recipe = recipe("Exim, by spamd's protocol")
        .replace(" 7830", &format!(" {}", gateway.port("spamd")));
    let config = exim_config(folder, &recipe);
    let good = exim(folder, &config, "good news");
    assert!(good.contains("250 OK id="), "{good}");
    let bad = exim(folder, &config, "BAD news");
    assert!(bad.contains("550 spam score 12.5"), "{bad}");
    let spooled = spooled(folder).concat();
    assert!(spooled.contains("X-Spam-Score: 0.0 (/)"), "{spooled}");
}

#[test]
fn exim_asks_by_a_command() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    let procedures = folder.join("procedures");
    std::fs::create_dir_all(&procedures).expect("a folder");
    let code = "return function(message) \
        if message:contains('it is BAD') then return 'reject', 'not this' end end";
    std::fs::write(procedures.join("judge.luau"), code).expect("written");
    let settings = "rules.paths = []\n[[scope]]\npath = \"/mail\"\nrun = [\"/judge\"]\n";
    let gateway = Gateway::start_in(folder, settings);
    let config = exim_config(folder, &adapted(&recipe("Exim, by a command"), &gateway));
    let good = exim(folder, &config, "good news");
    assert!(good.contains("250 OK id="), "{good}");
    let bad = exim(folder, &config, "BAD news");
    assert!(bad.contains("550 not this"), "{bad}");
    // Without a gateway mail passes.
    gateway.kill();
    let unjudged = exim(folder, &config, "BAD news");
    assert!(unjudged.contains("250 OK id="), "{unjudged}");
}

/// Builds the module as the recipe says, for the gateway of the test.
fn build_module(folder: &Path, gateway: &Gateway) {
    let headers = root().join(".peers/exim4/usr/include/exim4");
    let headers = format!("{} -DPORT={}", headers.display(), gateway.port("call"));
    let build = block("Exim, by local_scan", "sh")
        .replace("/usr/include/exim4", &headers)
        .replace("/usr/local/lib", &folder.display().to_string());
    let output = Command::new("sh")
        .args(["-ec", &build])
        .current_dir(root())
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn exim_asks_by_local_scan() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    let gateway = gateway(folder);
    build_module(folder, &gateway);
    let recipe =
        recipe("Exim, by local_scan").replace("/usr/local/lib", &folder.display().to_string());
    let config = exim_config(folder, &recipe);
    let ask = |verdict: &str| exim_with(folder, &config, verdict, &format!("verdict: {verdict}"));
    let reason = "a@client.example at 192.0.2.9 to b@mx.example";
    for (verdict, reply) in [
        ("accept", "250 OK id=".to_owned()),
        ("tag", "250 OK id=".to_owned()),
        ("quarantine", "250 OK id=".to_owned()),
        ("drop", "250 OK id=".to_owned()),
        ("reject", format!("550 {reason}")),
        ("defer", format!("451 {reason}")),
    ] {
        let text = ask(verdict);
        assert!(text.contains(&reply), "{verdict}: {text}");
    }
    let spooled = spooled(folder);
    let lies = |verdict: &str| {
        let field = format!("Subject: {verdict}");
        spooled.iter().find(|file| file.contains(&field))
    };
    assert!(!lies("accept").expect("queued").contains("X-Tag: 1"));
    assert!(lies("tag").expect("queued").contains("X-Tag: 1"));
    assert!(lies("quarantine").expect("queued").contains("-frozen"));
    assert!(lies("drop").is_none() && lies("reject").is_none());
    // Without a gateway the sender keeps its mail.
    gateway.kill();
    let unreachable = ask("accept");
    assert!(
        unreachable.contains("451 mail cannot be judged"),
        "{unreachable}"
    );
}
