//! Cases as data: the request and the expected response. The format is described beside the cases.

use std::path::Path;

/// One thing that a case does or expects, in order.
#[derive(Debug)]
pub enum Step {
    Send(Vec<u8>),
    Response(Expected),
    Closed,
    Open,
}

/// An expected response.
#[derive(Debug, Default)]
pub struct Expected {
    pub status: u16,
    pub bodiless: bool,
    pub fields: Vec<(String, Option<String>)>,
    pub absent: Vec<String>,
    pub body: Option<String>,
    pub has: Vec<String>,
}

#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub steps: Vec<Step>,
}

/// Reads every case of every file of a folder.
pub fn load(folder: &Path) -> Vec<Case> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "http")
        })
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of cases");
        let stem = file
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        for case in text.split("=== ").skip(1) {
            cases.push(parse(&stem, case));
        }
    }
    cases
}

fn parse(file: &str, text: &str) -> Case {
    let (name, lines) = text.split_once('\n').expect("a name and lines");
    let mut steps: Vec<Step> = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        if line == ">" {
            send(&mut steps, b"\r\n".to_vec());
        } else if let Some(sent) = line.strip_prefix("> ") {
            send(&mut steps, bytes_of(sent));
        } else if let Some(expected) = line.strip_prefix("< ") {
            expect(&mut steps, expected);
        } else {
            panic!("{file}: {name}: what is {line:?}?");
        }
    }
    Case {
        name: format!("{file}: {name}"),
        steps,
    }
}

fn send(steps: &mut Vec<Step>, bytes: Vec<u8>) {
    match steps.last_mut() {
        Some(Step::Send(sent)) => sent.extend(bytes),
        _ => steps.push(Step::Send(bytes)),
    }
}

fn bytes_of(line: &str) -> Vec<u8> {
    if let Some(repeat) = line.strip_prefix("@REPEAT ") {
        let (count, what) = repeat.split_once(' ').expect("a count and a text");
        return unescape(what).repeat(count.parse().expect("a count"));
    }
    match line.strip_suffix('\\') {
        Some(line) => unescape(line),
        None => [unescape(line), b"\r\n".to_vec()].concat(),
    }
}

fn expect(steps: &mut Vec<Step>, line: &str) {
    if let Ok(status) = line.parse() {
        steps.push(Step::Response(Expected {
            status,
            ..Expected::default()
        }));
        return;
    }
    match line {
        "closed" => return steps.push(Step::Closed),
        "open" => return steps.push(Step::Open),
        _ => {}
    }
    let Some(Step::Response(response)) = steps.last_mut() else {
        panic!("{line:?} belongs to no response");
    };
    let text = |escaped: &str| String::from_utf8(unescape(escaped)).expect("text");
    if line == "bodiless" {
        response.bodiless = true;
    } else if let Some(body) = line.strip_prefix("body ") {
        response.body = Some(text(body));
    } else if let Some(part) = line.strip_prefix("has ") {
        response.has.push(text(part));
    } else if let Some(name) = line.strip_prefix('!') {
        response.absent.push(name.to_owned());
    } else if let Some((name, value)) = line.split_once(": ") {
        response
            .fields
            .push((name.to_owned(), Some(value.to_owned())));
    } else {
        response.fields.push((line.to_owned(), None));
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next().expect("an escape") {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'x' => {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                let digits = std::str::from_utf8(&digits).expect("digits");
                u8::from_str_radix(digits, 16).expect("hexadecimal digits")
            }
            other => other,
        });
    }
    bytes
}
