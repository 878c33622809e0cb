//! Compresses the built-in files of the console, and the description of the API, which the program
//! contains in this form only.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

const FOLDER: &str = "src/http/assets";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let mut names = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let name = entry?.file_name();
        names.push(
            name.to_str()
                .ok_or("a file name that is not UTF-8")?
                .to_owned(),
        );
    }
    names.sort_unstable();
    let mut table = String::from("&[\n");
    for name in &names {
        let content = fs::read(Path::new(FOLDER).join(name))?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content)?;
        fs::write(out.join(format!("{name}.gz")), encoder.finish()?)?;
        let mut checksum = Crc::new();
        checksum.update(&content);
        writeln!(
            table,
            "BuiltInFile {{ name: {name:?}, version: \"{:08x}\", \
             gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.gz\")) }},",
            checksum.sum(),
        )?;
    }
    table.push(']');
    fs::write(out.join("built_in_files.rs"), table)?;
    Ok(())
}
