//! The live functions of templates, and the filters of what they return.
//!
//! Their elements are printed and nothing else: the browser changes the text, so the template can
//! compute nothing from it. The documented filters travel to the browser with the element. Any
//! other use is an error, because a field would be empty and an unknown filter would take the
//! element for text.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{ArgType, Kwargs, Object, Rest, Value};
use minijinja::{Environment, Error, ErrorKind, State, filters};

use super::check_memory;
use super::present::with_present;
use crate::live::{LiveChart, LiveFilter, LiveList, LiveValue, LocalValue, TimePart};
use crate::memory_limit::unwatched;

/// The default length of a list.
const LIST_ENTRIES: usize = 20;
/// The default number of a chart's points.
const CHART_POINTS: usize = 100;

/// An element that the browser keeps up to date or writes in the visitor's language.
#[derive(Debug, Clone)]
pub(super) enum LiveSpan {
    Value(LiveValue),
    List(LiveList),
    Chart(LiveChart),
    Local(LocalValue),
}

impl LiveSpan {
    /// The element, if the value is one.
    pub(super) fn of(value: &Value) -> Option<Arc<Self>> {
        value.downcast_object::<Self>()
    }

    /// The element as HTML, for the page that this thread renders.
    pub(super) fn html(&self) -> Result<String, Error> {
        unwatched(|| {
            with_present(|job, noted| {
                noted.uses_live = true;
                let mut html = Vec::new();
                match self {
                    Self::Value(value) => value.push(&mut html, &*job.values),
                    Self::List(list) => list.push(&mut html, &*job.values),
                    Self::Chart(chart) => chart.push(&mut html, &*job.values),
                    Self::Local(value) => value.push(&mut html),
                }
                String::from_utf8_lossy(&html).into_owned()
            })
        })
    }

    fn with(&self, filter: LiveFilter) -> Result<Self, Error> {
        let mut changed = self.clone();
        match &mut changed {
            Self::Value(value) => value.add_filter(filter),
            Self::List(list) => list.add_filter(filter),
            Self::Local(value) => value.add_filter(filter),
            Self::Chart(_) => return Err(self.misused()),
        }
        Ok(changed)
    }

    /// The error of another use, with a correct form to write instead.
    fn misuse(&self) -> String {
        match self {
            Self::Value(value) => format!(
                "live(\"{}\") is updated by the browser, so it has no fields and only the filters \
                 upper, lower, trim, round, default, number and local_time: live(\"topic\", \
                 \"state.celsius\") shows a value of a JSON payload, and latest() can be computed \
                 with",
                value.topic()
            ),
            Self::List(list) => format!(
                "live_list(\"{}\", …) is updated by the browser, so it has no fields and only the \
                 filters upper, lower, trim, round, default, number and local_time; history() can \
                 be computed with",
                list.filter()
            ),
            Self::Chart(chart) => format!(
                "live_chart(\"{}\", …) is drawn by the browser, so it has neither fields nor \
                 filters; history() can be computed with",
                chart.topic()
            ),
            Self::Local(_) => "number and local_time are written by the browser, so only other \
                 filters of live() can follow them, and no field and no operator"
                .to_owned(),
        }
    }

    fn misused(&self) -> Error {
        faulty(self.misuse())
    }
}

impl Object for LiveSpan {
    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::from(self.misused()))
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    /// As text, for another filter or an operator: rendering cannot fail here, so the page is
    /// failed when it is done.
    fn render(self: &Arc<Self>, _formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let misuse = unwatched(|| self.misuse());
        let _ = with_present(|_, noted| unwatched(|| noted.misused_live = Some(misuse)));
        Ok(())
    }
}

/// The functions that return live elements.
pub(super) fn add_live_functions(environment: &mut Environment<'static>) {
    environment.add_function("live", |topic: &str, path: Option<&str>| {
        check_memory()?;
        let value = LiveValue::new(topic, path).map_err(faulty)?;
        Ok::<_, Error>(Value::from_object(LiveSpan::Value(value)))
    });
    environment.add_function(
        "live_list",
        |filter: &str, count: Option<usize>, path: Option<String>, named: Kwargs| {
            check_memory()?;
            let count = either(count, &named, "count")?.unwrap_or(LIST_ENTRIES);
            let path = either(path, &named, "path")?;
            named.assert_all_used()?;
            let list = LiveList::new(filter, count, path.as_deref()).map_err(faulty)?;
            Ok::<_, Error>(Value::from_object(LiveSpan::List(list)))
        },
    );
    environment.add_function(
        "live_chart",
        |topic: &str, path: Option<String>, count: Option<usize>, named: Kwargs| {
            check_memory()?;
            let count = either(count, &named, "count")?.unwrap_or(CHART_POINTS);
            let path = either(path, &named, "path")?;
            named.assert_all_used()?;
            let chart = LiveChart::new(topic, path.as_deref(), count).map_err(faulty)?;
            Ok::<_, Error>(Value::from_object(LiveSpan::Chart(chart)))
        },
    );
}

