//! ministat's plot: the values of each set as stacked marks, and below them a bar from one
//! deviation below the mean to one above it, with `M` at the median and `A` at the mean.

use super::MARKS;
use crate::statistics::SortedSample;

/// The mark of a cell with values of several sets.
const OVERLAP: char = '*';
/// The same if `*` is the mark of a third set.
const OVERLAP_OF_MANY: char = '&';

/// Draws the sets in `width` columns.
pub(super) fn plot(samples: &[&SortedSample], width: usize, separate_bars: bool) -> String {
    let ends = samples.iter().flat_map(|sample| {
        let (mean, deviation) = (sample.mean(), sample.deviation());
        [
            sample.minimum(),
            sample.maximum(),
            mean - deviation,
            mean + deviation,
        ]
    });
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    if high <= low || width < 2 {
        return "[no plot, span is zero width]\n".to_owned();
    }
    let step = (high - low) / (width - 1) as f64;
    // Cells are centred on their values.
    let cell = |value: f64| (((value - low) / step + 0.5) as usize).min(width - 1);
    let mut lines = stacks(samples, width, &cell);
    lines.extend(bars(samples, width, separate_bars, &cell));
    let border = format!("+{}+\n", "-".repeat(width));
    let framed = lines
        .iter()
        .map(|line| format!("|{}|\n", line.iter().collect::<String>()));
    border.clone() + &framed.collect::<String>() + &border
}

/// The marks, beginning with the top line of the highest stack.
fn stacks(samples: &[&SortedSample], width: usize, cell: &impl Fn(f64) -> usize) -> Vec<Vec<char>> {
    let overlap = if samples.len() > 2 {
        OVERLAP_OF_MANY
    } else {
        OVERLAP
    };
    let mut lines: Vec<Vec<char>> = Vec::new();
    for (sample, mark) in samples.iter().zip(MARKS) {
        let mut heights = vec![0_usize; width];
        for &value in sample.values() {
            let at = cell(value);
            let level = heights[at];
            heights[at] += 1;
            if level == lines.len() {
                lines.push(vec![' '; width]);
            }
            let place = &mut lines[level][at];
            *place = if *place == ' ' { mark } else { overlap };
        }
    }
    lines.reverse();
    lines
}

fn bars(
    samples: &[&SortedSample],
    width: usize,
    separate: bool,
    cell: &impl Fn(f64) -> usize,
) -> Vec<Vec<char>> {
    let count = if separate { samples.len() } else { 1 };
    let mut lines = vec![vec![' '; width]; count];
    for (at, sample) in samples.iter().enumerate() {
        let line = &mut lines[if separate { at } else { 0 }];
        let (mean, deviation) = (sample.mean(), sample.deviation());
        let (from, to) = (cell(mean - deviation), cell(mean + deviation));
        for place in &mut line[from..=to] {
            if *place == ' ' {
                *place = '_';
            }
        }
        line[from] = '|';
        line[to] = '|';
        line[cell(sample.median())] = 'M';
        line[cell(mean)] = 'A';
    }
    lines
}
