//! The table of directives and their handlers.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::line::{LineProblem, LoadedLines, RuleLine};

/// The handler of a directive.
pub(super) type DirectiveHandler =
    fn(&mut LoadedLines<'_>, &RuleLine<'_>) -> Result<(), LineProblem>;

use super::options as option;
use super::rule_attributes as attributes;
use super::rules as rule;

/// Directives of the rule language itself.
const HANDLERS: &[(&str, DirectiveHandler)] = &[
    ("add_header", option::add_header),
    ("askdns", rule::network),
    ("body", rule::body),
    ("clear_headers", option::clear_headers),
    ("clear_report_template", option::clear_report),
    ("clear_unsafe_report_template", option::clear_unsafe_report),
    ("describe", attributes::describe),
    ("descriptions", attributes::describe),
    ("enable_compat", option::enable_compatibility),
    ("fold_headers", option::fold_headers),
    ("full", rule::full),
    ("header", rule::header),
    (
        "ignore_always_matching_regexps",
        option::ignore_always_matching,
    ),
    ("loadplugin", option::load_plugin),
    ("meta", rule::meta),
    ("mimeheader", rule::mime_header),
    ("priority", attributes::priority),
    ("rawbody", rule::raw_body),
    ("remove_header", option::remove_header),
    ("replace_end", attributes::replace_end),
    ("replace_inter", attributes::replace_inter),
    ("replace_post", attributes::replace_post),
    ("replace_pre", attributes::replace_pre),
    ("replace_rules", attributes::replace_rules),
    ("replace_start", attributes::replace_start),
    ("replace_tag", attributes::replace_tag),
    ("report", option::report),
    ("report_contact", option::report_contact),
    ("report_hostname", option::report_hostname),
    ("report_safe", option::report_safe),
    ("report_template", option::report),
    ("report_wrap_width", option::report_wrap_width),
    ("required_hits", option::required_score),
    ("required_score", option::required_score),
    ("rewrite_header", option::rewrite_header),
    ("score", attributes::score),
    ("shortcircuit", attributes::shortcircuit),
    ("shortcircuit_ham_score", attributes::shortcircuit_score),
    (
        "shortcircuit_max_spam_score",
        attributes::shortcircuit_score,
    ),
    ("shortcircuit_min_ham_score", attributes::shortcircuit_score),
    ("shortcircuit_spam_score", attributes::shortcircuit_score),
    ("subjprefix", attributes::subject_prefix),
    ("test", attributes::example),
    ("tflags", attributes::flags),
    ("tryplugin", option::try_plugin),
    ("unsafe_report", option::unsafe_report),
    ("unsafe_report_template", option::unsafe_report),
    ("uri", rule::uri),
    ("uri_detail", rule::uri_detail),
    ("uridnsbl", rule::link_list),
    ("uridnssub", rule::link_list),
    ("urifullnsrhsbl", rule::link_list),
    ("urifullnsrhssub", rule::link_list),
    ("urinsrhsbl", rule::link_list),
    ("urinsrhssub", rule::link_list),
    ("urirhsbl", rule::link_list),
    ("urirhssub", rule::link_list),
    ("version_tag", option::version_tag),
];

/// The reason why a directive of SpamAssassin has no effect here.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoEffect {
    pub(super) cause: &'static str,
    pub(super) reason: &'static str,
}

const NETWORK: NoEffect = NoEffect {
    cause: "network tests are set up in the config",
    reason: "it sets up tests that ask the network; rules.network, dns_server and network_time_max \
        do",
};
const BAYES: NoEffect = NoEffect {
    cause: "kept in Gatepost's own database",
    reason: "it says where SpamAssassin keeps what Bayes learned",
};
const SENDER_HISTORY: NoEffect = NoEffect {
    cause: "kept in Gatepost's own database",
    reason: "it says where SpamAssassin keeps its senders' averages",
};
const PLUGIN: NoEffect = NoEffect {
    cause: "plugin not here",
    reason: "it sets up a plugin that does not run here",
};
const PROGRAM: NoEffect = NoEffect {
    cause: "belongs to SpamAssassin's programs",
    reason: "it tunes SpamAssassin's own programs and has no part in judging",
};
const LEARNING: NoEffect = NoEffect {
    cause: "rule development",
    reason: "it serves the making of scores, not judging",
};

