use std::collections::{BTreeMap, VecDeque};

use super::error::TEXT_CHARS;
use super::*;
use crate::core::lag::{OnReset, ValueKind};
use crate::core::marker::Fate;
use crate::core::rate::Rate;
use crate::core::recovery::Trouble;
use crate::core::schedule::Schedule;
use crate::core::status::Freshness;
use crate::core::stream::LaneState;

type Answer = Result<u64, ProbeError>;

/// Answers what it was told to, then waits for ever.
#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    /// How long the first answer takes.
    slow: Duration,
    below_zero: u64,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    ready: u32,
    asked: Vec<Instant>,
    cleaned_up: u32,
}

impl Source for Script {
    fn ready(&mut self, _: Instant) -> Answering<'_, ()> {
        lock(&self.calls).ready += 1;
        Box::pin(std::future::ready(Ok(())))
    }

    fn ask(&mut self, _: Instant) -> Answering<'_, Progress> {
        lock(&self.calls).asked.push(Instant::now());
        let slow = std::mem::take(&mut self.slow);
        Box::pin(async move {
            tokio::time::sleep(slow).await;
            match self.answers.pop_front() {
                Some(answer) => answer.map(|value| Progress::Partitions(BTreeMap::from([(0, Some(value))]))),
                None => std::future::pending().await,
            }
        })
    }

    fn below_zero(&self) -> u64 {
        self.below_zero
    }

    fn after_failure(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        lock(&self.calls).cleaned_up += 1;
        Box::pin(std::future::ready(()))
    }
}

fn failed(kind: ProgressErrorKind) -> ProbeError {
    ProbeError::new(kind, "no luck".to_owned())
}

struct Bench {
    poller: Poller,
    cell: Arc<Mutex<SourceStatus>>,
    events: Arc<EventLog>,
    calls: Arc<Mutex<Calls>>,
}

impl Bench {
    /// A source of a stream with one partition that is acked up to offset 1000.
    fn new(answers: impl IntoIterator<Item = Answer>, slow: Duration) -> Self {
        let clock = Clock::start();
        let mut lane = LaneState::default();
        let head = &mut lane.partitions.entry(0).or_default().head;
        (head.next_offset, head.acked) = (1000, 1000);
        let stream = Stream {
            name: "main".to_owned(),
            topic: "t".to_owned(),
            partitions: 1,
            produced: true,
            max_rate: Rate::ZERO,
            clock,
            schedule: Mutex::new(Schedule::new(Rate::ZERO, 1, None, None)),
            lanes: vec![Mutex::new(lane)],
            held_back: Mutex::default(),
        };
        let (cell, events, calls) = (Arc::default(), Arc::default(), Arc::default());
        let wiring = Wiring {
            name: "view".to_owned(),
            interval: Duration::from_millis(100),
            timeout: Duration::from_millis(300),
            standstill_after: Duration::from_secs(1),
            stream: Arc::new(stream),
            cell: Arc::clone(&cell),
            events: Arc::clone(&events),
            clock,
            tracker: LagTracker::new(ValueKind::NextOffset, 0, OnReset::True),
        };
        let answers = answers.into_iter().collect();
        let source = Script { answers, slow, below_zero: 2, calls: Arc::clone(&calls) };
        Self { poller: Poller::with(wiring, Box::new(source)), cell, events, calls }
    }

    fn lag(&self) -> Option<u64> {
        lock(&self.cell).reading.as_ref().and_then(|reading| reading.lag_records)
    }

    fn new_events(&self) -> Vec<&'static str> {
        self.events.drain().iter().map(|stamped| stamped.event.kind()).collect()
    }
}

