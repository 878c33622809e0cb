//! Digests of the quarantine: by mail to addresses at a next hop, into the mailboxes of users, and
//! the pages to which their links lead, by curl.

use std::path::Path;

use super::mail::{record, verified};
use super::mail_peer::{MailPeer, Reaction};
use super::support::{Gateway, add_user, await_some, run, swaks, text_of};

const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
/// Quarantines for a reason that recipients may not overrule.
const HOLD: &str = "return function(message)\n    if message.subject == 'hold' then\n        \
                    return 'quarantine', 'held'\n    end\nend\n";

/// Mail for `people.example` goes to mailboxes, for `hop.example` to the peer, which is the
/// smarthost too.
pub(super) fn start(folder: &Path, peer: &MailPeer, links_expire: &str) -> Gateway {
    start_with(folder, peer, links_expire, "")
}

/// The same, with more settings.
fn start_with(folder: &Path, peer: &MailPeer, links_expire: &str, more: &str) -> Gateway {
    std::fs::create_dir_all(folder.join("procedures")).expect("a folder");
    std::fs::write(folder.join("procedures/hold.luau"), HOLD).expect("a procedure");
    let gateway = Gateway::start_in(folder, &settings(peer, links_expire, more));
    for (name, more) in [("root", &["--admin"][..]), ("anna", &[]), ("bert", &[])] {
        let added = add_user(&gateway, name, "secret", more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    // The server sees users that a command adds a moment later.
    await_some("the users", || {
        let (status, _) = request(&gateway, "/v1/senders", &["--user", "bert:secret"]);
        (status == "200").then_some(())
    });
    gateway
}

/// Starts a server that [`start`] started before.
pub(super) fn start_again(folder: &Path, peer: &MailPeer) -> Gateway {
    Gateway::start_in(folder, &settings(peer, "7d", ""))
}

fn settings(peer: &MailPeer, links_expire: &str, more: &str) -> String {
    let address = peer.address;
    format!(
        "rules.paths = []\n\
         smarthost.server = \"smtp://{address}\"\n\
         access_log.path = \"access.log\"\n\
         procedure.\"/spamcheck\".action = \"quarantine\"\n\
         quarantine_digest.every = \"1s\"\n\
         quarantine_digest.from = \"quarantine@people.example\"\n\
         quarantine_digest.base_url = \"https://gate.people.example/\"\n\
         quarantine_digest.links_expire = \"{links_expire}\"\n\
         listeners.smtp.domains = [\"people.example\", \"hop.example\"]\n\
         [[listeners.smtp.routes]]\nrecipients = \"*@people.example\"\nmailbox = \"{{user}}\"\n\
         [[listeners.smtp.routes]]\nrecipients = \"*@hop.example\"\n\
         forward = \"smtp://{address}\"\n\
         [[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\nrun = [\"/hold\", \"/spamcheck\"]\n\
         {more}"
    )
}

pub(super) fn send(gateway: &Gateway, to: &str, subject: &str) {
    let server = gateway.address("smtp").to_string();
    let subject = format!("Subject: {subject}");
    let options = ["--header", &subject, "--body", GTUBE];
    let sent = swaks(&server, "eve@far.example", to, &options);
    assert!(sent.status.success(), "{}", text_of(&sent));
}

/// Has curl request the path; the status and the body.
fn request(gateway: &Gateway, path: &str, more: &[&str]) -> (String, String) {
    let url = gateway.url(path);
    let options = ["--silent", "--show-error", "--write-out", "\n%{http_code}"];
    let output = run("curl", &[&options, more, &[url.as_str()]].concat(), b"");
    let text = text_of(&output);
    assert!(output.status.success(), "{text}");
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.to_owned(), body.to_owned())
}

/// The messages in quarantine.
fn kept(gateway: &Gateway) -> u64 {
    let login = ["--user", "root:secret"];
    let (_, body) = request(gateway, "/admin/quarantine", &login);
    let answer: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    answer["total"].as_u64().expect("a number")
}

/// The mail of this number in a user's mailbox, as soon as it is stored.
pub(super) fn await_in_mailbox(gateway: &Gateway, user: &str, number: u32) -> String {
    let url = format!("pop3://{}/{number}", gateway.address("pop3"));
    let login = format!("{user}:secret");
    await_some("a mail in the mailbox", || {
        let output = run("curl", &["--silent", "--user", &login, &url], b"");
        output.status.success().then(|| text_of(&output))
    })
}

/// The path of the only link in a digest.
fn link(digest: &str) -> String {
    let links: Vec<&str> = digest
        .lines()
        .filter_map(|line| line.strip_prefix("Release: https://gate.people.example"))
        .collect();
    assert_eq!(links.len(), 1, "{digest}");
    links[0].trim_end().to_owned()
}

fn release(gateway: &Gateway, link: &str, action: &str, more: &[&str]) -> (String, String) {
    let (path, ticket) = link.split_once('?').expect("a ticket");
    let form = format!("{ticket}&action={action}");
    request(gateway, path, &[&["-d", form.as_str()], more].concat())
}

#[test]
fn each_recipient_gets_a_digest_and_releases_its_own_mail_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = MailPeer::start(|_, _| Reaction::Take);
    let gateway = start(folder.path(), &peer, "7d");
    send(&gateway, "anna@people.example,carla@hop.example", "hold");
    let to = "anna@people.example,bert@people.example,carla@hop.example";
    send(&gateway, to, "offer at https://evil.example");

    let digest = peer.await_mail(1).remove(0);
    assert_eq!(digest.recipients, ["carla@hop.example"]);
    assert_eq!(digest.field("Subject"), "1 message in quarantine");
    assert!(
        !digest.text.contains("https://evil.example"),
        "{}",
        digest.text
    );
    let of_carla = link(&digest.text);
    let of_anna = await_in_mailbox(&gateway, "anna", 1);
    assert!(
        of_anna.contains("Your list of allowed and blocked senders"),
        "{of_anna}"
    );
    let of_anna = link(&of_anna);
    let of_bert = link(&await_in_mailbox(&gateway, "bert", 1));

    // The requests of mail scanners change nothing.
    for method in ["GET", "HEAD"] {
        let head: &[&str] = if method == "HEAD" { &["--head"] } else { &[] };
        let (status, page) = request(&gateway, &of_carla, head);
        assert_eq!(status, "200", "{page}");
        assert!(method == "HEAD" || page.contains("GTUBE"), "{page}");
    }
    let (status, _) = request(&gateway, &format!("{of_carla}x"), &[]);
    assert_eq!(status, "403");
    let elsewhere = ["-H", "Origin: https://evil.example"];
    assert_eq!(release(&gateway, &of_carla, "release", &elsewhere).0, "403");
    assert_eq!((kept(&gateway), peer.taken().len()), (2, 1));

    let (status, page) = release(&gateway, &of_carla, "release", &[]);
    assert_eq!(status, "200", "{page}");
    let released = peer.await_mail(2).remove(1);
    assert_eq!(released.recipients, ["carla@hop.example"]);
    assert!(released.text.contains("offer at https://evil.example"));
    assert_eq!(release(&gateway, &of_carla, "release", &[]).0, "404");
    assert_eq!(request(&gateway, &of_carla, &[]).0, "404");
    assert_eq!(kept(&gateway), 2, "the others can still get it");

    assert_eq!(release(&gateway, &of_anna, "allow", &[]).0, "200");
    assert!(await_in_mailbox(&gateway, "anna", 2).contains("offer at"));
    let (_, senders) = request(&gateway, "/v1/senders", &["--user", "anna:secret"]);
    assert!(senders.contains("eve@far.example"), "{senders}");
    assert_eq!(release(&gateway, &of_bert, "release", &[]).0, "200");
    assert_eq!(kept(&gateway), 1, "only the other message is left");
    let log = await_some("the requests in the log", || {
        let log = std::fs::read_to_string(folder.path().join("access.log")).ok()?;
        log.contains("HEAD /gatepost/release").then_some(log)
    });
    let ticket = of_carla.split_once('=').expect("a ticket").1;
    assert!(log.contains("ticket=***") && !log.contains(ticket), "{log}");
}