/// Known directives without effect, by name; a star matches any ending.
const WITHOUT_EFFECT: &[(&str, NoEffect)] = &[
    ("allow_user_rules", PROGRAM),
    ("asn_prefer_geodb", PLUGIN),
    ("asn_use_*", PLUGIN),
    ("authres_*", NETWORK),
    ("auto_welcomelist_*", SENDER_HISTORY),
    ("auto_whitelist_*", SENDER_HISTORY),
    ("bayes_*", BAYES),
    ("clear_dns_*", NETWORK),
    ("clear_url_shortener", NETWORK),
    ("country_db_*", PLUGIN),
    ("dcc*", NETWORK),
    ("dkim_*", NETWORK),
    ("dmarc_*", NETWORK),
    ("dns_*", NETWORK),
    ("do_not_use_mail_spf*", NETWORK),
    ("extracttext_*", PLUGIN),
    ("fns_*", PLUGIN),
    ("geodb_*", PLUGIN),
    ("hashbl_*", NETWORK),
    ("lock_method", PROGRAM),
    ("max_short_url*", NETWORK),
    ("mbox_format_from_regex", PROGRAM),
    ("pyzor_*", NETWORK),
    ("razor_*", NETWORK),
    ("rbl_*", NETWORK),
    ("report_charset", PROGRAM),
    ("report_safe_copy_headers", PROGRAM),
    ("reuse", LEARNING),
    ("run_reuse_tests_only", LEARNING),
    ("spamcop_*", NETWORK),
    ("spf_timeout", NETWORK),
    ("time_limit", PROGRAM),
    ("timelog_path", PROGRAM),
    ("trigger_*", PROGRAM),
    ("txrep_*", SENDER_HISTORY),
    ("uri_block_*", PLUGIN),
    ("uri_country_db_*", PLUGIN),
    ("uridnsbl_*", NETWORK),
    ("url_shortener*", NETWORK),
    ("use_dcc*", NETWORK),
    ("use_pyzor", NETWORK),
    ("use_razor2", NETWORK),
    ("user_awl_*", SENDER_HISTORY),
    ("user_scores_*", PROGRAM),
];

static BY_NAME: LazyLock<HashMap<&str, DirectiveHandler>> =
    LazyLock::new(|| HANDLERS.iter().copied().collect());

/// The handler of the directive `name`.
pub(super) fn handler(name: &str) -> Option<DirectiveHandler> {
    BY_NAME.get(name).copied()
}

/// Whether the directive `name` is about learned data, which all users share. Only the directives
/// that switch a learner on or off are permitted in users' preferences.
pub(super) fn is_of_all_learning(name: &str) -> bool {
    let of_learning = ["bayes_", "auto_welcomelist_", "auto_whitelist_", "txrep_"];
    of_learning.iter().any(|start| name.starts_with(start)) && name != "bayes_auto_learn"
}

/// Whether the directive `name` is not permitted in users' preferences: it defines rules, which are
/// the same for all users, or refers to files or plugins, or to queries for all messages.
pub(super) fn is_administrators(name: &str) -> bool {
    const DEFINING: [&str; 14] = [
        "askdns",
        "body",
        "dns_block_rule",
        "dns_block_time",
        "full",
        "header",
        "include",
        "loadplugin",
        "meta",
        "mimeheader",
        "rawbody",
        "tryplugin",
        "uri",
        "uri_detail",
    ];
    DEFINING.contains(&name) || name.starts_with("replace_")
}

/// The reason why the directive `name` has no effect, if it is known.
pub(super) fn without_effect(name: &str) -> Option<NoEffect> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    WITHOUT_EFFECT
        .iter()
        .find(|(pattern, _)| fits(pattern))
        .map(|(_, no_effect)| *no_effect)
}
