//! Sparkplug 3.0, chapter 10.1.3 and 10.1.4: each statement about MQTT servers as a case, with an
//! edge node of pysparkplug; the rights to certificates, with mosquitto's clients and curl.

mod support;

use support::{Client, Gateway, add_user, await_some, command, root, run, text_of};

const AWARE: &str = "rules.paths = []\nbroker.sparkplug = true\n";

/// The statements that one server after another is checked for.
const STATEMENTS: [&str; 9] = [
    "tck-id-conformance-mqtt-qos0",
    "tck-id-conformance-mqtt-qos1",
    "tck-id-conformance-mqtt-will-messages",
    "tck-id-conformance-mqtt-retained",
    "tck-id-conformance-mqtt-aware-nbirth-mqtt-topic",
    "tck-id-conformance-mqtt-aware-nbirth-mqtt-retain",
    "tck-id-conformance-mqtt-aware-dbirth-mqtt-topic",
    "tck-id-conformance-mqtt-aware-dbirth-mqtt-retain",
    "tck-id-conformance-mqtt-aware-ndeath-timestamp",
];

/// Runs a case of `tests/sparkplug/client.py`, and asserts that it went well.
fn case(gateway: &Gateway, name: &str) {
    let packages = root().join(".peers/pysparkplug");
    assert!(
        packages.exists(),
        "{} is missing: run tests/install-peers",
        packages.display()
    );
    let output = command("python3")
        .arg(root().join("tests/sparkplug/client.py"))
        .args([name, "--port", &gateway.port("mqtt")])
        .env("PYTHONPATH", packages)
        .output()
        .unwrap_or_else(|error| panic!("the peer python3 does not start: {error}"));
    assert!(output.status.success(), "{name}: {}", text_of(&output));
}

/// Publishes by mosquitto_pub at QoS 1; its output names all packets.
fn publish(gateway: &Gateway, login: &str, topic: &str, more: &[&str]) -> String {
    let port = gateway.port("mqtt");
    let words = ["-d", "-V", "5", "-q", "1", "-p", &port, "-t", topic];
    let login: Vec<&str> = login.split_whitespace().collect();
    text_of(&run(
        "mosquitto_pub",
        &[&words[..], &login, more].concat(),
        b"",
    ))
}

/// The retained messages that this login gets, or the refusal of its subscription.
fn retained(gateway: &Gateway, login: &str, filter: &str) -> String {
    let port = gateway.port("mqtt");
    let words = [
        "-d",
        "-V",
        "5",
        "-p",
        &port,
        "-t",
        filter,
        "-F",
        "got %t %p",
    ];
    let login: Vec<&str> = login.split_whitespace().collect();
    // It ends after a marker, which is the last message.
    let more = ["-t", "marker", "--retained-only", "-W", "60", "-C", "9"];
    let mut client = Client::start("mosquitto_sub", &[&words[..], &login, &more].concat());
    client.await_line("got marker");
    let lines = client.seen().iter();
    lines
        .filter(|line| !line.contains("got marker"))
        .filter_map(|line| {
            let is_subscribed = line.contains("Subscribed (mid");
            let got = line.trim().strip_prefix("got ");
            got.map(str::to_owned)
                .or_else(|| is_subscribed.then(|| line.trim().to_owned()))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn an_aware_server_fulfils_each_statement() {
    let gateway = Gateway::start(AWARE);
    for statement in STATEMENTS {
        case(&gateway, statement);
    }
    let metrics = text_of(&run("curl", &["-s", &gateway.url("/metrics")], b""));
    let malformed = "gatepost_sparkplug_malformed_total 4";
    assert!(metrics.contains(malformed), "{metrics}");
}

#[test]
fn certificates_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::start_in(folder.path(), AWARE);
    case(&gateway, "tck-id-conformance-mqtt-aware-store");
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = Gateway::start_in(folder.path(), AWARE);
    case(&gateway, "tck-id-conformance-mqtt-aware-store-restarted");
    // The copy of a birth that was acknowledged is on disk, and so is its removal.
    let birth = "spBv1.0/G/NBIRTH/acknowledged";
    publish(&gateway, "", "marker", &["-m", "x", "-r"]);
    publish(&gateway, "", birth, &["-m", "born"]);
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), AWARE);
    let copy = format!("$sparkplug/certificates/{birth}");
    let seen = retained(&gateway, "", &copy);
    assert!(seen.ends_with(&format!("{copy} born")), "{seen}");
    publish(&gateway, "", birth, &["-n"]);
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), AWARE);
    let seen = retained(&gateway, "", &copy);
    assert!(!seen.contains("born"), "{seen}");
}

#[test]
fn without_the_setting_nothing_is_copied() {
    let gateway = Gateway::start("rules.paths = []\n");
    case(&gateway, "without-the-setting");
}

