//! Plots as SVG: a frame, two axes, lines or marks, and a legend; the page defines the colours.

use std::fmt::Write as _;

use super::digits::number;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
/// Approximate number of ticks on an axis.
const TICKS: usize = 6;
/// The number of colours that the page defines.
pub(super) const COLOURS: usize = 6;

/// The division of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Equal steps, from 0 if the values are near it.
    Linear,
    /// Equal ratios.
    Logarithmic,
}

/// One axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    /// Ticks with given texts; otherwise they are computed.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    pub(super) fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
            ticks: Vec::new(),
        }
    }
}

/// A series of points.
#[derive(Debug, Clone)]
pub(super) struct ChartLine {
    pub(super) name: String,
    /// The index of the page's colour.
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) style: ChartStyle,
}

/// The style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChartStyle {
    /// Connected points.
    Joined,
    /// A dashed line that is not in the legend: a fitted law.
    Fitted,
    /// Marks only.
    Marks,
    /// A short horizontal bar at each point: a median.
    Bar,
}

/// A plot.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<ChartLine>,
}

/// Maps values to positions on the page.
struct Projection {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Projection {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let usable =
            |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let ticks = axis.ticks.iter().map(|(value, _)| *value);
        let (mut low, mut high) = values
            .chain(ticks)
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match axis.scale {
            Scale::Linear if axis.ticks.is_empty() => {
                low = low.min(0.0);
                let step = nice_step(high - low);
                high = ((high / step).ceil() * step).max(low + step);
            }
            Scale::Linear => {}
            Scale::Logarithmic => {
                (low, high) = (low.log10(), high.log10());
                let margin = ((high - low) * 0.04).max(0.02);
                (low, high) = (low - margin, high + margin);
            }
        }
        if high - low < 1e-12 {
            high = low + 1.0;
        }
        Self {
            scale: axis.scale,
            low,
            high,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic if value > 0.0 => value.log10(),
            Scale::Logarithmic => return None,
        };
        let share = (value - self.low) / (self.high - self.low);
        value
            .is_finite()
            .then_some(self.from + share * (self.to - self.from))
    }

    fn ticks(&self, axis: &Axis) -> Vec<(f64, String)> {
        if !axis.ticks.is_empty() {
            return axis.ticks.clone();
        }
        let values: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = nice_step(self.high - self.low);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|n| n as f64 * step).collect()
            }
            Scale::Logarithmic => self.logarithmic_ticks(),
        };
        values
            .into_iter()
            .map(|value| (value, short(value)))
            .collect()
    }

    /// Powers of ten; on a short axis also 2 and 5 times each.
    fn logarithmic_ticks(&self) -> Vec<f64> {
        let decades = self.high - self.low;
        let factors: &[f64] = if decades < 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let all =
            (first..=last).flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)));
        let inside = |value: &f64| (self.low..=self.high).contains(&value.log10());
        all.filter(inside).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that about `TICKS` fit.
fn nice_step(span: f64) -> f64 {
    let raw = (span / TICKS as f64).max(1e-12);
    let power = 10_f64.powf(raw.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors
        .into_iter()
        .find(|factor| factor * power >= raw)
        .unwrap_or(10.0);
    factor * power
}

/// The shortest text for a tick: 1.5k, 20M.
fn short(value: f64) -> String {
    for (size, mark) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= size {
            let text = format!("{:.1}", value / size);
            return format!("{}{mark}", text.trim_end_matches(".0"));
        }
    }
    let text = if value.abs() >= 1.0 || value == 0.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text escaped for a page.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

impl Chart {
    /// The plot as an SVG element; empty if there are no points.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        if points().next().is_none() {
            return String::new();
        }
        let x = Projection::new(&self.x, points().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Projection::new(&self.y, points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <text class=\"title\" x=\"10\" y=\"17\">{title} <tspan \
             class=\"unit\">{unit}</tspan></text>\n",
            title = escaped(&self.title),
            unit = escaped(&self.y.label)
        );
        self.draw_axes(&x, &y, &mut svg);
        for line in &self.lines {
            draw_line(line, &x, &y, &mut svg);
        }
        svg.push_str("</svg>");
        svg.push_str(&self.legend());
        svg.push_str("</figure>\n");
        svg
    }

    fn draw_axes(&self, x: &Projection, y: &Projection, svg: &mut String) {
        // Writing to a String cannot fail.
        for (value, text) in y.ticks(&self.y) {
            let Some(at) = y.place(value) else { continue };
            let (end, text) = (WIDTH - RIGHT, escaped(&text));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 3.5
            );
        }
        let floor = HEIGHT - BOTTOM;
        for (value, text) in x.ticks(&self.x) {
            let Some(at) = x.place(value) else { continue };
            let (below, text) = (floor + 15.0, escaped(&text));
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{at:.1}\" y1=\"{floor}\" x2=\"{at:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{below}\" \
                 text-anchor=\"middle\">{text}</text>",
                floor + 4.0
            );
        }
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{floor}\" x2=\"{}\" y2=\"{floor}\"/>\n\
             <text class=\"label\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 8.0,
            escaped(&self.x.label)
        );
    }

    fn legend(&self) -> String {
        let mut names: Vec<(&str, usize)> = Vec::new();
        for line in &self.lines {
            let known = names.iter().any(|(name, _)| *name == line.name);
            if !known
                && matches!(line.style, ChartStyle::Joined | ChartStyle::Marks)
                && !line.name.is_empty()
            {
                names.push((&line.name, line.colour));
            }
        }
        let entry = |(name, colour): &(&str, usize)| {
            let colour = colour % COLOURS;
            format!(
                "<span><i class=\"swatch c{colour}\"></i>{}</span>",
                escaped(name)
            )
        };
        let entries: String = names.iter().map(entry).collect();
        format!("<figcaption>{entries}</figcaption>")
    }
}

