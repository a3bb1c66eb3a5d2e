//! The hot path allocates nothing for a record.
#![allow(unsafe_code)] // an allocator that counts cannot be written without

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

use soakd::core::clock::Clock;
use soakd::core::event::EventLog;
use soakd::core::lock::lock;
use soakd::core::rate::Rate;
use soakd::core::schedule::Schedule;
use soakd::core::stream::Stream;
use soakd::core::walk::Overload;
use soakd::kafka::settings::KafkaSettings;
use soakd::kafka::watch::TopicHealth;
use soakd::produce::lane::{Finish, Lane, LaneHandles, LaneSettings};
use soakd::produce::settings::StreamSettings;
use soakd::record::{Maker, Wanted};

use crate::mock::MockKafka;

/// The system's allocator, counting what each thread asks for. The Kafka client's own memory is C's and not counted.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

fn count() {
    // Not there while a thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs one of two lanes over so many records of the stream; returns what it allocated and how many it sent.
fn allocations(kafka: &MockKafka, records: u64, settings: &str) -> (u64, u64) {
    let of: StreamSettings = toml::from_str(settings).unwrap();
    let (at, run_id, partitions) = ("streams.main", "r", kafka.partitions as u32);
    let wanted = Wanted {
        seed: 1,
        seed_name: "main",
        at,
        run_id,
        topic: "t",
        look_only: false,
        partitions,
        key: &of.key,
        value: &of.value,
        headers: &of.headers,
        markers: of.marker.interval.is_some(),
        records: Some(records),
    };
    let clock = Clock::start();
    let rate = Rate::from_per_second(100_000.0).unwrap();
    let stream = Arc::new(Stream {
        name: "main".into(),
        topic: "t".into(),
        partitions,
        produced: true,
        max_rate: rate,
        clock,
        schedule: Mutex::new(Schedule::new(rate, 2, None, Some(records))),
        lanes: vec![Mutex::default(), Mutex::default()],
        held_back: Mutex::default(),
    });
    let handles = LaneHandles {
        stream: Arc::clone(&stream),
        health: Arc::new(TopicHealth::default()),
        events: Arc::new(EventLog::default()),
        finish: Arc::new(Finish::default()),
    };
    let settings = LaneSettings {
        kafka: Arc::new(KafkaSettings { brokers: vec![kafka.brokers()], ..KafkaSettings::default() }),
        overload: Overload { max_debt_ns: None, max_catch_up_milli: 2000 },
        max_in_flight: None,
        marker_interval_ns: of.marker.interval.map(|interval| interval.get().as_nanos() as u64),
    };
    let lane = Lane::new(handles, settings, 1, Maker::new(&wanted).unwrap()).unwrap();
    let thread = std::thread::spawn(move || {
        let before = ALLOCATIONS.get();
        lane.run();
        ALLOCATIONS.get() - before
    });
    lock(&stream.schedule).start(clock.now_ns());
    let allocated = thread.join().unwrap();
    let counters = lock(&stream.lanes[1]).counters;
    assert_eq!((counters.acked, counters.sent), (counters.scheduled, counters.scheduled));
    (allocated, counters.sent)
}

#[test]
fn a_record_costs_no_allocation_of_soakds_own() {
    let kafka = MockKafka::start(5);
    let settings = "\
         key = { kind = \"zipf\", format = \"padded\", size = 20 }\n\
         value = { kind = \"json\", size = 200, tombstones = 0.1 }\n\
         headers = { run = true, sequence = true, custom = { a = \"b\" } }\n\
         marker = { interval = \"100ms\" }";
    let (few_allocations, few) = allocations(&kafka, 20_000, settings);
    let (many_allocations, many) = allocations(&kafka, 120_000, settings);
    assert!(few > 5000 && many > 5 * few, "{few} and {many} records");
    // What grows: buffers to their size, timelines by a point in ten milliseconds, the client's statistics twice a second.
    let more = many_allocations.saturating_sub(few_allocations);
    assert!(more < (many - few) / 20, "{more} allocations for {} records more", many - few);
}
