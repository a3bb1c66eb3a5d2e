//! Schedule and lanes together, for every way of asking for a load: exact to the record, whatever the lanes and their wake-ups.

use proptest::prelude::*;

use super::*;
use crate::core::pace::Pace;
use crate::core::profile::{Course, Profile, Segment};
use crate::core::rate::Rate;
use crate::core::schedule::{Schedule, WINDOW};
use crate::core::shape::Shape;

const SECOND: u64 = 1_000_000_000;
/// So fast that the bucket, which has tests of its own, keeps nothing back for long.
const NEVER_DROP: Overload = Overload { max_debt_ns: None, max_catch_up_milli: 1_000_000_000 };

/// Record n belongs to a lane by a hash, as keys do.
struct Share {
    index: u64,
    lanes: u64,
}

impl Share {
    fn owns(&self, record: u64) -> bool {
        (record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % self.lanes == self.index
    }
}

impl Owner for Share {
    fn count(&mut self, from: u64, to: u64) -> u64 {
        (from..to).filter(|record| self.owns(*record)).count() as u64
    }
}

/// A lane without a client.
struct Worker {
    share: Share,
    pacer: Pacer,
    /// Records handed over, with their intended times.
    sent: Vec<(u64, u64)>,
    dropped: u64,
    walked: u64,
}

impl Worker {
    fn all(lanes: u64, schedule: &Schedule) -> Vec<Self> {
        let worker = |index| Self {
            share: Share { index, lanes },
            pacer: Pacer::new(NEVER_DROP, schedule.max_records(), schedule.arrivals()),
            sent: Vec::new(),
            dropped: 0,
            walked: 0,
        };
        (0..lanes).map(worker).collect()
    }

    /// What a lane does at a wake-up, with room for so many records. `claim` is how many it claims at "max".
    fn wake(&mut self, schedule: &mut Schedule, now: u64, room: usize, claim: u64) {
        let Self { share, pacer, sent, dropped, walked } = self;
        let now = now.max(*walked);
        *walked = now;
        let index = share.index as usize;
        schedule.walked(pacer.reached());
        schedule.catch_up(index, now, |phase| {
            *dropped += pacer.push(phase, share).map_or(0, |(_, records)| records);
        });
        if let Some(from) = pacer.unclaimed(now) {
            let upto = schedule.claim(index, now, from, claim);
            if upto > from {
                pacer.claim(now, upto);
            }
        }
        *dropped += pacer.advance(now, share).records;
        let tokens = pacer.tokens(now);
        let to = pacer.allowed(tokens);
        let full = sent.len() + room;
        while pacer.next() < to && sent.len() < full {
            let own = share.owns(pacer.next());
            if own {
                let intended = pacer.intended_ns();
                assert!(intended <= now, "handed over {} ns early", intended - now);
                sent.push((pacer.next(), intended));
            }
            pacer.step(own);
        }
        assert_eq!(pacer.scheduled(), sent.len() as u64 + *dropped + pacer.backlog());
    }
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![1 => Just(0_u64), 4 => 500_000_u64..=2_000_000_000].prop_map(Rate::from_micros)
}

fn course() -> impl Strategy<Value = Course> {
    let part = 0.0..=1.0_f64;
    prop_oneof![
        3 => rate().prop_map(|rate| Course::Shape(Shape::Constant(rate))),
        2 => (rate(), rate(), 10_000_000..2 * SECOND).prop_map(|(from, to, over_ns)| {
            Course::Shape(Shape::Ramp { from, to, over_ns, at_ns: 0 })
        }),
        2 => (rate(), part.clone(), 10_000_000..SECOND, part).prop_map(|(mean, part, period_ns, at)| {
            let amplitude = Rate::from_micros((mean.micros() as f64 * part) as u64);
            let at_ns = (period_ns as f64 * at) as u64;
            Course::Shape(Shape::Sine { mean, amplitude, period_ns, at_ns })
        }),
        2 => (rate(), 1_000_000..SECOND, rate(), 0..SECOND).prop_map(|(rate, burst_ns, idle, more_ns)| {
            Course::Burst { rate, burst_ns, idle, every_ns: burst_ns + more_ns }
        }),
    ]
}

fn segments() -> impl Strategy<Value = (Vec<Segment>, u64)> {
    let segment =
        (course(), 10_000_000..2 * SECOND).prop_map(|(course, length_ns)| Segment { course, length_ns });
    (prop::collection::vec(segment, 1..5), prop_oneof![1_u64..4, Just(u64::MAX)])
}

fn profile((segments, times): (Vec<Segment>, u64)) -> Profile {
    Profile::new(segments, times, serde_json::Value::Null).unwrap()
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    prop_oneof![Just(Arrivals::Even), any::<u64>().prop_map(|seed| Arrivals::Poisson { seed })]
}

#[derive(Debug, Clone)]
enum Change {
    Pace(Pace),
    Profile(Vec<Segment>, u64),
    Paused(bool),
    Held(bool),
    /// Nothing but a new phase.
    Cut,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => rate().prop_map(|rate| Change::Pace(rate.into())),
        2 => Just(Change::Pace(Pace::Max)),
        4 => segments().prop_map(|(segments, times)| Change::Profile(segments, times)),
        1 => any::<bool>().prop_map(Change::Paused),
        1 => any::<bool>().prop_map(Change::Held),
        1 => Just(Change::Cut),
    ]
}

