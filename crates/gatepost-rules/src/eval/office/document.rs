//! A single office file: macros, objects, external links, passwords.

use super::super::pattern;
use super::{OfficeScanner, TARGETS_MAX, open, vba};

/// The first bytes of a compound file, Office's format before 2007.
const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0";
/// Byte sequences in files with macros: the source of a module; an embedded object; the same in
/// RTF; flat XML.
const COMPOUND_MACRO: [&[u8]; 2] = [b"\0Attribut\0", b"\x01\0O\0l\0e\x001\x000\0N\0a\0"];
const OTHER_MACRO: [&[u8]; 5] = [
    b"\\objemb",
    b"\\objdat",
    b"\\ objdat",
    b"w:macrosPresent=\"yes\"",
    b"vbaProject.bin.rels",
];
/// Members of packed documents that contain macros, in lower case.
const MACRO_MEMBERS: [&[u8]; 5] = [
    b"word/vbaproject.bin",
    b"macros/vba/_vba_project",
    b"xl/vbaproject.bin",
    b"_vba_project_cur/vba/_vba_project",
    b"ppt/vbaproject.bin",
];
/// A stream that only encrypted files have, and one that no encrypted workbook has.
const ENCRYPTED_STREAM: &[u8] = b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e";
const WORKBOOK_STREAM: &[u8] = b"W\0o\0r\0k\0b\0o\0o\0k\0";
/// The range in which a directory of streams is searched, in bytes.
const DIRECTORY_BYTES_MAX: usize = 2000;

pattern!(ENCRYPTION, "<encryption xmlns", "i");
pattern!(RUNS_BY_ITSELF, "(?:document|auto|workbook)_?open", "i");
pattern!(
    STARTS_PROGRAM,
    r"MSEXCEL\|.{1,20}Windows\\System32\\cmd\.exe"
);
pattern!(
    DOWNLOADS,
    concat!(
        r"\x00https?://[-a-z0-9+&@#/%?=~_|!:,.;]{5,1000}[-a-z0-9+&@#/%=~_|]{5,1000}\.(?:exe|cmd",
        r"|bat)[\x06|\x00]",
    ),
    "i"
);
pattern!(
    MACRO_TYPE,
    concat!(
        r#"ContentType=["']application/vnd\.ms-office\.vbaProject["']|macroEnabled"#,
        r#"|application/vnd\.ms-excel\.(?:intl)?macrosheet"#,
    ),
    "i"
);
pattern!(RTF_MEMBER, r"^word/.{1,50}\.rtf\b");
pattern!(
    EXTERNAL_TARGET,
    r#"Target="([^"]*)".*?TargetMode="External""#,
    "is"
);
// CVE-2021-40444.
pattern!(
    MHTML_TARGET,
    "^MHTML:&#x48;&#x54;&#x50;&#x3a;&#x5c;&#x5c;&#x31;&|^mhtml:https?://",
    "i"
);
pattern!(MHTML_SCHEME, "^mhtml:", "i");
pattern!(WEB_LINK, "^https?://", "i");

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(text, wanted).is_some()
}

pub(super) fn is_compound(content: &[u8]) -> bool {
    content.starts_with(COMPOUND)
}

fn is_encrypted(content: &[u8]) -> bool {
    let beginning = content
        .get(..content.len().min(DIRECTORY_BYTES_MAX))
        .unwrap_or_default();
    let byte_is = |at: usize, byte: u8| content.get(at) == Some(&byte);
    is_compound(content)
        && (ENCRYPTION.is_match(content)
            || contains(beginning, ENCRYPTED_STREAM)
            || !contains(beginning, WORKBOOK_STREAM)
                // Flags of Word, Excel and PowerPoint, at the usual position of their first stream.
                && (byte_is(0x208, 0xfe) || byte_is(0x214, 0x2f) || byte_is(0x20b, 0x13)))
}

fn has_macro(content: &[u8]) -> bool {
    let signatures: &[&[u8]] = if is_compound(content) {
        &COMPOUND_MACRO
    } else {
        &OTHER_MACRO
    };
    signatures.iter().any(|mark| contains(content, mark))
}

