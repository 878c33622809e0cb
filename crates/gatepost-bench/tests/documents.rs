//! The tables of BENCHMARKS.md are those of the results in the repository.

use std::path::Path;
use std::process::Command;

#[test]
fn the_project_s_own_tables_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_gatepost-bench"))
        .current_dir(root)
        .args([
            "tables",
            "BENCHMARKS.md",
            "--results",
            "benchmarks",
            "--check",
        ])
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}
