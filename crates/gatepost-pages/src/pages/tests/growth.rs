//! The limits on a page's steps, output and memory: an endlessly growing page is stopped, and
//! others still work.

use super::*;

#[tokio::test]
async fn a_page_that_loops_or_grows_is_stopped() {
    for source in [
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(9000) %}0123456789{% endfor %}",
    ] {
        let rendered = folder_with(source).render("/page").await;
        assert!(
            matches!(rendered, Err(RenderError::Template(_))),
            "{rendered:?}"
        );
    }
}

/// A namespace, and iterations in which it grows.
fn growing(turns: &str, step: &str) -> String {
    format!("{{% set ns = namespace(x='a', l=[]) %}}{{% for n in {turns} %}}{step}{{% endfor %}}")
}

/// Pages with the steps in which they grow.
fn growing_folder() -> Folder {
    Folder::of(PagesSettings {
        recheck: Recheck::Always,
        memory_max: ByteSize::kibibytes(512),
        time_max: Period::seconds(600),
        ..PagesSettings::default()
    })
}

async fn grown(source: &str) -> Result<String, RenderError> {
    let folder = growing_folder();
    folder.write("page.html", source);
    folder.render("/page").await
}

#[tokio::test]
async fn a_page_whose_values_grow_is_stopped() {
    let macros = "{% macro m(x) %}{% for n in range(1) %}{{ m(x ~ x) }}{% endfor %}{% endmacro \
        %}{{ m('abcdefghij') }}";
    for source in [
        &growing("range(60)", "{% set ns.x = ns.x ~ ns.x %}"),
        &growing("range(60)", "{% set ns.x = ns.x + ns.x %}"),
        &growing("range(60)", "{% set ns.x = ns.x * 2 %}"),
        &growing("range(60)", "{% set ns.x = [ns.x, ns.x]|join(',') %}"),
        &growing("range(60)", "{% set ns.x = ns.x|replace('a', 'aa') %}"),
        &growing(
            "range(60)",
            "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}",
        ),
        &growing("range(100000)", "{% set ns.l = (ns.l + [n] * 100)|list %}"),
        &growing("range(100000)", "{% set ns.l = [ns.l] %}"),
        &growing(
            "range(100000)",
            "{% set ns.x = ns.x ~ history('#', 1000) %}",
        ),
        macros,
    ] {
        let Err(RenderError::Template(error)) = grown(source).await else {
            panic!("made: {source}");
        };
        let expected = "the page's values grew larger than memory_max";
        assert!(error.detail.contains(expected), "{error}: {source}");
    }
}

#[tokio::test]
async fn a_page_that_grows_between_checks_is_stopped() {
    let squares = "{% set x = x ~ x %}".repeat(60);
    let constants = ["'a' * 1000000"; 10].join(" ~ ");
    for source in [
        format!("{{% set x = 'a' %}}{squares}"),
        format!("{{% set x = {constants} %}}"),
    ] {
        let folder = growing_folder();
        folder.write("page.html", &source);
        folder.write("other.html", "{% if 1 %}{{ now('%Y') }}{% endif %}");
        // The second time it is not started at all.
        for _ in 0..2 {
            let Err(RenderError::Template(error)) = folder.render("/page").await else {
                panic!("made: {source}");
            };
            assert!(error.detail.contains("far over memory_max"), "{error}");
        }
        assert_eq!(folder.render("/other").await.map(|year| year.len()), Ok(4));
        folder.write("page.html", "{% if 1 %}fixed{% endif %}");
        assert_eq!(folder.render("/page").await.as_deref(), Ok("fixed"));
    }
    assert!(crate::memory_limit::parked_threads() >= 2);
}

#[tokio::test]
async fn a_list_as_deep_as_memory_allows_is_printed_and_dropped() {
    // The iterations over this list check no memory: this page holds almost as much as a stopped
    // one.
    let deep = |turns: usize, then: &str| {
        growing(&format!("[1] * {turns}"), "{% set ns.l = [ns.l] %}") + then
    };
    for then in [
        "",
        "{% set ns.x = (ns.l ~ '')|length %}",
        "{% set ns.x = ns.l == [ns.l] %}",
    ] {
        assert_eq!(grown(&deep(10_000, then)).await.as_deref(), Ok(""));
    }
}