/// An argument by its position, or else by its name.
fn either<T>(positional: Option<T>, named: &Kwargs, name: &str) -> Result<Option<T>, Error>
where
    T: for<'a> ArgType<'a, Output = T>,
{
    match positional {
        Some(value) => Ok(Some(value)),
        None => named.get(name),
    }
}

/// The filters that live elements have too, each as the engine's own for other values, and those
/// that the browser completes for any value.
pub(super) fn add_live_filters(environment: &mut Environment<'static>) {
    environment.add_filter("gatepost_upper", filters::upper);
    environment.add_filter("gatepost_lower", filters::lower);
    environment.add_filter("gatepost_trim", filters::trim);
    environment.add_filter("gatepost_round", filters::round);
    environment.add_filter("gatepost_default", filters::default);
    extend(environment, "upper", "gatepost_upper", |arguments| {
        none_of(arguments, LiveFilter::Upper)
    });
    extend(environment, "lower", "gatepost_lower", |arguments| {
        none_of(arguments, LiveFilter::Lower)
    });
    extend(environment, "trim", "gatepost_trim", |arguments| {
        none_of(arguments, LiveFilter::Trim)
    });
    extend(environment, "round", "gatepost_round", |arguments| {
        Ok(LiveFilter::Round(decimals(arguments)?.unwrap_or(0)))
    });
    for name in ["default", "d"] {
        extend(environment, name, "gatepost_default", |arguments| {
            Ok(LiveFilter::Default(text_of(one_of(arguments)?)))
        });
    }
    environment.add_filter("number", |value: &Value, arguments: Rest<Value>| {
        local(value, LiveFilter::Number(decimals(&arguments)?))
    });
    environment.add_filter("local_time", |value: &Value, arguments: Rest<Value>| {
        let part = match arguments.first() {
            None => TimePart::DateAndTime,
            Some(_) => TimePart::new(&text_of(one_of(&arguments)?)).map_err(faulty)?,
        };
        local(value, LiveFilter::LocalTime(part))
    });
}

/// Lets a filter of the engine, also known as `original`, take live elements.
fn extend(
    environment: &mut Environment<'static>,
    name: &'static str,
    original: &'static str,
    make: fn(&[Value]) -> Result<LiveFilter, Error>,
) {
    environment.add_filter(
        name,
        move |state: &State<'_, '_>, value: Value, arguments: Rest<Value>| {
            if let Some(live) = LiveSpan::of(&value) {
                return live.with(make(&arguments)?).map(Value::from_object);
            }
            let mut all = vec![value];
            all.extend(arguments.0);
            state.apply_filter(original, &all)
        },
    );
}

/// A value that the browser writes.
fn local(value: &Value, filter: LiveFilter) -> Result<Value, Error> {
    check_memory()?;
    let span = match LiveSpan::of(value) {
        Some(live) => live.with(filter)?,
        None => LiveSpan::Local(LocalValue::new(text_of(value), filter)),
    };
    Ok(Value::from_object(span))
}

fn text_of(value: &Value) -> String {
    if value.is_none() || value.is_undefined() {
        return String::new();
    }
    let text = value
        .as_str()
        .map_or_else(|| value.to_string().into(), Cow::Borrowed);
    text.into_owned()
}

fn none_of(arguments: &[Value], filter: LiveFilter) -> Result<LiveFilter, Error> {
    if arguments.is_empty() {
        Ok(filter)
    } else {
        Err(faulty("this filter of live() has no arguments".to_owned()))
    }
}

fn one_of(arguments: &[Value]) -> Result<&Value, Error> {
    match arguments {
        [argument] if !argument.is_kwargs() => Ok(argument),
        _ => Err(faulty("this filter of live() has one argument".to_owned())),
    }
}

fn decimals(arguments: &[Value]) -> Result<Option<u32>, Error> {
    if arguments.is_empty() {
        return Ok(None);
    }
    let count = i64::try_from(one_of(arguments)?.clone())?;
    LiveFilter::decimals(count).map(Some).map_err(faulty)
}

fn faulty(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}
