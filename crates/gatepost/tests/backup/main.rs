//! `gatepost backup` and `gatepost restore`, and the upgrade of an earlier version's database:
//! every kind of state is restored, as clients of other projects see it.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod restore;
mod sql_text;
mod state;
mod upgrade;

use std::path::Path;
use std::process::Output;

use support::run;

/// `gatepost` with the config of this folder.
fn gatepost(folder: &Path, arguments: &[&str]) -> Output {
    let config = folder.join("gatepost.toml").display().to_string();
    let data = format!("data={}", folder.join("gatepost-data").display());
    let source = ["--config", &config, "--set", &data];
    run(
        env!("CARGO_BIN_EXE_gatepost"),
        &[arguments, &source].concat(),
        b"secret\n",
    )
}
