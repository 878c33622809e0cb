//! The forms of a link to a mail address: without its parameters, without encoded blanks, and
//! without brackets.

use super::LinkForms;

impl LinkForms<'_> {
    /// The address itself, without parameters and other text that Outlook ignores.
    pub(super) fn add_address(&mut self, link: &[u8]) {
        let Some(sign) = memchr::memchr(b'@', link).filter(|&sign| sign > 0) else {
            return;
        };
        let rest = link.get(sign + 1..).unwrap_or_default();
        let question = memchr::memchr(b'?', rest);
        if let Some(end) = question.filter(|&end| end > 0) {
            self.push(link.get(..sign + 1 + end).unwrap_or_default().to_vec());
        }
        let before_question = rest
            .get(..question.unwrap_or(rest.len()))
            .unwrap_or_default();
        if let Some(end) = memchr::memchr(b'&', before_question).filter(|&end| end > 0) {
            self.push(link.get(..sign + 1 + end).unwrap_or_default().to_vec());
        }
        if let Some(trimmed) = without_encoded_blanks(link) {
            self.push(trimmed);
        }
        self.add_bracketed_address(link);
    }

    /// `mailto:"Name" <user@host>`.
    fn add_bracketed_address(&mut self, link: &[u8]) {
        let end = link
            .iter()
            .position(|byte| matches!(byte, b'?' | b'&'))
            .unwrap_or(link.len());
        let head = link.get(..end).unwrap_or_default();
        for open in memchr::memrchr_iter(b'<', head) {
            let inner = link.get(open + 1..).unwrap_or_default();
            let Some(close) = memchr::memchr(b'>', inner) else {
                continue;
            };
            let address = inner.get(..close).unwrap_or_default();
            let local = memchr::memchr(b'@', address).unwrap_or(0);
            if local > 0 && local + 1 < address.len() {
                self.push([b"mailto:", address].concat());
                return;
            }
        }
    }
}

/// The address without encoded blanks around it.
fn without_encoded_blanks(link: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(link, b"%20")?;
    let mut address = link.strip_prefix(b"mailto:").unwrap_or(link);
    while let Some(shorter) = address.strip_prefix(b"%20") {
        address = shorter;
    }
    let sign = memchr::memchr(b'@', address).filter(|&sign| sign > 0)?;
    let domain = address.get(sign + 1..)?;
    let length = domain
        .iter()
        .position(|byte| matches!(byte, b'?' | b'&' | b'%'))
        .unwrap_or(domain.len());
    let address = address.get(..sign + 1 + length)?;
    (length > 0).then(|| [b"mailto:", address].concat())
}
