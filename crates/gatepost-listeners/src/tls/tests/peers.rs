//! OpenSSL's client and Python's.

use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

/// Runs a client program with `input`; its standard output and error.
fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("the peer of {command:?} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("client.py");
    std::fs::write(&file, text).expect("written");
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssl_and_python_speak_with_us() {
    let authority = Authority::new();
    authority.sign("localhost");
    let tls =
        ServerTls::open(&authority.settings("localhost"), &["http/1.1"]).expect("certificates");
    let port = echo_server(tls);
    let ca = authority.path("ca.pem");
    for version in ["-tls1_2", "-tls1_3"] {
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-quiet",
            "-no_ign_eof",
            "-verify_return_error",
            version,
        ]);
        command.args([
            "-connect",
            &format!("127.0.0.1:{port}"),
            "-servername",
            "localhost",
        ]);
        command.args(["-alpn", "h2,http/1.1", "-CAfile"]).arg(&ca);
        // OpenSSL ends with its input; without the `sleep`, it would print only the bytes that had
        // arrived by then.
        let text = blocking(move || run(&mut command, "over the wire\n")).await;
        assert!(
            !text.contains("verify error") && !text.contains("alert"),
            "{text}"
        );
    }
    let mut old = Command::new("openssl");
    old.args(["s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    old.args(["-connect", &format!("127.0.0.1:{port}")]);
    let text = blocking(move || run(&mut old, "")).await;
    assert!(
        text.contains("Cipher is (NONE)"),
        "TLS 1.1 is refused: {text}"
    );
    let client = script(authority.folder.path(), PYTHON_CLIENT);
    let mut command = Command::new("python3");
    command.arg(client).arg(port.to_string()).arg(&ca);
    let text = blocking(move || run(&mut command, "")).await;
    assert_eq!(text, "TLSv1.3 http/1.1 nobody: from python\n");
}

const PYTHON_CLIENT: &str = r#"
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.set_alpn_protocols(["http/1.1"])
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
stream = context.wrap_socket(plain, server_hostname="localhost")
stream.sendall(b"from python")
answer = b""
while not answer.endswith(b"from python"):
    answer += stream.recv(100)
print(stream.version(), stream.selected_alpn_protocol(), answer.decode())
stream.unwrap()
"#;
