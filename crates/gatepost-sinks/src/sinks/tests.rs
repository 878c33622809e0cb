//! Sinks over reloads of their settings, files and smarthost.

use std::path::PathBuf;

use gatepost_broker::BrokerSettings;
use gatepost_message::{MessageId, Publication, Qos, TopicFilter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::mail::{Checking, MailSubmission, Sending};
use crate::settings::{BridgeSettings, WebhookSettings};

/// A file that is removed at the end.
struct SecretFile(PathBuf);

impl SecretFile {
    fn new(text: &str) -> Self {
        let name = format!("gatepost-test-{}", MessageId::next());
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("written");
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The head of the next request, which is answered.
async fn request(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut bytes).await.expect("bytes"), 0);
    }
    let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
    stream.write_all(answer).await.expect("sent");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_removed_bridge_is_no_longer_retained() {
    // Nothing answers there.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let bridge = |name: &str| SinkSettings {
        name: name.to_owned(),
        bridge: Some(BridgeSettings {
            address: format!("mqtt://{address}"),
            topics: vec!["# out 1".to_owned()],
            ..BridgeSettings::default()
        }),
        ..SinkSettings::default()
    };
    let broker = Broker::new(BrokerSettings::default());
    let settings = [bridge("plant"), bridge("office")];
    let sinks = Sinks::start(MailQueue::new(broker.clone()), &settings).expect("started");
    sinks.opened().await;
    let state = |name: &str| format!("$SYS/broker/connection/{name}/state");
    for name in ["plant", "office"] {
        let mut publication = Publication::new(Topic::new(&state(name)).expect("a topic"), "0");
        publication.retain = true;
        broker.publish(publication).await.expect("published");
    }
    sinks.apply(&settings[1..]);
    let is_retained = |name: &str| {
        let filter = TopicFilter::new(&state(name)).expect("a filter");
        !broker.retained(&filter).is_empty()
    };
    let removed = async {
        while is_retained("plant") {
            tokio::task::yield_now().await;
        }
    };
    let removed = tokio::time::timeout(Duration::from_mins(1), removed).await;
    removed.expect("it is removed");
    assert!(is_retained("office"));
    sinks.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_uses_the_files_as_they_are_now() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let token = SecretFile::new("one\n");
    let settings = [SinkSettings {
        name: "chat".to_owned(),
        filters: vec!["alarms/#".to_owned()],
        webhook: Some(WebhookSettings {
            url: format!("http://127.0.0.1:{port}/"),
            token_file: token.0.clone(),
            allow_private: true,
            ..WebhookSettings::default()
        }),
        ..SinkSettings::default()
    }];
    let broker = Broker::new(BrokerSettings::default());
    let sinks = Sinks::start(MailQueue::new(broker.clone()), &settings).expect("started");
    sinks.opened().await;
    for secret in ["one", "two"] {
        token.write(secret);
        sinks.apply(&settings);
        let topic = Topic::new("alarms/fire").expect("a topic");
        let mut publication = Publication::new(topic, "smoke");
        publication.qos = Qos::AtLeastOnce;
        broker.publish(publication).await.expect("published");
        let head = request(&listener).await;
        assert!(
            head.contains(&format!("authorization: Bearer {secret}\r\n")),
            "{head}"
        );
    }
    sinks.stop().await;
}

/// A smarthost that takes mail, or that cannot be reached.
struct TestSmarthost {
    taken: Option<tokio::sync::mpsc::UnboundedSender<MailSubmission>>,
}

impl MailTransport for TestSmarthost {
    fn target(&self) -> String {
        "smtp://mail.example.org:587".to_owned()
    }

    fn send<'a>(&'a self, mail: &'a MailSubmission) -> Sending<'a> {
        let sent = match &self.taken {
            Some(taken) => taken.send(mail.clone()).map_err(|error| error.to_string()),
            None => Err("it cannot be reached".to_owned()),
        };
        Box::pin(std::future::ready(sent.map(|()| Vec::new())))
    }

    fn check(&self) -> Checking<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_waits_while_no_smarthost_is_set() {
    let broker = Broker::new(BrokerSettings::default());
    let queue = MailQueue::new(broker.clone());
    queue.use_smarthost(Some(Arc::new(TestSmarthost { taken: None })));
    let sinks = Sinks::start(queue.clone(), &[]).expect("started");
    sinks.opened().await;
    let mail = MailSubmission {
        sender: "gate@example.org".to_owned(),
        recipients: vec!["anna@example.org".to_owned()],
        text: b"Subject: x\r\n\r\n".to_vec(),
    };
    queue.queue(&mail).await.expect("queued");
    queue.use_smarthost(None);
    sinks.apply(&[]);
    sinks.opened().await;
    assert_eq!(sinks.status()[0].queued, 1);
    let (taken, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let taken = Some(taken);
    queue.use_smarthost(Some(Arc::new(TestSmarthost { taken })));
    sinks.apply(&[]);
    let sent = tokio::time::timeout(Duration::from_secs(30), arrived.recv()).await;
    assert_eq!(sent.expect("sent in time"), Some(mail));
    sinks.stop().await;
}
