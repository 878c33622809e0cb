//! Lessons of Bayes, and of the averages of senders.

use bytes::Bytes;
use gatepost_learning::LearnInstruction;
use gatepost_learning::bayes::{BayesSample, Class, Lesson, Relearn, Token};
use gatepost_learning::reputation::{SenderChange, SenderLesson};

use super::Examples;
use crate::learned::snapshot::SnapshotNote;

pub(super) fn lessons(examples: &mut Examples) {
    let token = |byte| Token::from_bytes([byte; 5]);
    let lesson = |instruction, relearn| Lesson {
        number: 0x0123_4567_89ab_cdef,
        instruction,
        relearn,
        time: 1_800_000_000,
        sample: BayesSample {
            tokens: vec![token(1), token(2)],
            generated_id: b"0a1b@sa_generated".to_vec(),
            own_id: Some(b"own@example.org".to_vec()),
            time: Some(1_700_000_000),
        },
    };
    let all = [
        (
            "lesson-spam",
            LearnInstruction::Learn(Class::Spam),
            Relearn::Change,
        ),
        (
            "lesson-ham",
            LearnInstruction::Learn(Class::Ham),
            Relearn::Keep,
        ),
        ("lesson-forget", LearnInstruction::Forget, Relearn::Change),
    ];
    for (name, instruction, relearn) in all {
        let lesson = lesson(instruction, relearn);
        let written = Bytes::from(lesson.to_bytes());
        examples.compare(name, lesson, &written, |bytes| Lesson::from_bytes(&bytes));
    }
    let name = |network: &str| format!("anna@example.org|ip={network}").into_bytes();
    let prefix = || b"anna@example.org|".to_vec();
    let senders = SenderLesson {
        number: 0x0123_4567_89ab_cdef,
        time: 1_800_000_000,
        changes: vec![
            SenderChange::Add(name("192.0"), 1, 2.5),
            SenderChange::TakeOver(name("192.0"), name("none")),
            SenderChange::Set(prefix(), -100.0),
            SenderChange::Forget(prefix()),
            SenderChange::Note(b"0a1b|ip=none".to_vec(), 4.0),
            SenderChange::Learn {
                keys: vec![name("none"), name("192.0")],
                message: Some(b"0a1b|ip=none".to_vec()),
                points: 20.0,
            },
            SenderChange::Unlearn {
                keys: vec![name("none")],
                message: b"0a1b|ip=none".to_vec(),
            },
        ],
    };
    let written = Bytes::from(senders.to_bytes());
    examples.compare("lesson-senders", senders, &written, |bytes| {
        SenderLesson::from_bytes(&bytes)
    });
    let note = SnapshotNote {
        number: 0x0123_4567_89ab_cdee,
        sequence: 7,
        pieces: 2,
    };
    examples.compare("lesson-snapshot", note, &note.encode(), SnapshotNote::read);
}