#[test]
fn a_recipient_stops_the_digests_and_gets_them_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = MailPeer::start(|_, _| Reaction::Take);
    let gateway = start(folder.path(), &peer, "7d");
    send(&gateway, "carla@hop.example", "offer");
    let digest = peer.await_mail(1).remove(0);
    let post = digest.field("List-Unsubscribe-Post");
    assert_eq!(post, "List-Unsubscribe=One-Click");
    let stop = digest.field("List-Unsubscribe");
    let stop = stop.strip_prefix("<https://gate.people.example");
    let stop = stop.and_then(|stop| stop.strip_suffix('>'));
    let stop = stop.expect("a link").to_owned();
    assert!(digest.text.contains(&stop), "{}", digest.text);

    // Opening the link changes nothing, and a release's link is not valid here.
    let (status, page) = request(&gateway, &stop, &[]);
    assert_eq!(status, "200", "{page}");
    assert!(page.contains("Stop the digests"), "{page}");
    let other = link(&digest.text).replace("/release?", "/digest?");
    assert_eq!(request(&gateway, &other, &[]).0, "403");
    let elsewhere = ["-H", "Origin: https://evil.example", "-d", "action=stop"];
    assert_eq!(request(&gateway, &stop, &elsewhere).0, "403");

    // A mail program sends this by itself.
    let (status, page) = request(&gateway, &stop, &["-d", &post]);
    assert_eq!(status, "200", "{page}");
    assert!(page.contains("Send digests again"), "{page}");
    starts_again_by_command(&gateway, folder.path(), &stop);
    // Others send it as multipart/form-data.
    assert_eq!(request(&gateway, &stop, &["-F", &post]).0, "200");
    send(&gateway, "anna@people.example,carla@hop.example", "second");
    // Anna's digest of the same run is the sign that the run has ended for Carla too.
    await_in_mailbox(&gateway, "anna", 1);
    send(&gateway, "anna@people.example", "third");
    await_in_mailbox(&gateway, "anna", 2);
    assert_eq!(peer.taken().len(), 1, "Carla wants none");

    let again = ["-d", "action=start"];
    assert_eq!(request(&gateway, &stop, &again).0, "200");
    send(&gateway, "carla@hop.example", "fourth");
    let digest = peer.await_mail(2).remove(1);
    assert_eq!(digest.field("Subject"), "1 message in quarantine");
    assert!(digest.text.contains("fourth"), "{}", digest.text);
    assert!(!digest.text.contains("second"), "{}", digest.text);
}

