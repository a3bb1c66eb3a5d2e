//! A lane's Kafka client and the records that are in it.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::util::Timeout;

use super::deliveries::{Deliveries, Handed, Report, fail_reason};
use super::handles::{LaneSettings, QUEUE_RECORDS};
use crate::core::clock::Clock;
use crate::core::rate::Rate;
use crate::core::stream::FailReason;
use crate::kafka::client::producer_config;

/// Most calls to serve reports at one wake-up.
const MAX_POLLS: usize = 64;

/// A Kafka client and its reports. Dropping it waits for its threads.
pub(super) struct Client {
    producer: BaseProducer<Deliveries>,
    max_messages: u64,
    /// In flight at the deadline of a stop and given up.
    abandoned: u64,
}

/// A record to hand over.
pub(super) struct Outgoing<'a> {
    pub(super) topic: &'a str,
    pub(super) handed: Handed,
    pub(super) timestamp_ms: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: &'a [u8],
}

/// What became of a record that was offered to the client.
pub(super) enum Offer {
    Sent,
    /// The client takes no more at the moment.
    Full,
    /// The client refused this record for good.
    Refused(FailReason),
    /// The client itself is dead.
    Dead(String),
}

impl Client {
    /// A client with room for what may be in flight at up to `max_rate`.
    ///
    /// # Errors
    /// When the library refuses a property.
    pub(super) fn new(settings: &LaneSettings, clock: Clock, max_rate: Rate) -> Result<Self, KafkaError> {
        let mut config = producer_config(&settings.kafka);
        let max_messages = settings.queue_records(max_rate);
        config.set(QUEUE_RECORDS, max_messages.to_string());
        let producer = config.create_with_context(Deliveries::new(clock))?;
        Ok(Self { producer, max_messages, abandoned: 0 })
    }

    /// Offers a record. It is copied; nothing here waits.
    pub(super) fn offer(&self, out: &Outgoing<'_>) -> Offer {
        let deliveries = self.producer.context();
        let Some(slot) = deliveries.hold(&out.handed) else { return Offer::Full };
        let mut record: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(out.topic, slot as usize)
                .partition(i32::try_from(out.handed.partition).unwrap_or(0))
                .timestamp(out.timestamp_ms)
                .payload(out.value);
        if let Some(key) = out.key {
            record = record.key(key);
        }
        let Err((error, _)) = self.producer.send(record) else { return Offer::Sent };
        deliveries.release(slot);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => Offer::Full,
            Some(RDKafkaErrorCode::Fatal) => Offer::Dead(error.to_string()),
            _ => Offer::Refused(fail_reason(&error)),
        }
    }

    /// Serves the reports that are there. The library handles one event a call; waiting in it would spin through the
    /// last millisecond.
    pub(super) fn serve(&self) {
        for _ in 0..MAX_POLLS {
            let before = self.producer.context().reports();
            self.producer.poll(Timeout::After(Duration::ZERO));
            if self.producer.context().reports() == before {
                return;
            }
        }
    }

    /// Reads the reports that were served.
    pub(super) fn drain(&self, take: impl FnMut(Report)) {
        self.producer.context().drain(take);
    }

    /// Records whose report was not read yet and that were not given up.
    pub(super) fn in_flight(&self) -> u64 {
        self.producer.context().in_flight().saturating_sub(self.abandoned)
    }

    /// Gives up what is in flight; returns how much that is.
    pub(super) fn abandon(&mut self) -> u64 {
        let lost = self.in_flight();
        self.abandoned += lost;
        lost
    }

    /// Records given up.
    pub(super) const fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// Whether the client, refusing a record, had room for more of them and so must be full by bytes.
    pub(super) fn full_by_bytes(&self) -> bool {
        self.in_flight() < self.max_messages
    }

    /// Why every further record will be refused, if so.
    pub(super) fn fatal_error(&self) -> Option<String> {
        let (code, reason) = self.producer.client().fatal_error()?;
        Some(format!("fatal client error {code}: {reason}"))
    }

    /// Copies the round trip to each broker in microseconds.
    pub(super) fn copy_rtt(&self, into: &mut std::collections::BTreeMap<i32, u64>) {
        self.producer.context().copy_rtt(into);
    }
}
