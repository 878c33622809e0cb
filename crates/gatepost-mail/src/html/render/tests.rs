//! Documents and their renderings.

use super::*;

fn text(source: &str) -> String {
    render(source, true, source.len()).text
}

#[test]
fn white_space_is_that_of_the_elements() {
    assert_eq!(
        text("<p>a  b\nc <br> d<td>e</td></p>"),
        "\n\na b c\nd e \n\n"
    );
    assert_eq!(text("x<br/>y&nbsp;&nbsp;z"), "x\ny z");
}

#[test]
fn unseen_text_is_kept_apart() {
    let rendered = render(
        "a<font color=white>b</font>c<span style='display:none'>d</span>",
        true,
        1,
    );
    assert_eq!(
        (
            rendered.pieces(false).as_str(),
            rendered.pieces(true).as_str()
        ),
        ("ac", "bd")
    );
    assert_eq!(rendered.facts.number("font_low_contrast"), Some(1.0));
}

#[test]
fn links_are_noted_with_their_texts() {
    let rendered = render(
        "<base href=http://a.b/c/d.html><a href=' x '>y<img src=z></a>",
        true,
        1,
    );
    let targets: Vec<&str> = rendered
        .facts
        .links
        .iter()
        .map(|link| &*link.target)
        .collect();
    assert_eq!(
        targets,
        [
            "http://a.b/c/d.html",
            "http://a.b/c/x",
            "x",
            "http://a.b/c/z"
        ]
    );
    assert_eq!(rendered.facts.anchors.iter().next(), Some("y<img>\n"));
}

#[test]
fn scripts_and_unclosed_styles_show_nothing() {
    assert_eq!(text("a<script>b</script>c<style>d"), "ac");
    assert_eq!(text("a<!-- b --> c<!-- d"), "a c");
}

#[test]
fn elements_are_sorted() {
    assert!(ELEMENTS.is_sorted());
}
