//! A second handle that looks at the topics while the load runs: it tells a dead producer from a dead broker, and where
//! each partition's log begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::client::{Quiet, Refused, reader};
use super::settings::KafkaSettings;
use super::topic::{ends, log_starts, partitions};
use crate::core::event::{Event, EventLog};
use crate::core::stream::Stream;

/// What the second handle knows of a topic.
#[derive(Debug, Default)]
pub struct TopicHealth {
    /// When the topic was last seen healthy (monotonic), 0 before.
    healthy_ns: AtomicU64,
    /// Since when every look saw it healthy (monotonic), 0 when the last one did not.
    healthy_since_ns: AtomicU64,
    /// A lane has records in flight and no acks: look now.
    doubted: AtomicBool,
    /// Partitions at the last look, 0 before the first.
    partitions: AtomicU32,
}

impl TopicHealth {
    /// How long the topic has been healthy, in nanoseconds; 0 when it is not, or when nobody has looked lately.
    #[must_use]
    pub fn healthy_for_ns(&self, now_ns: u64) -> u64 {
        let since_ns = self.healthy_since_ns.load(Ordering::Acquire);
        let fresh = now_ns.saturating_sub(self.healthy_ns.load(Ordering::Acquire)) < FRESH_NS;
        if since_ns > 0 && fresh { now_ns.saturating_sub(since_ns) } else { 0 }
    }

    /// Asks for a look soon.
    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::Release);
    }

    /// Notes how the topic was seen: healthy is a metadata answer without an error, with a leader for each partition.
    pub fn seen(&self, at_ns: u64, healthy: bool) {
        if !healthy {
            self.healthy_since_ns.store(0, Ordering::Release);
            return;
        }
        self.healthy_ns.store(at_ns, Ordering::Release);
        let _ = self.healthy_since_ns.compare_exchange(0, at_ns, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// How fresh a look must be to say anything about now.
const FRESH_NS: u64 = 5_000_000_000;
/// Time between two looks at the log starts; they move slowly.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two looks at metadata while a lane is in doubt.
const DOUBT_INTERVAL: Duration = Duration::from_secs(1);
/// How long one look may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How soon a stop or a doubt is noticed, and the time between two looks at the ends of streams that are only watched.
const TICK: Duration = Duration::from_millis(100);
/// Time between two looks at the number of partitions of such a stream.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a look at those ends may take.
const ENDS_TIMEOUT: Duration = Duration::from_secs(1);

/// What was told of partitions that began again: those of a topic do so one after the other, and are told together.
#[derive(Debug, Default)]
struct Told {
    told: (u64, u64),
    seen: (u64, u64),
    at_ns: Option<u64>,
}

impl Told {
    /// The partitions that began again since it was told last, and the records that went with them, once that has settled.
    fn since(&mut self, now: (u64, u64), now_ns: u64) -> Option<(u64, u64)> {
        let settled = std::mem::replace(&mut self.seen, now) == now;
        let due = self.at_ns.is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= FRESH_NS);
        if now.0 <= self.told.0 || !settled || !due {
            return None;
        }
        let told = std::mem::replace(&mut self.told, now);
        self.at_ns = Some(now_ns);
        Some((now.0 - told.0, now.1.saturating_sub(told.1)))
    }
}

/// Watches the topics of all streams.
pub struct Watch {
    reader: BaseConsumer<Quiet>,
    topics: Vec<(Arc<Stream>, Arc<TopicHealth>)>,
    events: Arc<EventLog>,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("topics", &self.topics.len()).finish_non_exhaustive()
    }
}

