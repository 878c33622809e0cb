//! Responses that need nothing but memory: cached pages and files, straight from the read buffer.

use std::sync::Arc;
use std::time::Duration;

use gatepost_pages::access_log::LoggedRequest;
use gatepost_pages::{
    CachedPath, CompiledPage, PageNeeds, PathContent, StaticFile, push_static, takes_gzip,
};
use smallvec::SmallVec;

use super::encode::{Length, push_head};
use super::head::{BodyFraming, RequestHead};
use super::output::{Output, OutputPosition};
use crate::http::context::HttpContext;
use crate::http::request::HttpVersion;
use crate::http::site::representation::{coding_fields, file_fields, page_fields};

/// The cached entry that a GET or HEAD request names, if every visitor may read it and neither the
/// settings nor the head require more than the path. Cached pages and worker pages share this
/// condition.
pub(super) fn cached_entry(
    context: &HttpContext,
    head: &RequestHead<'_, '_>,
) -> Option<Arc<CachedPath>> {
    let is_simple = context.answers_from_memory
        && (head.method == "GET" || head.method == "HEAD")
        && head.framing == BodyFraming::Length(0)
        && !head.upgrade
        && !head.expects_continue
        && !context.drain.is_draining()
        && !head.path.contains('%');
    if !is_simple {
        return None;
    }
    let entry = context.pages.site(head.host).fresh(head.path);
    entry.filter(|entry| entry.access.is_open())
}

/// Answers `head` with `entry` into `output` and returns true, or returns false and leaves `output`
/// as it was: if the entry needs a page worker, the disk or an evaluation of the head's conditions.
pub(super) fn answer(
    context: &HttpContext,
    peer: &str,
    head: &RequestHead<'_, '_>,
    entry: &CachedPath,
    output: &mut Output,
) -> bool {
    let mark = output.mark();
    let body_bytes = match &entry.content {
        PathContent::Page(page) => push_page(context, head, page, output, mark),
        PathContent::File(file) if !head.conditional => {
            push_file(context, head, file, output, mark)
        }
        _ => None,
    };
    let Some(body_bytes) = body_bytes else {
        return false;
    };
    context.requests.count(200);
    context.access_log.append(&LoggedRequest {
        peer,
        user: None,
        method: head.method,
        target: head.target,
        version: HttpVersion::from(head).name(),
        status: 200,
        body_bytes: if head.method == "HEAD" { 0 } else { body_bytes },
        referer: head.referer,
        user_agent: head.user_agent,
        message: None,
        host: head.host,
        // No clock is read for it: it is a few microseconds.
        duration: Duration::ZERO,
    });
    true
}

fn push_page(
    context: &HttpContext,
    head: &RequestHead<'_, '_>,
    page: &CompiledPage,
    output: &mut Output,
    mark: OutputPosition,
) -> Option<u64> {
    let CompiledPage::Pieces(pieces) = page else {
        return None;
    };
    if pieces.needs() != PageNeeds::default() {
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

fn push_file(
    context: &HttpContext,
    head: &RequestHead<'_, '_>,
    file: &StaticFile,
    output: &mut Output,
    mark: OutputPosition,
) -> Option<u64> {
    let (encoding, chosen) = file.choose(head.accept_encoding);
    push_static(chosen.content.as_ref()?, chosen.file.as_ref(), output);
    let mut fields: SmallVec<[(&str, &str); 8]> = SmallVec::new();
    for (name, value) in file_fields(chosen) {
        fields.push((name, value));
    }
    for (name, value) in coding_fields(file, encoding) {
        fields.push((name, value));
    }
    Some(finish(context, head, output, mark, fields.into_iter()))
}

/// Puts the head before the body; returns the body's length.
fn finish<'a>(
    context: &'a HttpContext,
    head: &RequestHead<'_, '_>,
    output: &mut Output,
    mark: OutputPosition,
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

/// Puts the head before a complete body.
pub(super) fn push_head_before<'a>(
    context: &'a HttpContext,
    output: &mut Output,
    mark: OutputPosition,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    keep_alive: bool,
) {
    let length = Length::Known(output.since(mark) as u64);
    insert_head(context, output, mark, fields, (length, keep_alive));
}

fn insert_head<'a>(
    context: &'a HttpContext,
    output: &mut Output,
    mark: OutputPosition,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    (length, keep_alive): (Length, bool),
) {
    let own: SmallVec<[(&str, &str); 8]> = fields.collect();
    let is_set = |name: &str| own.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
    let extra = context.settings.extra_fields();
    let extra = extra.filter(|(name, _)| !is_set(name));
    output.insert_text(mark, |text| {
        let fields = own.iter().copied().chain(extra);
        push_head(text, 200, fields, length, keep_alive);
    });
}
