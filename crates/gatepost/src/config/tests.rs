//! The precedence of layers, and the text for each kind of mistake.

use std::path::Path;

use super::*;

fn load_text(
    text: &str,
    variables: &[(&str, &str)],
    flags: &[&str],
) -> Result<String, Vec<String>> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a written file");
    let variables = variables
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    let shorter = |text: String| text.replace(&file.path().display().to_string(), "FILE");
    match load(Some(file.path()), variables, &flags) {
        Ok((config, origins)) => Ok(shorter(origins.dump(&config))),
        Err(faulty) => Err(faulty
            .mistakes
            .iter()
            .map(|mistake| shorter(mistake.to_string()))
            .collect()),
    }
}

fn line_of(dump: &str, key: &str) -> String {
    let start = format!("{key} = ");
    let line = dump
        .lines()
        .find(|line| line.starts_with(&start))
        .expect(key);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_layer_overrides_the_one_before_and_is_named() {
    let text = "data = \"from-file\"\n\n[log]\nlevel = \"warn\"\n";
    let dump = load_text(text, &[], &[]).expect("no mistake");
    assert_eq!(line_of(&dump, "data"), "data = \"from-file\" # FILE:1");
    assert_eq!(line_of(&dump, "log.level"), "log.level = \"warn\" # FILE:4");
    assert_eq!(
        line_of(&dump, "log.format"),
        "log.format = \"text\" # default"
    );

    let variables = [
        ("GATEPOST_DATA", "'from variable'"),
        ("GATEPOST_LOG__LEVEL", "debug"),
    ];
    let dump = load_text(text, &variables, &["data=from-flag"]).expect("no mistake");
    assert_eq!(
        line_of(&dump, "data"),
        "data = \"from-flag\" # --set data=from-flag"
    );
    assert_eq!(
        line_of(&dump, "log.level"),
        "log.level = \"debug\" # $GATEPOST_LOG__LEVEL"
    );
}

#[test]
fn every_mistake_is_reported_with_its_place_and_a_fix() {
    let text = "dta = \"x\"\n[log]\nformat = \"xml\"\nlevl = \"info\"\n[store]\nwaiting_max = 7\n";
    let mistakes = load_text(text, &[("GATEPOST_NO__SUCH", "1")], &[]).expect_err("mistakes");
    let expect = |part: &str| {
        assert!(
            mistakes.iter().any(|mistake| mistake.contains(part)),
            "{part} in {mistakes:#?}"
        );
    };
    expect("FILE:1: dta: unknown key; did you mean 'data'?");
    expect("FILE:3: log.format: 'xml' is not possible here; write text or json");
    expect("FILE:4: log.levl: unknown key; did you mean 'level'?");
    expect("FILE:6: store.waiting_max: 7 is not possible here; write text in quotes");
    expect("$GATEPOST_NO__SUCH: no: unknown key; there are data,");
    assert_eq!(mistakes.len(), 5, "{mistakes:#?}");
}

#[test]
fn a_file_that_is_no_toml_names_its_line() {
    let mistakes = load_text("data = \"x\"\n[log\n", &[], &[]).expect_err("a mistake");
    assert!(mistakes[0].starts_with("FILE:2: "), "{mistakes:?}");
}

#[test]
fn a_missing_file_is_named() {
    let faulty =
        load(Some(Path::new("no-such.toml")), std::iter::empty(), &[]).expect_err("a mistake");
    let mistakes = faulty.mistakes;
    assert!(
        mistakes[0].to_string().starts_with("no-such.toml: "),
        "{mistakes:?}"
    );
}

#[test]
fn a_bad_log_level_is_reported() {
    let mistakes = load_text("log.level = \"smtp=loudly\"\n", &[], &[]).expect_err("a mistake");
    assert!(
        mistakes[0].starts_with("FILE:1: log.level: "),
        "{mistakes:?}"
    );
}

#[test]
fn a_number_that_no_server_can_have_is_reported() {
    for number in ["0", "256"] {
        let mistakes = load_text(&format!("node = {number}\n"), &[], &[]).expect_err("a mistake");
        let expected = "FILE:1: node: must be a number from 1 to 255";
        assert!(mistakes[0].starts_with(expected), "{mistakes:?}");
    }
    let dump = load_text("", &[("GATEPOST_NODE", "255")], &[]).expect("no mistake");
    assert_eq!(line_of(&dump, "node"), "node = 255 # $GATEPOST_NODE");
}

#[test]
fn variables_of_tests_and_the_config_path_are_no_settings() {
    let variables = [
        ("GATEPOST_CONFIG", "x"),
        ("GATEPOST_TEST_CORPORA", "y"),
        ("HOME", "z"),
    ];
    assert!(load_text("", &variables, &[]).is_ok());
}

/// The variables that Kubernetes and Docker define for a service called gatepost.
#[test]
fn variables_of_container_platforms_are_no_settings() {
    let variables = [
        ("GATEPOST_PORT", "tcp://10.0.0.1:1883"),
        ("GATEPOST_SERVICE_HOST", "10.0.0.1"),
        ("GATEPOST_SERVICE_PORT_MQTT", "1883"),
        ("GATEPOST_PORT_1883_TCP_ADDR", "10.0.0.1"),
        ("GATEPOST_LOG__LEVEL", "warn"),
    ];
    let dump = load_text("", &variables, &[]).expect("no mistake");
    assert!(line_of(&dump, "log.level").contains("\"warn\""));
    let mistakes = load_text("", &[("GATEPOST_DTA", "x")], &[]).expect_err("a mistake");
    assert!(mistakes[0].contains("did you mean 'data'?"), "{mistakes:?}");
}

#[test]
fn each_listener_is_opened_to_the_world_by_itself() {
    let public = "listeners.smtp.bind = [\"0.0.0.0:25\"]\nlisteners.spamd.bind = [\"[::]:783\"]\n";
    let mistakes = load_text(public, &[], &[]).expect_err("mistakes");
    assert_eq!(mistakes.len(), 2, "{mistakes:#?}");
    assert!(
        mistakes[0].contains("listeners.smtp.open_to_world = true"),
        "{mistakes:?}"
    );
    let smtp = ["listeners.smtp.open_to_world=true"];
    let mistakes = load_text(public, &[], &smtp).expect_err("a mistake");
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    assert!(
        mistakes[0].contains("listeners.spamd.open_to_world = true"),
        "{mistakes:?}"
    );
    let submission =
        "listeners.smtp.bind = [\"0.0.0.0:587\"]\nlisteners.smtp.login_required = true\n";
    assert!(
        load_text(submission, &[], &[]).is_ok(),
        "a login is required"
    );
}

#[test]
fn an_address_belongs_to_one_listener() {
    let text = "[listeners]\nmqtt.bind = [\"127.0.0.1:1883\", \"127.0.0.1:0\"]\n\
                http.bind = [\"127.0.0.1:0\"]\nhttp.tls.bind = [\"127.0.0.1:1883\"]\n";
    let mistakes = load_text(text, &[], &[]).expect_err("a mistake");
    assert_eq!(
        mistakes,
        [
            "FILE:4: listeners.http.tls.bind: 127.0.0.1:1883 is an address of \
             listeners.mqtt.bind too"
        ]
    );
}

#[test]
fn the_documented_defaults_are_the_programs() {
    let documented = include_str!("../../../../docs/defaults.toml");
    let documented: Vec<&str> = documented
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let printed = load_text("", &[], &[]).expect("no mistake");
    let printed: Vec<&str> = printed
        .lines()
        .map(|line| line.trim_end_matches("# default").trim_end())
        .collect();
    let only_in = |one: &[&str], other: &[&str]| -> Vec<String> {
        let lines = one.iter().filter(|line| !other.contains(line));
        lines.map(|&line| line.to_owned()).collect()
    };
    let missing = only_in(&printed, &documented);
    let surplus = only_in(&documented, &printed);
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "docs/defaults.toml lacks {missing:#?} and has {surplus:#?}; `make defaults` renews it"
    );
}