impl Watch {
    /// A watch with a client of its own.
    ///
    /// # Errors
    /// When no client can be made from the settings.
    pub fn new(
        settings: &KafkaSettings,
        topics: Vec<(Arc<Stream>, Arc<TopicHealth>)>,
        events: Arc<EventLog>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, Refused> {
        Ok(Self { reader: reader(settings)?, topics, events, stop })
    }

    /// Looks until it is stopped. Blocks its thread. Each stream that is only watched has one more: what is known of its ends
    /// is good for a moment only, so that no other question may hold that one up.
    pub fn run(self) {
        std::thread::scope(|scope| {
            for (stream, _) in self.topics.iter().filter(|(stream, _)| !stream.produced) {
                let named = std::thread::Builder::new().name("kafka-ends".to_owned());
                if named.spawn_scoped(scope, || self.watch_ends(stream)).is_err() {
                    // Its sources say that nobody knows how far the stream is.
                    stream.missed_look(stream.clock.now_ns());
                }
            }
            self.watch_topics();
        });
    }

    fn watch_topics(&self) {
        let mut looked: Option<Instant> = None;
        let mut doubted: Option<Instant> = None;
        let mut told: Vec<Told> = self.topics.iter().map(|_| Told::default()).collect();
        while !self.stop.load(Ordering::Acquire) {
            if looked.is_none_or(|at| at.elapsed() >= INTERVAL) {
                looked = Some(Instant::now());
                self.topics.iter().for_each(|(stream, health)| self.look(stream, health, true));
            } else if doubted.is_none_or(|at| at.elapsed() >= DOUBT_INTERVAL) {
                for (stream, health) in &self.topics {
                    if health.doubted.swap(false, Ordering::AcqRel) {
                        doubted = Some(Instant::now());
                        self.look(stream, health, false);
                    }
                }
            }
            for ((stream, _), told) in self.topics.iter().zip(&mut told) {
                let now_ns = stream.clock.now_ns();
                if let Some((partitions, lost_records)) = told.since(stream.restarts(), now_ns) {
                    let stream = stream.name.clone();
                    self.events.emit(now_ns, Event::LogRestarted { stream, partitions, lost_records });
                }
            }
            // Serves the client's own events, so that they do not pile up.
            let _ = self.reader.poll(TICK);
        }
    }

    /// What soakd's own acks tell of a stream that it produces, the broker tells of one that it only watches.
    fn watch_ends(&self, stream: &Stream) {
        let mut counted: Option<Instant> = None;
        // When they were last counted, and when before the partitions changed.
        let (mut found, mut counted_ns, mut before_ns) = (stream.partitions, 0, 0);
        while !self.stop.load(Ordering::Acquire) {
            if counted.is_none_or(|at| at.elapsed() >= COUNT_INTERVAL) {
                let asked_ns = stream.clock.now_ns();
                let now = partitions(&self.reader, &stream.topic, Instant::now() + ENDS_TIMEOUT);
                if let Ok(Some(now)) = now {
                    if now != found {
                        (found, before_ns) = (now, counted_ns);
                    }
                    (counted, counted_ns) = (Some(Instant::now()), asked_ns);
                }
            }
            let asked_ns = stream.clock.now_ns();
            match ends(&self.reader, &stream.topic, found, Instant::now() + ENDS_TIMEOUT) {
                Ok(ends) => stream.saw_ends(asked_ns, stream.clock.now_ns(), &ends, before_ns),
                Err(_) => {
                    stream.missed_look(asked_ns);
                    // It may have been made anew with fewer.
                    counted = None;
                }
            }
            std::thread::sleep(TICK);
        }
    }

    /// Says once when somebody has changed the number of partitions: the keys of the start do not go to new ones, and
    /// a client that joins now sends the same key elsewhere.
    fn tell_partitions(&self, stream: &Stream, health: &TopicHealth, found: u32) {
        let before = match health.partitions.swap(found, Ordering::AcqRel) {
            0 => stream.partitions,
            before => before,
        };
        if found != before {
            let event = Event::PartitionsChanged { stream: stream.name.clone(), from: before, to: found };
            self.events.emit(stream.clock.now_ns(), event);
        }
    }

    fn look(&self, stream: &Stream, health: &TopicHealth, and_starts: bool) {
        let well = |metadata: rdkafka::metadata::Metadata| {
            let found = metadata.topics().iter().find(|topic| topic.name() == stream.topic);
            found.is_some_and(|topic| {
                let partitions = topic.partitions();
                let led = partitions.iter().all(|partition| partition.leader() >= 0);
                let healthy = topic.error().is_none() && led;
                if healthy {
                    self.tell_partitions(stream, health, u32::try_from(partitions.len()).unwrap_or(u32::MAX));
                }
                healthy
            })
        };
        let healthy = self.reader.fetch_metadata(Some(&stream.topic), TIMEOUT).is_ok_and(well);
        health.seen(stream.clock.now_ns(), healthy);
        if healthy && and_starts {
            let starts = log_starts(&self.reader, &stream.topic, stream.present(), Instant::now() + TIMEOUT);
            for (partition, log_start) in (0_u32..).zip(starts.unwrap_or_default()) {
                stream.set_log_start(partition, log_start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn p4_a_broker_that_has_just_come_back_was_not_healthy_during_its_outage() {
        let health = TopicHealth::default();
        assert_eq!(health.healthy_for_ns(S), 0, "nobody has looked");
        health.seen(S, true);
        health.seen(3 * S, true);
        assert_eq!(health.healthy_for_ns(4 * S), 3 * S);
        assert_eq!(health.healthy_for_ns(60 * S), 0, "a look that old says nothing");
        health.seen(10 * S, false);
        assert_eq!(health.healthy_for_ns(10 * S), 0);
        health.seen(20 * S, true);
        assert_eq!(health.healthy_for_ns(21 * S), S);
    }

    #[test]
    fn partitions_that_begin_again_one_after_the_other_are_told_together() {
        let mut told = Told::default();
        assert_eq!(told.since((0, 0), S), None);
        assert_eq!(told.since((1, 10), 2 * S), None, "more may follow");
        assert_eq!(told.since((3, 30), 3 * S), None);
        assert_eq!(told.since((3, 30), 4 * S), Some((3, 30)));
        assert_eq!(told.since((3, 30), 60 * S), None, "once");
        assert_eq!((told.since((4, 31), 61 * S), told.since((4, 31), 62 * S)), (None, Some((1, 1))));
        assert_eq!((told.since((5, 31), 63 * S), told.since((5, 31), 64 * S)), (None, None), "not so often");
    }

    fn stream(topic: &str, partitions: u32, produced: bool) -> Arc<Stream> {
        use crate::core::{clock::Clock, pace::Pace, rate::Rate, schedule::Schedule, stream::LaneState};
        Arc::new(Stream {
            name: topic.to_owned(),
            topic: topic.to_owned(),
            partitions,
            produced,
            max_rate: Rate::ZERO,
            clock: Clock::start(),
            schedule: std::sync::Mutex::new(Schedule::new(Pace::Steady(Rate::ZERO), 1, None, None)),
            lanes: vec![std::sync::Mutex::new(LaneState::default())],
            held_back: std::sync::Mutex::default(),
        })
    }

    /// One question takes 50 ms here, and one for each of 200 partitions would take longer than ends are good for.
    #[test]
    fn a_stream_with_many_partitions_holds_up_no_look_at_ends() {
        let cluster = rdkafka::mocking::MockCluster::new(1).unwrap();
        cluster.create_topic("many", 200, 1).unwrap();
        cluster.create_topic("watched", 1, 1).unwrap();
        cluster.broker_round_trip_time(1, Duration::from_millis(50)).unwrap();
        let settings =
            KafkaSettings { brokers: vec![cluster.bootstrap_servers()], ..KafkaSettings::default() };
        let (many, watched) = (stream("many", 200, true), stream("watched", 1, false));
        let health = Arc::<TopicHealth>::default();
        let topics = vec![(Arc::clone(&many), Arc::clone(&health)), (Arc::clone(&watched), Arc::default())];
        let stop = Arc::<AtomicBool>::default();
        let watch = Watch::new(&settings, topics, Arc::default(), Arc::clone(&stop)).unwrap();
        let thread = std::thread::spawn(move || watch.run());
        let deadline = Instant::now() + Duration::from_secs(8);
        let mut oldest_ns = 0;
        // Until a second look at the log starts is over, or would be.
        while Instant::now() < deadline && (health.healthy_for_ns(many.clock.now_ns()) < 6 * S) {
            oldest_ns = oldest_ns.max(watched.look_age_ns(watched.clock.now_ns()));
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Release);
        thread.join().unwrap();
        assert!(watched.look_age_ns(watched.clock.now_ns()) > 0, "it was looked at");
        assert!(oldest_ns < 3 * S / 2, "known ends were {oldest_ns} ns old");
    }
}