/// The operator finds the recipient in a list, and sends the digests again.
fn starts_again_by_command(gateway: &Gateway, folder: &Path, stop: &str) {
    let password = folder.join("password");
    std::fs::write(&password, "secret\n").expect("a file");
    let digests = |more: &[&str]| {
        let (url, file) = (gateway.url(""), password.display().to_string());
        let login = ["--url", &url, "-u", "root", "--pw-file", &file];
        let command = [&["quarantine", "digests"], &login[..], more].concat();
        run(env!("CARGO_BIN_EXE_gatepost"), &command, b"")
    };
    let listed = text_of(&digests(&[]));
    assert!(listed.contains("address  carla@hop.example"), "{listed}");
    assert!(listed.contains("1 stopped the digests"), "{listed}");
    let again = digests(&["--again", "carla@hop.example"]);
    assert!(again.status.success(), "{}", text_of(&again));
    let (_, page) = request(gateway, stop, &[]);
    assert!(page.contains("Stop the digests"), "{page}");
    let unknown = digests(&["--again", "carla@hop.example"]);
    assert_ne!(unknown.status.code(), Some(0), "{}", text_of(&unknown));
    let (status, _) = request(
        gateway,
        "/admin/digests/stopped",
        &["--user", "anna:secret"],
    );
    assert_eq!(status, "403");
}

#[test]
fn a_link_expires() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = MailPeer::start(|_, _| Reaction::Take);
    let gateway = start(folder.path(), &peer, "1ms");
    send(&gateway, "carla@hop.example", "offer");
    let link = link(&peer.await_mail(1).remove(0).text);
    await_some("the link expires", || {
        (request(&gateway, &link, &[]).0 == "410").then_some(())
    });
    assert_eq!(release(&gateway, &link, "release", &[]).0, "410");
    assert_eq!(kept(&gateway), 1);
}

/// RFC 8058, section 4: a valid signature covers both fields, or no program offers the one click.
#[test]
fn a_digest_has_two_forms_and_signed_fields_to_stop_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let peer = MailPeer::start(|_, _| Reaction::Take);
    let key = folder.path().join("key.pem");
    let record = record("new", "people.example", "ed", &key);
    let signed = format!(
        "[[smarthost.dkim]]\ndomain = \"people.example\"\nselector = \"ed\"\nkey = \"{}\"\n",
        key.display()
    );
    let gateway = start_with(folder.path(), &peer, "7d", &signed);
    send(
        &gateway,
        "carla@hop.example",
        "offer <b>of https://evil.example",
    );
    let digest = peer.await_mail(1).remove(0);
    let records = [record];
    assert_eq!(verified(&digest.text, &records), [true], "{}", digest.text);
    for field in ["List-Unsubscribe: ", "List-Unsubscribe-Post: "] {
        let changed = digest.text.replace(field, &format!("{field}x"));
        assert_ne!(changed, digest.text);
        assert_eq!(verified(&changed, &records), [false], "{field}");
        // Nor may a second field of the name be added.
        let added = format!("{field}<https://evil.example>\r\n{}", digest.text);
        assert_eq!(verified(&added, &records), [false], "{field}");
    }

    let read = "import email, email.policy, json, sys\n\
        mail = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)\n\
        forms = [part.get_content() for part in mail.iter_parts()]\n\
        print(json.dumps([mail.get_content_type(), *forms, len(mail.defects)]))";
    let output = run("python3", &["-c", read], digest.text.as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
    let parsed: (String, String, String, usize) =
        serde_json::from_slice(&output.stdout).expect("JSON");
    let (kind, plain, html, defects) = parsed;
    assert_eq!((kind.as_str(), defects), ("multipart/alternative", 0));
    let link = link(&plain);
    assert!(
        html.contains(&format!("href=\"https://gate.people.example{link}\"")),
        "{html}"
    );
    assert!(
        html.contains("offer &#60;b&#62;of https: //evil.example"),
        "{html}"
    );
}
