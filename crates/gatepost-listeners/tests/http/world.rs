//! A small world behind the HTTP listener: it remembers what is published, hands it on, and
//! judges by the body's first word (`reject`, `defer`, `drop`, `quarantine`, `tag`).

use std::sync::Arc;

use gatepost_listeners::http::rooms::{
    Event, Promise, ReaderName, Rooms, Since, Submitted, Subscription,
};
use gatepost_listeners::http::state::State;
use gatepost_message::{
    Action, Message, Publication, Reply, RuleHit, Score, Topic, TopicFilter, Verdict,
};
use gatepost_pages::{CallError, Called, PageCall, Values};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// What a reader may fall behind before it is told of a gap.
const BEHIND_MAX: usize = 64;

pub struct World {
    remembered: Mutex<Vec<Arc<Publication>>>,
    sender: Sender<Arc<Publication>>,
    pub state: Mutex<State>,
}

impl World {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            remembered: Mutex::default(),
            sender: channel(BEHIND_MAX).0,
            state: Mutex::default(),
        })
    }

    pub fn publish(&self, publication: Publication) -> usize {
        let publication = Arc::new(publication);
        self.remembered.lock().push(Arc::clone(&publication));
        self.sender.send(publication).unwrap_or(0)
    }

    pub fn publish_text(&self, topic: &str, payload: impl Into<String>) -> usize {
        let topic = Topic::new(topic).expect("a topic");
        self.publish(Publication::new(topic, payload.into()))
    }

    fn matching(&self, filters: &[TopicFilter]) -> Vec<Arc<Publication>> {
        let matches = |publication: &&Arc<Publication>| {
            let topic = publication.topic.as_str();
            filters.iter().any(|filter| filter.matches(topic))
        };
        self.remembered
            .lock()
            .iter()
            .filter(matches)
            .cloned()
            .collect()
    }
}

impl Values for World {
    fn latest(&self, topic: &str) -> Option<Arc<Publication>> {
        let remembered = self.remembered.lock();
        let mut newest_first = remembered.iter().rev();
        newest_first
            .find(|publication| publication.topic.as_str() == topic)
            .cloned()
    }

    fn history(&self, filter: &TopicFilter, count: usize) -> Vec<Arc<Publication>> {
        let matching = self.matching(std::slice::from_ref(filter));
        let from = matching.len().saturating_sub(count);
        matching[from..].to_vec()
    }

    fn call(&self, call: &PageCall<'_>) -> Result<Called, CallError> {
        match (call.path, call.arguments) {
            ("/greeting", [(_, name)]) => Ok(Called {
                text: format!("Hello {name}!"),
                reply: None,
            }),
            ("/teapot", []) => {
                let mut reply = Reply::default();
                reply.set_status(418).expect("a status");
                let name = ("X-Kind".to_owned(), "short and stout".to_owned());
                reply.add_header(name.0, name.1).expect("a field");
                Ok(Called {
                    text: "I'm a teapot".to_owned(),
                    reply: Some(Box::new(reply)),
                })
            }
            ("/panic", []) => panic!("as the test wants it"),
            _ => Err(CallError::Unknown(call.path.to_owned())),
        }
    }
}

fn judge(message: &Message) -> Verdict {
    let body = String::from_utf8_lossy(&message.body);
    let word = body.split([' ', '\n', '\r']).next().unwrap_or_default();
    match word.parse() {
        Ok(Action::Accept) | Err(_) => Verdict::accept(),
        Ok(action) => Verdict {
            action,
            score: Some(Score {
                value: 7.25,
                required: 5.0,
            }),
            hits: vec![RuleHit {
                name: "FIRST_WORD".into(),
                score: 7.25,
            }],
            reason: format!("the first word is {word}"),
            procedure: "/firstword".to_owned(),
            ..Verdict::default()
        },
    }
}

impl Rooms for World {
    fn submit(&self, message: Message) -> Promise<'_, Submitted> {
        let verdict = judge(&message);
        let publication = message.publication().filter(|_| verdict.action.delivers());
        let subscribers = publication.map_or(0, |publication| self.publish(publication));
        Box::pin(async move {
            Submitted {
                verdict,
                subscribers,
            }
        })
    }

    fn judge<'a>(
        &'a self,
        path: &'a str,
        message: Message,
        arguments: Vec<(String, String)>,
    ) -> Promise<'a, Option<Verdict>> {
        Box::pin(async move {
            (path == "/firstword").then(|| {
                let mut verdict = judge(&message);
                verdict.tags = arguments;
                verdict
            })
        })
    }

    fn subscribe(
        &self,
        filters: &[TopicFilter],
        since: Since,
        _: ReaderName,
    ) -> Box<dyn Subscription> {
        let receiver = self.sender.subscribe();
        let matching = self.matching(filters);
        let mut first: Vec<_> = match since {
            Since::Now => Vec::new(),
            Since::Everything => matching,
            Since::After(id) => matching.into_iter().filter(|p| p.id > id).collect(),
            Since::Latest => matching.into_iter().rev().take(1).collect(),
        };
        first.reverse();
        Box::new(Reader {
            filters: filters.to_vec(),
            first,
            receiver,
        })
    }

    fn state(&self) -> Promise<'_, State> {
        let state = self.state.lock().clone();
        Box::pin(async move { state })
    }

    fn procedures(&self) -> serde_json::Value {
        serde_json::json!({ "procedures": [] })
    }

    fn metrics(&self, text: &mut String) {
        text.push_str("gatepost_world 1\n");
    }
}

struct Reader {
    filters: Vec<TopicFilter>,
    /// What is remembered, newest first.
    first: Vec<Arc<Publication>>,
    receiver: Receiver<Arc<Publication>>,
}

impl Reader {
    fn wanted(&self, publication: &Publication) -> bool {
        let topic = publication.topic.as_str();
        self.filters.iter().any(|filter| filter.matches(topic))
    }
}

impl Subscription for Reader {
    fn next(&mut self) -> Promise<'_, Option<Event>> {
        Box::pin(async move {
            if let Some(publication) = self.first.pop() {
                return Some(Event::Publication(publication));
            }
            loop {
                match self.receiver.recv().await {
                    Ok(publication) if self.wanted(&publication) => {
                        return Some(Event::Publication(publication));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => {
                        return Some(Event::Gap {
                            missed: Some(missed),
                        });
                    }
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    fn try_next(&mut self) -> Option<Event> {
        if let Some(publication) = self.first.pop() {
            return Some(Event::Publication(publication));
        }
        loop {
            match self.receiver.try_recv() {
                Ok(publication) if self.wanted(&publication) => {
                    return Some(Event::Publication(publication));
                }
                Ok(_) => {}
                Err(TryRecvError::Lagged(missed)) => {
                    return Some(Event::Gap {
                        missed: Some(missed),
                    });
                }
                Err(_) => return None,
            }
        }
    }
}
