//! Answers that need nothing but memory: cached pages and files, straight from the read buffer.

use gatepost_pages::{Content, Needs, Page, StaticFile, push_static, takes_gzip};

use smallvec::SmallVec;

use super::HttpContext;
use super::files::coding_fields;
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
    let Some(entry) = context.pages.site(head.host).fresh(head.path) else {
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
    let Page::Pieces(pieces) = page else {
        return None;
    };
    if pieces.needs() != Needs::default() {
        return None;
    }
    let varies = pieces.is_compressed();
    let with_gzip = varies && takes_gzip(head.accept_encoding);
    pieces.render_at_once(context.pages.values(), with_gzip, output);
    Some(finish(
        context,
        head,
        output,
        mark,
        page_fields(varies, with_gzip),
    ))
}

/// The fields of every answer that carries a page made for nobody in particular.
pub(super) fn page_fields<'a>(
    varies: bool,
    with_gzip: bool,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fields = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Cache-Control", "no-cache"),
    ];
    let vary = varies.then_some(("Vary", "Accept-Encoding"));
    let coding = with_gzip.then_some(("Content-Encoding", "gzip"));
    fields.into_iter().chain(vary).chain(coding)
}

fn push_file(
    context: &HttpContext,
    head: &Head<'_, '_>,
    file: &StaticFile,
    output: &mut Output,
    mark: Mark,
) -> Option<u64> {
    let (encoding, chosen) = file.choose(head.accept_encoding);
    push_static(chosen.content.as_ref()?, chosen.file.as_ref(), output);
    let mut fields: SmallVec<[(&str, &str); 6]> = file_fields(chosen).into_iter().collect();
    for (name, value) in coding_fields(file, encoding) {
        fields.push((name, value));
    }
    Some(finish(context, head, output, mark, fields.into_iter()))
}

/// The fields of every answer that carries a file.
pub(super) fn file_fields(file: &StaticFile) -> [(&'static str, &str); 4] {
    [
        ("Content-Type", file.mime),
        ("ETag", &file.etag),
        ("Last-Modified", &file.last_modified),
        ("Accept-Ranges", "bytes"),
    ]
}

/// Puts the head before the body; returns the body's length.
fn finish<'a>(
    context: &'a HttpContext,
    head: &Head<'_, '_>,
    output: &mut Output,
    mark: Mark,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
) -> u64 {
    let body_bytes = output.since(mark) as u64;
    let length = Length::Known(body_bytes);
    if head.method == "HEAD" {
        output.truncate(mark);
    }
    insert_head(context, output, mark, fields, (length, head.keep_alive));
    body_bytes
}

/// Puts the head before a body that is all there.
pub(super) fn push_head_before<'a>(
    context: &'a HttpContext,
    output: &mut Output,
    mark: Mark,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    keep_alive: bool,
) {
    let length = Length::Known(output.since(mark) as u64);
    insert_head(context, output, mark, fields, (length, keep_alive));
}

fn insert_head<'a>(
    context: &'a HttpContext,
    output: &mut Output,
    mark: Mark,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    (length, keep_alive): (Length, bool),
) {
    output.insert_text(mark, |text| {
        let extra = context.settings.extra_fields();
        push_head(text, 200, fields.chain(extra), length, keep_alive);
    });
}
