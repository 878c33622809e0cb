//! Publications as HTTP requests: each response acknowledges one.

use super::{PacketEvent, ReaderStep};
use crate::load::{ResponsePart, ResponseReader};

pub(super) fn next<'a>(
    reader: &mut ResponseReader,
    bytes: &[u8],
) -> Result<ReaderStep<'a>, String> {
    if bytes.is_empty() {
        return Ok(ReaderStep::More(0));
    }
    match reader.read(bytes) {
        ResponsePart::More(taken) => Ok(ReaderStep::More(taken)),
        ResponsePart::Malformed => Err("an answer that is not HTTP".into()),
        ResponsePart::Whole(taken) => {
            let status = reader.status;
            reader.reset();
            if (200..300).contains(&status) {
                let packet_id = None;
                Ok(ReaderStep::Event(
                    PacketEvent::Acknowledged { packet_id },
                    taken,
                ))
            } else {
                Err(format!("a publication was answered {status}"))
            }
        }
    }
}
