//! How long the pure parts take for a record: `cargo bench --bench pure [FILTER]`.
#![allow(clippy::expect_used, clippy::print_stderr, missing_docs, unreachable_pub)]

mod parts;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Records a measured call; look-ups, of which there is one a poll, are fewer.
const BATCH: u64 = 4096;
const LOOK_UPS: u64 = 16;

fn pure(criterion: &mut Criterion) {
    for part in parts::all() {
        let batch = if part.name.starts_with("lag/") { LOOK_UPS } else { BATCH };
        let (group, case) = part.name.split_once('/').unwrap_or(("", &part.name));
        let mut group = criterion.benchmark_group(group);
        group.throughput(Throughput::Elements(batch));
        let (mut work, mut next) = ((part.prepare)(), 0);
        group.bench_function(case, |bencher| {
            bencher.iter(|| {
                work(next..next + batch);
                next += batch;
            });
        });
        group.finish();
    }
}

criterion_group!(benches, pure);
criterion_main!(benches);
