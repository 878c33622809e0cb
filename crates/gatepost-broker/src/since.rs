//! The start of a subscription, and its syntax for clients.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use gatepost_message::MessageId;
use gatepost_settings::Period;

/// The start of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Since {
    /// Only later publications.
    #[default]
    Now,
    /// First the publications after the one with this position or message id, preceded by a gap if
    /// some may have been forgotten.
    After(MessageId),
    /// First the remembered messages that arrived at this time or later.
    From(SystemTime),
    /// First all remembered messages.
    Everything,
    /// First the last publication of each topic.
    Latest,
}

/// The text does not describe a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write all, none, latest, a message id, Unix seconds, or a period such as 10m")]
pub struct MalformedSince;

impl FromStr for Since {
    type Err = MalformedSince;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => return Ok(Self::Everything),
            "none" => return Ok(Self::Now),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if let Ok(id) = text.parse::<MessageId>() {
            return Ok(Self::After(id));
        }
        if let Ok(seconds) = text.parse::<u32>() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(seconds));
            return Ok(Self::From(time));
        }
        let period: Period = text.parse().map_err(|_| MalformedSince)?;
        let time = SystemTime::now()
            .checked_sub(period.duration())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(Self::From(time))
    }
}
