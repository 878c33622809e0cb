//! The recipe for viruses, with a real clamd that knows one signature of ours.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::recipe;
use crate::support::{Gateway, await_some, call_client, root, text_of};

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
        await_some("clamd listens", || {
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
        "{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n\
         look\r\n\
         --b\r\nContent-Type: application/octet-stream; name=x.bin\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{ATTACHED}\r\n--b--\r\n"
    );
    for mail in [format!("{head}\r\n{SIGNATURE}\r\n"), attached] {
        let (code, text) = ask(&mail);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("Own.Signature"), "{text}");
    }
    // A virus scanner that cannot be reached lets nothing pass.
    drop(clamd);
    let (code, text) = ask(&format!("{head}\r\nnothing\r\n"));
    assert_eq!(code, Some(75), "{text}");
}
