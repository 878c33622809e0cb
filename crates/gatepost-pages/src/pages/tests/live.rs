//! The HTML of live elements, and uses of them that are refused.

use super::{folder_with, template};

async fn body(source: &str) -> String {
    let page = format!("<body>{source}</body>");
    folder_with(&page).render("/page").await.expect(source)
}

#[tokio::test]
async fn live_values_carry_what_the_script_needs() {
    for source in [
        "<body>{{ live('t') }}</body>",
        "<body>{{ live('t') }}</body>{% if 0 %}{% endif %}",
    ] {
        let html = folder_with(source).render("/page").await.expect("a page");
        assert!(
            html.contains("<span data-gatepost-live=\"t\" data-gatepost-id=\""),
            "{html}"
        );
        assert!(html.contains("\">&lt;21 °C&gt;</span>"), "{html}");
        assert_eq!(html.matches(template::LIVE_SCRIPT).count(), 1, "{html}");
        assert!(html.ends_with("</script></body>"), "{html}");
    }
}

#[tokio::test]
async fn a_live_value_may_be_one_of_a_json_payload() {
    let page = folder_with("<body>{{ live('t', 'state.on') }}</body>")
        .render("/page")
        .await;
    let html = page.expect("a page");
    assert!(
        html.contains("data-gatepost-live=\"t\" data-gatepost-path=\"state.on\""),
        "{html}"
    );
    assert!(
        html.contains("\"></span>"),
        "the payload is no JSON: {html}"
    );
    assert_eq!(html.matches(template::LIVE_SCRIPT).count(), 1, "{html}");
}

#[tokio::test]
async fn filters_travel_with_the_element() {
    let html = body("{{ live('none', 'a') | trim | default('<off>') | upper }}").await;
    assert!(
        html.contains(
            "data-gatepost-filters=\"[[&quot;trim&quot;],[&quot;default&quot;,&quot;&lt;\
             off&gt;&quot;],[&quot;upper&quot;]]\">&lt;OFF&gt;</span>"
        ),
        "{html}"
    );
    let html = body("{{ live('t') | number(1) }}").await;
    assert!(
        html.contains("data-gatepost-value=\"&lt;21 °C&gt;\""),
        "{html}"
    );
}

#[tokio::test]
async fn filters_of_other_values_stay_the_engines() {
    for (source, expected) in [
        ("{{ 'a' | upper }}", "A"),
        ("{{ 'xax' | trim('x') }}", "a"),
        ("{{ 2.25 | round(1) }}", "2.3"),
        ("{{ none_such | default('b') }}", "b"),
        ("{{ '' | d('b', true) }}", "b"),
        ("{{ '<b>' | safe | lower }}", "<b>"),
    ] {
        let html = body(source).await;
        assert_eq!(html, format!("<body>{expected}</body>"), "{source}");
    }
    let html = body("{{ 784111777 | local_time('date') }}").await;
    assert!(
        html.contains("data-gatepost-value=\"784111777\">1994-11-06</span>"),
        "{html}"
    );
    assert_eq!(html.matches(template::LIVE_SCRIPT).count(), 1, "{html}");
}

#[tokio::test]
async fn a_list_begins_with_the_newest() {
    let html = body("{{ live_list('a/#', count=3) | round }}").await;
    assert!(
        html.contains("data-gatepost-list=\"a&#x2f;#\" data-gatepost-count=\"3\""),
        "{html}"
    );
    let values: Vec<_> = html
        .match_indices("</span></li>")
        .map(|(end, _)| &html[end - 1..end])
        .collect();
    assert_eq!(values, ["2", "1", "0"], "{html}");
}

#[tokio::test]
async fn a_chart_has_the_numbers_so_far() {
    let html = body("{{ live_chart('a', count=5) }}{{ live_chart('b', 'x') }}").await;
    assert!(
        html.contains("aria-label=\"a: 4, between 0 and 4\""),
        "{html}"
    );
    assert!(
        html.contains("aria-label=\"b, x: no number yet\""),
        "{html}"
    );
    assert_eq!(html.matches(template::LIVE_SCRIPT).count(), 1, "{html}");
}
