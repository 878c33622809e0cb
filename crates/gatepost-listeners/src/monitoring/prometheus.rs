//! Prometheus' text format: a metric's help and type, then its samples.

use std::fmt::{Display, Write};

/// A metric. Names have the prefix `gatepost_` and base units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

/// A value that never decreases while the process runs.
pub(crate) const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: "counter",
        help,
    }
}

/// A value that increases and decreases.
pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: "gauge",
        help,
    }
}

/// A page of metrics, appended to a text. Writing to a string cannot fail.
pub(crate) struct MetricsPage<'a>(pub(crate) &'a mut String);

impl MetricsPage<'_> {
    /// A metric with one sample.
    pub(crate) fn value(&mut self, metric: Metric, value: impl Display) {
        self.head(metric);
        let _ = writeln!(self.0, "{} {value}", metric.name);
    }

    /// A metric with a sample for each value of one label.
    pub(crate) fn by_label<L: Display, V: Display>(
        &mut self,
        metric: Metric,
        label: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        let labelled = |(name, value)| (format!("{label}=\"{name}\""), value);
        self.by_labels(metric, samples.into_iter().map(labelled));
    }

    /// A metric with a sample for each list of labels, as in `a="x",b="y"`.
    pub(crate) fn by_labels<V: Display>(
        &mut self,
        metric: Metric,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        self.head(metric);
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{}{{{labels}}} {value}", metric.name);
        }
    }

    fn head(&mut self, metric: Metric) {
        let Metric { name, kind, help } = metric;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_help_and_type() {
        let mut text = String::new();
        let mut page = MetricsPage(&mut text);
        page.value(gauge("gatepost_bans", "Networks that are banned."), 3);
        let denied = counter("gatepost_denied_total", "Denied.");
        page.by_label(denied, "access", [("publish", 1), ("subscribe", 2)]);
        assert_eq!(
            text,
            "# HELP gatepost_bans Networks that are banned.\n\
             # TYPE gatepost_bans gauge\n\
             gatepost_bans 3\n\
             # HELP gatepost_denied_total Denied.\n\
             # TYPE gatepost_denied_total counter\n\
             gatepost_denied_total{access=\"publish\"} 1\n\
             gatepost_denied_total{access=\"subscribe\"} 2\n"
        );
    }
}
