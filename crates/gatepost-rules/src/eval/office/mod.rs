//! OLEVBMacro: macros and other dangerous content in office files, also in archives.
//!
//! SpamAssassin searches the bytes of a file, and this module does the same, with the same result.
//! In addition it decompresses the sources of macros ([`vba`]) and searches them too, so it also
//! finds compressed content. All decompression for one message shares one budget.

mod compound;
mod document;
mod settings;
mod vba;
mod zip;

use gatepost_mail::MimePart;

use super::{Entry, pattern, plain};
use crate::eval::ScannedMail;
pub(crate) use settings::OfficeSettings;
use zip::ZipArchive;

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_olemacro", |_| plain(|mail| office(mail).has_macro)),
    ("check_oleobject", |_| plain(|mail| office(mail).has_object)),
    ("check_olertfobject", |_| {
        plain(|mail| office(mail).has_rtf_object)
    }),
    ("check_olemacro_csv", |_| {
        plain(|mail| office(mail).starts_program)
    }),
    ("check_olemacro_malice", |_| {
        plain(|mail| office(mail).runs_by_itself)
    }),
    ("check_olemacro_renamed", |_| {
        plain(|mail| office(mail).is_renamed)
    }),
    ("check_olemacro_encrypted", |_| {
        plain(|mail| office(mail).is_encrypted)
    }),
    ("check_olemacro_zip_password", |_| {
        plain(|mail| office(mail).has_locked_member)
    }),
    ("check_olemacro_download_exe", |_| {
        plain(|mail| office(mail).downloads_program)
    }),
    ("check_olemacro_redirect_uri", |_| {
        plain(|mail| !office(mail).targets.is_empty())
    }),
    ("check_olemacro_mhtml_uri", |_| {
        plain(|mail| office(mail).has_mhtml_target)
    }),
];

/// The most bytes decompressed from all archives and macros of one message.
const UNPACKED_BYTES_MAX: usize = 16 << 20;
/// The most links of documents that are recorded.
const TARGETS_MAX: usize = 10;

/// The results for the office files of a message.
#[derive(Debug, Default)]
pub(super) struct OfficeFindings {
    has_macro: bool,
    has_object: bool,
    has_rtf_object: bool,
    starts_program: bool,
    runs_by_itself: bool,
    is_renamed: bool,
    is_encrypted: bool,
    has_locked_member: bool,
    downloads_program: bool,
    has_mhtml_target: bool,
    targets: Vec<Vec<u8>>,
}

fn office<'m>(mail: &'m ScannedMail<'_>) -> &'m OfficeFindings {
    mail.findings().office.get_or_init(|| find(mail))
}

/// The links in documents, which SpamAssassin counts among those of the message.
pub(crate) fn document_links<'m>(mail: &'m ScannedMail<'_>) -> &'m [Vec<u8>] {
    if mail.settings().office.is_loaded {
        &office(mail).targets
    } else {
        &[]
    }
}

fn find(mail: &ScannedMail<'_>) -> OfficeFindings {
    let settings = &mail.settings().office;
    let mut reader = OfficeScanner {
        settings,
        found: OfficeFindings::default(),
        budget: UNPACKED_BYTES_MAX,
    };
    let mut checked = 0;
    for part in mail.parts().leaves() {
        let Some(name) = attached_name(part, settings) else {
            continue;
        };
        let content = part.decoded();
        let content = content
            .get(..content.len().min(settings.file_bytes_max))
            .unwrap_or_default();
        let is_skipped = settings.skipped_types.is_match(part.media_type.as_bytes())
            || settings.skipped.is_match(&name);
        if is_skipped || content.is_empty() || !reader.file(&name, content) {
            continue;
        }
        checked += 1;
        if checked >= settings.files_max {
            break;
        }
    }
    reader.found
}

