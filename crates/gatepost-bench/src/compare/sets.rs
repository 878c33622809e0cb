//! The sets to compare, from stored results or from files of columns.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BenchError;
use crate::outcome::Better;
use crate::report::{BenchReport, TargetReport};
use crate::statistics::SortedSample;
use crate::sweep::Point;

/// ministat's minimum number of values.
const VALUES_MIN: usize = 3;

/// Values with a name.
#[derive(Debug, Clone)]
pub struct NamedSample {
    /// The name in the table.
    pub name: String,
    /// The values.
    pub sample: SortedSample,
}

/// Reads all files: a stored result yields a set for each of its targets.
pub fn load(
    files: &[PathBuf],
    figure: Option<&str>,
    column: usize,
    delimiters: &str,
) -> Result<Vec<NamedSample>, BenchError> {
    let mut sets = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).map_err(|error| BenchError::File {
            path: path.clone(),
            error,
        })?;
        if text.trim_start().starts_with('{') {
            sets.extend(of_report(path, &BenchReport::read(path)?, figure)?);
        } else {
            let name = path.to_string_lossy();
            let name = path.file_name().map_or(name, |name| name.to_string_lossy());
            let values = column_values(path, &text, column, delimiters)?;
            sets.push(set(path, name.into_owned(), values)?);
        }
    }
    Ok(sets)
}

fn bad_data(path: &Path, reason: impl Into<String>) -> BenchError {
    BenchError::Data {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn set(path: &Path, name: String, values: Vec<f64>) -> Result<NamedSample, BenchError> {
    if values.len() < VALUES_MIN {
        return Err(bad_data(
            path,
            format!("{name} has fewer than {VALUES_MIN} values"),
        ));
    }
    let sample =
        SortedSample::new(values).ok_or_else(|| bad_data(path, "a value is not a number"))?;
    Ok(NamedSample { name, sample })
}

fn of_report(
    path: &Path,
    report: &BenchReport,
    figure: Option<&str>,
) -> Result<Vec<NamedSample>, BenchError> {
    let runs = || report.targets.iter().flat_map(|target| &target.runs);
    let first = || {
        runs()
            .flat_map(|run| &run.figures)
            .find(|figure| figure.better != Better::Neither)
    };
    let figure = match figure {
        Some(figure) => figure.to_owned(),
        None => first()
            .map(|figure| figure.name.clone())
            .unwrap_or_default(),
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let named = |target: &str| match report.targets.len() {
        1 => format!("{stem}: {target}: {figure}"),
        _ => format!("{target}: {figure}"),
    };
    let mut sets = Vec::new();
    for target in &report.targets {
        for (point, values) in values_by_point(target, &figure) {
            let mut name = named(&target.name);
            for (setting, value) in point {
                // Writing to a String cannot fail.
                let _ = write!(name, " at {setting} {value}");
            }
            sets.push(set(path, name, values)?);
        }
    }
    if sets.is_empty() {
        let mut names: Vec<&str> = runs()
            .flat_map(|run| &run.figures)
            .map(|f| f.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        let reason = format!(
            "there is no figure '{figure}'; there are: {}",
            names.join(", ")
        );
        return Err(bad_data(path, reason));
    }
    Ok(sets)
}

/// The values of a figure, separately for each combination of swept settings.
fn values_by_point<'a>(target: &'a TargetReport, figure: &str) -> Vec<(&'a Point, Vec<f64>)> {
    let mut all: Vec<(&Point, Vec<f64>)> = Vec::new();
    for run in &target.runs {
        let Some(value) = run.value(figure) else {
            continue;
        };
        match all.iter_mut().find(|(point, _)| **point == run.parameters) {
            Some((_, values)) => values.push(value),
            None => all.push((&run.parameters, vec![value])),
        }
    }
    all
}

/// One number per line, from the column; `#` begins a comment.
fn column_values(
    path: &Path,
    text: &str,
    column: usize,
    delimiters: &str,
) -> Result<Vec<f64>, BenchError> {
    let mut values = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut columns = line
            .split(|c| delimiters.contains(c))
            .filter(|field| !field.is_empty());
        let Some(field) = columns.nth(column.max(1) - 1) else {
            continue;
        };
        let value = field.trim().parse().map_err(|_| {
            bad_data(
                path,
                format!("line {}: '{field}' is not a number", number + 1),
            )
        })?;
        values.push(value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::RunOutcome;

    #[test]
    fn a_sweep_s_values_stay_apart() {
        let mut target = TargetReport::default();
        for (users, rate) in [(1.0, 10.0), (2.0, 20.0), (1.0, 11.0), (2.0, 21.0)] {
            let mut run = RunOutcome::default();
            run.higher("rate", rate, "/s");
            run.parameters.insert("users".into(), users);
            target.runs.push(run);
        }
        let values: Vec<_> = values_by_point(&target, "rate")
            .into_iter()
            .map(|one| one.1)
            .collect();
        assert_eq!(values, [[10.0, 11.0], [20.0, 21.0]]);
    }

    fn read(text: &str, column: usize) -> Result<Vec<f64>, String> {
        let path = Path::new("columns");
        column_values(path, text, column, " \t,").map_err(|error| error.to_string())
    }

    #[test]
    fn columns_and_comments() {
        let text = "# seconds\n1.5, 2 3\n\n4 5 6 # late\n";
        assert_eq!(read(text, 1), Ok(vec![1.5, 4.0]));
        assert_eq!(read(text, 3), Ok(vec![3.0, 6.0]));
        assert_eq!(read(text, 4), Ok(vec![]));
        let error = read("1\ntwo\n", 1).expect_err("no number");
        assert!(error.contains("line 2") && error.contains("two"), "{error}");
    }
}
