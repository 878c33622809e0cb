//! The functions that templates call.
//!
//! Each checks the memory of its page, does its own work [`unwatched`], and returns copies that
//! count towards the page's limit.

use std::sync::Arc;

use gatepost_message::TopicFilter;
use minijinja::value::{Kwargs, Value, ValueIter};
use minijinja::{Environment, Error, ErrorKind};

use super::live_span::{add_live_filters, add_live_functions};
use super::numbers::add_number_filters;
use super::present::with_present;
use super::shown::ShownPublication;
use super::{check_memory, own};
use crate::clock;
use crate::forms::{Form, FormAction};
use crate::insertion::{call, failure_comment, push_form};
use crate::memory_limit::unwatched;
use crate::values::ValueSource;

/// The most publications that one `history()` returns.
const HISTORY_MAX: usize = 10_000;

pub(super) fn add_functions(environment: &mut Environment<'static>, values: &Arc<dyn ValueSource>) {
    environment.add_function("range", range);
    environment.add_function("now", |format: Option<String>| {
        let text = unwatched(|| match &format {
            None => {
                let mut text = Vec::new();
                clock::push_page_date(&mut text);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some(format) => clock::format_now(format).map_err(|detail| failure_comment(&detail)),
        });
        text_or_comment(text)
    });
    let source = Arc::clone(values);
    environment.add_function("latest", move |topic: &str| {
        check_memory()?;
        let latest = unwatched(|| source.latest(topic));
        Ok::<_, Error>(latest.map_or(Value::UNDEFINED, ShownPublication::value))
    });
    let source = Arc::clone(values);
    environment.add_function("history", move |filter: &str, count: Option<usize>| {
        check_memory()?;
        let filter = TopicFilter::new(filter)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
        let count = count.unwrap_or(20).min(HISTORY_MAX);
        let mut publications = unwatched(|| source.history(&filter, count).into_iter());
        let mut shown = Vec::with_capacity(publications.len());
        shown.extend(publications.by_ref().map(ShownPublication::value));
        unwatched(|| drop(publications));
        Ok::<_, Error>(shown)
    });
    add_live_functions(environment);
    add_live_filters(environment);
    add_number_filters(environment);
    environment.add_function("call", |path: &str, named: Kwargs| {
        check_memory()?;
        let mut arguments = Vec::new();
        for name in named.args() {
            arguments.push((name.to_owned(), named.get::<Value>(name)?.to_string()));
        }
        let called = unwatched(|| {
            with_present(|job, noted| {
                call(&job.context(), path, &arguments, &mut noted.reply)
                    .map_err(|error| failure_comment(&error.to_string()))
            })
        })?;
        Ok::<_, Error>(text_or_comment(called))
    });
    environment.add_function("form_publish", |topic: String, named: Kwargs| {
        form(FormAction::Publish(topic), &named)
    });
    environment.add_function("form_call", |path: String, named: Kwargs| {
        form(FormAction::Call(path), &named)
    });
    environment.add_function("form_token", |named: Kwargs| form(FormAction::Show, &named));
}

/// The engine's own `range`, which checks the memory in each iteration.
fn range(lower: isize, upper: Option<isize>, step: Option<isize>) -> Result<Value, Error> {
    check_memory()?;
    let numbers = minijinja::functions::range(lower, upper, step)?;
    let turns = move || CheckedIteration(numbers.try_iter().ok());
    Ok(Value::make_iterable(turns))
}

struct CheckedIteration(Option<ValueIter>);

impl Iterator for CheckedIteration {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let value = self.0.as_mut()?.next()?;
        // An error as a value ends the loop.
        Some(check_memory().map_or_else(Value::from, |()| value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.as_ref().map_or((0, Some(0)), Iterator::size_hint)
    }
}

/// A text, or the comment that replaces it.
fn text_or_comment(text: Result<String, String>) -> Value {
    match text {
        Ok(text) => Value::from(own(text)),
        Err(comment) => Value::from_safe_string(own(comment)),
    }
}

/// The hidden field of a form.
fn form(action: FormAction, named: &Kwargs) -> Result<Value, Error> {
    check_memory()?;
    let then: Option<String> = named.get("then")?;
    named.assert_all_used()?;
    let form = Form { action, then };
    let field = unwatched(|| {
        with_present(|job, noted| {
            noted.has_form = true;
            let mut field = Vec::new();
            push_form(&mut field, &form, &job.context());
            text(field)
        })
    })?;
    Ok(Value::from_safe_string(own(field)))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
