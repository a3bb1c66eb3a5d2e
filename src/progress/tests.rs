use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use serde_json::json;

use super::*;
use crate::core::clock::Clock;
use crate::core::event::EventLog;
use crate::core::rate::Rate;
use crate::core::schedule::Schedule;
use crate::core::status::RunStatus;

/// A board with the stream `main` of the topic `t` with so many partitions, and one source.
pub(super) fn board_of(name: &str, settings: &SourceSettings, partitions: u32) -> Board {
    let clock = Clock::start();
    let stream = Stream {
        name: "main".to_owned(),
        topic: "t".to_owned(),
        partitions,
        produced: true,
        max_rate: Rate::ZERO,
        clock,
        schedule: Mutex::new(Schedule::new(Rate::ZERO, 1, None, None)),
        lanes: Vec::new(),
        held_back: Mutex::default(),
    };
    Board {
        clock,
        run: Mutex::new(RunStatus::starting("", "")),
        streams: BTreeMap::from([("main".to_owned(), Arc::new(stream))]),
        sources: BTreeMap::from([(name.to_owned(), Arc::new(Mutex::new(initial_status(settings))))]),
        processes: BTreeMap::new(),
        machines: BTreeMap::new(),
        events: Arc::new(EventLog::default()),
        heartbeats: AtomicU64::new(0),
    }
}

#[test]
fn a_source_shows_only_what_its_kind_can_measure() {
    let status = |source| initial_status(&serde_json::from_value(source).unwrap());
    let sql = |value: &str| {
        status(json!({
            "kind": "sql", "stream": "main", "url": "postgres://h/d", "query": "SELECT 1", "value": value
        }))
    };
    assert_eq!((sql("lag_seconds").kind, sql("lag_seconds").value), ("sql", "lag_seconds"));
    assert!(sql("sequence").freshness.is_none() && sql("marker").freshness.is_some());
    let topic = |more: serde_json::Value| {
        let mut source = json!({ "kind": "topic", "stream": "main", "topic": "out", "value": "count" });
        source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        status(source).end_to_end
    };
    assert!(topic(json!({})).is_none() && sql("count").end_to_end.is_none());
    assert!(topic(json!({ "intended": "/t" })).is_some());
    assert!(topic(json!({ "intended_header": "t" })).is_some());
}
