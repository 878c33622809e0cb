//! The properties that travel with a publication, from broker to broker: between the wire and
//! [`gatepost_message::Properties`].

use bytes::Bytes;
use gatepost_message::Properties;

use crate::{EncodeError, PacketProperties, PropertiesBuffer, Property};

impl PropertiesBuffer {
    /// Appends the properties of a publication, except its expiry: the remaining time changes with
    /// each delivery.
    pub fn push_carried(&mut self, carried: &Properties) -> Result<(), EncodeError> {
        if let Some(is_text) = carried.payload_is_text {
            self.push(&Property::PayloadFormatIndicator(is_text))?;
        }
        if let Some(content_type) = &carried.content_type {
            self.push(&Property::ContentType(content_type))?;
        }
        if let Some(response_topic) = &carried.response_topic {
            self.push(&Property::ResponseTopic(response_topic))?; // [MQTT-3.3.2-15]
        }
        if let Some(correlation_data) = &carried.correlation_data {
            self.push(&Property::CorrelationData(correlation_data))?; // [MQTT-3.3.2-16]
        }
        for (name, value) in &carried.user {
            self.push(&Property::UserProperty((name, value)))?; // [MQTT-3.3.2-17]
        }
        Ok(())
    }
}

impl PacketProperties<'_> {
    /// The properties that a publication carries, its expiry too; `None` if there are none.
    pub fn carried(self) -> Option<Box<Properties>> {
        if self.is_empty() {
            return None;
        }
        let mut carried = Properties::default();
        for property in self.iter() {
            match property {
                Property::PayloadFormatIndicator(is_text) => {
                    carried.payload_is_text = Some(is_text);
                }
                Property::MessageExpiryInterval(seconds) => carried.expiry_seconds = Some(seconds),
                Property::ContentType(text) => carried.content_type = Some(text.to_owned()),
                Property::ResponseTopic(topic) => carried.response_topic = Some(topic.to_owned()),
                Property::CorrelationData(data) => {
                    carried.correlation_data = Some(Bytes::copy_from_slice(data));
                }
                Property::UserProperty((name, value)) => {
                    carried.user.push((name.to_owned(), value.to_owned()));
                }
                _ => {}
            }
        }
        (!carried.is_empty()).then(|| Box::new(carried))
    }
}