#[tokio::test]
async fn m4_a_failed_poll_moves_no_figure_and_after_three_there_is_none() {
    use ProgressErrorKind::{Connect, Query};
    let answers = [
        Ok(900),
        Err(failed(Connect)),
        Err(failed(Query)),
        Err(failed(Connect)),
        Err(failed(Connect)),
        Ok(950),
    ];
    let mut bench = Bench::new(answers, Duration::ZERO);
    bench.poller.poll_once().await.unwrap();
    assert_eq!(bench.lag(), Some(100));
    let good = lock(&bench.cell).last_success_ns;
    for (missed, lag) in [(1, Some(100)), (2, Some(100)), (3, None), (4, None)] {
        bench.poller.poll_once().await.unwrap_err();
        let cell = lock(&bench.cell).clone();
        assert_eq!((cell.up, cell.missed_polls, cell.last_success_ns), (false, missed, good));
        assert_eq!(cell.error.as_deref(), Some("no luck"));
        assert_eq!(bench.lag(), lag, "after {missed} missed polls");
    }
    bench.poller.poll_once().await.unwrap();
    assert_eq!(bench.lag(), Some(50));
    let cell = lock(&bench.cell).clone();
    assert_eq!((cell.up, cell.missed_polls, cell.error), (true, 0, None));
    assert_eq!((cell.polls_total, cell.errors, cell.duration.count()), (2, [3, 0, 1, 0, 0], 6));
    // One event a change of state, however many polls fail.
    assert_eq!(bench.new_events(), ["source_lost", "source_found"]);
    assert_eq!(lock(&bench.calls).cleaned_up, 4);
}

#[tokio::test]
async fn z5_what_was_closed_while_idle_is_tried_once_more_in_the_same_poll() {
    let stale = || Err(failed(ProgressErrorKind::Connect).stale(true));
    let mut bench = Bench::new([stale(), Ok(990), stale(), stale()], Duration::ZERO);
    assert_eq!(bench.poller.poll_once().await.unwrap().reading.lag_records, Some(10));
    assert_eq!((lock(&bench.calls).ready, lock(&bench.cell).missed_polls), (2, 0));
    assert_eq!(bench.new_events(), Vec::<&str>::new());
    // Once only: what fails again is down.
    bench.poller.poll_once().await.unwrap_err();
    assert_eq!((lock(&bench.calls).ready, lock(&bench.cell).missed_polls), (4, 1));
}

#[tokio::test]
async fn l12_a_source_that_forgets_its_deadline_is_given_up() {
    let mut bench = Bench::new([], Duration::ZERO);
    let error = bench.poller.poll_once().await.unwrap_err();
    assert_eq!((error.kind, error.text.as_str()), (ProgressErrorKind::Timeout, "no answer within 300ms"));
}

#[tokio::test]
async fn r6_polls_that_were_missed_are_not_made_up_for() {
    let stood_still = Duration::from_millis(600);
    let bench = Bench::new((0..50).map(Ok), stood_still);
    let stop = CancellationToken::new();
    let running = tokio::spawn(bench.poller.run(stop.clone()));
    while lock(&bench.calls).asked.len() < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    running.await.unwrap();
    let asked = lock(&bench.calls).asked.clone();
    assert!(asked[1] - asked[0] >= stood_still, "one at a time");
    assert!(
        asked[3] - asked[1] >= Duration::from_millis(150),
        "two polls in two intervals, not six at once: {asked:?}"
    );
}

