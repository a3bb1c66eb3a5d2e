//! The pure parts of a record's way, each as a loop over record numbers: for `pure` (nanoseconds) and for `helper`
//! under callgrind (instructions).

use std::hint::black_box;
use std::ops::Range;

use serde_json::{Value, json};
use soakd::core::histogram::Latency;
use soakd::core::rate::Rate;
use soakd::core::schedule::Schedule;
use soakd::core::timeline::{Key, Timeline, find_count};
use soakd::core::walk::Walk;
use soakd::record::hash::{mix, murmur2};
use soakd::record::settings::{KeySettings, ValueSettings};
use soakd::record::{Facts, Maker, Wanted};

/// Something that is done for each record of a range. Ranges follow one another.
pub type Work = Box<dyn FnMut(Range<u64>)>;

/// A part of a record's way.
pub struct Part {
    /// Its name: group and case, like `key/uniform 8 B`.
    pub name: String,
    /// Prepares what it needs, which may take a while.
    pub prepare: Box<dyn FnOnce() -> Work>,
}

impl Part {
    fn new<W: FnMut(Range<u64>) + 'static>(
        name: impl Into<String>,
        prepare: impl FnOnce() -> W + 'static,
    ) -> Self {
        Self { name: name.into(), prepare: Box::new(|| Box::new(prepare())) }
    }
}

const PARTITIONS: u32 = 4;
const RECORDS_PER_SECOND: f64 = 100_000.0;
const RECORD_NS: u64 = 10_000;

/// Every part, those of one group together.
pub fn all() -> Vec<Part> {
    let mut parts = vec![Part::new("schedule/100,000 a second", schedule)];
    parts.extend(keys());
    parts.extend(values());
    parts.extend([8, 20, 100].map(|size| Part::new(format!("murmur2/{size} B"), move || murmur(size))));
    parts.push(Part::new("histogram/record", histogram));
    parts.push(Part::new("timeline/acked", timeline));
    parts.push(Part::new("lag/find by offset", find_offset));
    parts.push(Part::new("lag/find by count, 4 partitions", find_total));
    parts
}

/// Kinds that this build of soakd does not know are left out, and said so.
fn known<T: serde::de::DeserializeOwned>(name: &str, settings: Value) -> Option<T> {
    serde_json::from_value(settings).inspect_err(|error| eprintln!("{name}: left out: {error}")).ok()
}

/// What a lane asks the schedule: at each millisecond what is due, for each record when it was intended.
fn schedule() -> impl FnMut(Range<u64>) {
    let rate = Rate::from_per_second(RECORDS_PER_SECOND).expect("a rate");
    let mut schedule = Schedule::new(rate, 1, None, None);
    let mut walk = Walk::new(None);
    schedule.start(0);
    schedule.catch_up(0, |phase| walk.push(phase));
    let (mut now_ns, mut next) = (0, 0);
    move |records: Range<u64>| {
        while next < records.end {
            now_ns += 1_000_000;
            let due = walk.due(now_ns).min(records.end);
            for record in next..due {
                black_box(walk.intended_ns(record));
            }
            next = due.max(next);
        }
    }
}

fn maker(key: &KeySettings, value: &ValueSettings) -> Maker {
    let wanted = Wanted {
        seed: 42,
        seed_name: "main",
        at: "streams.main",
        run_id: "run",
        topic: "topic",
        partitions: PARTITIONS,
        key,
        value,
    };
    Maker::new(&wanted).expect("settings that need no file")
}

