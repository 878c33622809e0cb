//! `live_chart()`: a topic's latest numbers as a line. The browser's script draws the same with
//! each publication that follows, in the visitor's time zone.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gatepost_message::{MessageId, Topic, TopicFilter};

use super::filter::rounded;
use super::value::{check_path, number_of, value_of};
use super::{push_id, push_path};
use crate::clock;
use crate::escape::push_escaped;
use crate::values::ValueSource;

/// More points than a chart has pixels.
const POINTS_MAX: usize = 1_000;
/// Decimals of its labels.
const LABEL_DECIMALS: u32 = 2;

// The chart's own units; `live.js` has the same.
const WIDTH: f64 = 600.0;
const LEFT: f64 = 6.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 140.0;

/// A line that grows at its right end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveChart {
    filter: TopicFilter,
    path: Option<String>,
    count: usize,
}

/// A number, and when it was published.
struct ChartPoint {
    id: MessageId,
    value: f64,
}

impl LiveChart {
    /// A chart; the error explains why it would stay empty.
    pub(crate) fn new(topic: &str, path: Option<&str>, count: usize) -> Result<Self, String> {
        let described = |detail: &str| format!("live_chart(\"{topic}\", …): {detail}");
        Topic::check(topic)
            .map_err(|error| described(&format!("{error}; a chart shows one topic")))?;
        if !(2..=POINTS_MAX).contains(&count) {
            return Err(described(&format!(
                "{count} points: 2 to {POINTS_MAX} are possible"
            )));
        }
        check_path(path).map_err(described)?;
        Ok(Self {
            filter: TopicFilter::new(topic).map_err(|error| described(&error.to_string()))?,
            path: path.map(str::to_owned),
            count,
        })
    }

    pub(crate) fn topic(&self) -> &str {
        self.filter.as_str()
    }

    /// Appends the chart of the present numbers.
    pub(crate) fn push(&self, output: &mut Vec<u8>, values: &dyn ValueSource) {
        let publications = values.history(&self.filter, self.count);
        let point = |publication: &Arc<gatepost_message::Publication>| {
            let value = number_of(&value_of(publication, self.path.as_deref()))?;
            let id = publication.id;
            Some(ChartPoint { id, value })
        };
        let points: Vec<_> = publications.iter().filter_map(point).collect();
        output.extend_from_slice(b"<svg class=\"gatepost-chart\" data-gatepost-chart=\"");
        push_escaped(output, self.topic());
        push_path(output, self.path.as_deref());
        output.extend_from_slice(format!("\" data-gatepost-count=\"{}", self.count).as_bytes());
        output.extend_from_slice(b"\" data-gatepost-id=\"");
        push_id(output, publications.last().map(Arc::as_ref));
        output.extend_from_slice(b"\" data-gatepost-points=\"");
        output.extend_from_slice(as_json(&points).as_bytes());
        output.extend_from_slice(b"\" aria-label=\"");
        push_escaped(output, &self.label(&points));
        output.extend_from_slice(drawing(&points).as_bytes());
    }

    /// The chart in words.
    fn label(&self, points: &[ChartPoint]) -> String {
        let name = match &self.path {
            Some(path) => format!("{}, {path}", self.topic()),
            None => self.topic().to_owned(),
        };
        match ChartRange::of(points) {
            Some(range) => format!(
                "{name}: {}, between {} and {}",
                label(range.latest),
                label(range.lowest),
                label(range.highest)
            ),
            None => format!("{name}: no number yet"),
        }
    }
}

struct ChartRange {
    lowest: f64,
    highest: f64,
    latest: f64,
    from: SystemTime,
    to: SystemTime,
}

impl ChartRange {
    fn of(points: &[ChartPoint]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let of = |choose: fn(f64, f64) -> f64| {
            let values = points.iter().map(|point| point.value);
            values.fold(last.value, choose)
        };
        Some(Self {
            lowest: of(f64::min),
            highest: of(f64::max),
            latest: last.value,
            from: first.id.time(),
            to: last.id.time(),
        })
    }

