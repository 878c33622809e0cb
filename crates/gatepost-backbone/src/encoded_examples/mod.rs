//! The bytes of all that nodes write for each other, as each version wrote them.
//!
//! `encodings/1.txt` has an example of every kind, written by version 1 of the encoding. A later
//! version keeps the file, and reads it; it gets a file of its own for what it writes. A kind
//! without an example fails the test, which prints the line to add.

mod lessons;
mod sample;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gatepost_broker::{GroupMembers, LoggedPublication, MovedDelivery, MovedSession, PassedOn};
use gatepost_message::MessageId;
use gatepost_store::StoreChange;

use crate::division_questions;
use crate::encoding::{self, Input};
use crate::log::division::{DivisionChange, NodeShare, rows};
use crate::log::entry::{self, EntryContent, EntryPublication};
use crate::log::group_entry::GroupEntry;
use crate::mail::piece::{MailName, MailPiece};
use crate::members::MemberRecord;
use crate::membership::NodeRecord;
use crate::moves::ownership::{Ownership, SessionSource};
use crate::moves::question::{ReplacedSession, SessionAnswer, SessionQuestion, SessionRequest};
use crate::moves::transfer::SessionTransfer;
use crate::node_epoch::NodeStreamId;
use crate::node_questions;
use crate::node_stream::change;
use crate::node_stream::message::{MessageKind, StreamMessage};
use crate::records::entry::EntryRecords;
use sample::{
    ORIGIN, SETS, delivery, filter, full, plain, position, record_changes, session_changes,
    session_name, subscription,
};

/// The examples of version 1, a line for each: a name, and the bytes as hexadecimal digits.
const VERSION_1: &str = include_str!("../../encodings/1.txt");

/// The examples of a file that were compared.
struct Examples {
    stored: BTreeMap<&'static str, &'static str>,
    compared: Vec<String>,
    missing: String,
}

impl Examples {
    fn of(file: &'static str) -> Self {
        let lines = file.lines().filter_map(|line| line.split_once(' '));
        Self {
            stored: lines.collect(),
            compared: Vec::new(),
            missing: String::new(),
        }
    }

    /// The bytes of the file are those that this version writes, and they read back.
    fn compare<T: PartialEq + Debug, E: PartialEq + Debug>(
        &mut self,
        name: &str,
        value: T,
        written: &Bytes,
        read: impl FnOnce(Bytes) -> Result<T, E>,
    ) {
        self.compared.push(name.to_owned());
        let written = hex(written);
        let Some(stored) = self.stored.get(name) else {
            let _ = writeln!(self.missing, "{name} {written}");
            return;
        };
        assert_eq!(*stored, written, "{name} is written in another way");
        assert_eq!(read(bytes_of(stored)), Ok(value), "{name}");
    }

