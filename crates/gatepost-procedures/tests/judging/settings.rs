//! Settings in the form of the config.

use gatepost_message::{Action, Listener};
use gatepost_procedures::ScopeSettings;
use gatepost_settings::{ByteSize, Period};

#[test]
fn settings_read_as_toml_and_refuse_what_they_do_not_know() {
    #[derive(serde::Deserialize)]
    struct Config {
        #[serde(default)]
        scope: Vec<ScopeSettings>,
        #[serde(default)]
        procedure: gatepost_procedures::ProcedureTable,
    }
    let text = r#"
        [[scope]]
        path = "/mail"
        listeners = ["smtp", "mqtt"]
        topics = ["alarms/#"]
        run = ["/sizecheck", "/mail/greylist"]
        [procedure."/sizecheck"]
        max = "1KB"
        [procedure."/spamcheck"]
        action = "tag"
        reject = 15.0
        [procedure."/mail/greylist"]
        time_max = "1s"
        on_error = "accept"
        arguments = { days = "3" }
    "#;
    let config: Config = toml::from_str(text).expect("a config");
    assert_eq!(config.scope[0].listeners, [Listener::Smtp, Listener::Mqtt]);
    assert_eq!(config.procedure.sizecheck.max, ByteSize(1000));
    assert_eq!(config.procedure.spamcheck.reject, Some(15.0));
    let greylist = &config.procedure.luau["/mail/greylist"];
    assert_eq!(
        (greylist.on_error, greylist.time_max),
        (Action::Accept, Period::seconds(1))
    );
    let written = toml::to_string(&config.procedure).expect("TOML");
    let again: gatepost_procedures::ProcedureTable = toml::from_str(&written).expect("TOML");
    assert_eq!(again, config.procedure);
    for (text, complaint) in [
        ("[procedure.\"/sizecheck\"]\nmaximum = 1", "maximum"),
        ("[procedure.\"/noop\"]\nx = 1", "no settings"),
        ("[procedure.sizecheck]\nmax = \"1KB\"", "\"/sizecheck\""),
        ("[[scope]]\nlisteners = [\"smpt\"]", "smpt"),
        ("[[scope]]\ntopics = [\"a#\"]", "a#"),
        ("[procedure.\"/x\"]\non_error = \"explode\"", "explode"),
    ] {
        let error = toml::from_str::<Config>(text)
            .err()
            .expect(text)
            .to_string();
        assert!(error.contains(complaint), "{text}: {error}");
        assert!(error.contains("line"), "{text}: {error}");
    }
}
