use super::*;
use crate::core::clock::Clock;
use crate::core::counters::Counters;
use crate::core::lag::Reading;
use crate::core::rate::Rate;
use crate::core::status::RunStatus;
use crate::core::stream::StreamSnapshot;

const SECOND: u64 = 1_000_000_000;

fn snapshot(streams: &[&str], sources: &[(&str, &str)]) -> Snapshot {
    let run = RunStatus {
        state: RunState::Measuring,
        started_ns: Some(3 * SECOND),
        measuring_ns: Some(3 * SECOND),
        duration_ns: Some(4 * 3_600 * SECOND),
        ..RunStatus::starting("t-1", "t")
    };
    let stream = StreamSnapshot {
        target: Rate::from_micros(10_000_000_000).into(),
        counters: Counters { sent: 1_000, acked: 900, ..Counters::default() },
        ..StreamSnapshot::default()
    };
    let source =
        |stream: &str| SourceStatus { stream: stream.to_owned(), up: true, ..SourceStatus::default() };
    Snapshot {
        now_ns: 99_900_000_000,
        clock: Clock::start(),
        run,
        streams: streams.iter().map(|name| ((*name).to_owned(), stream.clone())).collect(),
        sources: sources.iter().map(|(name, of)| ((*name).to_owned(), source(of))).collect(),
        processes: Default::default(),
        machines: Default::default(),
        events: Vec::new(),
        heartbeats: 0,
    }
}

fn read(snapshot: &mut Snapshot, name: &str, ingested: f64, lag: u64, age_ns: u64) {
    let source = snapshot.sources.get_mut(name).unwrap();
    source.reading = Some(Reading {
        progress_records: Some(ingested),
        lag_records: Some(lag),
        lag_ns: Some(age_ns),
        ..Reading::default()
    });
}

fn observed(snapshot: &Snapshot) -> LineState {
    let mut state = LineState::default();
    state.observe(snapshot);
    state
}

#[test]
fn the_classic_line_is_of_this_form() {
    let mut now = snapshot(&["main"], &[("view", "main")]);
    read(&mut now, "view", 500.0, 400, 2_500_000_000);
    let mut state = observed(&now);
    read(&mut now, "view", 880.0, 20, 40_000_000);
    state.observe(&now);
    let expected = "after 96.9s sent 1000 records, ingested 880, lag 20 (0.0 s), max lag 400 (2.5 s)";
    assert_eq!(classic(&now, &state), expected);
    // A peak between two seconds counts.
    let mut peak = now.clone();
    read(&mut peak, "view", 300.0, 600, 3_500_000_000);
    state.sample(&peak);
    assert_eq!(classic(&now, &state), expected.replace("400 (2.5 s)", "600 (3.5 s)"));
    now.run.finished_ns = Some(13 * SECOND);
    assert!(classic(&now, &state).starts_with("after 10.0s sent 1000 records, "));
    now.sources.get_mut("view").unwrap().reading.as_mut().unwrap().lag_at_least = true;
    assert!(classic(&now, &state).contains("lag 20 (>0.0 s), max"));
}

#[test]
fn l2_unknown_is_a_question_mark_and_not_zero() {
    let expected = "after 96.9s sent 1000 records, ingested ?, lag ? (? s), max lag ? (? s)";
    for sources in [&[("view", "main")][..], &[]] {
        let now = snapshot(&["main"], sources);
        assert_eq!(classic(&now, &observed(&now)), expected);
        assert!(live(&now, &observed(&now), 200).contains("lag ?"));
    }
    // A reading that is kept while the source is down is not known either; the maximum stays what it was.
    let mut now = snapshot(&["main"], &[("view", "main")]);
    read(&mut now, "view", 500.0, 400, SECOND);
    let state = observed(&now);
    now.sources.get_mut("view").unwrap().up = false;
    let expected = "after 96.9s sent 1000 records, ingested ?, lag ? (? s), max lag 400 (1.0 s)";
    assert_eq!(classic(&now, &state), expected);
    now.run.started_ns = None;
    assert!(classic(&now, &state).starts_with("after 0.0s "));
}

#[test]
fn s8_of_two_sources_the_one_behind_counts_and_streams_add_up() {
    let mut now = snapshot(&["a", "b"], &[("fast", "a"), ("slow", "a"), ("of_b", "b")]);
    read(&mut now, "fast", 900.0, 0, 0);
    read(&mut now, "slow", 700.0, 200, SECOND);
    read(&mut now, "of_b", 890.0, 10, 3 * SECOND);
    let expected = "sent 2000 records, ingested 1590, lag 210 (3.0 s)";
    assert!(classic(&now, &observed(&now)).contains(expected), "{}", classic(&now, &observed(&now)));
    // One stream that nobody knows of makes the whole unknown.
    now.sources.get_mut("of_b").unwrap().reading = None;
    assert!(classic(&now, &observed(&now)).contains("ingested ?, lag ? (? s)"));
}

#[test]
fn the_live_line_shows_the_last_seconds_and_the_time_that_is_left() {
    let mut now = snapshot(&["main"], &[("view", "main")]);
    read(&mut now, "view", 900.0, 1_234, 100_000_000);
    let mut state = LineState::default();
    for second in 0..100_u64 {
        now.now_ns += SECOND;
        let stream = now.streams.get_mut("main").unwrap();
        // The last ten seconds are faster and better than the rest.
        let (acked, latency_ns) = if second < 89 { (500, 900_000_000) } else { (9_998, 12_000_000) };
        stream.counters.acked += acked;
        for _ in 0..acked {
            stream.ack_from_intended.record(latency_ns);
        }
        state.observe(&now);
    }
    let line = live(&now, &state, 200);
    let expected = "measuring  target 10,000/s  achieved 9,998/s  lag 1,234 (0.1 s)  p99 <= 14.7 ms  3 h 58 min 21 s left";
    assert_eq!(line, expected);
    // A pause stops the clock.
    now.run.state = RunState::Paused;
    state.observe(&now);
    now.now_ns += 1_000 * SECOND;
    state.observe(&now);
    assert!(live(&now, &state, 200).ends_with("3 h 58 min 21 s left"), "{}", live(&now, &state, 200));
    now.run.duration_ns = None;
    assert!(live(&now, &state, 200).ends_with("until stopped"));
    now.run.state = RunState::Draining;
    assert!(live(&now, &state, 200).starts_with("draining  "));
}

#[test]
fn the_live_line_fits_every_terminal_and_keeps_the_lag() {
    let mut now = snapshot(&["main"], &[("view", "main")]);
    read(&mut now, "view", 900.0, 1_234, 100_000_000);
    let state = observed(&now);
    for width in 0..200 {
        let line = live(&now, &state, width);
        assert!(line.chars().count() <= width, "{width}: {line}");
        assert!(width < 20 || line.contains("lag 1,234 (0.1 s)"), "{width}: {line}");
    }
    assert_eq!(live(&now, &state, 60), "measuring  target 10,000/s  achieved ?/s  lag 1,234 (0.1 s)");
}