fn draw_line(line: &ChartLine, x: &Projection, y: &Projection, svg: &mut String) {
    let colour = line.colour % COLOURS;
    let places: Vec<(f64, f64, &(f64, f64))> = line
        .points
        .iter()
        .filter_map(|point| Some((x.place(point.0)?, y.place(point.1)?, point)))
        .collect();
    if matches!(line.style, ChartStyle::Joined | ChartStyle::Fitted) {
        let path: Vec<String> = places
            .iter()
            .map(|(x, y, _)| format!("{x:.1},{y:.1}"))
            .collect();
        let dashed = if line.style == ChartStyle::Fitted {
            " fitted"
        } else {
            ""
        };
        let _ = writeln!(
            svg,
            "<polyline class=\"line c{colour}{dashed}\" points=\"{}\"/>",
            path.join(" ")
        );
    }
    /// Lines with more points than this have no marks.
    const MARKED_MAX: usize = 24;
    if line.style == ChartStyle::Marks
        || line.style == ChartStyle::Joined && places.len() <= MARKED_MAX
    {
        for (x, y, point) in &places {
            let _ = writeln!(
                svg,
                "<circle class=\"mark c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\">\
                 <title>{}: {}</title></circle>",
                escaped(&line.name),
                number(point.1)
            );
        }
    }
    if line.style == ChartStyle::Bar {
        for (x, y, point) in &places {
            let _ = writeln!(
                svg,
                "<line class=\"bar c{colour}\" x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" \
                 y2=\"{y:.1}\"/>\
                 <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x - 22.0,
                x + 22.0,
                x + 26.0,
                y + 3.5,
                number(point.1)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_ticks_are_round() {
        for (span, step) in [(6.0, 1.0), (7.0, 2.0), (100.0, 20.0), (0.5, 0.1)] {
            assert!((nice_step(span) - step).abs() < 1e-12, "{span}");
        }
        for (value, text) in [
            (0.0, "0"),
            (1_500.0, "1.5k"),
            (2e6, "2M"),
            (0.25, "0.25"),
            (3.0, "3"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn a_plot_draws_every_point_inside_its_frame() {
        let chart = Chart {
            title: "a < b".into(),
            x: Axis::new("x", Scale::Logarithmic),
            y: Axis::new("y", Scale::Linear),
            lines: vec![ChartLine {
                name: "one".into(),
                colour: 7,
                points: vec![(1.0, 5.0), (100.0, 50.0), (0.0, 9.0)],
                style: ChartStyle::Joined,
            }],
        };
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b"), "{svg}");
        // Values without a logarithm are omitted.
        assert_eq!(svg.matches("<circle").count(), 2);
        for part in svg.split("cy=\"").skip(1) {
            let y: f64 = part
                .split('"')
                .next()
                .and_then(|y| y.parse().ok())
                .expect("a number");
            assert!((TOP..=HEIGHT - BOTTOM).contains(&y), "{y}");
        }
        let empty = Chart {
            lines: Vec::new(),
            ..chart
        };
        assert_eq!(empty.svg(), "");
    }
}
