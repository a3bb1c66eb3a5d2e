//! Whatever the snapshots say, the report is valid.

use proptest::prelude::*;

use super::*;

fn arbitrary_number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..10_u64, 0..1_000_000_u64, 0..(1_u64 << 50)]
}

fn arbitrary_float() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(-5.0), 0.0..1e15, Just(f64::MAX)]
}

prop_compose! {
    fn arbitrary_counters()(numbers in prop::collection::vec(arbitrary_number(), 22)) -> Counters {
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap();
        Counters {
            scheduled: next(),
            sent: next(),
            acked: next(),
            failed: std::array::from_fn(|_| next()),
            dropped: std::array::from_fn(|_| next()),
            backlog: next(),
            in_flight: next(),
            bytes_acked: next(),
            markers: next(),
            stalls: next(),
            rebuilds: next(),
            limited_ns: std::array::from_fn(|_| next()),
        }
    }
}

prop_compose! {
    fn arbitrary_step()(
        passed_ns in prop_oneof![Just(0), 0..2 * SECOND, 0..1_000_000 * SECOND],
        counters in arbitrary_counters(),
        flags in prop::collection::vec(any::<bool>(), 8),
        numbers in prop::collection::vec(arbitrary_number(), 12),
        floats in prop::collection::vec(arbitrary_float(), 3),
        latencies in prop::collection::vec(any::<u64>(), 0..3),
        boundary in prop::option::of(0..7_usize),
    ) -> (u64, Counters, Vec<bool>, Vec<u64>, Vec<f64>, Vec<u64>, Option<usize>) {
        (passed_ns, counters, flags, numbers, floats, latencies, boundary)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn m3_no_input_makes_nan_negative_numbers_or_a_panic(
        steps in prop::collection::vec(arbitrary_step(), 0..12),
        drain_timeout in arbitrary_float(),
        marks in prop::option::of(prop::collection::vec((arbitrary_number(), arbitrary_number()), 0..6)),
    ) {
        const BOUNDARIES: [Boundary; 7] = [
            Boundary::LoadStart, Boundary::WarmUpEnd, Boundary::RateChange, Boundary::Pause, Boundary::Resume,
            Boundary::LoadEnd, Boundary::DrainEnd,
        ];
        let mut sim = Sim::new();
        for (passed_ns, counters, flags, numbers, floats, latencies, boundary) in steps {
            sim.at(passed_ns);
            *sim.counters() = counters;
            sim.stream().paused = flags[0];
            sim.stream().acks_stopped = flags[1];
            sim.stream().target = Rate::from_micros(numbers[0]).into();
            let source = sim.source();
            source.up = flags[2];
            source.polls_total = numbers[1];
            source.resets = numbers[2];
            source.standstill_ns = numbers[3];
            source.reading = flags[3].then(|| Reading {
                at_ns: numbers[4],
                progress_records: flags[4].then_some(floats[0]),
                lag_records: flags[5].then_some(numbers[5]),
                lag_ns: flags[6].then_some(numbers[6].saturating_mul(1_000)),
                caught_up: flags[7],
                expired_records: numbers[7],
                ..Reading::default()
            });
            let process = sim.process();
            process.cpu_cores = Some(floats[1]);
            process.cpu_user_ns = flags[4].then_some(numbers[8]);
            process.cpu_system_ns = flags[4].then_some(numbers[9]);
            process.memory_rss_bytes = Some(numbers[10]);
            process.restarts = numbers[11];
            for latency_ns in latencies {
                sim.latencies.ack_from_intended.record(latency_ns >> 4);
            }
            for head in &mut sim.heads {
                head.acked = numbers[0];
            }
            match boundary.and_then(|index| BOUNDARIES.get(index)) {
                Some(why) => sim.boundary(*why),
                None => sim.tick(),
            };
        }
        let mut record = sim.record();
        record.run.drain_timeout_seconds = soakd::store::record::tidy(drain_timeout);
        record.streams.values_mut().for_each(|stream| {
            stream.watermarks = marks.as_ref().map(|marks| {
                marks.iter().map(|(start, end)| Watermarks { start: *start, end: *end }).collect()
            });
        });
        checked(&record);
    }
}
