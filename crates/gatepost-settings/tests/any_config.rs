//! Any text as a configuration: it is either read, or refused with a place and a reason. Settings
//! that were read are printed as TOML with the same meaning.

use std::path::Path;

use gatepost_settings::layers::Layers;
use gatepost_settings::{Bind, ByteSize, Period};
use proptest::prelude::*;

/// Settings of every shape that occurs in a section.
#[derive(serde::Deserialize, serde::Serialize, Default, Debug)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    size: Option<ByteSize>,
    period: Option<Period>,
    bind: Vec<Bind>,
    count: u32,
    share: f64,
    open: toml::Table,
}

/// Fragments of configurations, valid and broken.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "(size|period|bind|count|share|open|open\\.\"a/b\"|opne) = ",
        "(\"25MB\"|\"5s\"|\"127.0.0.1:1\"|\"unix:/x\"|7|-1|0x1f|1e400|nan|true|1979-05-27)",
        "[\\[\\]{}\"',.=#\n \\\\]{1,4}",
        "\\[open(\\.[a-z]{1,3}){0,3}\\]\n",
        "\\PC{0,6}",
        Just("\n".to_owned()),
    ]
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_read_or_refused(file in text(), variable in text(), flag in text()) {
        let mut layers = Layers::default();
        let variables = [("GATEPOST_OPEN__X".to_owned(), variable)];
        let refused = [
            layers.add_text(Path::new("any.toml"), &file).err(),
            layers.add_variables(variables.into_iter()).err(),
            layers.add_flag(&flag).err(),
        ];
        for mistake in refused.iter().flatten() {
            prop_assert!(!mistake.place.is_empty() && !mistake.reason.is_empty(), "{mistake}");
        }
        match layers.settings::<Settings>() {
            Ok(settings) => {
                let printed = layers.dump(&settings);
                let mut again = Layers::default();
                prop_assert_eq!(again.add_text(Path::new("printed.toml"), &printed), Ok(()));
                let read = again.settings::<Settings>().expect("what is printed is read");
                prop_assert_eq!(format!("{read:?}"), format!("{settings:?}"));
            }
            Err(mistakes) => {
                prop_assert!(mistakes.iter().all(|mistake| !mistake.reason.is_empty()));
            }
        }
    }
}
