//! Publications as HTTP requests: each answer acknowledges one.

use super::{Event, Step};
use crate::load::{Part, ResponseReader};

pub(super) fn next<'a>(reader: &mut ResponseReader, bytes: &[u8]) -> Result<Step<'a>, String> {
    if bytes.is_empty() {
        return Ok(Step::More(0));
    }
    match reader.read(bytes) {
        Part::More(taken) => Ok(Step::More(taken)),
        Part::Malformed => Err("an answer that is no HTTP".into()),
        Part::Whole(taken) => {
            let status = reader.status;
            reader.reset();
            if (200..300).contains(&status) {
                Ok(Step::Event(Event::Acknowledged, taken))
            } else {
                Err(format!("a publication was answered {status}"))
            }
        }
    }
}
