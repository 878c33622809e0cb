//! Why a peer was not let in.

use std::time::Duration;

/// The answer to credentials that do not do. The words are for logs; a peer hears only the
/// protocol's code, and the same one for a wrong name and a wrong password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was offered, and this listener wants something.
    #[error("this listener asks for a login")]
    Anonymous,
    /// No such user, wrong password, unknown or expired token: not told apart.
    #[error("wrong user, password or token")]
    Credentials,
    /// The right credentials of a user who is switched off.
    #[error("the user is switched off")]
    Disabled,
    /// Too many failures from this address or for this user.
    #[error("too many failed logins; try again in {} s", .retry_after.as_secs().max(1))]
    TooMany {
        /// When another attempt is worth it.
        retry_after: Duration,
    },
    /// More logins wait for their password check than the settings allow.
    #[error("too many logins at once")]
    Busy,
    /// The peer broke the rules of the mechanism (SCRAM, Basic, …).
    #[error("malformed login: {0}")]
    Malformed(&'static str),
}

impl Denied {
    /// MQTT 5 reason code of CONNACK (and of AUTH's DISCONNECT), § 3.2.2.2.
    pub const fn mqtt_reason(&self) -> u8 {
        match self {
            Self::Anonymous | Self::Disabled => 0x87,
            Self::Credentials | Self::Malformed(_) => 0x86,
            Self::TooMany { .. } => 0x9F,
            Self::Busy => 0x89,
        }
    }

    /// MQTT 3.1.1 return code of CONNACK, § 3.2.2.3.
    pub const fn mqtt3_return_code(&self) -> u8 {
        match self {
            Self::Credentials | Self::Malformed(_) => 4,
            Self::Anonymous | Self::Disabled => 5,
            Self::TooMany { .. } | Self::Busy => 3,
        }
    }

    /// HTTP status code (RFC 9110; 429 of RFC 6585).
    pub const fn http_status(&self) -> u16 {
        match self {
            Self::Anonymous | Self::Credentials => 401,
            Self::Disabled => 403,
            Self::TooMany { .. } => 429,
            Self::Busy => 503,
            Self::Malformed(_) => 400,
        }
    }

    /// The reply to SMTP's AUTH (RFC 4954 § 6).
    pub const fn smtp_reply(&self) -> &'static str {
        match self {
            Self::Anonymous => "530 5.7.0 Authentication required",
            Self::Credentials | Self::Disabled => "535 5.7.8 Authentication credentials invalid",
            Self::TooMany { .. } | Self::Busy => "454 4.7.0 Temporary authentication failure",
            Self::Malformed(_) => "501 5.5.2 Malformed authentication exchange",
        }
    }
}
