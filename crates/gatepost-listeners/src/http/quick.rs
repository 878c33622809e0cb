//! Answers that need nothing but memory: cached pages and files, straight from the read buffer.

use gatepost_pages::{Content, Page, Sink, StaticFile};

use super::HttpContext;
use super::head::{Framing, Head};
use super::log;
use super::output::{Mark, Output};
use super::wire::{Length, push_head};

/// Answers `head` into `output` and returns true, or returns false and leaves `output` as it was.
pub(super) fn answer(
    context: &HttpContext,
    peer: &str,
    head: &Head<'_, '_>,
    output: &mut Output,
) -> bool {
    let is_get = head.method == "GET";
    let simple = context.quick
        && (is_get || head.method == "HEAD")
        && head.framing == Framing::Length(0)
        && !head.upgrade
        && !head.expects_continue
        && !context.drain.is_draining()
        && !head.path.contains('%');
    if !simple {
        return false;
    }
    let Some(entry) = context.pages.fresh(head.path) else {
        return false;
    };
    let mark = output.mark();
    let body_bytes = match &entry.content {
        Content::Page(page) => push_page(context, head, page, output, mark),
        Content::File(file) if !head.conditional => push_file(context, head, file, output, mark),
        _ => None,
    };
    let Some(body_bytes) = body_bytes else {
        return false;
    };
    context.requests.count(200);
    log::quick(
        context,
        peer,
        head,
        200,
        if is_get { body_bytes } else { 0 },
    );
    true
}

fn push_page(
    context: &HttpContext,
    head: &Head<'_, '_>,
    page: &Page,
    output: &mut Output,
    mark: Mark,
) -> Option<u64> {
    if !page.render_at_once(context.pages.values(), output) {
        return None;
    }
    let fields = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Cache-Control", "no-cache"),
    ];
    Some(finish(context, head, output, mark, &fields))
}

fn push_file(
    context: &HttpContext,
    head: &Head<'_, '_>,
    file: &StaticFile,
    output: &mut Output,
    mark: Mark,
) -> Option<u64> {
    output.shared(file.content.as_ref()?);
    Some(finish(context, head, output, mark, &file_fields(file)))
}

/// The fields of every answer that carries a file.
pub(super) fn file_fields(file: &StaticFile) -> [(&str, &str); 4] {
    [
        ("Content-Type", file.mime),
        ("ETag", &file.etag),
        ("Last-Modified", &file.last_modified),
        ("Accept-Ranges", "bytes"),
    ]
}

/// Puts the head before the body; returns the body's length.
fn finish(
    context: &HttpContext,
    head: &Head<'_, '_>,
    output: &mut Output,
    mark: Mark,
    fields: &[(&str, &str)],
) -> u64 {
    let body_bytes = output.since(mark) as u64;
    let length = Length::Known(body_bytes);
    if head.method == "HEAD" {
        output.truncate(mark);
    }
    output.insert_text(mark, |text| {
        let fields = fields
            .iter()
            .copied()
            .chain(context.settings.extra_fields());
        push_head(text, 200, fields, length, head.keep_alive);
    });
    body_bytes
}
