//! Properties of schedule and walk: exact to the record, whatever the lanes, rates and pauses.

use proptest::prelude::*;

use super::*;
use crate::core::rate::Rate;
use crate::core::schedule::Schedule;

const SECOND: u64 = 1_000_000_000;

/// Record n belongs to a lane by a hash, as keys do.
struct Lane {
    index: u64,
    lanes: u64,
}

impl Lane {
    fn owns(&self, record: u64) -> bool {
        (record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % self.lanes == self.index
    }
}

impl Owner for Lane {
    fn count(&mut self, from: u64, to: u64) -> u64 {
        if self.lanes == 1 {
            to - from
        } else {
            (from..to).filter(|record| self.owns(*record)).count() as u64
        }
    }
}

const NEVER_DROP: Overload = Overload { max_debt_ns: None, max_catch_up_milli: 2000 };

#[derive(Debug, Clone)]
enum Change {
    Rate(u64),
    Paused(bool),
    Held(bool),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (500_000_u64..=1_000_000_000_000).prop_map(Change::Rate),
        1 => Just(Change::Rate(0)),
        1 => any::<bool>().prop_map(Change::Paused),
        1 => any::<bool>().prop_map(Change::Held),
    ]
}

/// The definition itself, with nothing shared with the code under test: pieces of (length, rate).
#[derive(Default)]
struct Model {
    pieces: Vec<(u64, u64)>,
}

impl Model {
    fn due(&self) -> u64 {
        let accrued: u128 =
            self.pieces.iter().map(|(ns, micros)| u128::from(*ns) * u128::from(*micros)).sum();
        u64::try_from(accrued.div_ceil(1_000_000_000_000_000)).unwrap()
    }
}

proptest! {
    /// Thirty days in random pieces of random rates, with pauses: the count is exact at every change.
    #[test]
    fn thirty_days_are_exact_to_the_record(
        first in 500_000_u64..=1_000_000_000_000,
        changes in prop::collection::vec((0_u64..=30 * 86_400, 0_u64..SECOND, change()), 1..60),
    ) {
        let mut schedule = Schedule::new(Rate::from_micros(first), 1, None, None);
        schedule.start(0);
        let (mut model, mut now, mut rate, mut paused, mut held) = (Model::default(), 0_u64, first, false, false);
        let parts = changes.len() as u64;
        for (seconds, nanos, change) in changes {
            let length = seconds * SECOND / parts + nanos;
            now += length;
            model.pieces.push((length, if paused || held { 0 } else { rate }));
            prop_assert_eq!(schedule.due(now), model.due());
            match change {
                Change::Rate(micros) => { rate = micros; schedule.set_rate(now, Rate::from_micros(micros)); }
                Change::Paused(on) => { paused = on; schedule.set_paused(now, on); }
                Change::Held(on) => { held = on; schedule.set_held(now, on); }
            }
            prop_assert_eq!(schedule.due(now), model.due(), "a change moves nothing");
        }
    }

    /// Every lane of any number takes each of its records once, at its exact intended time, and the totals are those of
    /// the schedule, whenever the lanes happen to wake up.
    #[test]
    fn lanes_share_the_sequence_without_loss_or_overlap(
        lanes in 1_u64..9,
        first in 500_000_u64..=2_000_000_000,
        changes in prop::collection::vec((1_u64..2 * SECOND, 500_000_u64..=2_000_000_000), 0..6),
        wakes in prop::collection::vec(1_u64..300_000_000, 1..40),
    ) {
        let mut schedule = Schedule::new(Rate::from_micros(first), lanes as usize, None, None);
        schedule.start(1);
        let mut phases = vec![(1_u64, first)];
        let mut workers: Vec<_> = (0..lanes)
            .map(|index| (Lane { index, lanes }, Pacer::new(NEVER_DROP, None, Arrivals::Even), Vec::new()))
            .collect();
        let mut now = 1;
        let mut wakes = wakes.into_iter().cycle();
        for (length, micros) in changes.into_iter().chain([(SECOND, 0)]) {
            let end = now + length;
            while now < end {
                now = (now + wakes.next().unwrap()).min(end);
                for (index, (lane, pacer, got)) in workers.iter_mut().enumerate() {
                    wake(&mut schedule, index, lane, pacer, got, now);
                }
            }
            if micros > 0 {
                schedule.set_rate(now, Rate::from_micros(micros));
                phases.push((now, micros));
            }
        }
        schedule.stop(now);
        for (index, (lane, pacer, got)) in workers.iter_mut().enumerate() {
            wake(&mut schedule, index, lane, pacer, got, now);
            prop_assert!(pacer.finished(now));
            prop_assert_eq!(pacer.scheduled(), got.len() as u64 + DROPPED.take());
        }
        let total: u64 = workers.iter().map(|(_, pacer, _)| pacer.scheduled()).sum();
        prop_assert_eq!(total, schedule.due(now));
        let mut all: Vec<(u64, u64)> = workers.iter().flat_map(|(_, _, got)| got.clone()).collect();
        all.sort_unstable();
        for pair in all.windows(2) {
            prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        }
        for (record, intended) in all {
            prop_assert_eq!(intended, brute_force_intended(&phases, record));
        }
    }

    /// What is dropped for lateness is exactly what is older than the bound, and nothing is lost on the way.
    #[test]
    fn late_records_are_dropped_and_counted(
        micros in 1_000_000_u64..=100_000_000_000,
        pause_ns in 1_u64..40 * SECOND,
        debt_ns in 1_u64..20 * SECOND,
    ) {
        let mut schedule = Schedule::new(Rate::from_micros(micros), 1, None, None);
        schedule.start(0);
        let mut lane = Lane { index: 0, lanes: 1 };
        let mut pacer = Pacer::new(Overload { max_debt_ns: Some(debt_ns), max_catch_up_milli: 2000 }, None, Arrivals::Even);
        schedule.catch_up(0, 0, |phase| { pacer.push(phase, &mut lane); });
        let dropped = pacer.advance(pause_ns, &mut lane);
        let due = Model { pieces: vec![(pause_ns, micros)] }.due();
        let old = Model { pieces: vec![(pause_ns.saturating_sub(debt_ns), micros)] }.due();
        prop_assert_eq!(dropped.records, old);
        prop_assert_eq!(dropped.oldest_ns, if old > 0 { pause_ns } else { 0 });
        prop_assert_eq!((pacer.scheduled(), pacer.backlog()), (due, due - old));
        prop_assert!(pacer.oldest_backlog_ns(pause_ns) <= debt_ns);
    }
}

