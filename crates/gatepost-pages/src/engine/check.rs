//! Errors of a template that can be found without a request: those of its syntax, and those of its
//! live elements.
//!
//! A wrong argument or filter of `live()` is found when the element is made, which may be in a
//! branch that is rarely rendered. Whether it is wrong depends on nothing but constants in nearly
//! all cases, so each insertion of a live element is made by itself; one that reads a variable is
//! left out.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Publication, TopicFilter};

use super::{Engine, Files, PageLimits, environment};
use crate::engine::present::{PresentJob, RenderJob};
use crate::error::TemplateError;
use crate::request::PageRequest;
use crate::resolve::Root;
use crate::template::split;
use crate::values::{CallError, PageCall, ProcedureResponse, ValueSource};

/// The functions whose calls are checked.
const LIVE_FUNCTIONS: [&str; 3] = ["live", "live_list", "live_chart"];

/// A broker without publications.
struct NoValues;

impl ValueSource for NoValues {
    fn latest(&self, _topic: &str) -> Option<Arc<Publication>> {
        None
    }

    fn history(&self, _filter: &TopicFilter, _count: usize) -> Vec<Arc<Publication>> {
        Vec::new()
    }

    fn call(&self, call: &PageCall<'_>) -> Result<ProcedureResponse, CallError> {
        Err(CallError::Unknown(call.path.to_owned()))
    }
}

/// The errors of the template `name`, whose text is `source`.
pub(crate) fn errors(
    root: &Arc<Root>,
    name: &str,
    source: &str,
    limits: PageLimits,
) -> Vec<TemplateError> {
    if split(&bytes::Bytes::copy_from_slice(source.as_bytes())).is_some() {
        return Vec::new();
    }
    let values: Arc<dyn ValueSource> = Arc::new(NoValues);
    if let Err(error) = Engine::new(root, name, source.to_owned(), &values, limits) {
        return vec![error];
    }
    let mut environment = environment(root, &values, limits, &Files::default());
    let mut found = Vec::new();
    for (line, insertion) in insertions(source) {
        if !insertion.contains("live") {
            continue;
        }
        // The whole template was compiled within its limits before.
        let compiled = environment.add_template_owned(name.to_owned(), insertion.to_owned());
        let template = compiled.and_then(|()| environment.get_template(name));
        let detail = match template {
            Ok(template) if reads_nothing(&template.undeclared_variables(false)) => {
                let present = PresentJob::begin(RenderJob {
                    values: Arc::clone(&values),
                    forms: Arc::new(None),
                    request: Arc::new(PageRequest::default()),
                    deadline: Instant::now() + limits.time,
                });
                let rendered = template.render(());
                let noted = PresentJob::end(present);
                match rendered {
                    Err(error) => Some(TemplateError::from_engine(&error, name).detail),
                    Ok(_) => noted.misused_live,
                }
            }
            // It reads a value, or is an insertion by the look of it only: within `raw`.
            _ => None,
        };
        found.extend(detail.map(|detail| TemplateError {
            file: name.to_owned(),
            line,
            detail,
        }));
    }
    found
}

fn reads_nothing(names: &HashSet<String>) -> bool {
    !names.is_empty()
        && names
            .iter()
            .all(|name| LIVE_FUNCTIONS.contains(&name.as_str()))
}

/// The insertions of a template, `{{ … }}`, each with its line; those in comments are left out.
fn insertions(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(start) = source.get(position..).and_then(|rest| rest.find('{')) {
        let start = position + start;
        let rest = source.get(start..).unwrap_or_default();
        let length = if rest.starts_with("{{") {
            insertion_length(rest)
        } else if rest.starts_with("{#") {
            rest.find("#}").map(|end| end + 2)
        } else {
            Some(1)
        };
        let Some(length) = length else { break };
        if rest.starts_with("{{") {
            let line = 1 + source
                .as_bytes()
                .iter()
                .take(start)
                .filter(|&&b| b == b'\n')
                .count();
            found.push((line, rest.get(..length).unwrap_or_default()));
        }
        position = start + length;
    }
    found
}

/// The length of the insertion at the start of a text: to the braces that no string contains.
fn insertion_length(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    for (position, byte) in text.bytes().enumerate().skip(2) {
        match (quote, byte) {
            _ if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'}') if text.as_bytes().get(position + 1) == Some(&b'}') => {
                return Some(position + 2);
            }
            (Some(_) | None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn found(source: &str) -> Vec<(usize, String)> {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Arc::new(Root::new(folder.path(), false));
        let limits = PageLimits {
            steps: 100_000,
            output_bytes: 1 << 20,
            memory_bytes: 1 << 20,
            time: Duration::from_mins(1),
        };
        let found = errors(&root, "page.html", source, limits);
        found
            .into_iter()
            .map(|error| (error.line, error.detail))
            .collect()
    }

    #[test]
    fn wrong_live_elements_are_found_in_every_branch() {
        let source = "{% if request.user %}\n{{ live('a/#') }}{% endif %}\n\
            {{ live(\"x\").json.text }}\n{{ live('x') | title }}\n{{ live('x') | round('a') }}\n\
            {{ live_list('a/#', -1) }}\n{{ live_chart('a') | upper }}\n{{ live('x', 'a..b') }}\n\
            {{ live_list('a/#', size=3) }}";
        let lines: Vec<usize> = found(source).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 9], "{:#?}", found(source));
    }

    #[test]
    fn correct_ones_and_those_with_values_are_not_reported() {
        let source = "{# {{ live('a/#') }} #}{% set topic = 'x' %}{{ live(topic) }}\
            {{ live('}}', 'a.0') | upper | default('{{') }}\
            {{ live_list('a/#', 5, path='b') | round(2) }}\
            {{ live_chart('a', count=5) }}{{ live('a') | number }}{{ request.path | upper }}\
            {% for one in history('alive/#', 3) %}{{ one.payload }}{% endfor %}\
            {% raw %}{{ live( }}{% endraw %}{{ 'olive' }}";
        assert_eq!(found(source), []);
    }

    #[test]
    fn an_error_of_syntax_is_found_with_its_line() {
        let found = found("a\n{% if x %}\n{{ live('a/#') }}");
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