/// A key and its partition.
fn keys() -> Vec<Part> {
    let value = ValueSettings::default();
    let kinds = [
        ("none", json!({"kind": "none"})),
        ("sequential 8 B", json!({"kind": "sequential", "size": 8})),
        ("unique 8 B", json!({"kind": "unique", "size": 8})),
        ("uniform 8 B", json!({"kind": "uniform", "size": 8})),
        ("uniform 20 B", json!({"kind": "uniform", "size": 20})),
        ("zipf 8 B", json!({"kind": "zipf", "size": 8})),
        ("hotspot 8 B", json!({"kind": "hotspot", "size": 8})),
        ("random64 8 B", json!({"kind": "random64", "size": 8})),
    ];
    let part = |(name, settings): (&str, Value)| {
        let name = format!("key/{name}");
        let mut maker = maker(&known(&name, settings)?, &value);
        let mut key = Vec::new();
        let work = move |records: Range<u64>| {
            for sequence in records {
                black_box(maker.key(sequence, &mut key));
            }
        };
        Some(Part::new(name, || work))
    };
    kinds.into_iter().filter_map(part).collect()
}

/// A value; the key's number is given.
fn values() -> Vec<Part> {
    let key = KeySettings::default();
    let kinds = [
        ("random 100 B", json!({"kind": "random", "size": 100})),
        ("random 1 KB", json!({"kind": "random", "size": 1024})),
        ("random 1 KB, half compressible", json!({"kind": "random", "size": 1024, "compressibility": 0.5})),
        ("json 300 B", json!({"kind": "json", "size": 300})),
        ("json 700 B with schema", json!({"kind": "json", "size": 700, "connect_schema": true})),
    ];
    let part = |(name, settings): (&str, Value)| {
        let name = format!("value/{name}");
        let mut maker = maker(&key, &known(&name, settings)?);
        let mut value = Vec::new();
        let work = move |records: Range<u64>| {
            for sequence in records {
                let partition = (sequence % u64::from(PARTITIONS)) as u32;
                let intended_ms = 1_800_000_000_000;
                let facts = Facts { sequence, partition, key_id: sequence, intended_ms, marker: false };
                let _ = black_box(maker.value(&facts, &mut value));
                black_box(&value);
            }
        };
        Some(Part::new(name, || work))
    };
    kinds.into_iter().filter_map(part).collect()
}

fn murmur(size: usize) -> impl FnMut(Range<u64>) {
    let data: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
    move |records: Range<u64>| {
        for _ in records {
            black_box(murmur2(black_box(&data)));
        }
    }
}

/// One latency into both histograms: from 0.1 ms to 6.5 ms, as scattered as acks are.
fn histogram() -> impl FnMut(Range<u64>) {
    let mut latency = Latency::new();
    move |records: Range<u64>| {
        for sequence in records {
            latency.record(100_000 + mix(sequence) % 6_400_000);
        }
    }
}

fn filled(records: u64) -> Timeline {
    let mut timeline = Timeline::default();
    for sequence in 0..records {
        // So far apart that each is a point of its own.
        let at_ns = sequence * 20_000_000;
        timeline.acked(sequence, sequence * u64::from(PARTITIONS), at_ns, at_ns);
    }
    timeline
}

/// One acked record of a partition into its timeline.
fn timeline() -> impl FnMut(Range<u64>) {
    let mut timeline = Timeline::default();
    move |records: Range<u64>| {
        for offset in records {
            let at_ns = offset * RECORD_NS;
            timeline.acked(offset, offset * u64::from(PARTITIONS), at_ns, at_ns + 3_000_000);
        }
    }
}

/// Points enough that the memory is full and was thinned several times.
const POINTS: u64 = 200_000;

/// The lag of one partition in seconds, by its offset.
fn find_offset() -> impl FnMut(Range<u64>) {
    let timeline = filled(POINTS);
    move |records: Range<u64>| {
        for sequence in records {
            black_box(timeline.find(Key::Offset(mix(sequence) % POINTS)));
        }
    }
}

/// The lag of four partitions in seconds, by one count.
fn find_total() -> impl FnMut(Range<u64>) {
    let timelines: Vec<Timeline> = (0..PARTITIONS).map(|_| filled(POINTS)).collect();
    move |records: Range<u64>| {
        for sequence in records {
            black_box(find_count(&timelines, mix(sequence) % (POINTS * u64::from(PARTITIONS))));
        }
    }
}
