//! Prints the views of messages as JSON lines, for comparison with another engine's.
//!
//! Usage: `views RULE_DIRECTORY < LIST`, where each line of the list is an id, a tab and a path.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;

use gatepost_mail::{HeaderSelector, Lines, Mail, ViewSettings};

const SELECTORS: [&str; 37] = [
    "ALL",
    "ALL:raw",
    "From",
    "From:addr",
    "From:name",
    "From:raw",
    "To",
    "To:addr",
    "To:name",
    "ToCc",
    "Cc:addr",
    "Reply-To:addr",
    "Subject",
    "Subject:raw",
    "MESSAGEID",
    "EnvelopeFrom",
    "Received",
    "Received:raw",
    "Content-Type",
    "Date",
    "X-Spam-Relays-Trusted",
    "X-Spam-Relays-Untrusted",
    "X-Spam-Relays-Internal",
    "X-Spam-Relays-External",
    "ALL-TRUSTED",
    "ALL-UNTRUSTED",
    "ALL-INTERNAL",
    "ALL-EXTERNAL",
    "From:addr:domain",
    "From:first",
    "Received:last",
    "Return-Path:addr",
    "X-Originating-IP:ip",
    "Sender:addr",
    "Errors-To:addr",
    "List-Id",
    "X-Mailer",
];

fn quoted(text: &[u8], out: &mut String) {
    out.push('"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
    }
    out.push('"');
}

fn list<'a>(name: &str, lines: impl Iterator<Item = &'a [u8]>, out: &mut String) {
    let _ = write!(out, "\"{name}\":[");
    for (index, line) in lines.enumerate() {
        if index > 0 {
            out.push(',');
        }
        quoted(line, out);
    }
    out.push_str("],");
}

fn lines(name: &str, view: &Lines, out: &mut String) {
    list(name, view.iter(), out);
}

fn configuration(directory: &Path) -> ViewSettings {
    let mut configuration = ViewSettings::default();
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .expect("the rule directory is readable")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cf"))
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read(&file).expect("rule files are readable");
        for line in String::from_utf8_lossy(&text).lines() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            let (name, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            configuration.directive(name, value.trim());
        }
    }
    configuration
}

fn main() {
    let directory = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "/usr/share/spamassassin".to_owned());
    let configuration = configuration(Path::new(&directory));
    let selectors: Vec<_> = SELECTORS
        .iter()
        .map(|name| (name, HeaderSelector::parse(name)))
        .collect();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some((id, path)) = line.split_once('\t') else {
            continue;
        };
        let Ok(message) = std::fs::read(path) else {
            continue;
        };
        let mail = Mail::parse_with(&message, &configuration);
        let mut out = String::from("{");
        lines("body", mail.body(), &mut out);
        lines("visible", mail.visible_body(), &mut out);
        lines("invisible", mail.invisible_body(), &mut out);
        lines("rawbody", mail.rawbody(), &mut out);
        lines("uris", mail.uris(), &mut out);
        out.push_str("\"headers\":{");
        for (name, selector) in &selectors {
            quoted(name.as_bytes(), &mut out);
            out.push(':');
            match mail.header(selector) {
                Some(value) => quoted(&value, &mut out),
                None => out.push_str("null"),
            }
            out.push(',');
        }
        out.pop();
        out.push_str("},\"id\":");
        quoted(id.as_bytes(), &mut out);
        out.push('}');
        println!("{out}");
    }
}
