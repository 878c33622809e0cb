//! Any text as a config file, variable and flag: read or refused with a place, never a panic; and
//! settings that were read are printed as TOML with the same meaning.
#![no_main]

use std::path::Path;

use gatepost_settings::layers::Layers;
use libfuzzer_sys::fuzz_target;
use toml::Table;

/// Settings of every shape that a section has.
#[derive(serde::Deserialize, serde::Serialize, Default, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    size: Option<gatepost_settings::ByteSize>,
    period: Option<gatepost_settings::Period>,
    bind: Vec<gatepost_settings::Bind>,
    count: u32,
    open: Table,
}

fuzz_target!(|text: &str| {
    let mut parts = text.splitn(3, '\0');
    let file = parts.next().unwrap_or_default();
    let variable = parts.next().unwrap_or_default();
    let flag = parts.next().unwrap_or_default();
    let mut layers = Layers::default();
    let taken = layers.add_text(Path::new("fuzz.toml"), file).is_ok()
        & layers
            .add_variables([("GATEPOST_OPEN__X".to_owned(), variable.to_owned())].into_iter())
            .is_ok()
        & (flag.is_empty() || layers.add_flag(flag).is_ok());
    match layers.settings::<Settings>() {
        Ok(settings) if taken => {
            let mut again = Layers::default();
            let printed = layers.dump(&settings);
            again
                .add_text(Path::new("printed.toml"), &printed)
                .expect("what is printed is TOML");
            let read: Settings = again.settings().expect("what is printed is read");
            assert_eq!(format!("{read:?}"), format!("{settings:?}"), "{printed}");
        }
        Ok(_) => {}
        Err(mistakes) => assert!(mistakes.iter().all(|mistake| !mistake.reason.is_empty())),
    }
});