#[test]
fn certificates_have_the_rights_of_their_publishers_and_readers() {
    let gateway = Gateway::start(&format!("{AWARE}access.default = \"deny\"\n"));
    let grant = |words: &str| {
        let data = format!("data={}", gateway.folder.join("gatepost-data").display());
        let words: Vec<&str> = words.split(' ').chain(["--set", &data]).collect();
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &words, b"");
        assert!(output.status.success(), "{}", text_of(&output));
    };
    for (name, more) in [
        ("root", &["--admin"][..]),
        ("edge", &[]),
        ("host", &[]),
        ("one", &[]),
    ] {
        let added = add_user(&gateway, name, "secret", more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    grant("user grant edge publish spBv1.0/G/NBIRTH/mine");
    grant("user grant host subscribe spBv1.0/#");
    grant("user grant host subscribe marker");
    grant("user grant one subscribe $sparkplug/certificates/spBv1.0/G/#");
    grant("user grant one subscribe marker");
    let (root, edge) = ("-u root -P secret", "-u edge -P secret");
    let (host, one) = ("-u host -P secret", "-u one -P secret");
    // The rule that was added last is in force, so all are.
    let port = gateway.port("mqtt");
    await_some("the rules", || {
        let words = [
            "-d", "-E", "-V", "5", "-p", &port, "-u", "one", "-P", "secret",
        ];
        let said = |topic| {
            text_of(&run(
                "mosquitto_sub",
                &[&words[..], &["-t", topic]].concat(),
                b"",
            ))
        };
        let is_known = said("marker").contains("Subscribed (mid: 1): 0");
        (is_known && said("other").contains("Subscribed (mid: 1): 135")).then_some(())
    });
    let said = publish(&gateway, root, "marker", &["-m", "x", "-r"]);
    assert!(!said.contains("RC:135"), "{said}");
    let copy = "$sparkplug/certificates/spBv1.0/G/NBIRTH/mine";
    // The right to publish a birth makes its copy, without the right to retain.
    let said = publish(&gateway, edge, "spBv1.0/G/NBIRTH/mine", &["-m", "born"]);
    assert!(!said.contains("RC:135"), "{said}");
    let said = publish(&gateway, edge, "spBv1.0/G/NBIRTH/other", &["-m", "born"]);
    assert!(said.contains("RC:135"), "{said}");
    // No client publishes a copy directly: not by a publication, by a will, or by HTTP.
    for login in [edge, root] {
        let said = publish(&gateway, login, copy, &["-m", "planted", "-r"]);
        assert!(said.contains("RC:135"), "{said}");
        let will = ["-m", "x", "--will-topic", copy, "--will-payload", "planted"];
        let said = publish(&gateway, login, "marker2", &will);
        assert!(!said.contains("CONNACK (0)"), "{said}");
    }
    let url = gateway.url(&format!("/topics/{copy}"));
    let words = [
        "-s",
        "-w",
        "%{http_code}",
        "-u",
        "root:secret",
        "-d",
        "planted",
        &url,
    ];
    assert!(text_of(&run("curl", &words, b"")).ends_with("403"));
    // Readers have the right to the originals, or one to the copies.
    let born = format!("{copy} born");
    for (login, filter, is_read) in [
        (root, "$sparkplug/#", true),
        (host, "$sparkplug/certificates/spBv1.0/#", true),
        (one, "$sparkplug/certificates/spBv1.0/G/#", true),
        (host, "$sparkplug/#", false),
        (host, "$sparkplug/certificates/#", false),
        (one, "$sparkplug/certificates/spBv1.0/#", false),
        (one, "spBv1.0/G/#", false),
    ] {
        let seen = retained(&gateway, login, filter);
        let is_granted = !seen.contains("135");
        assert_eq!(is_granted, is_read, "{login} {filter}: {seen}");
        let lines: Vec<&str> = seen.lines().filter(|line| !line.contains("mid")).collect();
        let expected: &[&str] = if is_read { &[&born] } else { &[] };
        assert_eq!(lines, expected, "{login} {filter}");
    }
}

#[test]
fn a_judged_birth_is_copied_if_it_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    let judge = "return function(message)\n    \
                 return {action = string.match(message.text, \"%a+\"), reason = \"asked\"}\nend\n";
    std::fs::write(folder.path().join("procedures/judge.luau"), judge).expect("written");
    let scope = "[[scope]]\npath = \"/births\"\nlisteners = [\"mqtt\"]\n\
                 topics = [\"spBv1.0/#\"]\nrun = [\"/judge\"]\n";
    let gateway = Gateway::start_in(folder.path(), &format!("{AWARE}{scope}"));
    publish(&gateway, "", "spBv1.0/G/NBIRTH/e", &["-m", "accept"]);
    let said = publish(&gateway, "", "spBv1.0/G/NBIRTH/e", &["-m", "reject"]);
    assert!(said.contains("RC:135"), "{said}");
    publish(&gateway, "", "marker", &["-m", "x", "-r"]);
    let seen = retained(&gateway, "", "$sparkplug/certificates/#");
    let copy = "$sparkplug/certificates/spBv1.0/G/NBIRTH/e accept";
    assert!(seen.ends_with(copy), "{seen}");
}

#[test]
fn a_server_with_prefixes_is_not_aware() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gatepost.toml");
    std::fs::write(&file, "broker.sparkplug = true\naccess.mount = \"%u/\"\n").expect("written");
    let arguments = ["check", "--config", file.to_str().expect("text")];
    let said = text_of(&run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b""));
    assert!(said.contains("broker.sparkplug"), "{said}");
}
