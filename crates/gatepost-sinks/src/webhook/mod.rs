//! Webhooks: each message becomes one HTTP request.

mod answer;
mod message_json;
mod signature;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_message::{MessageId, SequenceEvent};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use http_body_util::Full;

use crate::attempt::AttemptFailure;
use crate::field_mistake::FieldMistake;
use crate::file_text::{file_text, first_line};
use crate::frame::SinkDelivery;
use crate::http_client::{AddressGuard, HttpClient, HttpTarget, SharedTls};
use crate::ready_templates::ready;
use crate::settings::WebhookSettings;
use crate::template::{SinkTemplate, SinkTemplateError};
use crate::transport::{AttemptFuture, RemainingRecipients, SinkTransport};
use message_json::message_json;
use signature::WebhookSigner;

/// Header fields that the client sets itself.
const OWN_HEADERS: [HeaderName; 4] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
];

/// A webhook, ready to send.
pub(crate) struct Webhook {
    name: String,
    target: HttpTarget,
    method: Method,
    headers: HeaderMap,
    template: Option<SinkTemplate>,
    variables: BTreeMap<String, String>,
    signer: WebhookSigner,
    hmac_header: Option<HeaderName>,
    client: HttpClient,
}

impl Webhook {
    /// Reads the files that the settings name.
    pub(crate) fn new(name: &str, settings: &WebhookSettings) -> Result<Self, FieldMistake> {
        let wrong = FieldMistake::new;
        if settings.concurrency == 0 {
            return Err(wrong(
                "webhook.concurrency",
                "write at least 1: the number of requests at once",
            ));
        }
        let target = target(settings)?;
        let method = match settings.method.as_str() {
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            _ => return Err(wrong("webhook.method", "the method is POST or PUT")),
        };
        let guard = AddressGuard {
            allow_private: settings.allow_private,
            networks: settings.allow_networks.clone(),
        };
        let signer = match file_text(&settings.secret_file, "webhook.secret_file")? {
            Some(text) => WebhookSigner::new(&text)
                .map_err(|error| FieldMistake::new("webhook.secret_file", error.to_string()))?,
            None => WebhookSigner::default(),
        };
        let timeout = settings.timeout.duration();
        Ok(Self {
            name: name.to_owned(),
            client: HttpClient::new(
                target.clone(),
                guard,
                settings.concurrency.into(),
                timeout,
                SharedTls::default(),
            ),
            target,
            method,
            headers: headers(settings)?,
            template: template(settings)?,
            variables: settings.variables.clone(),
            signer,
            hmac_header: hmac_header(settings)?,
        })
    }

    /// The address, without its path.
    pub(crate) fn origin(&self) -> String {
        self.target.origin()
    }

    /// Connects without sending anything.
    pub(crate) async fn check(&self) -> Result<(), String> {
        self.client
            .connect()
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    async fn send(&self, delivery: &SinkDelivery) -> Result<(), AttemptFailure> {
        let body = self
            .body(delivery)
            .map_err(|error| AttemptFailure::Refused(error.to_string()))?;
        let now = SystemTime::now();
        let request = self
            .request(delivery.id, body, now)
            .map_err(|error| AttemptFailure::Refused(error.to_string()))?;
        let (status, headers) = self
            .client
            .send(request)
            .await
            .map_err(AttemptFailure::again)?;
        answer::judged(status, &headers, now)
    }

    fn body(&self, delivery: &SinkDelivery) -> Result<Vec<u8>, SinkTemplateError> {
        match &self.template {
            Some(template) => template.render(&self.name, &self.variables, delivery),
            None => message_json(delivery),
        }
    }

    fn request(
        &self,
        id: MessageId,
        body: Vec<u8>,
        now: SystemTime,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let id_text = id.to_string();
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let timestamp = seconds.to_string();
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.target.path(id))
            .header(header::HOST, &self.target.authority)
            .header("webhook-id", &id_text)
            .header("webhook-timestamp", &timestamp);
        if let Some(signature) = self.signer.standard(&id_text, &timestamp, &body) {
            request = request.header("webhook-signature", signature);
        }
        if let (Some(name), Some(value)) = (&self.hmac_header, self.signer.of_body(&body)) {
            request = request.header(name, value);
        }
        let mut request = request.body(Full::new(Bytes::from(body)))?;
        let fields = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        request.headers_mut().extend(fields);
        Ok(request)
    }
}

