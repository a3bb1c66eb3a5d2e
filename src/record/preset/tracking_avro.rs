//! `openedx_tracking` in Avro, as Open edX's event bus has it on Kafka: key and value in Avro, with the numbers of their
//! schemas when there is a registry, and CloudEvents headers.

use super::super::Facts;
use super::super::avro::bytes::push_text;
use super::super::avro::registry::{Registry, Use};
use super::super::format::Of;
use super::super::format::{BuildError, Format, MakeError};
use super::super::hash::{Random, mix};
use super::super::headers::Headers;
use super::super::settings::PresetValueSettings;
use super::super::settings::avro::SubjectStrategy;
use super::super::text::{instant, uuid};
use super::campus::Campus;
use super::seed_of;
use super::tracking::{Event, HOST, longest};
use crate::config::key;

/// Word for word what the LMS registers, so that it is found there: the event's schema with its keys in alphabetical order.
const VALUE_SCHEMA: &str = concat!(
    r#"{"doc": "Avro Event Format for CloudEvents created with openedx_events/schema", "fields": [{"name": "tracking_log", "#,
    r#""type": {"fields": [{"name": "name", "type": "string"}, {"name": "timestamp", "type": "string"}, "#,
    r#"{"name": "data", "type": "string"}, {"name": "context", "type": "string"}], "name": "TrackingLogData", "#,
    r#""type": "record"}}], "name": "CloudEvent", "namespace": "org.openedx.analytics.tracking.event.emitted.v1", "#,
    r#""type": "record"}"#
);
/// The record's full name.
const VALUE_NAME: &str = "org.openedx.analytics.tracking.event.emitted.v1.CloudEvent";
/// The schema of the field that is the key, with the name that it has in its record.
const KEY_SCHEMA: &str = r#"{"name": "name", "type": "string"}"#;
const KEY_NAME: &str = "name";
const EVENT_TYPE: &[u8] = b"org.openedx.analytics.tracking.event.emitted.v1";
const AVRO: &[u8] = b"application/avro";
/// The version of openedx-events that the events say they come from.
const SOURCE_LIBRARY: &[u8] = b"10.5.0";
/// Four lengths of at most five bytes more than the fields.
const LENGTHS_BYTES: usize = 20;
/// Sets the ids of events apart from all other random numbers.
const ID_SEED: u64 = 0x6365_5f69_6400;

/// The events in Avro.
#[derive(Debug, Clone)]
pub(super) struct TrackingAvro {
    campus: Campus,
    id_seed: u64,
    /// What stands in front of each value and key; nothing without a registry.
    value_prefix: Option<[u8; 5]>,
    key_prefix: Option<[u8; 5]>,
    /// Where a field is written whose length has to stand in front of it.
    field: Vec<u8>,
}

impl TrackingAvro {
    /// Asks the registry, so this may take a while.
    pub(super) fn new(of: Of<'_>, settings: &PresetValueSettings) -> Result<Self, BuildError> {
        let registry_at = key(of.at, "registry");
        // That of Open edX, whose topics may hold several kinds of events.
        let usual = SubjectStrategy::TopicRecordName;
        let registry = Registry::new(&settings.registry, usual, &registry_at)?;
        let prefix = |part, name, schema| {
            let of = Use { topic: of.topic, part, name: Some(name), look_only: of.look_only };
            registry.as_ref().map(|registry| registry.prefix(of, schema)).transpose()
        };
        Ok(Self {
            campus: Campus::new(of.seed, settings.cardinality),
            id_seed: mix(of.seed ^ ID_SEED),
            value_prefix: prefix("value", VALUE_NAME, VALUE_SCHEMA)?,
            key_prefix: prefix("key", KEY_NAME, KEY_SCHEMA)?,
            field: Vec::new(),
        })
    }

    fn push_key(&self, name: &[u8], key: &mut Vec<u8>) {
        key.extend_from_slice(self.key_prefix.as_ref().map_or(&[], |prefix| prefix));
        push_text(key, name);
    }
}