impl OfficeScanner<'_> {
    /// A text table that makes a spreadsheet start a program.
    pub(super) fn table(&mut self, content: &[u8]) {
        self.found.starts_program |= STARTS_PROGRAM.is_match(content);
    }

    pub(super) fn locked_document(&mut self, content: &[u8]) -> bool {
        let is_encrypted = is_encrypted(content);
        self.found.is_encrypted |= is_encrypted;
        is_encrypted
    }

    /// Office before 2007, and RTF.
    pub(super) fn old_document(&mut self, content: &[u8]) -> bool {
        let sources = vba::sources(content, &mut self.budget);
        self.search(&sources);
        let is_found = has_macro(content) || !sources.is_empty();
        if is_found {
            self.found.has_macro = true;
            self.found.runs_by_itself |= RUNS_BY_ITSELF.is_match(content);
        }
        is_found
    }

    /// Office since 2007: an archive of XML files.
    pub(super) fn packed_document(&mut self, name: &[u8], content: &[u8]) -> bool {
        let Some(archive) = open(name, content) else {
            return false;
        };
        let mut is_document = false;
        let mut has_macro = false;
        for member in &archive.members {
            let name = member.name.to_ascii_lowercase();
            let is_macro = MACRO_MEMBERS.contains(&name.as_slice());
            let is_object = name.starts_with(b"xl/embeddings/");
            let is_rtf_object = RTF_MEMBER.is_match(&name);
            has_macro |= is_macro;
            self.found.has_object |= is_object;
            self.found.has_rtf_object |= is_rtf_object;
            is_document |= is_macro || is_object || is_rtf_object;
        }
        self.found.has_macro |= has_macro;
        for member in &archive.members {
            let is_types = member.name == b"[Content_Types].xml";
            let is_links = contains(&member.name, b".rels");
            let is_program = has_macro && contains(&member.name, b".bin");
            is_document |= is_types;
            if !is_types && !is_links && !is_program {
                continue;
            }
            let Some(content) = archive.content(member, &mut self.budget) else {
                continue;
            };
            if is_types {
                self.found.has_macro |= MACRO_TYPE.is_match(&content);
            }
            if is_links {
                is_document |= !content.is_empty();
                self.links(&content);
            }
            if is_program {
                self.found.runs_by_itself |= RUNS_BY_ITSELF.is_match(&content);
                let sources = vba::sources(&content, &mut self.budget);
                self.search(&sources);
            }
        }
        is_document
    }

    /// Relationships to external targets.
    fn links(&mut self, content: &[u8]) {
        let mut rest = content;
        loop {
            let end = memchr::memmem::find(rest, b"Relationship").unwrap_or(rest.len());
            let (relation, after) = rest.split_at(end);
            if let Some(target) = EXTERNAL_TARGET.group(relation, 1) {
                self.target(target);
            }
            let Some(after) = after.strip_prefix(b"Relationship") else {
                return;
            };
            rest = after;
        }
    }

    fn target(&mut self, target: &[u8]) {
        self.found.has_mhtml_target |= MHTML_TARGET.is_match(target);
        let scheme = MHTML_SCHEME.group(target, 0).map_or(0, <[u8]>::len);
        let link = target.get(scheme..).unwrap_or_default();
        let targets = &mut self.found.targets;
        let is_new = !targets.iter().any(|known| known == link);
        if WEB_LINK.is_match(link) && is_new && targets.len() < TARGETS_MAX {
            targets.push(link.to_vec());
        }
    }

    pub(super) fn downloads(&mut self, content: &[u8]) {
        self.found.downloads_program |=
            DOWNLOADS.is_match(content) || self.settings.download.is_match(content);
    }

    /// Sources of macros, unpacked.
    fn search(&mut self, sources: &[Vec<u8>]) {
        for source in sources {
            self.found.runs_by_itself |= RUNS_BY_ITSELF.is_match(source);
            self.downloads(source);
        }
    }
}