pattern!(NAME, r#"name\s*=\s*["']?([^"';]*)"#, "is");
pattern!(FILE_NAME, r#"filename\s*=\s*["']?([^"';]*)"#, "is");

/// The name of an attached file, as SpamAssassin reads it: only for content with a transfer
/// encoding.
fn attached_name(part: &MimePart, settings: &OfficeSettings) -> Option<Vec<u8>> {
    let encoding = part
        .field(b"content-transfer-encoding")
        .unwrap_or_default()
        .to_ascii_lowercase();
    if !encoding.starts_with(b"base64") && !encoding.starts_with(b"quoted-printable") {
        return None;
    }
    let in_type = NAME.group(part.field(b"content-type")?, 1);
    let in_disposition = FILE_NAME.group(part.field(b"content-disposition").unwrap_or_default(), 1);
    let [in_type, in_disposition] =
        [in_type, in_disposition].map(|name| name.unwrap_or_default().trim_ascii_end());
    let name = if in_disposition.is_empty() || !in_type.is_empty() && !settings.prefers_disposition
    {
        in_type
    } else {
        in_disposition
    };
    (!name.is_empty()).then(|| name.to_vec())
}

/// Examines files, and records the results.
struct OfficeScanner<'s> {
    settings: &'s OfficeSettings,
    found: OfficeFindings,
    budget: usize,
}

pattern!(CSV_NAME, r"\.csv$", "i");

impl OfficeScanner<'_> {
    /// Examines a file; false if its name says that there is nothing to search.
    fn file(&mut self, name: &[u8], content: &[u8]) -> bool {
        self.file_within(name, content, 0)
    }

    /// The same for a member of an archive at nesting depth `depth`.
    fn file_within(&mut self, name: &[u8], content: &[u8], depth: usize) -> bool {
        if CSV_NAME.is_match(name) {
            self.table(content);
        }
        if self.settings.archives.is_match(name) {
            self.archive(name, content, depth);
        } else if self.settings.macro_documents.is_match(name) {
            self.found.has_macro = true;
            self.locked_document(content);
            self.packed_document(name, content);
            self.downloads(content);
        } else if self.settings.documents.is_match(name) {
            self.locked_document(content);
            self.old_document(content);
            self.packed_document(name, content);
            self.downloads(content);
        } else if self.settings.checks_all {
            let is_renamed = [
                document::is_compound(content),
                self.locked_document(content),
                self.old_document(content),
                self.packed_document(name, content),
            ];
            if is_renamed.contains(&true) {
                self.found.is_renamed = true;
                self.downloads(content);
            }
            self.archive(name, content, depth);
        } else {
            return false;
        }
        true
    }

    fn archive(&mut self, name: &[u8], content: &[u8], depth: usize) {
        if depth >= self.settings.archives_depth_max || self.settings.members_max == 0 {
            return;
        }
        let Some(archive) = open(name, content) else {
            return;
        };
        let mut checked = 0;
        for member in &archive.members {
            let name = &member.name;
            if self.settings.skipped.is_match(name) {
                continue;
            }
            if member.is_encrypted {
                self.found.has_macro |= self.settings.macro_documents.is_match(name);
                self.found.has_locked_member = true;
                continue;
            }
            // Content that no rule examines is not decompressed.
            let settings = self.settings;
            let kinds = [
                &settings.archives,
                &settings.macro_documents,
                &settings.documents,
            ];
            let is_meant = settings.checks_all || kinds.iter().any(|kind| kind.is_match(name));
            if !is_meant && !CSV_NAME.is_match(name) {
                continue;
            }
            let content = archive
                .content(member, &mut self.budget)
                .unwrap_or_default();
            if self.file_within(name, &content, depth + 1) {
                checked += 1;
                if checked >= self.settings.members_max {
                    break;
                }
            }
        }
    }
}

/// An archive, by its first bytes or its name.
fn open<'d>(name: &[u8], content: &'d [u8]) -> Option<ZipArchive<'d>> {
    let is_named = name.to_ascii_lowercase().ends_with(b".zip");
    (content.starts_with(b"PK") || is_named)
        .then(|| ZipArchive::read(content))
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A document whose macro contains `Auto_Open` only in decompressed form.
    const HIDDEN: &[u8] = include_bytes!("../../../tests/data/office/hidden.doc");

    fn read(name: &[u8], content: &[u8]) -> OfficeFindings {
        let settings = OfficeSettings {
            checks_all: true,
            ..OfficeSettings::default()
        };
        let mut reader = OfficeScanner {
            settings: &settings,
            found: OfficeFindings::default(),
            budget: UNPACKED_BYTES_MAX,
        };
        reader.file(name, content);
        reader.found
    }

    #[test]
    fn compressed_macros_are_found() {
        assert!(memchr::memmem::find(HIDDEN, b"Auto_Open").is_none());
        let found = read(b"a.doc", HIDDEN);
        assert!(found.has_macro && found.runs_by_itself);
    }

    proptest! {
        #[test]
        fn damaged_documents_are_read_as_far_as_they_go(
            changes in proptest::collection::vec((0..HIDDEN.len(), any::<u8>()), 1..20),
            end in 0..=HIDDEN.len(),
        ) {
            let mut damaged = HIDDEN.to_vec();
            for (at, byte) in changes {
                damaged[at] = byte;
            }
            read(b"a.doc", &damaged);
            read(b"a.doc", &damaged[..end]);
        }
    }
}
