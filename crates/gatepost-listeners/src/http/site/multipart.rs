//! The fields of a `multipart/form-data` body (RFC 7578), without uploaded files.

/// The fields in order; `None` for any other body.
pub(super) fn fields(content_type: &str, body: &[u8]) -> Option<Vec<(String, String)>> {
    let boundary = format!("--{}", parameter(content_type, "boundary")?);
    let mut fields = Vec::new();
    let mut rest = body.strip_prefix(boundary.as_bytes())?;
    loop {
        if rest.starts_with(b"--") {
            return Some(fields);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let next = format!("\r\n{boundary}");
        let end = memchr::memmem::find(rest, next.as_bytes())?;
        let (part, remainder) = rest.split_at_checked(end)?;
        fields.extend(field(part));
        rest = remainder.get(next.len()..)?;
    }
}

/// Name and value of a part, if it is a field.
fn field(part: &[u8]) -> Option<(String, String)> {
    let blank = memchr::memmem::find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(part.get(..blank)?).ok()?;
    let value = part.get(blank + 4..)?;
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition")
            .then_some(value)
    })?;
    if parameter(disposition, "filename").is_some() {
        return None;
    }
    let name = parameter(disposition, "name")?;
    Some((name, String::from_utf8_lossy(value).into_owned()))
}

/// A parameter of a header field, quoted or not. Browsers escape a quote in it as `%22`.
fn parameter(field: &str, name: &str) -> Option<String> {
    let mut rest = field.split_once(';')?.1;
    loop {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (value, next) = quoted.split_once('"')?;
                (value, next.split_once(';').map(|(_, next)| next))
            }
            None => match after.split_once(';') {
                Some((value, next)) => (value.trim(), Some(next)),
                None => (after.trim(), None),
            },
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.replace("%22", "\""));
        }
        rest = next?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPE: &str = "multipart/form-data; charset=x; boundary=\"b c\"";

    #[test]
    fn fields_are_read_and_files_left_out() {
        let body = b"--b c\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--b\r\n\
            --b c\r\nContent-Type: text/plain\r\n\
            content-disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nfile\r\n\
            --b c\r\nContent-Disposition: form-data; name=\"%22\"\r\n\r\n\r\n--b c--\r\n";
        let expected = [("a", "one\r\n--b"), ("\"", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(fields(TYPE, body).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn a_truncated_form_is_refused() {
        for body in ["", "--b c", "--b c\r\n", "--b c\r\n\r\n--b", "x--b c--"] {
            assert_eq!(fields(TYPE, body.as_bytes()), None, "{body:?}");
        }
        assert_eq!(fields("multipart/form-data", b"--b c--"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(
            kind in ".{0,40}",
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = fields(&kind, &body);
            let _ = fields(TYPE, &[b"--b c\r\n", body.as_slice(), b"\r\n--b c--"].concat());
        }
    }
}
