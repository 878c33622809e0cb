//! Tests of the certificates that are shown and requested, changes of their files, and unusable
//! files.

use super::*;

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
    let port = echo_server(ServerTls::open(&settings, &[]).expect("certificates"));
    let config = authority.client();
    blocking(move || {
        for (name, expected) in [("one.example.org", one), ("other.example.org", other)] {
            let mut client = connect(port, &config, name).expect("connected");
            assert_eq!(
                presented_certificate(&client).as_deref(),
                Some(&expected[..]),
                "{name}"
            );
            assert_eq!(
                exchange(&mut client, "hello").expect("answered"),
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
        let port = echo_server(ServerTls::open(&settings, &[]).expect("certificates"));
        let (anna, anonymous) = (authority.client_with("anna"), authority.client());
        let forged = forged.clone();
        blocking(move || {
            let ask_as = |config: &Arc<ClientConfig>| {
                // With TLS 1.3 the client learns of a refusal when it reads.
                connect(port, config, "localhost").and_then(|mut client| exchange(&mut client, "x"))
            };
            assert_eq!(ask_as(&anna).expect("let in"), "anna: x");
            assert_eq!(ask_as(&anonymous).is_ok(), !required);
            assert!(ask_as(&forged).is_err(), "another authority's certificate");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_followed_and_open_connections_stay() {
    let authority = Authority::new();
    let before = authority.sign("localhost");
    let tls = ServerTls::open(&authority.settings("localhost"), &[]).expect("certificates");
    let port = echo_server(tls.clone());
    let config = authority.client();
    let client_config = config.clone();
    let mut open =
        blocking(move || connect(port, &client_config, "localhost").expect("connected")).await;
    assert_eq!(presented_certificate(&open).as_deref(), Some(&before[..]));

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
        error.ends_with("localhost.pem:1: 'CERTIFICATE' does not end; fix: the file is cut short"),
        "{error}"
    );
    let client_config = config.clone();
    let still =
        blocking(move || connect(port, &client_config, "localhost").expect("connected")).await;
    assert_eq!(presented_certificate(&still).as_deref(), Some(&before[..]));

    let after = authority.sign("localhost");
    let follower = tokio::spawn({
        let tls = tls.clone();
        async move { tls.follow().await }
    });
    let seen = blocking(move || {
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_mins(1) {
            let client = connect(port, &config, "localhost").expect("connected");
            if presented_certificate(&client).as_deref() == Some(&after[..]) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    });
    assert!(seen.await, "the new certificate is shown");
    follower.abort();
    let answer = blocking(move || exchange(&mut open, "still there")).await;
    assert_eq!(answer.expect("answered"), "nobody: still there");
}

#[test]
fn unusable_files_are_reported_with_a_fix() {
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
        ("a.pem", "b.key", "does not belong to the first certificate"),
        ("a.key", "a.pem", "swapped"),
        ("a.pem", "a.pem", "swapped"),
        ("a.pem", "locked.key", "locked.key:1: the key is encrypted"),
        ("a.pem", "odd.key", "kind of the key is not supported"),
        ("empty.pem", "a.key", "no certificate in it"),
        ("missing.pem", "a.key", "No such file"),
    ] {
        let settings = TlsSettings {
            cert: path(cert),
            key: path(key),
            ..TlsSettings::default()
        };
        let error = ServerTls::open(&settings, &[])
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains(hint), "{cert} {key}: {error}");
    }
    let alone = TlsSettings {
        client_required: true,
        ..authority.settings("a")
    };
    let error = ServerTls::open(&alone, &[])
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("tls.client_ca"), "{error}");
    let keyless = TlsSettings {
        key: PathBuf::new(),
        ..authority.settings("a")
    };
    let error = ServerTls::open(&keyless, &[])
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("set both"), "{error}");
}
