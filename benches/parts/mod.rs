//! The pure parts of a record's way, each as a loop over record numbers: for `pure` (nanoseconds) and for `helper`
//! under callgrind (instructions).

use std::hint::black_box;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use soakd::core::arrivals::Arrivals;
use soakd::core::histogram::Latency;
use soakd::core::profile::{Course, Profile, Segment};
use soakd::core::rate::Rate;
use soakd::core::schedule::Schedule;
use soakd::core::shape::Shape;
use soakd::core::timeline::{Key, Timeline, find_count};
use soakd::core::walk::Walk;
use soakd::record::hash::{mix, murmur2};
use soakd::record::settings::{HeaderSettings, KeySettings, ValueSettings};
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
    let mut parts = schedules();
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

/// Every way in which the instants of records are found.
fn schedules() -> Vec<Part> {
    let rate = Rate::from_per_second(RECORDS_PER_SECOND).expect("a rate");
    let shaped = |shape| {
        let segment = Segment { course: Course::Shape(shape), length_ns: u64::MAX };
        let profile = Profile::new(vec![segment], 1, Value::Null).expect("a segment");
        Schedule::new(Rate::ZERO, 1, None, None).with_profile(profile, 0)
    };
    // So slow a ramp that the rate is what it says throughout.
    let ramp =
        Shape::Ramp { from: rate, to: Rate::from_micros(2 * rate.micros()), over_ns: 1 << 50, at_ns: 0 };
    let amplitude = Rate::from_micros(rate.micros() / 2);
    let sine = Shape::Sine { mean: rate, amplitude, period_ns: 60_000_000_000, at_ns: 0 };
    let even = move || Schedule::new(rate, 1, None, None);
    vec![
        Part::new("schedule/100,000 a second", move || schedule(even())),
        Part::new("schedule/poisson", move || schedule(even().with_arrivals(Arrivals::Poisson { seed: 1 }))),
        Part::new("schedule/ramp", move || schedule(shaped(ramp))),
        Part::new("schedule/sine", move || schedule(shaped(sine))),
    ]
}

/// What a lane asks the schedule: at each millisecond what is due, for each record when it was intended.
fn schedule(mut schedule: Schedule) -> impl FnMut(Range<u64>) {
    let mut walk = Walk::new(None, schedule.arrivals());
    schedule.start(0);
    schedule.catch_up(0, 0, |phase| walk.push(phase));
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
        look_only: false,
        partitions: PARTITIONS,
        key,
        value,
        headers: &HeaderSettings::default(),
        markers: false,
        records: None,
    };
    Maker::new(&wanted).expect("settings that need no file")
}

/// A key and its partition.
fn keys() -> Vec<Part> {
    let kinds = [
        ("none", json!({"kind": "none"})),
        ("sequential 8 B", json!({"kind": "sequential", "size": 8})),
        ("unique 8 B", json!({"kind": "unique", "size": 8})),
        ("uniform 8 B", json!({"kind": "uniform", "size": 8})),
        ("uniform 20 digits", json!({"kind": "uniform", "format": "padded", "size": 20})),
        ("zipf 8 B", json!({"kind": "zipf", "size": 8})),
        ("hotspot 8 B", json!({"kind": "hotspot", "size": 8})),
        ("random64 8 B", json!({"kind": "random64", "size": 8})),
    ];
    let part = |(name, settings): (&str, Value)| {
        let name = format!("key/{name}");
        let key = known(&name, settings)?;
        Some(Part::new(name, move || keyed(&key)))
    };
    kinds.into_iter().filter_map(part).collect()
}

fn keyed(settings: &KeySettings) -> impl FnMut(Range<u64>) + use<> {
    let mut maker = maker(settings, &ValueSettings::default());
    let mut key = Vec::new();
    move |records: Range<u64>| {
        for sequence in records {
            black_box(maker.key(sequence, &mut key));
        }
    }
}

const TEMPLATE: &str = r#"{"n": {{sequence}}, "at": {{intended_iso}}, "uuid": {{uuid}}, "user": {"age": {{int 18 99}},
    "name": {{text 5}}}, "state": {{pick new paid sent}}}"#;

/// A value and, where the format has keys of its own, its key.
fn values() -> Vec<Part> {
    let kinds = [
        ("random 100 B", json!({"kind": "random", "size": 100})),
        ("random 1 KB", json!({"kind": "random", "size": 1024})),
        ("random 1 KB, half compressible", json!({"kind": "random", "size": 1024, "compressibility": 0.5})),
        ("random 100 to 1000 B", json!({"kind": "random", "size": {"min": 100, "max": 1000}})),
        ("json 300 B", json!({"kind": "json", "size": 300})),
        ("json 700 B with schema", json!({"kind": "json", "size": 700, "connect_schema": true})),
        ("template", json!({"kind": "template", "template": TEMPLATE})),
        ("preset fillseq", json!({"kind": "preset", "name": "fillseq"})),
        ("preset upsert", json!({"kind": "preset", "name": "upsert"})),
        ("preset ycsb", json!({"kind": "preset", "name": "ycsb"})),
        ("preset openedx_tracking", json!({"kind": "preset", "name": "openedx_tracking"})),
        ("preset xapi", json!({"kind": "preset", "name": "xapi"})),
        ("preset order_lines", json!({"kind": "preset", "name": "orders", "table": "order_lines"})),
    ];
    let part = |(name, settings): (&str, Value)| {
        let name = format!("value/{name}");
        // Presets have keys of their own, which belong to the making of their values.
        let own_keys = settings.get("kind").is_some_and(|kind| kind == "preset");
        let value = known(&name, settings)?;
        Some(Part::new(name, move || made(&value, own_keys)))
    };
    let mut parts: Vec<Part> = kinds.into_iter().filter_map(part).collect();
    parts.extend(lines());
    parts
}

fn made(settings: &ValueSettings, own_keys: bool) -> impl FnMut(Range<u64>) + use<> {
    let mut maker = maker(&KeySettings::default(), settings);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    move |records: Range<u64>| {
        for sequence in records {
            let mut partition = (sequence % u64::from(PARTITIONS)) as u32;
            let mut key_id = sequence;
            if own_keys {
                let keyed = maker.key(sequence, &mut key);
                (key_id, partition) = (keyed.id, keyed.partition);
            }
            let intended_ms = 1_800_000_000_000;
            let facts = Facts { sequence, partition, key_id, intended_ms, marker: false };
            let _ = black_box(maker.value(&facts, &mut value));
            black_box(&value);
        }
    }
}

/// Lines of a file of 10,000, as they are.
fn lines() -> Option<Part> {
    let name = "value/file of JSON lines";
    let settings = |path: &Path| json!({"kind": "file", "path": path});
    known::<ValueSettings>(name, settings(Path::new("a file")))?;
    let work = move || {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        let line = format!(r#"{{"name":"somebody","text":"{}"}}"#, "x".repeat(100)) + "\n";
        file.write_all(line.repeat(10_000).as_bytes()).expect("room for it");
        let mut work = made(&known(name, settings(file.path())).expect("settings of a file"), false);
        move |records: Range<u64>| {
            // It is deleted when it is dropped.
            let _ = &file;
            work(records);
        }
    };
    Some(Part::new(name, work))
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
