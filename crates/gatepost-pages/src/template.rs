//! The fast form of a page: static slices and insertion points.
//!
//! A template that contains only text and insertion points, whose arguments are constants or values
//! of the request, is split once, when its file is read. A hit then appends shared slices and
//! current values and copies no static byte. Any other content (statements, filters, variables,
//! escapes in strings) requires the template engine; [`split`] returns `None` in case of doubt.

use bytes::Bytes;

use crate::forms::{Form, FormAction};
use crate::insertion::{Argument, Insertion};
use crate::live::LiveValue;
use crate::request::Reference;

/// A piece of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateNode {
    /// Bytes of the file, shared with it.
    Static(Bytes),
    /// A value.
    Insertion(Insertion),
}

impl TemplateNode {
    /// Whether it is the same for every request.
    pub(crate) const fn is_static(&self) -> bool {
        matches!(self, Self::Static(_))
    }
}

/// The script that keeps `live()` values moving; served by the HTTP listener.
pub const LIVE_SCRIPT: &str = "<script src=\"/gatepost/live.js\" defer></script>";

/// Splits a template into pieces; `None` if the template engine must render it.
pub fn split(source: &Bytes) -> Option<Vec<TemplateNode>> {
    let text = std::str::from_utf8(source).ok()?;
    let mut pieces = Vec::new();
    let mut position = 0;
    let push_static = |pieces: &mut Vec<TemplateNode>, start: usize, end: usize| {
        if start < end {
            pieces.push(TemplateNode::Static(source.slice(start..end)));
        }
    };
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'{', text.get(from..)?.as_bytes()) {
        let start = from + found;
        match text.as_bytes().get(start + 1) {
            Some(b'{') => {
                let rest = text.get(start + 2..)?;
                let (insertion, length) = parse_insertion(rest)?;
                push_static(&mut pieces, position, start);
                pieces.push(TemplateNode::Insertion(insertion));
                position = start + 2 + length;
                from = position;
            }
            Some(b'%' | b'#') => return None,
            _ => from = start + 1,
        }
    }
    push_static(&mut pieces, position, source.len());
    let live = |piece: &TemplateNode| matches!(piece, TemplateNode::Insertion(Insertion::Live(_)));
    Some(if pieces.iter().any(live) {
        with_script(pieces)
    } else {
        pieces
    })
}

/// Inserts the script before the last `</body>`, or at the end if there is none.
fn with_script(pieces: Vec<TemplateNode>) -> Vec<TemplateNode> {
    let script = || TemplateNode::Static(Bytes::from_static(LIVE_SCRIPT.as_bytes()));
    let place = pieces.iter().enumerate().rev().find_map(|(index, piece)| {
        let TemplateNode::Static(bytes) = piece else {
            return None;
        };
        body_end(bytes).map(|offset| (index, offset))
    });
    let Some((place, offset)) = place else {
        return pieces.into_iter().chain([script()]).collect();
    };
    let mut placed = Vec::with_capacity(pieces.len() + 2);
    for (index, piece) in pieces.into_iter().enumerate() {
        match piece {
            TemplateNode::Static(bytes) if index == place => placed.extend([
                TemplateNode::Static(bytes.slice(..offset)),
                script(),
                TemplateNode::Static(bytes.slice(offset..)),
            ]),
            other => placed.push(other),
        }
    }
    placed
}

/// The position of the last `</body`.
pub fn body_end(html: &[u8]) -> Option<usize> {
    const END: &[u8] = b"</body";
    memchr::memrchr_iter(b'<', html).find(|&start| {
        html.get(start..start + END.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(END))
    })
}

/// Parses `name(arguments) }}` or `request.field }}`; returns the insertion point and the length up
/// to and including `}}`.
fn parse_insertion(text: &str) -> Option<(Insertion, usize)> {
    let mut reader = TemplateReader { rest: text };
    reader.skip_space();
    let name = reader.name()?;
    let insertion = if name == "request" {
        Insertion::Request(reader.reference()?)
    } else {
        reader.skip_space();
        reader.expect("(")?;
        insertion_of(name, reader.arguments()?)?
    };
    reader.skip_space();
    reader.expect("}}")?;
    Some((insertion, text.len() - reader.rest.len()))
}

fn insertion_of(name: &str, arguments: TemplateArguments) -> Option<Insertion> {
    let TemplateArguments { positional, named } = arguments;
    let mut positional = positional.into_iter();
    let first = positional.next();
    if positional.next().is_some() {
        return None;
    }
    if let Some(action) = form_action(name, first.as_ref()) {
        return form_of(action, named).map(Insertion::Form);
    }
    if name != "call" && !named.is_empty() {
        return None;
    }
    match (name, first) {
        ("now", None) => Some(Insertion::Now),
        ("now", Some(format)) => Some(Insertion::NowAs(format)),
        ("latest", Some(topic)) => Some(Insertion::Latest(topic)),
        // The engine reports the error of an invalid template, with the line.
        ("live", Some(topic)) => LiveValue::new(&topic, None).ok().map(Insertion::Live),
        ("call", Some(path)) => Some(Insertion::Call {
            path,
            arguments: named,
        }),
        _ => None,
    }
}

fn form_action(name: &str, first: Option<&String>) -> Option<FormAction> {
    match (name, first) {
        ("form_publish", Some(topic)) => Some(FormAction::Publish(topic.clone())),
        ("form_call", Some(path)) => Some(FormAction::Call(path.clone())),
        ("form_token", None) => Some(FormAction::Show),
        _ => None,
    }
}

/// The form, whose only named argument is `then`.
fn form_of(action: FormAction, named: Vec<(String, Argument)>) -> Option<Form> {
    let mut then = None;
    for (name, value) in named {
        match value {
            Argument::Constant(place) if name == "then" => then = Some(place),
            _ => return None,
        }
    }
    Some(Form { action, then })
}

