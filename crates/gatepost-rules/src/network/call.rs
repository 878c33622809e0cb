//! The tests of rules that only DNS can answer, as rule files write them.

/// A call of an eval function that needs DNS, or an `askdns` line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NetworkCall {
    pub(crate) function: String,
    pub(crate) arguments: Vec<String>,
}

/// What of the links of a message a list is asked about.
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
    /// What the directive asks about.
    pub(crate) fn of_directive(directive: &str) -> Self {
        match directive.trim_end_matches("bl").trim_end_matches("sub") {
            "urirhs" => Self::Domain,
            "urinsrhs" => Self::ServerDomain,
            "urifullnsrhs" => Self::ServerName,
            _ => Self::Address,
        }
    }
}

/// Which list a rule on links asks: `urirhssub` and its companions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinkList {
    pub(crate) zone: String,
    /// `A` or `TXT`.
    pub(crate) kind: String,
    pub(crate) subtest: Option<String>,
    pub(crate) query: LinkQuery,
    /// What `tflags` of the rule says.
    pub(crate) flags: LinkFlags,
}

/// What `tflags` says of the links that a list is asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LinkFlags {
    /// `a`: by the addresses of the host.
    pub(crate) by_address: bool,
    /// `ns`: by the addresses of the domain's name servers.
    pub(crate) by_server: bool,
    pub(crate) ips_only: bool,
    pub(crate) domains_only: bool,
    /// `notrim`: by the whole host instead of its registered domain.
    pub(crate) whole_host: bool,
}