impl SinkTransport for Webhook {
    fn kind(&self) -> &'static str {
        "webhook"
    }

    fn target(&self) -> String {
        self.origin()
    }

    fn ends_when_gone(&self) -> bool {
        false
    }

    /// The JSON form names the event. A template has words for messages only.
    fn accepts(&self, delivery: &SinkDelivery) -> bool {
        self.template.is_none() || SequenceEvent::of(&delivery.properties).is_none()
    }

    fn attempt<'a>(
        &'a self,
        batch: &'a [SinkDelivery],
        _: &'a mut RemainingRecipients,
    ) -> AttemptFuture<'a> {
        Box::pin(async move {
            for delivery in batch {
                self.send(delivery).await?;
            }
            Ok(())
        })
    }
}

fn target(settings: &WebhookSettings) -> Result<HttpTarget, FieldMistake> {
    let from_file = first_line(&settings.url_file, "webhook.url_file")?;
    let (field, url) = match &from_file {
        Some(line) => ("webhook.url_file", line.as_str()),
        None => ("webhook.url", settings.url.as_str()),
    };
    if from_file.is_some() && !settings.url.is_empty() {
        return Err(FieldMistake::new(
            "webhook.url",
            "write url or url_file, not both",
        ));
    }
    let reason = "write an address such as https://example.org/hook, without a user name";
    HttpTarget::new(url).ok_or_else(|| FieldMistake::new(field, reason))
}

fn headers(settings: &WebhookSettings) -> Result<HeaderMap, FieldMistake> {
    let mut headers = HeaderMap::new();
    let agent = concat!("gatepost/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    let wrong = |field, what: &str| FieldMistake::new(field, format!("{what} cannot be sent"));
    let content_type = HeaderValue::from_str(&settings.content_type)
        .map_err(|_| wrong("webhook.content_type", "this text"))?;
    headers.insert(header::CONTENT_TYPE, content_type);
    for (name, value) in &settings.headers {
        let field = name
            .parse()
            .ok()
            .filter(|field| !OWN_HEADERS.contains(field));
        let (Some(field), Ok(value)) = (field, HeaderValue::from_str(value)) else {
            return Err(wrong("webhook.headers", name));
        };
        headers.insert::<HeaderName>(field, value);
    }
    if let Some(token) = first_line(&settings.token_file, "webhook.token_file")? {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| wrong("webhook.token_file", "this token"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

fn template(settings: &WebhookSettings) -> Result<Option<SinkTemplate>, FieldMistake> {
    if settings.template.is_empty() {
        return Ok(None);
    }
    let from_file = match settings.template_file() {
        Some(file) => file_text(file, "webhook.template")?,
        None => None,
    };
    let source = from_file
        .as_deref()
        .or(ready(&settings.template))
        .unwrap_or_default();
    let is_json = settings.content_type.contains("json");
    SinkTemplate::new(source, is_json, 1)
        .map(Some)
        .map_err(|error| FieldMistake::new("webhook.template", format!("{error:#}")))
}

fn hmac_header(settings: &WebhookSettings) -> Result<Option<HeaderName>, FieldMistake> {
    let wrong = |reason| Err(FieldMistake::new("webhook.hmac_header", reason));
    if settings.hmac_header.is_empty() {
        return Ok(None);
    }
    if settings.secret_file.as_os_str().is_empty() {
        return wrong("the HMAC needs a secret; write secret_file");
    }
    match settings.hmac_header.parse() {
        Ok(name) => Ok(Some(name)),
        Err(_) => wrong("this is not the name of a header field"),
    }
}

#[cfg(test)]
mod tests;
