//! Values of the message for the template tags that the rule files use.
//!
//! A value is computed only if a template contains its tag; the options record these tags.

use gatepost_mail::Mail;

use crate::language::options::ReportOptions;
use crate::tags::{Tag, TagTemplatePart, message, pieces};

/// The names of the tags of all templates.
pub(crate) fn names(options: &ReportOptions) -> impl Iterator<Item = &str> {
    tags(options).map(|tag| tag.name)
}

/// The tags of all templates, in order.
fn tags(options: &ReportOptions) -> impl Iterator<Item = Tag<'_>> {
    let fields = [&options.ham_fields, &options.spam_fields, &options.rewrites];
    let fields = fields.into_iter().flatten().map(|(_, template)| template);
    let templates = [&options.report, &options.unsafe_report].into_iter();
    let pieces = templates.chain(fields).flat_map(|text| pieces(text));
    pieces.filter_map(|piece| match piece {
        TagTemplatePart::Tag(tag) => Some(tag),
        TagTemplatePart::Text(_) => None,
    })
}

/// The tags of all templates whose values are in the message, as text.
pub(super) fn needed_tags(options: &ReportOptions) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for tag in tags(options) {
        if message::is_of_message(tag.name) && !wanted.iter().any(|known| known == tag.text) {
            wanted.push(tag.text.to_owned());
        }
    }
    wanted
}

/// Whether a template lists the sub-rules that hit.
pub(super) fn wants_sub_rules(options: &ReportOptions) -> bool {
    tags(options).any(|tag| matches!(tag.name, "SUBTESTS" | "SUBTESTSCOLLAPSED"))
}

/// The values of these tags, by their text.
pub(crate) fn values(wanted: &[String], mail: &Mail<'_>) -> Vec<(String, String)> {
    let value = |text: &String| match pieces(text).next() {
        Some(TagTemplatePart::Tag(tag)) => {
            let value = message::value(tag.name, tag.argument, mail);
            // SpamAssassin does not know these tags of a message without a domain.
            (!value.is_empty() || !tag.name.ends_with("DOMAIN")).then_some(value)
        }
        _ => None,
    };
    let values = wanted.iter().map(|text| Some((text.clone(), value(text)?)));
    values.flatten().collect()
}
