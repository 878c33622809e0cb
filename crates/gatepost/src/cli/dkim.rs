//! `gatepost dkim`: keys that mail is signed with, and their records in DNS.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use gatepost_rules::{DkimKey, DkimKeyError};

use crate::exit::{EXIT_DATA, EXIT_UNAVAILABLE};

/// The longest string of a TXT record (RFC 1035, section 3.3).
const STRING_BYTES_MAX: usize = 255;

/// Make a key that the server signs its mail with, and print the key's record for DNS
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gatepost dkim new --domain example.org --selector gate1 --key /etc/gatepost/dkim.pem
  gatepost dkim record --domain example.org --selector gate1 --key /etc/gatepost/dkim.pem

Keys are Ed25519. Receivers that know RSA only need a second key under another selector:
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out dkim-rsa.pem")]
pub(super) struct DkimArguments {
    #[command(subcommand)]
    action: DkimAction,
}

#[derive(Debug, Subcommand)]
enum DkimAction {
    /// Make an Ed25519 key, and print its record
    New(KeyArguments),
    /// Print the record of a key, Ed25519 or RSA
    Record(KeyArguments),
}

#[derive(Debug, Args)]
struct KeyArguments {
    /// The domain that signs
    #[arg(long)]
    domain: String,
    /// The selector: a name for this key, such as gate1
    #[arg(long)]
    selector: String,
    /// The file of the private key
    #[arg(long)]
    key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum DkimError {
    #[error("{path}: {cause}")]
    File { path: String, cause: io::Error },
    #[error("{path}: {cause}")]
    Key { path: String, cause: DkimKeyError },
    #[error("the system gives no random numbers")]
    Random,
}

pub(super) fn run(arguments: &DkimArguments) -> ExitCode {
    let done = match &arguments.action {
        DkimAction::New(arguments) => new(arguments),
        DkimAction::Record(arguments) => record(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gatepost: {error}");
            ExitCode::from(match error {
                DkimError::Key { .. } => EXIT_DATA,
                DkimError::File { .. } | DkimError::Random => EXIT_UNAVAILABLE,
            })
        }
    }
}

/// A key that exists is kept: its record may be in use.
fn new(arguments: &KeyArguments) -> Result<(), DkimError> {
    let pem = DkimKey::generate().ok_or(DkimError::Random)?;
    let path = &arguments.key;
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(pem.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|cause| file_error(path, cause))?;
    record(arguments)
}

fn record(arguments: &KeyArguments) -> Result<(), DkimError> {
    let KeyArguments {
        domain,
        selector,
        key: path,
    } = arguments;
    let pem = std::fs::read_to_string(path).map_err(|cause| file_error(path, cause))?;
    let key = DkimKey::from_pem(&pem).map_err(|cause| DkimError::Key {
        path: path.display().to_string(),
        cause,
    })?;
    println!("{}", zone_line(domain, selector, &key.record()));
    Ok(())
}

fn file_error(path: &Path, cause: io::Error) -> DkimError {
    DkimError::File {
        path: path.display().to_string(),
        cause,
    }
}

/// The record as a zone file has it: a text longer than a string is divided.
fn zone_line(domain: &str, selector: &str, record: &str) -> String {
    let strings = record.as_bytes().chunks(STRING_BYTES_MAX);
    let strings = strings.map(|string| format!("\"{}\"", String::from_utf8_lossy(string)));
    let strings = strings.collect::<Vec<_>>().join(" ");
    format!("{selector}._domainkey.{domain}. IN TXT ( {strings} )")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_are_divided() {
        let line = zone_line("example.org", "s1", &"x".repeat(300));
        let (name, text) = line.split_once(" IN TXT ").expect("a record");
        assert_eq!(name, "s1._domainkey.example.org.");
        let strings: Vec<usize> = text.split('"').map(str::len).collect();
        assert_eq!(strings, [2, 255, 1, 45, 2]);
    }
}
