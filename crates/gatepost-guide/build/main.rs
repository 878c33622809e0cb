//! Renders `docs/` to HTML, so that the program needs neither Markdown nor a parser of it.
//!
//! Written to the output folder: `content.zlib`, all texts in one compressed file, and `guide.rs`,
//! which lists pages, sections for the search, and files such as examples, with the positions of
//! their texts.

mod content;
mod page;

use std::env;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use content::Content;
use page::{Chapter, RenderedPage};

/// Files that pages link to, beside pages: examples, types, dashboards of other programs.
const FILE_EXTENSIONS: [&str; 5] = ["luau", "toml", "json", "yml", "txt"];

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let docs = manifest.join("../../docs").canonicalize()?;
    println!("cargo::rerun-if-changed={}", docs.display());
    let mut paths = Vec::new();
    files_below(&docs, &mut paths)?;
    paths.sort();

    let mut pages = String::new();
    let mut sections = String::new();
    let mut files = String::new();
    let mut chapters = Vec::new();
    let mut content = Content::default();
    for path in &paths {
        let name = path
            .strip_prefix(&docs)
            .unwrap_or(path)
            .display()
            .to_string();
        let name = name.replace('\\', "/");
        if let Some(address) = page::address(&name) {
            let page = page::render(&name, &fs::read_to_string(path)?);
            list_page(&mut pages, &mut sections, &address, &page, &mut content);
            if address.is_empty() {
                chapters = page.chapters;
            }
        } else if path
            .extension()
            .is_some_and(|one| FILE_EXTENSIONS.iter().any(|kind| one == *kind))
        {
            let span = content.add(&fs::read_to_string(path)?);
            let _ = writeln!(files, "({name:?}, {span}),");
        }
    }
    let listed = format!(
        "pub(crate) static PAGES: &[Page] = &[\n{pages}];\n\
         pub(crate) static SECTIONS: &[Section] = &[\n{sections}];\n\
         pub(crate) static FILES: &[(&str, Span)] = &[\n{files}];\n\
         pub(crate) static CHAPTERS: &[(&str, &[(&str, &str)])] = &[\n{}];\n",
        list_chapters(&chapters)
    );
    fs::write(out.join("content.zlib"), content.compressed()?)?;
    fs::write(out.join("guide.rs"), listed)
}

fn list_page(
    pages: &mut String,
    sections: &mut String,
    address: &str,
    page: &RenderedPage,
    content: &mut Content,
) {
    let title = &page.title;
    // A write to a string succeeds.
    let _ = writeln!(
        pages,
        "Page {{ address: {address:?}, title: {title:?}, html: {} }},",
        content.add(&page.html)
    );
    for section in &page.sections {
        let (anchor, heading) = (&section.anchor, &section.heading);
        let text = content.add(&section.text);
        let _ = writeln!(
            sections,
            "Section {{ address: {address:?}, page: {title:?}, anchor: {anchor:?}, \
             heading: {heading:?}, text: {text} }},"
        );
    }
}

fn list_chapters(chapters: &[Chapter]) -> String {
    let mut list = String::new();
    for chapter in chapters.iter().filter(|chapter| !chapter.links.is_empty()) {
        let _ = writeln!(list, "({:?}, &{:?}),", chapter.title, chapter.links);
    }
    list
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}