#[derive(Default)]
struct TemplateArguments {
    positional: Vec<String>,
    named: Vec<(String, Argument)>,
}

struct TemplateReader<'a> {
    rest: &'a str,
}

impl<'a> TemplateReader<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn name(&mut self) -> Option<&'a str> {
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        (!name.is_empty()).then_some(name)
    }

    /// Constants up to and including the closing parenthesis.
    fn arguments(&mut self) -> Option<TemplateArguments> {
        let mut arguments = TemplateArguments::default();
        self.skip_space();
        if self.expect(")").is_some() {
            return Some(arguments);
        }
        loop {
            self.skip_space();
            if self.rest.starts_with(['"', '\'']) {
                if !arguments.named.is_empty() {
                    return None; // the engine's error is more precise
                }
                arguments.positional.push(self.string()?);
            } else {
                let name = self.name()?.to_owned();
                self.skip_space();
                self.expect("=")?;
                self.skip_space();
                arguments.named.push((name, self.argument()?));
            }
            self.skip_space();
            if self.expect(")").is_some() {
                return Some(arguments);
            }
            self.expect(",")?;
        }
    }

    /// `.field`, `.field.key` or `.field["key"]`, after `request`.
    fn reference(&mut self) -> Option<Reference> {
        self.expect(".")?;
        let field = self.name()?;
        let key = if self.expect(".").is_some() {
            Some(self.name()?.to_owned())
        } else if self.expect("[").is_some() {
            let key = self.string()?;
            self.expect("]")?;
            Some(key)
        } else {
            None
        };
        Reference::new(field, key.as_deref())
    }

    fn argument(&mut self) -> Option<Argument> {
        if self.rest.starts_with(['"', '\'']) {
            return self.string().map(Argument::Constant);
        }
        if let Some(rest) = self.rest.strip_prefix("request") {
            self.rest = rest;
            return self.reference().map(Argument::Request);
        }
        // Only whole numbers: their text is the same in both forms.
        let digits = self.take_while(|c| c.is_ascii_digit());
        let plain = digits == "0" || (!digits.starts_with('0') && digits.len() <= 15);
        (!digits.is_empty() && plain).then(|| Argument::Constant(digits.to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|quote| matches!(quote, '"' | '\''))?;
        let inner = self.rest.get(1..)?;
        let (text, rest) = inner.split_once(quote)?;
        if text.contains('\\') {
            return None;
        }
        self.rest = rest;
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(source: &'static str) -> Option<Vec<String>> {
        let pieces = split(&Bytes::from_static(source.as_bytes()))?;
        Some(
            pieces
                .into_iter()
                .map(|piece| match piece {
                    TemplateNode::Static(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    TemplateNode::Insertion(insertion) => format!("{insertion:?}"),
                })
                .collect(),
        )
    }

    #[test]
    fn text_and_insertion_points_are_split() {
        assert_eq!(
            pieces("<p>{{ now() }}</p> {a{b}"),
            Some(vec!["<p>".into(), "Now".into(), "</p> {a{b}".into()])
        );
        assert_eq!(
            pieces("{{latest('a/b')}}{{ now(\"%H\") }}"),
            Some(vec!["Latest(\"a/b\")".into(), "NowAs(\"%H\")".into()])
        );
        assert_eq!(
            pieces("{{ call(\"/greeting\", name=\"x\", n=3) }}"),
            Some(vec![
                "Call { path: \"/greeting\", arguments: [(\"name\", Constant(\"x\")), (\"n\", \
                 Constant(\"3\"))] }"
                    .into()
            ])
        );
        assert_eq!(
            pieces("{{ request.user }}{{ call('/a', b=request.headers[\"user-agent\"]) }}"),
            Some(vec![
                "Request(User)".into(),
                "Call { path: \"/a\", arguments: [(\"b\", Request(Header(\"user-agent\")))] }"
                    .into()
            ])
        );
        assert_eq!(
            pieces("{{ form_publish('a/b', then='/c') }}"),
            Some(vec![
                "Form(Form { action: Publish(\"a/b\"), then: Some(\"/c\") })".into()
            ])
        );
        assert_eq!(pieces(""), Some(vec![]));
    }

    #[test]
    fn everything_else_is_the_template_engines() {
        for source in [
            "{% if x %}{% endif %}",
            "{# remark #}",
            "{{ x }}",
            "{{- now() }}",
            "{{ now() -}}",
            "{{ now()|upper }}",
            "{{ now( }}",
            "{{ latest(\"a\\n\") }}",
            "{{ latest(topic) }}",
            "{{ latest(\"a\", \"b\") }}",
            "{{ latest(\"a\").time }}",
            "{{ history(\"#\", 3) }}",
            "{{ call(\"/a\", x=1.5) }}",
            "{{ request.query }}",
            "{{ request.query.a.b }}",
            "{{ request.query.a|upper }}",
            "{{ request.nothing }}",
            "{{ form_token(then=request.path) }}",
            "{{ form_publish() }}",
            "{{ call(\"/a\", x=007) }}",
            "{{",
            "{{ now()",
        ] {
            assert_eq!(pieces(source), None, "{source}");
        }
    }

    #[test]
    fn the_live_script_comes_once_before_the_end_of_the_body() {
        let pieces = pieces("{{ live('a') }}{{ live('b') }}<p></BODY></html>").expect("simple");
        assert_eq!(
            pieces,
            [
                "Live(LiveValue { topic: \"a\", path: None, filters: [] })",
                "Live(LiveValue { topic: \"b\", path: None, filters: [] })",
                "<p>",
                LIVE_SCRIPT,
                "</BODY></html>"
            ]
        );
    }
}
