//! A status board with one stream whose heads a test sets by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use soakd::core::clock::Clock;
use soakd::core::event::{Event, EventLog};
use soakd::core::lock::lock;
use soakd::core::rate::Rate;
use soakd::core::schedule::Schedule;
use soakd::core::status::{Board, RunState, RunStatus, SourceStatus};
use soakd::core::stream::{LaneState, Stream};
use soakd::kafka::settings::KafkaSettings;
use soakd::progress::settings::SourceSettings;
use soakd::progress::{Poller, initial_status};

/// The name of the one stream.
pub(crate) const STREAM: &str = "main";

/// A board with a stream of so many partitions and these sources.
pub(crate) fn board(topic: &str, partitions: u32, sources: &[(&str, &SourceSettings)]) -> Arc<Board> {
    let clock = Clock::start();
    let stream = Stream {
        name: STREAM.to_owned(),
        topic: topic.to_owned(),
        partitions,
        produced: true,
        max_rate: Rate::from_micros(u64::MAX),
        clock,
        schedule: Mutex::new(Schedule::new(Rate::ZERO, 1, None, None)),
        lanes: vec![Mutex::new(LaneState::default())],
        held_back: Mutex::default(),
    };
    let board = Board {
        heartbeats: Default::default(),
        clock,
        run: Mutex::new(RunStatus { state: RunState::Measuring, ..RunStatus::starting("test", "test") }),
        streams: BTreeMap::from([(STREAM.to_owned(), Arc::new(stream))]),
        sources: sources
            .iter()
            .map(|(name, settings)| ((*name).to_owned(), Arc::new(Mutex::new(initial_status(settings)))))
            .collect(),
        processes: BTreeMap::new(),
        machines: BTreeMap::new(),
        events: Arc::new(EventLog::default()),
    };
    for partition in 0..partitions {
        set_head(&board, partition, 0);
    }
    Arc::new(board)
}

/// So many records of a partition are acked.
pub(crate) fn set_head(board: &Board, partition: u32, next_offset: u64) {
    let mut lane = lock(&board.streams[STREAM].lanes[0]);
    let head = &mut lane.partitions.entry(partition).or_default().head;
    head.next_offset = next_offset;
    head.acked = next_offset;
    head.last_sequence = next_offset.checked_sub(1);
}

/// The status of a source now.
pub(crate) fn status(board: &Board, source: &str) -> SourceStatus {
    lock(&board.sources[source]).clone()
}

/// A poller of one of the board's sources.
pub(crate) fn poller(board: &Board, name: &str, settings: &SourceSettings, kafka: &KafkaSettings) -> Poller {
    Poller::new(name, settings, kafka, board).unwrap()
}

/// The kinds of all events since the last call.
pub(crate) fn events(board: &Board) -> Vec<&'static str> {
    board.events.drain().iter().map(|stamped| Event::kind(&stamped.event)).collect()
}