impl Format for TrackingAvro {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let event = Event::new(&self.campus, facts);
        value.extend_from_slice(self.value_prefix.as_ref().map_or(&[], |prefix| prefix));
        push_text(value, event.name().as_bytes());
        for write in [Event::timestamp, Event::data, Event::context] {
            self.field.clear();
            write(&event, &mut self.field);
            push_text(value, &self.field);
        }
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        let fields = longest(&self.campus, |visit, facts, out| {
            let event = Event::of(visit, facts);
            out.extend_from_slice(event.name().as_bytes());
            event.timestamp(out);
            event.data(out);
            event.context(out);
        });
        fields + LENGTHS_BYTES + self.value_prefix.map_or(0, |prefix| prefix.len())
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let (kind, name) = self.campus.kind(sequence);
        self.push_key(name.as_bytes(), key);
        Some(kind)
    }

    fn max_key_bytes(&self) -> usize {
        let name = self.campus.longest().map(|visit| visit.name().len()).fold(0, usize::max);
        name + LENGTHS_BYTES + self.key_prefix.map_or(0, |prefix| prefix.len())
    }

    fn marker_key(&self, number: u64, key: &mut Vec<u8>) {
        self.push_key(itoa::Buffer::new().format(number).as_bytes(), key);
    }

    fn headers(&mut self, facts: &Facts, headers: &mut Headers) {
        let mut random = Random::of(seed_of(self.id_seed, facts.marker), facts.sequence);
        headers.push(c"ce_specversion", b"1.0");
        headers.push(c"content-type", AVRO);
        headers.push(c"ce_datacontenttype", AVRO);
        headers.push(c"ce_type", EVENT_TYPE);
        self.field.clear();
        uuid(&mut random, &mut self.field);
        headers.push(c"ce_id", &self.field);
        headers.push(c"ce_source", b"openedx/lms/web");
        self.field.clear();
        instant(facts.intended_ms, b"000+00:00", &mut self.field);
        headers.push(c"ce_time", &self.field);
        headers.push(c"ce_minorversion", b"0");
        headers.push(c"sourcehost", HOST.as_bytes());
        headers.push(c"sourcelib", SOURCE_LIBRARY);
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::avro::schema;
    use super::super::super::settings::PresetName;
    use super::super::super::value::tests::FACTS;
    use super::*;

    const OF: Of<'static> =
        Of { seed: 5, at: "streams.main.value", topic: "t", run_id: "r", look_only: false };

    fn made() -> TrackingAvro {
        let settings = PresetValueSettings { name: Some(PresetName::OpenedxTracking), ..Default::default() };
        TrackingAvro::new(OF, &settings).unwrap()
    }

    /// Texts with their length in front, which are all that these records hold.
    fn texts(mut bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        while let Some((first, rest)) = bytes.split_first() {
            let (length, rest) = match rest.split_first() {
                Some((second, rest)) if first & 0x80 != 0 => {
                    assert!(second & 0x80 == 0, "longer than 8 KiB");
                    (usize::from(*second) << 7 | usize::from(first & 0x7f), rest)
                }
                _ => (usize::from(*first), rest),
            };
            let (text, rest) = rest.split_at(length / 2);
            found.push(String::from_utf8(text.to_vec()).unwrap());
            bytes = rest;
        }
        found
    }

    #[test]
    fn the_event_is_that_of_the_json_form() {
        let mut avro = made();
        for sequence in 0..2_000 {
            let facts = Facts { sequence, ..FACTS };
            let (mut key, mut value, mut headers) = (Vec::new(), Vec::new(), Headers::default());
            assert!(avro.key(sequence, &mut key).is_some());
            avro.headers(&facts, &mut headers);
            avro.write(&facts, &mut value).unwrap();
            assert!(value.len() <= avro.max_bytes() && key.len() <= avro.max_key_bytes());
            let texts: [String; 4] = texts(&value).try_into().unwrap();
            let [name, timestamp, data, context] = texts;
            assert_eq!((key[0], &key[1..]), (2 * name.len() as u8, name.as_bytes()));
            assert_eq!(timestamp, "2023-11-14T22:13:20.123000+00:00");
            assert!(serde_json::from_str::<serde_json::Value>(&data).unwrap().is_object());
            let context: serde_json::Value = serde_json::from_str(&context).unwrap();
            assert_eq!(context["soakd"]["sequence"], sequence);
        }
    }

    #[test]
    fn headers_are_those_of_the_event_bus() {
        let headers = |facts: &Facts| {
            let mut headers = Headers::default();
            made().headers(facts, &mut headers);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            headers.iter().map(|(name, value)| (text(name.to_bytes()), text(value))).collect::<Vec<_>>()
        };
        let all = headers(&FACTS);
        let value = |name: &str| &all.iter().find(|(one, _)| one == name).unwrap().1;
        assert_eq!(value("ce_type"), "org.openedx.analytics.tracking.event.emitted.v1");
        assert_eq!(value("ce_time"), "2023-11-14T22:13:20.123000+00:00");
        assert_eq!(value("content-type"), "application/avro");
        assert_eq!((value("ce_id").len(), all.len()), (36, 10));
        let others = [Facts { sequence: 78, ..FACTS }, Facts { marker: true, ..FACTS }];
        assert!(
            others
                .iter()
                .all(|facts| !headers(facts).contains(&("ce_id".to_owned(), value("ce_id").clone())))
        );
    }

    #[test]
    fn the_schemas_have_the_names_of_their_subjects() {
        assert_eq!(schema::parse(VALUE_SCHEMA).unwrap().name.as_deref(), Some(VALUE_NAME));
        assert_eq!(schema::parse(KEY_SCHEMA).unwrap().name.as_deref(), Some(KEY_NAME));
    }
}
