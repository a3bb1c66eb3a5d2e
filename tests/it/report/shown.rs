//! What a reader of the text sees.

use super::*;

#[test]
fn p9_the_report_prints_the_partitions_and_the_partitioner() {
    let mut sim = Sim::new();
    sim.target(40).boundary(Boundary::LoadStart).boundary(Boundary::WarmUpEnd);
    sim.well(30, 40, MS).boundary(Boundary::LoadEnd).at(SECOND).lag(0, 0).boundary(Boundary::DrainEnd);
    let report = sim.report();
    let acked: Vec<u64> = report.streams["main"].partitions.iter().map(|partition| partition.acked).collect();
    assert_eq!(acked, [300, 300, 300, 300]);
    let text = text(&report);
    assert!(text.contains("acked by partition    300  300  300  300\n"), "{text}");
    assert!(text.contains("murmur2"), "{text}");
}

/// A run with something of everything.
fn eventful() -> RunRecord {
    let mut sim = Sim::new();
    sim.target(1_000).boundary(Boundary::LoadStart);
    sim.well(5, 1_000, 80 * MS).boundary(Boundary::WarmUpEnd);
    for second in 0..60_u64 {
        if second == 30 {
            sim.target(2_000).boundary(Boundary::RateChange);
        }
        let rate = if second < 30 { 1_000 } else { 2_000 };
        let acked = if second == 40 { 1_000 } else { rate };
        sim.tick().at(SECOND).load(rate, acked, 5 * MS + second * 100_000);
        if (50..53).contains(&second) {
            sim.source().up = false;
            sim.source().error = Some("no answer within 5s".into());
            sim.source().errors[1] += 1;
        } else {
            sim.lag(second * 10, second * 10 * MS);
        }
        let process = sim.process();
        process.cpu_user_ns = Some(second * 1_200 * MS);
        process.cpu_system_ns = Some(second * 200 * MS);
        process.cpu_cores = Some(1.4 + if second == 20 { 1.0 } else { 0.0 });
        process.memory_rss_bytes = Some((700 + second) << 20);
    }
    let counters = sim.counters();
    counters.dropped[DropReason::Late as usize] = counters.backlog;
    counters.backlog = 0;
    counters.limited_ns = [200 * MS, 700 * MS];
    counters.stalls = 1;
    sim.boundary(Boundary::LoadEnd).at(2 * SECOND).lag(0, 0).tick().at(SECOND).boundary(Boundary::DrainEnd);
    sim.record()
}

#[test]
fn the_text_reads_well() {
    let report = checked(&eventful());
    let found = text(&report);
    // Wall times differ from run to run.
    let found: String = found
        .lines()
        .map(|line| match line.starts_with("  load ") {
            true => "  load                  (times)\n".to_owned(),
            false => format!("{line}\n"),
        })
        .collect();
    assert!(found.lines().all(|line| line.chars().count() <= 100), "{found}");
    let golden = include_str!("golden.txt");
    assert_eq!(
        found, golden,
        "the text has changed; if that is as it should be, put this into tests/it/report/golden.txt:\n{found}"
    );
}
