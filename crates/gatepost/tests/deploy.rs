//! `gatepost check --deploy` on a machine with problems.

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use support::{run, text_of};

fn deploy(config: &std::path::Path) -> (Option<i32>, String) {
    let config = config.display().to_string();
    let arguments = ["check", "--deploy", "--config", &config];
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    (output.status.code(), text_of(&output))
}

/// A listener on any free port.
fn free(listener: &str) -> String {
    format!("listeners.{listener}.bind = [\"127.0.0.1:0\"]\n")
}

#[test]
fn problems_of_the_machine_are_named_before_the_first_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken
        .local_addr()
        .map(|address| (taken, address))
        .expect("an address");
    let names = vec!["gate.example".to_owned()];
    let mut parameters = rcgen::CertificateParams::new(names).expect("a name");
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    fs::write(path("cert.pem"), certificate.pem()).expect("written");
    parameters.not_after = rcgen::date_time_ymd(2022, 1, 1);
    let other = parameters.self_signed(&key).expect("a certificate");
    fs::write(path("other.pem"), other.pem()).expect("written");
    fs::write(path("key.pem"), key.serialize_pem()).expect("written");
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(path("key.pem"), open).expect("a mode");
    let data = path("data");
    fs::create_dir(&data).expect("a folder");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("a mode");
    let shown = |name: &str| path(name).display().to_string();
    let others = ["lmtp", "milter", "pop3", "spamd", "call", "http"];
    let binds = others.map(free).concat();
    let text = format!(
        "data = \"{}\"\nrules.paths = []\n{binds}\
         listeners.mqtt.bind = [\"{}\"]\n\
         listeners.smtp.bind = [\"192.0.2.77:2525\"]\n\
         listeners.smtp.open_to_world = true\n\
         listeners.smtp.hostname = \"mail.example\"\n\
         listeners.smtp.tls.cert = \"{}\"\nlisteners.smtp.tls.key = \"{}\"\n\
         listeners.smtp.tls.more = [{{ cert = \"{}\", key = \"{}\" }}]\n\
         store.reserve = \"900000GB\"\n",
        data.display(),
        taken.1,
        shown("cert.pem"),
        shown("key.pem"),
        shown("other.pem"),
        shown("key.pem"),
    );
    fs::write(path("gatepost.toml"), text).expect("written");
    let (code, said) = deploy(&path("gatepost.toml"));
    assert_eq!(code, Some(1), "{said}");
    for part in [
        format!("warning: mqtt: {}: another program listens there", taken.1),
        "warning: smtp: 192.0.2.77:2525: this machine does not have the address".to_owned(),
        "is open to other users (mode 0755)".to_owned(),
        "no message would be accepted".to_owned(),
        "cert.pem expired on 2021-01-01".to_owned(),
        "other.pem expired on 2022-01-01".to_owned(),
        "is not for mail.example".to_owned(),
        "other users can read the key (mode 0644)".to_owned(),
        "note: the clock is plausible".to_owned(),
    ] {
        assert!(said.contains(&part), "{part:?} is missing in\n{said}");
    }
}

#[test]
fn a_machine_that_is_fit_has_no_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = format!(
        "data = \"{}/data\"\nrules.paths = []\n",
        folder.path().display()
    );
    let all = [
        "smtp", "lmtp", "milter", "pop3", "spamd", "call", "mqtt", "http",
    ];
    text += &all.map(free).concat();
    // The limits of the machine that runs the tests are not tested.
    let few = |listener| format!("listeners.{listener}.connections_max = 10\n");
    text += &["smtp", "lmtp", "http"].map(few).concat();
    let log = folder.path().join("access.log");
    let rest = format!(
        "access_log.path = \"{}\"\nstore.reserve = \"1KB\"\n",
        log.display()
    );
    text += &rest;
    let config = folder.path().join("gatepost.toml");
    fs::write(&config, text).expect("written");
    let (code, said) = deploy(&config);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("note: 8 addresses are free"), "{said}");
}
