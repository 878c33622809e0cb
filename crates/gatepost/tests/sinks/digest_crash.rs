//! The server is killed while it makes digests of the quarantine. No recipient gets a second digest
//! for the same messages, and each gets one.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mail_peer::{MailPeer, Reaction};
use super::quarantine_digest::{await_in_mailbox, send, start, start_again};
use super::support::{Gateway, await_some, run};

/// Recipients at the next hop; each of their digests is a commit.
const ADDRESSES: usize = 300;
/// The server is killed while the peer receives the mails after so many others.
const KILLED_AFTER: [usize; 3] = [0, 10, 40];

/// Mails that may be sent once more after each kill.
const COPIES_MAX: usize = 4;

/// Kills the server at these moments.
fn killing_peer(server: &Arc<AtomicU32>) -> MailPeer {
    let server = server.clone();
    MailPeer::start(move |command, before| {
        if command == "." && KILLED_AFTER.contains(&before) {
            // A server sends what an earlier one has queued as soon as it starts.
            let pid = await_some("the server's number", || {
                let pid = server.swap(0, Ordering::SeqCst);
                (pid > 0).then(|| pid.to_string())
            });
            let killed = Command::new("kill").args(["-9", &pid]).status();
            assert!(killed.is_ok_and(|status| status.success()));
        }
        Reaction::Take
    })
}

/// Whether a run of digests has begun and not ended, by the database.
fn is_interrupted(gateway: &Gateway) -> bool {
    let database = gateway.folder.join("gatepost-data/gatepost.db");
    let database = rusqlite::Connection::open(database).expect("the database");
    // The key is `run`, as bytes.
    let count = "SELECT count(*) FROM record WHERE space = 'quarantine_digest' AND key = x'72756e'";
    let found: usize = database
        .query_row(count, (), |row| row.get(0))
        .expect("a number");
    found == 1
}

/// The number of mails in a mailbox.
fn mails_of(gateway: &Gateway, user: &str) -> usize {
    let url = format!("pop3://{}/", gateway.address("pop3"));
    let login = format!("{user}:secret");
    let output = run("curl", &["--silent", "--user", &login, &url], b"");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn killed_while_digests_are_made_it_neither_repeats_nor_loses_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Arc::new(AtomicU32::new(0));
    let peer = killing_peer(&server);
    let mut gateway = start(folder.path(), &peer, "7d");
    server.store(gateway.pid(), Ordering::SeqCst);
    let addresses: BTreeSet<String> = (0..ADDRESSES)
        .map(|number| format!("a{number}@hop.example"))
        .collect();
    let users = ["anna", "bert"].map(|user| format!("{user}@people.example"));
    let to: Vec<String> = users.iter().chain(&addresses).cloned().collect();
    send(&gateway, &to.join(","), "offer");
    let mut interrupted = 0;
    for _ in KILLED_AFTER {
        await_some("the server is killed", || {
            (!gateway.is_running()).then_some(())
        });
        interrupted += usize::from(is_interrupted(&gateway));
        gateway = start_again(folder.path(), &peer);
        server.store(gateway.pid(), Ordering::SeqCst);
    }
    assert!(interrupted > 0, "no kill came in the middle");

    // The digests of later runs are sent after all of the interrupted one.
    let last = "anna@people.example,zoe@hop.example";
    send(&gateway, last, "afterwards");
    let taken = await_some("the last digest", || {
        let taken = peer.taken();
        let is_last = |recipients: &[String]| recipients == ["zoe@hop.example"];
        let is_there = taken.iter().any(|mail| is_last(&mail.recipients));
        is_there.then_some(taken)
    });
    let mut digests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut copies = 0;
    for mail in taken
        .iter()
        .filter(|mail| mail.text.contains("\r\noffer\r\n"))
    {
        let ids = digests.entry(mail.recipients[0].clone()).or_default();
        // SMTP may deliver a mail twice, if its reply is lost; it is known by its id.
        ids.insert(mail.field("Message-ID"));
        copies += 1;
    }
    let copies_max = ADDRESSES + KILLED_AFTER.len() * COPIES_MAX;
    assert!(copies <= copies_max, "{copies} mails");
    let repeated = digests.iter().filter(|(_, ids)| ids.len() > 1);
    assert_eq!(repeated.collect::<Vec<_>>(), []);
    assert_eq!(digests.into_keys().collect::<BTreeSet<_>>(), addresses);
    await_in_mailbox(&gateway, "anna", 2);
    assert_eq!(mails_of(&gateway, "anna"), 2);
    assert_eq!(mails_of(&gateway, "bert"), 1);
}
