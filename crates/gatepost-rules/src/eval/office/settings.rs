//! The directives for office files, which begin with `olemacro_`.

use gatepost_mail::{Directive, MailPattern};

/// The files that are examined, and the limits.
#[derive(Clone, Debug)]
pub(crate) struct OfficeSettings {
    /// Links in documents count as links of the message, if the plugin is loaded.
    pub(crate) is_loaded: bool,
    pub(super) files_max: usize,
    pub(super) members_max: usize,
    pub(super) archives_depth_max: usize,
    pub(super) checks_all: bool,
    pub(super) prefers_disposition: bool,
    pub(super) file_bytes_max: usize,
    pub(super) documents: MailPattern,
    pub(super) macro_documents: MailPattern,
    pub(super) skipped: MailPattern,
    pub(super) skipped_types: MailPattern,
    pub(super) archives: MailPattern,
    pub(super) download: MailPattern,
}

fn built_in(pattern: &str) -> MailPattern {
    MailPattern::with_flags(pattern, "")
        .unwrap_or_else(|error| unreachable!("built-in pattern: {error}"))
}

impl Default for OfficeSettings {
    fn default() -> Self {
        Self {
            is_loaded: false,
            files_max: 5,
            members_max: 8,
            archives_depth_max: 2,
            checks_all: false,
            prefers_disposition: true,
            file_bytes_max: 1_024_000,
            documents: built_in(
                "(?:doc|docx|dot|pot|ppa|pps|ppt|rtf|sldm|xl|xla|xls|xlsx|xlt|xltx|xslb)$",
            ),
            macro_documents: built_in(
                "(?:docm|dotm|ppam|potm|ppst|ppsm|pptm|sldm|xlm|xlam|xlsb|xlsm|xltm|xps)$",
            ),
            skipped: built_in("(?:dotx|potx|ppsx|pptx|sldx)$"),
            skipped_types: built_in("^text/"),
            archives: built_in("zip$"),
            download: built_in(r"cmd(?:\.exe)? /c ms\^h\^ta ht\^tps?:/\^/"),
        }
    }
}

impl OfficeSettings {
    /// Processes one line of a rule file; `None` if the directive belongs to another module.
    pub(crate) fn directive(&mut self, name: &str, value: &str) -> Option<Directive> {
        let value = value.trim();
        let number = match name.strip_prefix("olemacro_")? {
            "num_mime" => &mut self.files_max,
            "num_zip" => &mut self.members_max,
            "zip_depth" => &mut self.archives_depth_max,
            "max_file" => &mut self.file_bytes_max,
            "extended_scan" => {
                self.checks_all = matches!(value, "1" | "yes");
                return Some(Directive::Taken);
            }
            "prefer_contentdisposition" => {
                self.prefers_disposition = matches!(value, "1" | "yes");
                return Some(Directive::Taken);
            }
            other => {
                let pattern = match other {
                    "exts" => &mut self.documents,
                    "macro_exts" => &mut self.macro_documents,
                    "skip_exts" => &mut self.skipped,
                    "skip_ctypes" => &mut self.skipped_types,
                    "zips" => &mut self.archives,
                    "download_marker" => &mut self.download,
                    _ => return None,
                };
                return Some(match MailPattern::with_flags(value, "") {
                    Ok(compiled) => {
                        *pattern = compiled;
                        Directive::Taken
                    }
                    Err(reason) => Directive::Invalid(reason),
                });
            }
        };
        Some(match value.parse() {
            Ok(parsed) => {
                *number = parsed;
                Directive::Taken
            }
            Err(_) => Directive::Invalid(format!("{value:?} is not a number")),
        })
    }
}
