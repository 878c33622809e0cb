//! A mail that is built to be expensive: 24 MB of tags that never end, after a text that makes it
//! spam.

use std::thread;

use super::support::{Gateway, run, swaks, text_of};

const LINES: usize = 26_500;
const LINE_LENGTH: usize = 900;
const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
/// The bound on resident memory: the message, its decoded text and the views that rules see are
/// some tens of megabytes each.
const PEAK_KB_MAX: u64 = 400_000;

/// The tags after the text do not let it pass, and other mail is accepted meanwhile.
#[test]
fn a_large_mail_of_unfinished_tags_is_still_spam() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules.cf");
    let rule = "body GTUBE_TEXT /GTUBE-STANDARD/\nscore GTUBE_TEXT 1000\n";
    std::fs::write(&rules, rule).expect("written");
    let settings = format!(
        "rules.paths = [\"{}\"]\n[[scope]]\npath = \"/mail\"\nlisteners = [\"smtp\"]\n\
         run = [\"/spamcheck\"]\n",
        rules.display()
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    let mail = folder.path().join("mail");
    let head = "From: a@example.org\r\nTo: alarms@localhost\r\nSubject: x\r\n\
        MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n";
    let line = format!("{}\r\n", "<".repeat(LINE_LENGTH));
    let text = format!("{head}<p>{GTUBE}</p>\r\n{}", line.repeat(LINES));
    assert!(
        (24_000_000 - 100_000..24_000_000).contains(&text.len()),
        "{}",
        text.len()
    );
    std::fs::write(&mail, text).expect("written");

    let server = gateway.address("smtp").to_string();
    let url = format!("smtp://{server}/client.example");
    let mail = mail.display().to_string();
    let envelope = [
        "--mail-from",
        "a@example.org",
        "--mail-rcpt",
        "alarms@localhost",
    ];
    let arguments = [&["-sv", &url, "--upload-file", &mail][..], &envelope].concat();
    let said = thread::scope(|scope| {
        let sent = scope.spawn(|| text_of(&run("curl", &arguments, b"")));
        let mut small = 0;
        while !sent.is_finished() || small == 0 {
            let answer = swaks(&server, "b@example.org", "alarms@localhost", &[]);
            assert!(answer.status.success(), "{}", text_of(&answer));
            small += 1;
        }
        sent.join().expect("curl ends")
    });
    assert!(said.contains("< 550 5.7.1"), "{said}");
    assert!(said.contains("GTUBE_TEXT"), "{said}");
    let peak_kb = gateway.peak_kb();
    assert!(peak_kb < PEAK_KB_MAX, "{peak_kb} kB at the most");
}
