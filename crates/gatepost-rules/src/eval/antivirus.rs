//! AntiVirus: attachments that are executable on Windows, or whose name and type contradict each
//! other.

use gatepost_mail::{ContentType, MimePart, lines};

use super::ScannedMail;
use super::{Entry, pattern, plain};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("check_microsoft_executable", |_| {
        plain(|mail| attachments(mail).any(|part| is_executable(&part)))
    }),
    ("check_suspect_name", |_| {
        plain(|mail| attachments(mail).any(|part| is_suspect(&part)))
    }),
];

struct AttachedFile<'m> {
    part: &'m MimePart,
    media_type: String,
    /// In lower case; empty if there is none.
    name: Vec<u8>,
}

fn attachments<'m>(mail: &'m ScannedMail<'_>) -> impl Iterator<Item = AttachedFile<'m>> {
    mail.parts().leaves().map(|part| {
        let content_type = ContentType::parse(part.field(b"content-type"));
        AttachedFile {
            part,
            media_type: content_type.media_type,
            name: content_type.name.unwrap_or_default().to_ascii_lowercase(),
        }
    })
}

pattern!(
    PROGRAM_NAME,
    concat!(
        r"\.(?:ade|adp|asx|bas|bat|chm|cmd|com|cpl|crt|dll|exe|hlp|hta|inf|ins|isp|js|jse|lnk|mda",
        r"|mdb|mde|mdt|mdw|mdz|msc|msi|msp|mst|nws|ops|pcd|pif|prf|reg|scf|scr\??|sct|shb|shs|shm",
        r"|swf|url|vb|vbe|vbs|vbx|vxd|wsc|wsf|wsh)$",
    )
);
// The header of a Windows program, in base64 and uuencoded.
pattern!(PROGRAM_IN_BASE64, r"^TV[opqr].A..[AB].[AQgw][A-H].A");
pattern!(PROGRAM_UUENCODED, r"^M35[GHIJK].`..`..*````");

fn is_executable(attachment: &AttachedFile<'_>) -> bool {
    let part = attachment.part;
    if PROGRAM_NAME.is_match(&attachment.name) {
        return true;
    }
    let encoding = part
        .field(b"content-transfer-encoding")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let first = lines(part.raw()).next().unwrap_or_default();
    if memchr::memmem::find(&encoding, b"base64").is_some() && PROGRAM_IN_BASE64.is_match(first) {
        return true;
    }
    let is_text = attachment.media_type.starts_with("text/");
    is_text && lines(part.raw()).any(|line| PROGRAM_UUENCODED.is_match(line))
}

pattern!(
    TEXT_TYPE,
    r"^(?:text/(?:plain|[px]?html?|english|sgml|xml|enriched|richtext)|message/external-body)"
);
pattern!(WORD_TYPE, "^application/.*word$");
pattern!(SLIDES_TYPE, "^application/.*(?:powerpoint|ppt)$");
pattern!(SHEET_TYPE, "^application/.*excel$");

fn is_suspect(attachment: &AttachedFile<'_>) -> bool {
    if attachment.name.is_empty() || attachment.media_type == "application/octet-stream" {
        return false;
    }
    let name = String::from_utf8_lossy(&attachment.name).into_owned();
    let ending = name.rsplit('.').next().unwrap_or_default();
    let mut media_type = attachment.media_type.clone();
    for prefix in ["/x-", "/vnd."] {
        if media_type.contains(prefix) {
            media_type = media_type.replacen(prefix, "/", 1);
            break;
        }
    }
    let is = |pattern: &gatepost_mail::MailPattern| pattern.is_match(media_type.as_bytes());
    match ending {
        "txt" | "htm" | "html" | "phtm" | "phtml" | "xhtm" | "xhtml" | "xml" => !is(&TEXT_TYPE),
        "jpg" | "jpeg" | "tif" | "tiff" | "gif" | "png" => {
            !media_type.starts_with("image/") && !media_type.starts_with("application/mac-binhex")
        }
        "vcf" => media_type != "text/vcard",
        "bat" | "com" | "exe" | "pif" | "scr" | "swf" | "vbs" => {
            !media_type.starts_with("application/")
        }
        "doc" => !is(&WORD_TYPE),
        "ppt" => !is(&SLIDES_TYPE),
        "xls" => !is(&SHEET_TYPE),
        _ => false,
    }
}