#[tokio::test]
async fn a_running_poller_can_be_asked_for_a_poll_at_once_and_ends_in_the_middle_of_one() {
    let mut bench = Bench::new([Ok(1), Ok(2)], Duration::ZERO);
    bench.poller.wiring.interval = Duration::from_secs(3600);
    bench.poller.wiring.timeout = Duration::from_secs(3600);
    let (wake, stop) = (bench.poller.wake(), CancellationToken::new());
    let running = tokio::spawn(bench.poller.run(stop.clone()));
    for polls in 1..=3 {
        while lock(&bench.calls).asked.len() < polls {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        wake.notify_one();
    }
    // The third never answers.
    stop.cancel();
    running.await.unwrap();
    assert_eq!(lock(&bench.cell).missed_polls, 0);
}

#[test]
fn an_error_text_is_one_short_line() {
    let error = ProbeError::new(ProgressErrorKind::Query, format!("a\nb{}", "ü".repeat(10_000)));
    assert!(error.text.starts_with("a b") && error.text.chars().count() <= TEXT_CHARS + 1);
}

#[tokio::test]
async fn markers_and_what_was_read_are_put_on_the_board() {
    let mut bench = Bench::new([Ok(0), Ok(1), Err(failed(ProgressErrorKind::Query))], Duration::ZERO);
    bench.poller.wiring.tracker = LagTracker::new(ValueKind::Marker, 0, OnReset::True);
    lock(&bench.cell).freshness = Some(Freshness::default());
    lock(&bench.cell).interval_ns = 100_000_000;
    {
        let mut lane = lock(&bench.poller.wiring.stream.lanes[0]);
        let markers = &mut lane.partitions.entry(0).or_default().markers;
        for number in 0..2 {
            markers.sent(number, number);
            markers.report(number, Fate::Acked);
        }
    }
    let fresh = |bench: &Bench| lock(&bench.cell).freshness.clone().unwrap();
    bench.poller.poll_once().await.unwrap();
    assert_eq!(fresh(&bench).latency.buckets().count(), 1);
    assert!(fresh(&bench).oldest_unseen_ns.is_some_and(|age_ns| age_ns > 0));
    let cell = lock(&bench.cell).clone();
    assert_eq!((cell.partitions.len(), cell.partitions[0].value), (1, Some(0)));
    assert!(cell.resolution_ns.is_some_and(|ns| ns > 100_000_000), "{:?}", cell.resolution_ns);
    bench.poller.poll_once().await.unwrap();
    assert_eq!(fresh(&bench).latency.buckets().count(), 2);
    assert_eq!(fresh(&bench).oldest_unseen_ns, Some(0));
    // After three missed polls nothing is known any more; what was measured stays.
    bench.poller.poll_once().await.unwrap_err();
    assert_eq!(fresh(&bench).oldest_unseen_ns, Some(0));
    for _ in 0..2 {
        bench.poller.poll_once().await.unwrap_err();
    }
    assert_eq!((fresh(&bench).oldest_unseen_ns, fresh(&bench).latency.buckets().count()), (None, 2));
    assert!(lock(&bench.cell).partitions.is_empty());
}

#[tokio::test]
async fn l13_a_clock_that_is_ahead_is_counted() {
    let mut bench = Bench::new([Ok(u64::MAX / 2_000_000), Ok(0)], Duration::ZERO);
    bench.poller.wiring.tracker = LagTracker::new(ValueKind::EventTime, 0, OnReset::True);
    bench.poller.poll_once().await.unwrap();
    bench.poller.poll_once().await.unwrap();
    assert_eq!(lock(&bench.cell).clock_ahead, 1);
}

#[test]
fn end_to_end_latencies_add_up_and_what_others_hold_stays() {
    let mut cell = SourceStatus::default();
    let read = || {
        let mut latency = Latency::new();
        latency.record(1_000_000);
        Some(latency)
    };
    let seen = Observation::default();
    drop(show(&mut cell, &seen, None));
    assert!(cell.end_to_end.is_none());
    drop(show(&mut cell, &seen, read()));
    let shown = cell.clone();
    drop(show(&mut cell, &seen, read()));
    let count = |cell: &SourceStatus| cell.end_to_end.as_ref().map(|latency| latency.buckets().count());
    assert_eq!((count(&shown), count(&cell)), (Some(1), Some(2)));
}

#[tokio::test]
async fn pace_catch_up_and_recovery_are_put_on_the_board() {
    use ProgressErrorKind::Connect;
    let down = || Err(failed(Connect));
    let answers = [Ok(50), Ok(100), Ok(200), Ok(300), down(), down(), down(), Ok(600), Ok(10), Ok(1000)];
    let mut bench = Bench::new(answers, Duration::ZERO);
    bench.poller.wiring.interval = Duration::from_millis(20);
    let cell = Arc::clone(&bench.cell);
    let board = || lock(&cell).clone();
    for _ in 0..4 {
        bench.poller.poll_once().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let shown = board();
    let pace = shown.ingest_records_per_second.unwrap();
    assert!(pace > 0.0 && pace < 100.0 / 0.02, "{pace}");
    assert_eq!(shown.catch_up_ns, Some((700.0 / pace * 1e9) as u64));
    assert_eq!(shown.recovery, None);
    for _ in 0..3 {
        bench.poller.poll_once().await.unwrap_err();
    }
    let shown = board();
    assert_eq!((shown.ingest_records_per_second, shown.catch_up_ns), (None, None));
    assert_eq!(shown.recovery.unwrap().back_ns, None);
    bench.poller.poll_once().await.unwrap();
    let back = board().recovery.unwrap().back_ns;
    assert!(back.is_some_and(|ns| ns > 0));
    // It reads again within the same trouble, and has caught up: no pace across the fall, nothing left to catch up with.
    lock(&bench.poller.wiring.stream.lanes[0]).partitions.get_mut(&0).unwrap().head.next_offset = 1000;
    bench.poller.poll_once().await.unwrap();
    assert_eq!(board().ingest_records_per_second, None);
    bench.poller.poll_once().await.unwrap();
    let shown = board();
    assert!(shown.recovery.unwrap().caught_up_ns.is_some());
    assert_eq!((shown.catch_up_ns, shown.resets), (None, 1));
}

#[tokio::test]
async fn a_standstill_begins_at_its_threshold_and_is_something_to_come_back_from() {
    let answers = (0..2_000).map(|_| Ok(50)).chain([Ok(60), Ok(1000)]);
    let mut bench = Bench::new([Ok(40), Ok(50)].into_iter().chain(answers), Duration::ZERO);
    bench.poller.standstill = Standstill::new(50_000_000);
    let cell = Arc::clone(&bench.cell);
    let board = || lock(&cell).clone();
    let mut first_ns = 0;
    while board().standstills == 0 {
        bench.poller.poll_once().await.unwrap();
        if board().polls_total == 2 {
            first_ns = board().last_success_ns.unwrap();
        }
        assert_eq!(board().standstill_ns == 0, board().standstills == 0);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (shown, began) = (board(), board().recovery.unwrap());
    let since_ns = shown.last_success_ns.unwrap() - first_ns;
    assert_eq!(shown.standstill_ns, since_ns, "from the last sample that showed progress");
    assert!((50_000_000..10_000_000_000).contains(&since_ns), "{since_ns}");
    assert_eq!((began.trouble, began.back_ns), (Trouble::StoodStill, None));
    while bench.poller.poll_once().await.unwrap().progress == Progress::Partitions([(0, Some(50))].into()) {}
    let moved = board();
    let until_ns = moved.last_success_ns.unwrap() - first_ns;
    assert_eq!(
        (moved.standstills, moved.standstill_ns),
        (1, until_ns),
        "up to the first that shows it again"
    );
    assert!(moved.recovery.unwrap().back_ns.unwrap() >= shown.standstill_ns);
    bench.poller.poll_once().await.unwrap();
    assert!(board().recovery.unwrap().caught_up_ns.is_some());
    assert_eq!(board().below_zero, 2);
    assert_eq!(bench.new_events(), ["standstill_began", "standstill_ended", "recovered"]);
}

#[tokio::test]
async fn a_figure_does_not_stay_while_its_source_says_nothing() {
    let Bench { mut poller, cell, .. } = Bench::new([Ok(900)], Duration::ZERO);
    poller.wiring.timeout = Duration::from_secs(600);
    let stop = CancellationToken::new();
    let task = tokio::spawn(poller.run(stop.clone()));
    let looks = |wanted: fn(&SourceStatus) -> bool| {
        let cell = Arc::clone(&cell);
        async move {
            while !wanted(&lock(&cell)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    let limit = Duration::from_secs(20);
    timeout(limit, looks(|cell| cell.up && cell.reading.is_some())).await.expect("the first answer");
    timeout(limit, looks(|cell| !cell.up && cell.reading.is_none())).await.expect("the figure goes");
    let seen = lock(&cell).clone();
    assert!(seen.error.unwrap().starts_with("no answer for 0.3"));
    // The poll is still on its way: it has not failed.
    assert_eq!((seen.missed_polls, seen.errors.iter().sum::<u64>()), (0, 0));
    stop.cancel();
    task.await.unwrap();
}
