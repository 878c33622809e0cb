//! Equal questions that wait at the same time.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use gatepost_dns::{Question, QuestionOutcome, RecordType, Resolver};
use tokio::task::spawn_blocking;

/// Reached only by a defect.
const PATIENCE: Duration = Duration::from_mins(1);
/// The bytes of a question's OPT record, its last one.
const OPT_BYTES: usize = 11;

/// A server that answers nothing until it is asked for a name that begins with `z`; from then on it
/// answers that there is no such name, to all. Returns its address and the first letters of the
/// names that it was asked for.
fn server() -> (SocketAddr, mpsc::Receiver<u8>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    let (sender, names) = mpsc::channel();
    thread::spawn(move || {
        let mut waiting = Vec::new();
        let mut answers = false;
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let initial = question[13];
            let mut answer = question[..length - OPT_BYTES].to_vec();
            answer[10..12].fill(0);
            answer[2..4].copy_from_slice(&[0x81, 0x83]);
            waiting.push((answer, from));
            // Fails where the test needs no further names.
            let _ = sender.send(initial);
            answers |= initial == b'z';
            if answers {
                for (answer, from) in waiting.drain(..) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        }
    });
    (address, names)
}

/// Waits until the server was asked for so many names, and then asks it for one that has it answer.
async fn open(resolver: &Resolver, names: mpsc::Receiver<u8>, count: usize) -> (Vec<u8>, Vec<u8>) {
    let received = move || {
        let asked: Vec<u8> = names.iter().take(count).collect();
        (asked, names)
    };
    let (asked, names) = spawn_blocking(received).await.expect("names");
    let last = Question::new("z.example", RecordType::A);
    let answer = resolver.answer(&last, Instant::now() + PATIENCE).await;
    answer.expect("an answer");
    (asked, names.try_iter().collect())
}

#[tokio::test]
async fn equal_questions_are_sent_once_and_all_get_the_answer() {
    let (address, names) = server();
    let resolver = Resolver::new(vec![address], PATIENCE);
    let deadline = Instant::now() + PATIENCE;
    let same = Question::new("a.example", RecordType::A);
    let (one, two, three, asked) = tokio::join!(
        resolver.answer(&same, deadline),
        resolver.answer(&same, deadline),
        resolver.answer(&same, deadline),
        open(&resolver, names, 1),
    );
    for resolved in [one, two, three] {
        let answer = resolved.expect("an answer").answer;
        assert_eq!(answer, QuestionOutcome::NoSuchName);
    }
    assert_eq!(asked, (b"a".to_vec(), b"z".to_vec()));
}

#[tokio::test]
async fn a_question_with_more_time_is_sent_when_the_first_one_gives_up() {
    let (address, names) = server();
    let resolver = Resolver::new(vec![address], PATIENCE);
    let same = Question::new("a.example", RecordType::A);
    let now = Instant::now();
    let (first, second, asked) = tokio::join!(
        resolver.answer(&same, now + Duration::from_millis(1)),
        resolver.answer(&same, now + PATIENCE),
        open(&resolver, names, 2),
    );
    assert!(first.is_err());
    let answer = second.expect("an answer").answer;
    assert_eq!(answer, QuestionOutcome::NoSuchName);
    assert_eq!(asked, (b"aa".to_vec(), b"z".to_vec()));
}
