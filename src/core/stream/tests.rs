use super::*;
use crate::core::lag::{LagTracker, OnReset, Progress, Sample, ValueKind};
use crate::core::rate::Rate;

const MS: u64 = 1_000_000;

fn stream(clock: Clock, partitions: BTreeMap<u32, PartitionState>) -> Stream {
    let lane = LaneState { partitions, ..LaneState::default() };
    Stream {
        name: "main".to_owned(),
        topic: "t".to_owned(),
        partitions: 2,
        produced: true,
        max_rate: Rate::ZERO,
        clock,
        schedule: Mutex::new(Schedule::new(Rate::ZERO, 1, None, None)),
        lanes: vec![Mutex::new(lane)],
        held_back: Mutex::default(),
    }
}

fn lag(stream: &Stream, at_ns: u64, kind: ValueKind, values: [u64; 2]) -> (Option<u64>, Option<u64>, bool) {
    let sample = Sample {
        asked_ns: at_ns,
        answered_ns: at_ns,
        heads_before: stream.heads(),
        heads_after: stream.heads(),
        markers_before: Vec::new(),
        progress: Progress::Partitions((0..).zip(values.map(Some)).collect()),
    };
    let reading = LagTracker::new(kind, 0, OnReset::True).observe(&sample, stream).reading;
    (reading.lag_records, reading.lag_ns, reading.lag_at_least)
}

/// The process dies, the record's lines are there: the next one, on the same clock, shows the same lag for what the one
/// before acked, and goes on.
#[test]
fn after_a_restart_lag_is_what_it_was() {
    let clock = Clock::start();
    let baseline = 500;
    let before = stream(
        clock,
        (0..2).map(|partition| (partition, PartitionState::resumed(Timeline::default(), baseline))).collect(),
    );
    let (mut told, mut record) = (BTreeMap::new(), Vec::new());
    for sequence in 0..4000_u64 {
        let mut lane = lock(&before.lanes[0]);
        let state = lane.partitions.get_mut(&((sequence % 2) as u32)).unwrap();
        state.timeline.acked(state.head.next_offset, sequence, sequence * MS, sequence * MS);
        state.head.next_offset += 1;
        state.head.acked += 1;
        state.head.last_sequence = Some(sequence);
        drop(lane);
        if sequence % 700 == 0 || sequence == 3999 {
            record.push(serde_json::to_string(&before.timeline_lines(&mut told)).unwrap());
        }
    }
    assert!(before.timeline_lines(&mut told).is_empty(), "all is told");

    let mut timelines: BTreeMap<u32, Timeline> = BTreeMap::new();
    for text in record {
        let lines: BTreeMap<u32, Line> = serde_json::from_str(&text).unwrap();
        for (partition, line) in lines {
            timelines.entry(partition).or_default().restore(line.points().unwrap(), 4000 * MS);
        }
    }
    let resumed = timelines
        .into_iter()
        .map(|(partition, timeline)| (partition, PartitionState::resumed(timeline, baseline)));
    let after = stream(Clock::resume(clock.wall_epoch_ns(), 4000 * MS), resumed.collect());
    assert!(after.clock.now_ns() >= 4000 * MS);
    assert_eq!(after.heads(), before.heads());
    for (kind, values) in [
        (ValueKind::NextOffset, [baseline + 1500, baseline + 1900]),
        (ValueKind::LastOffset, [baseline + 1999, baseline + 1999]),
        (ValueKind::Sequence, [2998, 3999]),
        (ValueKind::Count, [7, 1900]),
        (ValueKind::EventTime, [1000, 3000]),
        (ValueKind::NextOffset, [10, 10]),
    ] {
        let at_ns = 60_000 * MS;
        assert_eq!(lag(&after, at_ns, kind, values), lag(&before, at_ns, kind, values), "{kind:?}");
    }
}

const S: u64 = 1_000_000_000;

fn watched(end: u64) -> Stream {
    let head = Head { next_offset: end, baseline: end, ..Head::default() };
    let state = PartitionState { head, ..PartitionState::default() };
    let lane = LaneState { partitions: [(0, state)].into(), done: true, ..LaneState::default() };
    Stream {
        name: "main".into(),
        topic: "t".into(),
        partitions: 1,
        produced: false,
        max_rate: Rate::ZERO,
        clock: Clock::start(),
        schedule: Mutex::new(Schedule::new(Pace::Steady(Rate::ZERO), 1, None, None)),
        lanes: vec![Mutex::new(lane)],
        held_back: Mutex::default(),
    }
}

#[test]
fn the_timeline_of_a_watched_stream_is_no_younger_than_its_records() {
    let stream = watched(500);
    stream.saw_ends(S, S + 1, &[500]);
    stream.saw_ends(2 * S, 2 * S + 1, &[600]);
    stream.saw_ends(3 * S, 3 * S + 1, &[600]);
    stream.saw_ends(4 * S, 4 * S + 1, &[700]);
    let head = stream.heads()[0];
    assert_eq!((head.next_offset, head.acked, head.baseline, head.unseen), (700, 200, 500, 100));
    assert_eq!(stream.snapshot().watched_records, Some(200));
    let since = |offset| stream.find(0, Key::Offset(offset)).map(|found| found.intended_ns);
    // Offset 500 came between the looks at 1 s and 2 s, offset 600 between those at 3 s and 4 s.
    assert_eq!((since(500), since(599), since(600), since(700)), (Some(S), Some(S), Some(3 * S), None));
    assert!(stream.find(0, Key::Offset(499)).unwrap().at_least, "nobody knows when that came");
    assert_eq!((stream.look_age_ns(9 * S), stream.snapshot().counters.acked), (5 * S, 0));
}

#[test]
fn a_watched_topic_that_is_made_anew_goes_on_counting() {
    let stream = watched(500);
    stream.saw_ends(S, S, &[600]);
    stream.saw_ends(2 * S, 2 * S, &[30]);
    let head = stream.heads()[0];
    assert_eq!((head.next_offset, head.acked, head.baseline), (30, 130, 0));
    assert_eq!(stream.find(0, Key::Offset(10)).map(|found| found.intended_ns), Some(S));
    assert_eq!(stream.snapshot().watched_records, Some(130));
}

#[test]
fn looks_that_fail_make_what_is_known_older() {
    let stream = watched(0);
    assert_eq!(stream.look_age_ns(9 * S), 0, "not looked at yet");
    stream.missed_look(S);
    stream.missed_look(5 * S);
    assert_eq!(stream.look_age_ns(9 * S), 8 * S);
}
