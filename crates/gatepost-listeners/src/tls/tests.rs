//! TLS against clients of others: rustls' own, OpenSSL's and Python's.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gatepost_settings::{Bind, Period};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::acceptor::Acceptor;

/// An authority with a folder for what it signs.
struct Authority {
    folder: tempfile::TempDir,
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "the tests' own authority");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("written");
        Self {
            folder,
            certificate,
            issuer: rcgen::Issuer::new(parameters, key),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.pem` and `NAME.key`; gives the certificate.
    fn sign(&self, name: &str) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = parameters.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.path(&format!("{name}.pem")), signed.pem()).expect("written");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("written");
        signed.der().to_vec()
    }

    fn settings(&self, name: &str) -> TlsSettings {
        TlsSettings {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            recheck: Period::milliseconds(20),
            ..TlsSettings::default()
        }
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::new(self.client_builder().with_no_client_auth())
    }

    fn client_with(&self, name: &str) -> Arc<ClientConfig> {
        let chain = pem::certificates(&self.path(&format!("{name}.pem"))).expect("a certificate");
        let key = pem::private_key(&self.path(&format!("{name}.key"))).expect("a key");
        let config = self.client_builder().with_client_auth_cert(chain, key);
        Arc::new(config.expect("a pair"))
    }

    fn client_builder(
        &self,
    ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.der().clone())
            .expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
    }
}

type Client = StreamOwned<ClientConnection, std::net::TcpStream>;

fn connect(port: u16, config: &Arc<ClientConfig>, name: &str) -> io::Result<Client> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_mins(1)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// What the server showed, which tells certificates apart.
fn shown(client: &Client) -> Option<CertificateDer<'static>> {
    Some(
        client
            .conn
            .peer_certificates()?
            .first()?
            .clone()
            .into_owned(),
    )
}

fn acceptor() -> (Acceptor, u16) {
    let bind: Bind = "127.0.0.1:0".parse().expect("an address");
    let acceptor = Acceptor::bind(&bind).expect("a free port");
    let Bind::Tcp(address) = acceptor.local().clone() else {
        panic!("not TCP");
    };
    (acceptor, address.port())
}

/// Answers each connection's bytes with `NAME: BYTES`, where NAME is the client certificate's.
fn echo_server(tls: Tls) -> u16 {
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    tokio::spawn(async move {
        while let Ok((accepted, peer)) = listening.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = tls.accept(accepted.open(peer).await?.0).await else {
                    return Ok(());
                };
                let name = stream.tls().and_then(TlsSession::client_name);
                let name = name.unwrap_or_else(|| "nobody".to_owned());
                let mut buffer = [0; 4_096];
                loop {
                    let count = stream.read(&mut buffer).await?;
                    if count == 0 {
                        return stream.shutdown().await;
                    }
                    stream.write_all(format!("{name}: ").as_bytes()).await?;
                    stream.write_all(&buffer[..count]).await?;
                    stream.flush().await?;
                }
            });
        }
    });
    port
}

/// Runs what blocks beside the server.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

fn ask(client: &mut Client, text: &str) -> io::Result<String> {
    client.write_all(text.as_bytes())?;
    let mut answer = vec![0; 4_096];
    let mut filled = 0;
    while !answer[..filled].ends_with(text.as_bytes()) {
        let count = client.read(&mut answer[filled..])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
    }
    Ok(String::from_utf8_lossy(&answer[..filled]).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_name_chooses_the_certificate() {
    let authority = Authority::new();
    let one = authority.sign("one.example.org");
    let other = authority.sign("other.example.org");
    let settings = TlsSettings {
        more: vec![CertificateFiles {
            cert: authority.path("other.example.org.pem"),
            key: authority.path("other.example.org.key"),
        }],
        ..authority.settings("one.example.org")
    };
    let port = echo_server(Tls::open(&settings, &[]).expect("certificates"));
    let config = authority.client();
    blocking(move || {
        for (name, expected) in [("one.example.org", one), ("other.example.org", other)] {
            let mut client = connect(port, &config, name).expect("connected");
            assert_eq!(shown(&client).as_deref(), Some(&expected[..]), "{name}");
            assert_eq!(
                ask(&mut client, "hello").expect("answered"),
                "nobody: hello"
            );
        }
        let stranger = connect(port, &config, "third.example.org");
        assert!(
            stranger.is_err(),
            "the first is shown, and is not the third's"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_certificates_are_optional_or_required() {
    let authority = Authority::new();
    authority.sign("localhost");
    authority.sign("anna");
    let stranger = Authority::new();
    stranger.sign("anna");
    let forged = {
        let chain = pem::certificates(&stranger.path("anna.pem")).expect("a certificate");
        let key = pem::private_key(&stranger.path("anna.key")).expect("a key");
        let config = authority.client_builder().with_client_auth_cert(chain, key);
        Arc::new(config.expect("a pair"))
    };
    for required in [false, true] {
        let settings = TlsSettings {
            client_ca: Some(authority.path("ca.pem")),
            client_required: required,
            ..authority.settings("localhost")
        };
        let port = echo_server(Tls::open(&settings, &[]).expect("certificates"));
        let (anna, nobody) = (authority.client_with("anna"), authority.client());
        let forged = forged.clone();
        blocking(move || {
            let ask_as = |config: &Arc<ClientConfig>| {
                // With TLS 1.3 the client learns of a refusal when it reads.
                connect(port, config, "localhost").and_then(|mut client| ask(&mut client, "x"))
            };
            assert_eq!(ask_as(&anna).expect("let in"), "anna: x");
            assert_eq!(ask_as(&nobody).is_ok(), !required);
            assert!(ask_as(&forged).is_err(), "another authority's certificate");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_followed_and_open_connections_stay() {
    let authority = Authority::new();
    let before = authority.sign("localhost");
    let tls = Tls::open(&authority.settings("localhost"), &[]).expect("certificates");
    let port = echo_server(tls.clone());
    let config = authority.client();
    let client_config = config.clone();
    let mut open =
        blocking(move || connect(port, &client_config, "localhost").expect("connected")).await;
    assert_eq!(shown(&open).as_deref(), Some(&before[..]));

    // Half a change: a file that cannot be used changes nothing.
    std::fs::write(
        authority.path("localhost.pem"),
        "-----BEGIN CERTIFICATE-----\n",
    )
    .expect("written");
    let error = tls
        .reload_if_changed()
        .expect_err("a broken file")
        .to_string();
    assert!(
        error.ends_with("localhost.pem:1: 'CERTIFICATE' does not end; mend: the file is cut short"),
        "{error}"
    );
    let client_config = config.clone();
    let still =
        blocking(move || connect(port, &client_config, "localhost").expect("connected")).await;
    assert_eq!(shown(&still).as_deref(), Some(&before[..]));

    let after = authority.sign("localhost");
    let follower = tokio::spawn({
        let tls = tls.clone();
        async move { tls.follow().await }
    });
    let seen = blocking(move || {
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_mins(1) {
            let client = connect(port, &config, "localhost").expect("connected");
            if shown(&client).as_deref() == Some(&after[..]) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    });
    assert!(seen.await, "the new certificate is shown");
    follower.abort();
    let answer = blocking(move || ask(&mut open, "still there")).await;
    assert_eq!(answer.expect("answered"), "nobody: still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_gets_everything_in_order_though_others_write() {
    const PIECES: u32 = 40_000;
    let authority = Authority::new();
    authority.sign("localhost");
    let tls = Tls::open(&authority.settings("localhost"), &[]).expect("certificates");
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    let config = authority.client();
    let reader = std::thread::spawn(move || {
        let mut client = connect(port, &config, "localhost").expect("connected");
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("everything");
        received
    });
    let (accepted, peer) = listening.accept().await.expect("a client");
    let stream = tls
        .accept(accepted.open(peer).await.expect("open").0)
        .await
        .expect("a handshake");
    let stream = Arc::new(stream);
    // The owner only ever waits to read, as a subscriber's task does; another task writes.
    let owner = tokio::spawn({
        let stream = stream.clone();
        async move {
            loop {
                poll_fn(|context| stream.poll_read_ready(context)).await?;
                match stream.try_read(&mut [0; 64]) {
                    Ok(0) => return Ok(()),
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
        }
    });
    for piece in 0..PIECES {
        let bytes = piece.to_be_bytes();
        let (head, tail) = bytes.split_at(1);
        let mut sent = 0;
        while sent < 4 {
            let slices = [
                io::IoSlice::new(head),
                io::IoSlice::new(tail),
                io::IoSlice::new(&[0x5a; 996]),
            ];
            assert_eq!(sent, 0, "a piece this small is taken whole or not at all");
            match stream.try_write(&slices) {
                Ok(count) => {
                    assert_eq!(count, 1_000);
                    sent += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    // What the last write left behind is the owner's to send: until then nobody else writes.
    let drained = poll_fn(|context| match &*stream {
        Stream::Tls(session) => session.poll_drain(context),
        _ => unreachable!("this speaks TLS"),
    });
    drained.await.expect("sent");
    owner.abort();
    let _ = owner.await;
    drop(stream);
    let received = blocking(move || reader.join().expect("no panic")).await;
    assert_eq!(received.len(), PIECES as usize * 1_000);
    for (number, piece) in received.chunks(1_000).enumerate() {
        assert_eq!(piece[..4], (number as u32).to_be_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_record_is_sent_by_the_waiting_owner() {
    let authority = Authority::new();
    authority.sign("localhost");
    let tls = Tls::open(&authority.settings("localhost"), &[]).expect("certificates");
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    let config = authority.client();
    let (resume, may_read) = std::sync::mpsc::channel::<usize>();
    let reader = std::thread::spawn(move || {
        let mut client = connect(port, &config, "localhost").expect("connected");
        // Reads nothing before the socket between is full.
        let total = may_read.recv().expect("a count");
        let mut received = vec![0; total];
        client.read_exact(&mut received).expect("everything");
        total
    });
    let (accepted, peer) = listening.accept().await.expect("a client");
    let stream = tls
        .accept(accepted.open(peer).await.expect("open").0)
        .await
        .expect("a handshake");
    let stream = Arc::new(stream);
    let owner = tokio::spawn({
        let stream = stream.clone();
        async move {
            loop {
                poll_fn(|context| stream.poll_read_ready(context))
                    .await
                    .expect("no error");
                if matches!(stream.try_read(&mut [0; 64]), Ok(0)) {
                    return;
                }
            }
        }
    });
    let mut total = 0;
    while let Ok(count) = stream.try_write(&[io::IoSlice::new(&[7; 10_000])]) {
        total += count;
    }
    // Nobody writes any more; only the owner's wait can bring the rest out.
    resume.send(total).expect("the reader waits");
    assert_eq!(
        blocking(move || reader.join().expect("everything came")).await,
        total
    );
    owner.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_says_nothing_is_not_waited_for() {
    let authority = Authority::new();
    authority.sign("localhost");
    let settings = TlsSettings {
        handshake_timeout: Period::milliseconds(50),
        ..authority.settings("localhost")
    };
    let tls = Tls::open(&settings, &[]).expect("certificates");
    let (acceptor, port) = acceptor();
    let listening = acceptor.listen().expect("registered");
    let _silent = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let (accepted, peer) = listening.accept().await.expect("a client");
    let outcome = tls.accept(accepted.open(peer).await.expect("open").0).await;
    assert_eq!(
        outcome.err().map(|error| error.kind()),
        Some(io::ErrorKind::TimedOut)
    );

    let mut plain = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let (accepted, peer) = listening.accept().await.expect("a client");
    let outcome = tls.accept(accepted.open(peer).await.expect("open").0).await;
    assert_eq!(
        outcome.err().map(|error| error.kind()),
        Some(io::ErrorKind::InvalidData)
    );
}

/// Runs a client program with `input`; its standard output and error.
fn run(command: &mut Command, input: &str) -> String {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the program is installed");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("{program} is not installed; its test did nothing");
    }
    found.is_ok()
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
    let tls = Tls::open(&authority.settings("localhost"), &["http/1.1"]).expect("certificates");
    let port = echo_server(tls);
    let ca = authority.path("ca.pem");
    if is_installed("openssl") {
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
            // OpenSSL leaves when its input ends; `sleep`less, it reads what came until then.
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
    }
    if is_installed("python3") {
        let client = script(authority.folder.path(), PYTHON_CLIENT);
        let mut command = Command::new("python3");
        command.arg(client).arg(port.to_string()).arg(&ca);
        let text = blocking(move || run(&mut command, "")).await;
        assert_eq!(text, "TLSv1.3 http/1.1 nobody: from python\n");
    }
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

#[test]
fn what_cannot_be_used_is_named_with_its_mend() {
    let authority = Authority::new();
    authority.sign("a");
    authority.sign("b");
    let path = |name: &str| authority.path(name);
    std::fs::write(
        path("locked.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAQID\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .expect("written");
    std::fs::write(path("empty.pem"), "").expect("written");
    std::fs::write(
        path("odd.key"),
        "-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----\n",
    )
    .expect("written");
    for (cert, key, hint) in [
        ("a.pem", "b.key", "not that of the first certificate"),
        ("a.key", "a.pem", "swapped"),
        ("a.pem", "a.pem", "swapped"),
        ("a.pem", "locked.key", "locked.key:1: the key is encrypted"),
        ("a.pem", "odd.key", "no kind that is supported"),
        ("empty.pem", "a.key", "no certificate in it"),
        ("missing.pem", "a.key", "No such file"),
    ] {
        let settings = TlsSettings {
            cert: path(cert),
            key: path(key),
            ..TlsSettings::default()
        };
        let error = Tls::open(&settings, &[])
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains(hint), "{cert} {key}: {error}");
    }
    let alone = TlsSettings {
        client_required: true,
        ..authority.settings("a")
    };
    let error = Tls::open(&alone, &[]).err().expect("refused").to_string();
    assert!(error.contains("tls.client_ca"), "{error}");
    let keyless = TlsSettings {
        key: PathBuf::new(),
        ..authority.settings("a")
    };
    let error = Tls::open(&keyless, &[]).err().expect("refused").to_string();
    assert!(error.contains("set both"), "{error}");
}
