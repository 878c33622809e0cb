//! Network tests as rule files write them: `check_rbl` and similar evals, `askdns`, `urirhssub`.

/// A call of an eval function that needs DNS, or an `askdns` line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NetworkCall {
    pub(crate) function: String,
    pub(crate) arguments: Vec<String>,
}

/// The part of a message's links that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkQuery {
    /// The domain of a link: `urirhsbl`, `urirhssub`.
    Domain,
    /// The addresses of its host or of its name servers: `uridnsbl`, `uridnssub`.
    Address,
    /// The domains of its name servers: `urinsrhsbl`, `urinsrhssub`.
    ServerDomain,
    /// The full names of its name servers: `urifullnsrhsbl`, `urifullnsrhssub`.
    ServerName,
}

impl LinkQuery {
    /// The part that the directive looks up.
    pub(crate) fn of_directive(directive: &str) -> Self {
        match directive.trim_end_matches("bl").trim_end_matches("sub") {
            "urirhs" => Self::Domain,
            "urinsrhs" => Self::ServerDomain,
            "urifullnsrhs" => Self::ServerName,
            _ => Self::Address,
        }
    }
}

/// The list of a rule on links: `urirhssub` and similar directives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinkList {
    pub(crate) zone: String,
    /// `A` or `TXT`.
    pub(crate) kind: String,
    pub(crate) subtest: Option<String>,
    pub(crate) query: LinkQuery,
    /// The flags of the rule in `tflags`.
    pub(crate) flags: LinkFlags,
}

/// The flags of `tflags` for the part of a link that is looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LinkFlags {
    /// `a`: the addresses of the host.
    pub(crate) by_address: bool,
    /// `ns`: the addresses of the domain's name servers.
    pub(crate) by_server: bool,
    pub(crate) ips_only: bool,
    pub(crate) domains_only: bool,
    /// `notrim`: the whole host instead of its registered domain.
    pub(crate) whole_host: bool,
}
