//! The load, end to end on the mock broker: field cases of groups P (producer) and R (pacing).

mod allocations;
mod away;
mod changes;
mod exact;
mod held_back;
mod markers;
mod profiles;
mod records;
mod refused;
mod sent;
mod silent;
mod stopped;

use std::time::Duration;

use serde_json::Value;

use crate::daemon::{Daemon, Ended, Scrape, eventually, series};

/// Longest wait for a run of a few seconds on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Nothing speaks against the run but, on a machine that is too busy, soakd's own lateness (which it must say).
pub(crate) fn assert_sound(ended: &Ended) {
    let busy = ended.code() == 4 && ended.report()["verdict"]["reasons"].as_array().unwrap().len() == 1;
    assert!(ended.code() == 0 || busy, "{}\n{}\n{}", ended.code(), ended.out, ended.log);
}

/// Counters of the stream `main` over the whole run.
pub(crate) fn totals(ended: &Ended) -> &Value {
    &ended.report()["streams"]["main"]["totals"]
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn dropped(scrape: &Scrape, reason: &str) -> f64 {
    series(scrape, &format!("records_dropped_total{{stream=\"main\",reason=\"{reason}\"}}"))
}

fn failed(scrape: &Scrape, reason: &str) -> f64 {
    series(scrape, &format!("records_failed_total{{stream=\"main\",reason=\"{reason}\"}}"))
}

fn limited(scrape: &Scrape, by: &str) -> bool {
    series(scrape, &format!("load_limited{{stream=\"main\",by=\"{by}\"}}")) > 0.0
}

fn limited_seconds(scrape: &Scrape, by: &str) -> f64 {
    series(scrape, &format!("load_limited_seconds_total{{stream=\"main\",by=\"{by}\"}}"))
}

/// Waits until a scrape satisfies a condition.
fn wait(daemon: &Daemon, seconds: u64, what: &str, condition: impl Fn(&Scrape) -> bool) -> Scrape {
    eventually(Duration::from_secs(seconds), what, || Some(daemon.scrape()).filter(&condition))
}

/// Waits until so many more records are due, which is time that passes.
fn wait_due(daemon: &Daemon, more: f64) -> Scrape {
    let begun = daemon.metric("records_scheduled_total");
    wait(daemon, 60, "records are due", |now| series(now, "records_scheduled_total") >= begun + more)
}

/// Records acked for each record that was due, while so many more become due.
fn acked_share(daemon: &Daemon, more: f64) -> f64 {
    let before = daemon.scrape();
    let after = wait_due(daemon, more);
    let grown = |name| series(&after, name) - series(&before, name);
    grown("records_acked_total") / grown("records_scheduled_total")
}