thread_local!(static DROPPED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// One wake-up of a lane that can always send.
fn wake(
    s: &mut Schedule,
    index: usize,
    lane: &mut Lane,
    pacer: &mut Pacer,
    got: &mut Vec<(u64, u64)>,
    now: u64,
) {
    DROPPED.set(0);
    s.catch_up(index, now, |phase| {
        if let Some((_, dropped)) = pacer.push(phase, lane) {
            DROPPED.set(DROPPED.get() + dropped);
        }
    });
    pacer.advance(now, lane);
    let tokens = pacer.tokens(now);
    let to = pacer.allowed(tokens);
    while pacer.next() < to {
        let own = lane.owns(pacer.next());
        if own {
            got.push((pacer.next(), pacer.intended_ns()));
        }
        pacer.step(own);
    }
}

/// The first instant t with A(t) ≥ n, by the definition.
fn brute_force_intended(phases: &[(u64, u64)], record: u64) -> u64 {
    let target = u128::from(record) * 1_000_000_000_000_000;
    let mut base = 0_u128;
    for (index, (start, micros)) in phases.iter().enumerate() {
        let end = phases.get(index + 1).map_or(u64::MAX, |next| next.0);
        let at_end = base + u128::from(*micros) * u128::from(end - start);
        if at_end > target {
            return start + u64::try_from(target.saturating_sub(base) / u128::from(*micros)).unwrap();
        }
        base = at_end;
    }
    panic!("record {record} is never due");
}

#[test]
fn half_a_record_a_second_with_eight_lanes() {
    let mut schedule = Schedule::new(Rate::from_per_second(0.5).unwrap(), 8, None, None);
    schedule.start(0);
    let mut total = 0;
    for index in 0..8 {
        let mut lane = Lane { index, lanes: 8 };
        let (mut pacer, mut got) = (Pacer::new(NEVER_DROP, None, Arrivals::Even), Vec::new());
        for tenth in 0..=1000 {
            wake(&mut schedule, index as usize, &mut lane, &mut pacer, &mut got, tenth * SECOND / 10);
        }
        total += got.len();
        assert!(got.iter().all(|(record, intended)| *intended == record * 2 * SECOND));
    }
    assert_eq!(total, 50);
}

#[test]
fn a_backlog_is_worked_off_at_twice_the_rate_and_no_faster() {
    let mut schedule = Schedule::new(Rate::from_per_second(10_000.0).unwrap(), 1, None, None);
    schedule.start(0);
    let mut lane = Lane { index: 0, lanes: 1 };
    let (mut pacer, mut got) = (Pacer::new(NEVER_DROP, None, Arrivals::Even), Vec::new());
    wake(&mut schedule, 0, &mut lane, &mut pacer, &mut got, 3 * SECOND);
    assert_eq!(got.len(), 200, "10 ms of twice the rate");
    for milli in 1..=1000 {
        wake(&mut schedule, 0, &mut lane, &mut pacer, &mut got, 3 * SECOND + milli * 1_000_000);
    }
    assert_eq!(got.len(), 200 + 20_000);
    for milli in 1001..=3000 {
        wake(&mut schedule, 0, &mut lane, &mut pacer, &mut got, 3 * SECOND + milli * 1_000_000);
    }
    assert_eq!((got.len() as u64, pacer.backlog()), (60_000, 0));
}

#[test]
fn a_backlog_keeps_the_speed_of_its_own_rate_when_the_rate_falls() {
    let mut schedule = Schedule::new(Rate::from_per_second(1000.0).unwrap(), 1, None, None);
    schedule.start(0);
    let mut lane = Lane { index: 0, lanes: 1 };
    let (mut pacer, mut got) = (Pacer::new(NEVER_DROP, None, Arrivals::Even), Vec::new());
    wake(&mut schedule, 0, &mut lane, &mut pacer, &mut got, SECOND);
    assert!(pacer.backlog() > 900);
    schedule.set_rate(SECOND, Rate::from_per_second(0.5).unwrap());
    for milli in 1..=600 {
        wake(&mut schedule, 0, &mut lane, &mut pacer, &mut got, SECOND + milli * 1_000_000);
    }
    // The thousand, and the first at the new rate, which was due at the change.
    assert_eq!((pacer.backlog(), got.len()), (0, 1001));
}

#[test]
fn the_next_record_counts_as_due_at_the_instant_that_is_promised() {
    let mut walk = Walk::new(Some(3), Arrivals::Even);
    let mut schedule = Schedule::new(Rate::from_per_second(3.0).unwrap(), 1, None, Some(3));
    schedule.start(5);
    schedule.catch_up(0, 0, |phase| walk.push(phase));
    for record in 0..3 {
        let at_ns = walk.next_due_ns(record).unwrap();
        assert_eq!((walk.due(at_ns - 1), walk.due(at_ns)), (record, record + 1));
    }
    assert_eq!(walk.next_due_ns(3), None);
    assert!(walk.ended(SECOND));
}

#[test]
fn any_factor_of_catching_up_is_safe() {
    for factor in [1.001, 1e300] {
        let overload =
            Overload { max_debt_ns: None, max_catch_up_milli: (factor * 1000.0_f64).round() as u64 };
        let mut schedule = Schedule::new(Rate::from_per_second(1e9).unwrap(), 1, None, None);
        schedule.start(0);
        let mut lane = Lane { index: 0, lanes: 1 };
        let mut pacer = Pacer::new(overload, None, Arrivals::Even);
        schedule.catch_up(0, 0, |phase| {
            pacer.push(phase, &mut lane);
        });
        pacer.advance(400 * 86_400 * SECOND, &mut lane);
        assert!(pacer.tokens(400 * 86_400 * SECOND) >= 10_000_000);
    }
}

#[test]
fn changes_that_make_nothing_due_are_not_remembered() {
    let mut schedule = Schedule::new(Rate::ZERO, 1, None, None);
    schedule.start(0);
    let mut lane = Lane { index: 0, lanes: 1 };
    let mut pacer = Pacer::new(NEVER_DROP, None, Arrivals::Even);
    for nano in 1..10_000 {
        schedule.set_held(nano, nano % 2 == 1);
        schedule.catch_up(0, 0, |phase| {
            pacer.push(phase, &mut lane);
        });
    }
    assert!(pacer.walk().phases.len() <= 2, "{}", pacer.walk().phases.len());
}
