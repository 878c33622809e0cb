//! A file attached to a message: an office document, an archive, an image, a PDF file.
#![no_main]

use std::sync::LazyLock;

use gatepost_rules::{RuleSet, RulesSettings, ScanContext};
use libfuzzer_sys::fuzz_target;

static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let text = b"loadplugin Mail::SpamAssassin::Plugin::OLEVBMacro\n\
        loadplugin Mail::SpamAssassin::Plugin::PDFInfo\n\
        olemacro_extended_scan 1\n\
        body MACRO eval:check_olemacro()\n\
        body PDF   eval:pdf_count(1)\n\
        body IMAGE eval:image_count('all',1)\n";
    RuleSet::from_text("fuzz.cf", text, &RulesSettings::default()).0
});

fuzz_target!(|data: &[u8]| {
    // The first byte chooses what the file says it is; quoted-printable keeps most bytes as they
    // are.
    let Some((&kind, content)) = data.split_first() else {
        return;
    };
    let name = ["a.doc", "a.zip", "a.pdf", "a.gif", "a.bin"][usize::from(kind) % 5];
    let media_type = ["application/msword", "application/pdf", "image/gif"][usize::from(kind) % 3];
    let escaped: String = content.iter().map(|byte| format!("={byte:02X}")).collect();
    let message = format!(
        "Content-Type: {media_type}; name={name}\nContent-Transfer-Encoding: quoted-printable\n\n\
         {escaped}\n"
    );
    let report = RULES.scan(message.as_bytes(), &ScanContext::default());
    assert!(report.score.is_finite());
});
