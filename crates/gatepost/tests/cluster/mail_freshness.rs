//! A login finds all mail that was accepted before, also on a node that is late.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::mailboxes::{ANNA, Pop3, send, two_nodes};
use super::nats::{self, Nats};
use super::support::command;

/// Keeps other processes from writing to a database, for a while.
const HOLD: &str = "import sqlite3, sys, time\n\
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
    connection.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\n\
    time.sleep(2)\nconnection.execute('ROLLBACK')\n";

#[test]
fn a_login_waits_for_mail_that_its_node_has_not_stored_yet() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (folders, one, two) = two_nodes(&nats);
    Pop3::open(&two, "anna", 0).quit();
    let database = folders[1].path().join("gatepost-data/gatepost.db");
    let mut holder = command("python3")
        .args(["-c", HOLD])
        .arg(database)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut said = String::new();
    let output = holder.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut said).expect("read");
    assert_eq!(said, "held\n");
    let said = send(&one, ANNA, "fresh");
    assert!(said.contains(" accepted"), "{said}");
    Pop3::open(&two, "anna", 1).quit();
    assert!(holder.wait().is_ok_and(|status| status.success()));
}