fn apply(schedule: &mut Schedule, now: u64, change: Change) {
    match change {
        Change::Pace(pace) => {
            schedule.set_rate(now, pace);
        }
        Change::Profile(segments, times) => {
            schedule.set_profile(now, profile((segments, times)));
        }
        Change::Paused(on) => {
            schedule.set_paused(now, on);
        }
        Change::Held(on) => {
            schedule.set_held(now, on);
        }
        Change::Cut => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every lane takes each of its records once, whatever was asked for and whenever the lanes woke up; records of lanes that
    /// look late are those of lanes that look often.
    #[test]
    fn lanes_share_any_load_without_loss_or_overlap(
        lanes in 1_u64..5,
        arrivals in arrivals(),
        preload in prop_oneof![Just(0_u64), 1_u64..3000],
        max_records in prop_oneof![2 => Just(None), 1 => (1_u64..3000).prop_map(Some)],
        limit_ns in prop_oneof![2 => Just(None), 1 => (1_u64..4 * SECOND).prop_map(Some)],
        changes in prop::collection::vec((1_u64..SECOND, change()), 1..8),
        wakes in prop::collection::vec((1_u64..100_000_000, 0_u64..30_000_000, 0_usize..3000, 1_u64..200), 5..40),
    ) {
        let mut schedule = Schedule::new(Rate::from_micros(300_000_000), lanes as usize, limit_ns, max_records)
            .with_preload(preload)
            .with_arrivals(arrivals);
        let mut workers = Worker::all(lanes, &schedule);
        let mut wakes = wakes.into_iter().cycle();
        let mut now = 1;
        schedule.start_preload(now);
        while workers.iter().map(|worker| worker.sent.len() as u64).sum::<u64>() < preload {
            now += 1_000_000;
            workers.iter_mut().for_each(|worker| worker.wake(&mut schedule, now, 500, 100));
        }
        schedule.start(now);
        prop_assert_eq!(schedule.due(now), preload);
        for (length, change) in changes {
            let end = now + length;
            while now < end {
                let (by, apart, room, claim) = wakes.next().unwrap();
                now = (now + by).min(end);
                // The last lane looks at the schedule with a clock that is behind the others'.
                for (back, worker) in workers.iter_mut().rev().enumerate() {
                    let walked = now.saturating_sub(apart * back as u64).max(1);
                    worker.wake(&mut schedule, walked, room, claim);
                }
            }
            apply(&mut schedule, now, change);
        }
        let counted = schedule.due(now);
        schedule.stop(now);
        prop_assert_eq!(schedule.due(now), counted, "a stop makes nothing due");
        for worker in &mut workers {
            worker.wake(&mut schedule, now, usize::MAX / 2, 0);
            prop_assert!(worker.pacer.finished(now));
        }
        prop_assert_eq!(workers.iter().map(|worker| worker.pacer.scheduled()).sum::<u64>(), counted);
        prop_assert!(schedule.max_records().is_none_or(|max| counted <= max));
        let mut all: Vec<(u64, u64)> = workers.iter().flat_map(|worker| worker.sent.clone()).collect();
        all.sort_unstable();
        for pair in all.windows(2) {
            prop_assert!(pair[0].0 < pair[1].0, "{:?}", pair);
        }
        for worker in &workers {
            prop_assert!(worker.sent.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{:?}", worker.sent);
            prop_assert!(worker.sent.iter().all(|(_, intended)| *intended <= now));
        }
    }

    /// A profile has the count of its integral at every moment, whoever looked when, and cuts in its middle move nothing.
    #[test]
    fn a_profile_is_exact_and_never_priced_again(
        plan in segments(),
        warmup in 0..SECOND,
        looks in prop::collection::vec((1..SECOND, 0_u8..4), 1..20),
    ) {
        let (profile, start) = (profile(plan), 7);
        let first = profile.pace(0).rate().unwrap();
        let schedule = || Schedule::new(Rate::ZERO, 1, None, None).with_profile(profile.clone(), warmup);
        let (mut watched, mut late) = (schedule(), schedule());
        watched.start(start);
        late.start(start);
        let mut now = start;
        for (length, look) in looks {
            now += length;
            let ran = now - start;
            let exact = u128::from(first.micros()) * u128::from(ran.min(warmup))
                + profile.accrued(ran.saturating_sub(warmup));
            let due = u64::try_from(exact.div_ceil(RECORD)).unwrap();
            prop_assert_eq!(watched.due(now), due);
            match look {
                0 => { watched.set_paused(now, true); watched.set_paused(now, false); }
                1 => { watched.set_held(now, true); watched.set_held(now, false); }
                _ => {}
            }
            prop_assert_eq!(watched.due(now), due, "a cut moves nothing");
        }
        prop_assert_eq!(late.due(now), watched.due(now), "who looks once sees the same");
    }

    /// Intended times do not depend on when lanes woke up, on cuts or on the number of lanes.
    #[test]
    fn intended_times_are_those_of_the_plan(
        plan in segments(),
        arrivals in arrivals(),
        lanes in 2_u64..4,
        wakes in prop::collection::vec(1..SECOND / 3, 3..30),
    ) {
        let schedule = |lanes| {
            let schedule = Schedule::new(Rate::ZERO, lanes, None, None).with_arrivals(arrivals);
            schedule.with_profile(profile(plan.clone()), 0)
        };
        let (mut one, mut many) = (schedule(1), schedule(lanes as usize));
        let (mut alone, mut workers) = (Worker::all(1, &one), Worker::all(lanes, &many));
        one.start(5);
        many.start(5);
        let mut now = 5;
        for (turn, by) in wakes.into_iter().enumerate() {
            now += by;
            workers.iter_mut().for_each(|worker| worker.wake(&mut many, now, usize::MAX / 2, 1));
            if turn % 5 == 4 {
                many.set_paused(now, true);
                many.set_paused(now, false);
            }
        }
        // Without end the bucket would keep some back.
        for _ in 0..2000 {
            now += 10_000_000;
            alone[0].wake(&mut one, now, usize::MAX / 2, 1);
            workers.iter_mut().for_each(|worker| worker.wake(&mut many, now, usize::MAX / 2, 1));
        }
        let mut all: Vec<(u64, u64)> = workers.iter().flat_map(|worker| worker.sent.clone()).collect();
        all.sort_unstable();
        let dropped: u64 = workers.iter().map(|worker| worker.dropped).sum();
        prop_assert_eq!(all.len() as u64 + dropped, alone[0].sent.len() as u64);
        let times: std::collections::BTreeMap<u64, u64> = alone[0].sent.iter().copied().collect();
        for (record, intended) in all {
            prop_assert_eq!(times.get(&record).copied(), Some(intended), "record {}", record);
        }
    }

    /// The instant that a lane is told to wake up at is the first one at which the record counts.
    #[test]
    fn the_next_record_counts_when_it_is_promised(plan in segments(), arrivals in arrivals(), skip in 0..SECOND) {
        let mut schedule =
            Schedule::new(Rate::ZERO, 1, None, None).with_arrivals(arrivals).with_profile(profile(plan), 0);
        schedule.start(3);
        let mut worker = Worker::all(1, &schedule).remove(0);
        let mut now = 3 + skip;
        worker.wake(&mut schedule, now, usize::MAX / 2, 1);
        for _ in 0..20 {
            now += 1_000_000_000;
            worker.wake(&mut schedule, now, usize::MAX / 2, 1);
        }
        while worker.pacer.backlog() > 0 {
            now += 10_000_000;
            worker.wake(&mut schedule, now, usize::MAX / 2, 1);
        }
        for _ in 0..10 {
            let Some(due_ns) = worker.pacer.next_due_ns() else { break };
            if worker.pacer.backlog() > 0 {
                // There were more at once than the bucket lets through.
                break;
            }
            prop_assert!(due_ns > now);
            let next = worker.pacer.next();
            worker.wake(&mut schedule, due_ns - 1, usize::MAX / 2, 1);
            prop_assert_eq!(worker.pacer.next(), next, "nothing is due earlier");
            worker.wake(&mut schedule, due_ns, usize::MAX / 2, 1);
            now = due_ns;
        }
    }
}

#[test]
fn a_ramp_from_nothing_has_half_the_records_of_its_end() {
    for (rate, seconds, records) in [(1000, 60, 30_000), (1, 3, 2), (7, 1, 4)] {
        let to = Rate::from_micros(rate * 1_000_000);
        let shape = Shape::Ramp { from: Rate::ZERO, to, over_ns: seconds * SECOND, at_ns: 0 };
        let ramp = vec![Segment { course: Course::Shape(shape), length_ns: seconds * SECOND }];
        let mut schedule =
            Schedule::new(Rate::ZERO, 1, Some(seconds * SECOND), None).with_profile(profile((ramp, 1)), 0);
        schedule.start(0);
        assert_eq!(schedule.due(u64::MAX), records);
    }
}

#[test]
fn at_max_nothing_is_due_that_is_not_claimed_and_a_change_settles_the_claims() {
    let mut schedule = Schedule::new(Pace::Max, 3, None, None);
    schedule.start(0);
    let mut workers = Worker::all(3, &schedule);
    assert_eq!(schedule.due(SECOND), 0);
    workers[0].wake(&mut schedule, 500, 10, 100);
    assert!(workers[0].pacer.backlog() > 0);
    assert_eq!(workers[0].pacer.oldest_backlog_ns(SECOND), 0, "nothing is late at max");
    // Lane 0 is fast, lane 1 slow, lane 2 does not come at all.
    for turn in 1..=100 {
        workers[0].wake(&mut schedule, turn * 1000, 5000, 4096);
        if turn < 10 {
            workers[1].wake(&mut schedule, turn * 1000 + 1, 50, 100);
        }
    }
    assert_eq!(schedule.due(200_000), WINDOW, "no further than the window from the slowest");
    assert!(workers[0].pacer.claims());
    schedule.set_rate(300_000, Rate::from_micros(1_000_000_000));
    for (worker, claimed) in workers.iter_mut().zip([WINDOW, 900, 0]) {
        worker.wake(&mut schedule, 300_000, usize::MAX / 2, 4096);
        assert!(worker.pacer.backlog() == 0 && !worker.pacer.claims());
        let own = worker.sent.len() as u64;
        assert_eq!(own + worker.dropped, worker.share.count(0, WINDOW));
        for (record, intended) in &worker.sent {
            let by_claim = *record < claimed;
            assert_eq!(*intended < 300_000, by_claim, "record {record} at {intended}");
        }
    }
    assert_eq!(schedule.due(300_001), WINDOW + 1, "the next one is due at once");
    assert_eq!(schedule.due(300_000 + SECOND), WINDOW + 1000);
}

#[test]
fn a_limit_of_records_is_exact_at_max_and_after_a_preload() {
    let mut schedule = Schedule::new(Pace::Max, 2, None, Some(1234)).with_preload(766);
    let mut workers = Worker::all(2, &schedule);
    schedule.start_preload(0);
    let mut now = 0;
    let mut turn = |schedule: &mut Schedule, workers: &mut Vec<Worker>, times: u64| {
        for _ in 0..times {
            now += 1000;
            workers.iter_mut().for_each(|worker| worker.wake(schedule, now, 33, 50));
        }
        now
    };
    let now = turn(&mut schedule, &mut workers, 100);
    let sent = |workers: &[Worker]| workers.iter().map(|worker| worker.sent.len()).sum::<usize>();
    assert_eq!((sent(&workers), schedule.due(now), schedule.ended(now)), (766, 766, false));
    assert_eq!((schedule.target_now(now), schedule.ran_ns(now)), (Pace::Max, 0));
    schedule.start(now);
    let now = turn(&mut schedule, &mut workers, 100);
    assert_eq!((sent(&workers), schedule.due(now), schedule.ended(now)), (2000, 2000, true));
    assert!(workers.iter_mut().all(|worker| worker.pacer.finished(now)));
}

#[test]
fn a_change_after_hours_of_poisson_arrivals_counts_none_of_them_again() {
    let poisson = Arrivals::Poisson { seed: 7 };
    let mut schedule =
        Schedule::new(Rate::from_micros(1_000_000_000_000), 2, None, None).with_arrivals(poisson);
    schedule.start(0);
    let mut workers = Worker::all(2, &schedule);
    for turn in 1..=20 {
        workers[0].wake(&mut schedule, turn * 1_000_000, usize::MAX / 2, 0);
    }
    schedule.walked(workers[0].pacer.reached());
    let (seen, due) = (schedule.cursor, schedule.due(20_000_000));
    assert!(due > 15_000 && seen.record == due, "the schedule is at {} of {due}", seen.record);
    schedule.walked(workers[1].pacer.reached());
    assert_eq!(schedule.cursor, seen, "a lane that is behind takes nothing back");
}

#[test]
fn at_max_the_load_has_ended_when_every_lane_has_what_it_is_to_send() {
    let mut schedule = Schedule::new(Pace::Max, 2, None, Some(1000));
    let mut workers = Worker::all(2, &schedule);
    schedule.start(0);
    workers[0].wake(&mut schedule, 1, 5000, 1000);
    assert_eq!((schedule.due(1), schedule.ended(1)), (1000, false), "lane 1 has not looked yet");
    workers[1].wake(&mut schedule, 2, 5000, 999);
    assert!(!schedule.ended(2));
    workers[1].wake(&mut schedule, 3, 5000, 1000);
    assert!(schedule.ended(3));
    assert_eq!(workers.iter().map(|worker| worker.sent.len()).sum::<usize>(), 1000);
}

#[test]
fn a_limit_of_time_settles_the_claims_at_max() {
    let mut schedule = Schedule::new(Pace::Max, 2, Some(SECOND), None);
    let mut workers = Worker::all(2, &schedule);
    schedule.start(0);
    workers[0].wake(&mut schedule, SECOND / 2, 5000, 1000);
    workers[1].wake(&mut schedule, SECOND - 1, 5000, 300);
    assert_eq!(schedule.claim(1, SECOND, 300, 10), 300, "nothing is claimed at the end");
    assert!(schedule.ended(SECOND));
    for worker in &mut workers {
        worker.wake(&mut schedule, SECOND, 5000, 1000);
        assert!(worker.pacer.finished(SECOND));
    }
    assert_eq!(workers.iter().map(|worker| worker.sent.len()).sum::<usize>(), 1000);
}

#[test]
fn segments_are_told_once_and_short_ones_and_bursts_not_at_all() {
    let constant = |rate: u64, ms: u64| Segment {
        course: Course::Shape(Shape::Constant(Rate::from_micros(rate * 1_000_000))),
        length_ns: ms * 1_000_000,
    };
    let burst = Course::Burst {
        rate: Rate::from_micros(9_000_000),
        burst_ns: SECOND / 10,
        idle: Rate::ZERO,
        every_ns: SECOND,
    };
    let plan = vec![
        constant(5, 2000),
        constant(7, 500),
        constant(8, 1000),
        Segment { course: burst, length_ns: 5 * SECOND },
    ];
    let mut schedule = Schedule::new(Rate::ZERO, 0, None, None).with_profile(profile((plan, 2)), 10 * SECOND);
    schedule.start(0);
    assert_eq!(schedule.rate_changed_ns(), 0);
    let told: Vec<(u64, String)> = schedule
        .take_changes(100 * SECOND)
        .into_iter()
        .map(|change| (change.at_ns / 100_000_000, format!("{} to {}", change.from, change.to)))
        .collect();
    // The warm-up holds the first rate, so that the profile's beginning is no change.
    let expected = [(125, "7 to 8"), (135, "8 to 9"), (185, "0 to 5"), (210, "7 to 8"), (220, "8 to 9")];
    assert_eq!(told, expected.map(|(at, text)| (at, text.to_owned())));
    assert!(schedule.take_changes(200 * SECOND).is_empty());
}

#[test]
fn clusters_of_poisson_arrivals_do_not_wait_for_tokens() {
    let arrivals = Arrivals::Poisson { seed: 3 };
    for rate in [5, 50, 500, 5000] {
        let mut schedule =
            Schedule::new(Rate::from_micros(rate * 1_000_000), 1, None, None).with_arrivals(arrivals);
        let mut share = Share { index: 0, lanes: 1 };
        let mut pacer = Pacer::new(Overload { max_debt_ns: None, max_catch_up_milli: 2000 }, None, arrivals);
        schedule.start(SECOND);
        let (mut sent, mut late) = (0, 0);
        for now in (SECOND..21 * SECOND).step_by(1_000_000) {
            schedule.catch_up(0, now, |phase| assert_eq!(pacer.push(phase, &mut share), None));
            pacer.advance(now, &mut share);
            let tokens = pacer.tokens(now);
            let to = pacer.allowed(tokens);
            while pacer.next() < to {
                pacer.step(true);
                sent += 1;
            }
            late += pacer.backlog();
        }
        assert!(sent > rate * 15 && late <= sent / 500, "{late} of {sent} records at {rate}/s waited");
    }
}