    /// The place of a point: the newest at the right, the highest at the top.
    fn place(&self, point: &ChartPoint) -> (f64, f64) {
        let share = |part: f64, whole: f64, otherwise: f64| {
            let share = part / whole;
            if share.is_finite() { share } else { otherwise }
        };
        let since = |time: SystemTime| unix_ms(time) - unix_ms(self.from);
        let across = share(since(point.id.time()), since(self.to), 1.0);
        let height = share(point.value - self.lowest, self.highest - self.lowest, 0.5);
        (
            LEFT + (WIDTH - 2.0 * LEFT) * across,
            BOTTOM - (BOTTOM - TOP) * height,
        )
    }
}

/// The end of the element's attributes, and its content. Everything in it is a number or a time.
fn drawing(points: &[ChartPoint]) -> String {
    let mut svg = format!(
        "\" viewBox=\"0 0 {WIDTH} 180\" width=\"100%\" role=\"img\"><polyline fill=\"none\" \
         stroke=\"currentColor\" stroke-width=\"2\" points=\""
    );
    let range = ChartRange::of(points);
    let places = range
        .iter()
        .flat_map(|range| points.iter().map(|point| range.place(point)));
    let mut last = (-LEFT, -LEFT);
    for (x, y) in places {
        let _ = write!(svg, "{x:.1},{y:.1} ");
        last = (x, y);
    }
    let _ = write!(
        svg,
        "\"></polyline><circle r=\"4\" fill=\"currentColor\" cx=\"{:.1}\" cy=\"{:.1}\"></circle><g \
         fill=\"currentColor\" font-size=\"14\">",
        last.0, last.1
    );
    let [highest, latest, lowest, from, to] = range.map_or_else(Default::default, |range| {
        [
            label(range.highest),
            label(range.latest),
            label(range.lowest),
            clock::page_date(range.from),
            clock::page_date(range.to),
        ]
    });
    let right = WIDTH - LEFT;
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"18\">{highest}</text><text x=\"{right}\" y=\"18\" \
         text-anchor=\"end\" font-weight=\"bold\">{latest}</text><text x=\"{LEFT}\" \
         y=\"156\">{lowest}</text><text x=\"{LEFT}\" y=\"174\">{from}</text><text x=\"{right}\" \
         y=\"174\" text-anchor=\"end\">{to}</text></g></svg>"
    );
    svg
}

fn label(value: f64) -> String {
    rounded(value, LABEL_DECIMALS)
}

fn unix_ms(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as f64
}

/// Pairs of milliseconds and number, for the script.
fn as_json(points: &[ChartPoint]) -> String {
    let pairs = points
        .iter()
        .map(|point| [unix_ms(point.id.time()), point.value]);
    serde_json::to_string(&pairs.collect::<Vec<_>>()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ms: u64, value: f64) -> ChartPoint {
        let time = UNIX_EPOCH + std::time::Duration::from_millis(1_800_000_000_000 + at_ms);
        ChartPoint {
            id: MessageId::floor_at(time),
            value,
        }
    }

    #[test]
    fn points_are_placed_by_time_and_value() {
        let points = [point(0, 10.0), point(1_000, 20.0), point(4_000, 15.0)];
        let range = ChartRange::of(&points).expect("points");
        assert_eq!(range.place(&points[0]), (LEFT, BOTTOM));
        assert_eq!(range.place(&points[1]), (LEFT + 147.0, TOP));
        assert_eq!(range.place(&points[2]), (WIDTH - LEFT, 85.0));
        let svg = drawing(&points);
        assert!(
            svg.contains("points=\"6.0,140.0 153.0,30.0 594.0,85.0 \""),
            "{svg}"
        );
        assert!(
            svg.contains(">20</text>") && svg.contains(">15</text>"),
            "{svg}"
        );
    }

    #[test]
    fn one_point_equal_points_and_none_are_drawn_too() {
        for points in [
            vec![],
            vec![point(0, 3.0)],
            vec![point(0, 3.0), point(0, 3.0)],
            vec![point(0, f64::MAX), point(9, f64::MIN)],
        ] {
            let svg = drawing(&points);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_chart_that_cannot_work_is_refused() {
        for (topic, path, count) in [
            ("a/#", None, 100),
            ("a", Some("b."), 100),
            ("a", None, 1),
            ("a", None, POINTS_MAX + 1),
        ] {
            let error = LiveChart::new(topic, path, count).expect_err(topic);
            assert!(error.starts_with("live_chart("), "{error}");
        }
    }
}