    fn check(self) {
        assert!(
            self.missing.is_empty(),
            "examples are missing:\n{}",
            self.missing
        );
        let unknown = self
            .stored
            .keys()
            .filter(|name| !self.compared.iter().any(|one| one == **name));
        let unknown: Vec<_> = unknown.collect();
        assert!(unknown.is_empty(), "no version reads {unknown:?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn bytes_of(digits: &str) -> Bytes {
    let pairs = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("digits"));
    let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits"));
    bytes.collect()
}

#[test]
fn what_version_1_has_written_is_read() {
    let mut examples = Examples::of(VERSION_1);
    publications(&mut examples);
    mail(&mut examples);
    lessons::lessons(&mut examples);
    groups(&mut examples);
    streams_of_nodes(&mut examples);
    moved_sessions(&mut examples);
    questions(&mut examples);
    records(&mut examples);
    examples.check();
}

fn publications(examples: &mut Examples) {
    let publications = vec![plain(), full()];
    let mut bundle = encoding::begin(ORIGIN);
    for one in &publications {
        encoding::push(&mut bundle, one);
    }
    examples.compare(
        "bundle",
        (ORIGIN, publications),
        &bundle.freeze(),
        encoding::read,
    );
    let logged = |publication, session, passed_on| LoggedPublication {
        publication: Arc::new(publication),
        session,
        passed_on,
    };
    let passed_on = PassedOn {
        group: filter("$share/g/a/#"),
        original: MessageId::from_number(11),
    };
    let entries = [
        (logged(plain(), None, None), false),
        (logged(full(), Some(7), None), true),
        (logged(plain(), Some(7), Some(passed_on)), false),
    ];
    let mut bytes = encoding::begin(ORIGIN);
    let mut content = Vec::new();
    for (logged, is_kept) in entries {
        entry::push(&mut bytes, &logged, is_kept);
        content.push(EntryPublication { logged, is_kept });
    }
    let content = EntryContent::Publications(content);
    examples.compare("entry", (ORIGIN, content), &bytes.freeze(), entry::read);
}

fn groups(examples: &mut Examples) {
    let members = GroupMembers {
        connected: 1,
        all: 2,
    };
    let adopted = NodeStreamId { node: 3, epoch: 6 };
    for one in [
        GroupEntry::Members {
            epoch: 6,
            members: vec![(filter("$share/g/a"), members)],
        },
        GroupEntry::Gone(vec![2, 4]),
        GroupEntry::Adopted(adopted),
        GroupEntry::Restart,
    ] {
        let name = match &one {
            GroupEntry::Members { .. } => "group-members",
            GroupEntry::Gone(_) => "group-gone",
            GroupEntry::Adopted(_) => "group-adopted",
            GroupEntry::Restart => "group-restart",
        };
        let bytes = one.bytes(ORIGIN);
        let content = EntryContent::Groups(one);
        examples.compare(name, (ORIGIN, content), &bytes, entry::read);
    }
    let share = NodeShare {
        members,
        epoch: 6,
        is_gone: true,
    };
    let mut bytes = BytesMut::new();
    let group = filter("$share/g/a");
    rows::push(&mut bytes, &group, 3, &share);
    let change = DivisionChange::Share {
        group,
        node: 3,
        share: Some(share),
    };
    let read = |bytes| rows::read_change(&mut Input::new(bytes));
    examples.compare("division-share", change, &bytes.freeze(), read);
    let mut bytes = BytesMut::new();
    rows::push_adopted(&mut bytes, adopted);
    let change = DivisionChange::Adopted(adopted);
    examples.compare("division-adopted", change, &bytes.freeze(), read);
    let question = division_questions::question(4);
    examples.compare(
        "division-question",
        4,
        &question,
        division_questions::read_question,
    );
}

fn streams_of_nodes(examples: &mut Examples) {
    for kind in MessageKind::ALL {
        let message = StreamMessage {
            kind,
            run: ORIGIN.run,
            number: ORIGIN.number,
            body: Bytes::from_static(b"body"),
        };
        let name = format!("node-{kind:?}").to_lowercase();
        let bytes = message.bytes();
        examples.compare(&name, message, &bytes, StreamMessage::read);
    }
    let sessions = session_changes().into_iter();
    let sessions = sessions.map(|(name, change)| (name, StoreChange::Session(change)));
    let mut tags = Vec::new();
    for (name, one) in sessions.chain(record_changes()) {
        let mut bytes = BytesMut::new();
        change::push(&mut bytes, &one);
        let bytes = bytes.freeze();
        tags.push(bytes[0]);
        let written = format!("{one:?}");
        let read = |bytes| {
            let read = change::read(&mut Input::new(bytes));
            read.map(|read| format!("{read:?}"))
        };
        examples.compare(&format!("change-{name}"), written, &bytes, read);
    }
    assert_eq!(
        tags,
        change::TAGS.collect::<Vec<u8>>(),
        "each tag has an example"
    );
}

fn moved_sessions(examples: &mut Examples) {
    let transfer = SessionTransfer {
        session: MovedSession {
            number: 7,
            name: session_name(),
            kind: "mqtt".to_owned(),
            expiry: Duration::from_hours(1),
            sent: 5,
            subscriptions: vec![subscription()],
            received: vec![1, 65_535],
            deliveries: vec![MovedDelivery {
                row: delivery(),
                publication: Arc::new(plain()),
            }],
        },
        positions: vec![position()],
    };
    let bytes = transfer.bytes();
    examples.compare("transfer", transfer, &bytes, SessionTransfer::read);
    for (name, request) in [
        ("session-piece", SessionRequest::Piece(2)),
        ("session-remove", SessionRequest::Remove),
        ("session-holds", SessionRequest::Holds),
    ] {
        let (name_of, wanted, claim) = (session_name(), 11, 12);
        let question = SessionQuestion {
            name: name_of,
            wanted,
            claim,
            request,
        };
        let bytes = question.bytes();
        examples.compare(name, question, &bytes, SessionQuestion::read);
    }
    let answers = [
        SessionAnswer::Absent,
        SessionAnswer::Busy,
        SessionAnswer::Superseded,
        SessionAnswer::Piece(Bytes::from_static(b"piece")),
        SessionAnswer::Removed,
        SessionAnswer::Held,
    ];
    for answer in answers {
        let name = match &answer {
            SessionAnswer::Absent => "answer-absent",
            SessionAnswer::Busy => "answer-busy",
            SessionAnswer::Superseded => "answer-superseded",
            SessionAnswer::Piece(_) => "answer-piece",
            SessionAnswer::Removed => "answer-removed",
            SessionAnswer::Held => "answer-held",
        };
        let bytes = answer.bytes();
        examples.compare(name, answer, &bytes, SessionAnswer::read);
    }
    let replaced = ReplacedSession {
        node: 3,
        claim: 12,
        name: session_name(),
    };
    let bytes = replaced.bytes();
    examples.compare("replaced", replaced, &bytes, ReplacedSession::read);
    let ownership = Ownership {
        claim: 12,
        owner: 3,
        epoch: 6,
        sources: vec![SessionSource {
            claim: 11,
            node: 2,
            epoch: 5,
        }],
    };
    let bytes = ownership.value();
    examples.compare("ownership", ownership, &bytes, |bytes| {
        Ownership::read(&bytes)
    });
}

fn mail(examples: &mut Examples) {
    let id = MessageId::from_number(0x0123_4567_89ab_cdee);
    let in_mailbox = MailName::in_mailbox("anna", id);
    let in_quarantine = MailName::in_quarantine(id);
    let pieces = |name: &MailName| {
        let pieces = name.pieces(&Bytes::from_static(b"a mail"), 4);
        pieces.expect("two pieces")
    };
    let (mail, quarantined) = (pieces(&in_mailbox), pieces(&in_quarantine));
    let all = [
        ("mail-first", &mail[0]),
        ("mail-last", &mail[1]),
        ("mail-removal", &in_mailbox.removal(b"")),
        ("quarantined-first", &quarantined[0]),
        ("quarantined-last", &quarantined[1]),
        ("quarantined-removal", &in_quarantine.removal(b"{}")),
    ];
    for (name, piece) in all {
        let read = MailPiece::read(piece.clone()).expect("as written");
        examples.compare(name, read, piece, MailPiece::read);
    }
}

fn questions(examples: &mut Examples) {
    let answers = [
        ("node-answer", Ok(Bytes::from_static(b"bytes"))),
        ("node-refusal", Err("busy".to_owned())),
    ];
    for (name, answer) in answers {
        let piece = node_questions::pieces_of(answer, 1_024)
            .next()
            .expect("a piece");
        let read = node_questions::read_piece(piece.clone()).expect("a piece");
        examples.compare(name, read, &piece, node_questions::read_piece);
    }
}

fn records(examples: &mut Examples) {
    let node = NodeRecord {
        node: 3,
        host: "host".to_owned(),
        process: 99,
        started_unix_ms: ORIGIN.run,
        version: "1.0.0".to_owned(),
        database: 5,
        epoch: 6,
        encoding: 1,
    };
    let bytes = node.value();
    let read = |bytes: Bytes| Ok::<_, ()>(NodeRecord::read(3, &bytes));
    examples.compare("node", node, &bytes, read);
    let member = MemberRecord {
        version: "1.0.0".to_owned(),
        encoding: 1,
    };
    let bytes = member.value();
    let read = |bytes: Bytes| Ok::<_, ()>(MemberRecord::read(&bytes));
    examples.compare("member", member, &bytes, read);
    let mut user = EntryRecords::default();
    user.put(
        "user",
        Bytes::from_static(b"anna"),
        Bytes::from_static(b"\xff"),
    );
    user.put("user", Bytes::from_static(b"b"), Bytes::from_static(b"{}"));
    let mut list = EntryRecords::default();
    let key = Bytes::from_static(b"anna\0*@far.example");
    list.put("sender_list", key, Bytes::from_static(b"block"));
    for (name, key, records) in [
        ("shared-records", "access.anna", user),
        ("shared-sender-list", "sender_list.anna", list),
    ] {
        let bytes = records.encode().expect("short enough");
        let read = |bytes: Bytes| EntryRecords::decode(key, &bytes, SETS);
        examples.compare(name, records, &bytes, read);
    }
}
