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
    stream.saw_ends(S, S + 1, &[500], 0);
    stream.saw_ends(2 * S, 2 * S + 1, &[600], 0);
    stream.saw_ends(3 * S, 3 * S + 1, &[600], 0);
    stream.saw_ends(4 * S, 4 * S + 1, &[700], 0);
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
    stream.saw_ends(S, S, &[600], 0);
    stream.saw_ends(2 * S, 2 * S, &[30], 0);
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

/// Counted like a producer's acks: 100 to offset 599, then 5 to a topic that was made anew, of which a system has 2.
#[test]
fn a_produced_topic_that_is_made_anew_has_a_head_and_a_timeline_of_its_own() {
    let mut state = PartitionState::resumed(Timeline::default(), 500);
    let ack = |state: &mut PartitionState, offset: u64, sequence: u64| {
        if offset < state.head.next_offset {
            state.begins_again(offset);
        }
        state.timeline.acked(offset, sequence, sequence * S, sequence * S);
        state.head.next_offset = offset + 1;
        state.head.acked += 1;
        state.head.last_sequence = Some(sequence);
    };
    (0..100).for_each(|n| ack(&mut state, 500 + n, n));
    (0..5).for_each(|n| ack(&mut state, n, 100 + n));
    let head = state.head;
    assert_eq!((head.next_offset, head.acked, head.baseline), (5, 105, 0));
    assert_eq!((head.restarts, head.lost), (1, 100));
    let mut two = BTreeMap::from([(0, state.clone())]);
    two.insert(1, PartitionState::default());
    let stream = stream(Clock::start(), two);
    for (kind, values) in [(ValueKind::NextOffset, [2, 0]), (ValueKind::Sequence, [101, 0])] {
        // The oldest of the 3 was intended at 102 s.
        assert_eq!(lag(&stream, 110 * S, kind, values), (Some(3), Some(8 * S), false), "{kind:?}");
    }
    assert_eq!(stream.restarts(), (1, 100));

    // A log that was cut short in the middle of the run lost its end only.
    state.begins_again(3);
    assert_eq!((state.head.next_offset, state.head.restarts, state.head.lost), (3, 2, 102));
    let mut cut = PartitionState::resumed(Timeline::default(), 500);
    (0..100).for_each(|n| ack(&mut cut, 500 + n, n));
    cut.begins_again(590);
    assert_eq!((cut.head.next_offset, cut.head.lost, cut.head.baseline), (590, 10, 500));
}

/// The record of a process that saw it, read by the next one.
#[test]
fn a_timeline_that_began_again_is_restored_as_it_was() {
    let (mut told, mut lines) = (Cursor::default(), Vec::new());
    let mut state = PartitionState::default();
    for (offset, n) in (0..100).map(|n| (n, n)).chain((0..5).map(|n| (n, 100 + n))) {
        if offset < state.head.next_offset {
            state.begins_again(offset);
        }
        state.timeline.acked(offset, n, n * S, n * S);
        (state.head.next_offset, state.head.acked) = (offset + 1, state.head.acked + 1);
        if n % 10 == 9 || n == 104 {
            let (line, next) = Line::since(&state.timeline, told, n * S).unwrap();
            lines.push(line);
            told = next;
        }
    }
    let mut restored = Timeline::default();
    lines.iter().for_each(|line| restored.restore(line.points().unwrap(), 104 * S));
    assert!(restored.points().eq(state.timeline.points()));
    let resumed = PartitionState::resumed(restored, 0).head;
    assert_eq!((resumed.next_offset, resumed.acked), (5, 105));
}

#[test]
fn partitions_that_are_added_to_a_watched_topic_are_part_of_it() {
    let stream = watched(500);
    stream.saw_ends(4 * S, 4 * S, &[500], 0);
    stream.saw_ends(5 * S, 5 * S, &[500, 70], 3 * S);
    let heads = stream.heads();
    assert_eq!((heads.len(), heads[1].next_offset, heads[1].baseline, heads[1].acked), (2, 70, 0, 70));
    // It may have been there since the partitions were counted last.
    assert_eq!(stream.find(1, Key::Offset(0)).map(|found| found.intended_ns), Some(3 * S));
    assert_eq!((stream.timelines().len(), stream.snapshot().watched_records), (2, Some(70)));
    // Made anew with one partition: what came has come, and is gone.
    stream.saw_ends(6 * S, 6 * S, &[7], 3 * S);
    assert_eq!((stream.heads().len(), stream.heads()[0].next_offset), (1, 7));
    assert_eq!((stream.snapshot().watched_records, stream.restarts()), (Some(77), (2, 70)));
    stream.saw_ends(7 * S, 7 * S, &[7, 3], 6 * S);
    assert_eq!((stream.heads()[1].next_offset, stream.snapshot().watched_records), (3, Some(80)));
}
