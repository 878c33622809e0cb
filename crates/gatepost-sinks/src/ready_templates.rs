//! The templates that come with the server, one for each service.

/// The ready templates, by name.
const READY: [(&str, &str); 9] = [
    (
        "alertmanager",
        include_str!("../templates/alertmanager.json.j2"),
    ),
    ("discord", include_str!("../templates/discord.json.j2")),
    ("gotify", include_str!("../templates/gotify.json.j2")),
    ("matrix", include_str!("../templates/matrix.json.j2")),
    ("ntfy", include_str!("../templates/ntfy.json.j2")),
    ("pagerduty", include_str!("../templates/pagerduty.json.j2")),
    ("slack", include_str!("../templates/slack.json.j2")),
    ("teams", include_str!("../templates/teams.json.j2")),
    ("telegram", include_str!("../templates/telegram.json.j2")),
];

/// The ready template of this name.
pub(crate) fn ready(name: &str) -> Option<&'static str> {
    let found = READY.iter().find(|(known, _)| *known == name);
    found.map(|(_, source)| *source)
}
