//! The services that the server provides to procedures: persistent values, the broker, a store for
//! originals.

use std::sync::Arc;

use gatepost_broker::Broker;
use gatepost_message::Publication;
use gatepost_procedures::{
    ProcedureHost, ProcedureMail, ProcedureMailer, ProcedurePublications, ProceduresSettings,
};
use gatepost_sinks::{MailQueue, MailSubmission};
use gatepost_store::{Originals, OriginalsLimits, Store, StoreError, ValueStore};

/// Publications of procedures go directly to the broker: they are not judged again, so no procedure
/// can call itself.
struct ToBroker(Broker);

impl ProcedurePublications for ToBroker {
    fn publish(&self, publication: Publication) {
        // The commit is not waited for; it precedes the message's own journal entry in the queue.
        let _ = self.0.publish_now(publication);
    }
}

/// Mail of procedures leaves as all mail of the server.
struct ToSmarthost(MailQueue);

impl ProcedureMailer for ToSmarthost {
    fn can_send(&self) -> bool {
        self.0.is_on()
    }

    fn send(&self, mail: ProcedureMail) {
        self.0.send(&MailSubmission {
            sender: mail.sender,
            recipients: mail.recipients,
            text: mail.text.into_bytes(),
        });
    }
}

pub(super) fn open(
    settings: &ProceduresSettings,
    store: &Store,
    broker: &Broker,
    mail: &MailQueue,
) -> Result<ProcedureHost, StoreError> {
    let values = ValueStore::open(store, settings.values_limits())?;
    let limits = OriginalsLimits {
        count_max: settings.originals_max,
        message_bytes_max: settings.original_max.as_usize(),
        per_second: settings.originals_per_second,
    };
    let host = ProcedureHost::new(values, Some(Arc::new(ToBroker(broker.clone()))));
    let host = host.mailing(Arc::new(ToSmarthost(mail.clone())));
    Ok(host.keeping(Originals::open(store, limits)?))
}
