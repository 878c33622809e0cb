//! `report`: converts stored results to readable formats.

use std::path::{Path, PathBuf};

use super::{BenchReport, csv, html, markdown, write_file};
use crate::error::BenchError;

/// Settings of `report`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportArguments {
    /// Stored results (JSON)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show the published figures of the original systems (1998 to 2006) as well
    #[arg(long)]
    originals: bool,
    /// Write Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write one HTML file with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Writes the requested formats, or the table on the terminal if none is requested.
pub fn convert(arguments: &ReportArguments) -> Result<(), BenchError> {
    let reports: Vec<BenchReport> = arguments
        .files
        .iter()
        .map(|path| Ok(BenchReport::read(path)?.for_display(arguments.originals)))
        .collect::<Result<_, BenchError>>()?;
    let ReportArguments {
        markdown,
        csv,
        html,
        ..
    } = arguments;
    if markdown.is_none() && csv.is_none() && html.is_none() {
        for report in &reports {
            super::print_report(report);
        }
    }
    write_forms(
        &reports,
        markdown.as_deref(),
        csv.as_deref(),
        html.as_deref(),
    )
}

/// Writes each format that has a path.
pub fn write_forms(
    reports: &[BenchReport],
    markdown_path: Option<&Path>,
    csv_path: Option<&Path>,
    html_path: Option<&Path>,
) -> Result<(), BenchError> {
    if let Some(path) = markdown_path {
        write_file(path, &markdown::markdown(reports))?;
    }
    if let Some(path) = csv_path {
        write_file(path, &csv::csv(reports))?;
    }
    if let Some(path) = html_path {
        write_file(path, &html::html(reports))?;
    }
    Ok(())
}
