//! What the sources say at the end of a run.

use super::source::{between, freshness};
use super::{Collector, source};
use crate::core::clock::Clock;
use crate::core::status::SourceStatus;
use crate::store::record::{SourceRecord, seconds};

impl Collector {
    /// The lag of a source, in records when it tells them, that tells about the end of the load: a sample from before the last
    /// acks does not.
    fn last_lag(&self, source: &SourceStatus) -> Result<Option<u64>, String> {
        let Some((reading, records)) = source::known(source) else {
            let reason = source.unknown_reason.clone().or_else(|| source.error.clone());
            return Err(reason.unwrap_or_else(|| "the source gave no lag".to_owned()));
        };
        let growing_ns = self.streams.get(&source.stream).map_or(0, |track| track.growing_ns);
        if reading.at_ns < growing_ns {
            return Err("no sample since the last records were acked".to_owned());
        }
        Ok(records)
    }

    /// As above, when it tells records.
    pub(super) fn final_lag(&self, source: &SourceStatus) -> Result<u64, String> {
        self.last_lag(source)?.ok_or_else(|| "the source tells seconds of lag, not records".to_owned())
    }

    pub(super) fn caught_up(&self, source: &SourceStatus) -> bool {
        self.last_lag(source).is_ok() && source.reading.as_ref().is_some_and(|reading| reading.caught_up)
    }

    pub(super) fn source(&self, name: &str, source: &SourceStatus, clock: Clock) -> SourceRecord {
        let lag = self.final_lag(source);
        let caught_up_ns = self.caught_up_ns.get(name);
        let recoveries = self.recoveries.get(name).map(|found| found.found(clock, self.origin_ns));
        let (recoveries, recoveries_total) = recoveries.unwrap_or_default();
        SourceRecord {
            kind: source.kind.to_owned(),
            value: source.value.to_owned(),
            stream: source.stream.clone(),
            remaining_records: lag.as_ref().ok().copied(),
            remaining_seconds: self.last_age(source),
            unknown_reason: lag.err(),
            unknown_partitions: source.reading.as_ref().map_or(0, |reading| reading.unknown_partitions),
            caught_up: self.caught_up(source),
            caught_up_after_seconds: caught_up_ns.map(|ns| seconds(ns.saturating_sub(self.load_ended_ns))),
            expired_records: source.reading.as_ref().map_or(0, |reading| reading.expired_records),
            recoveries,
            recoveries_total,
            freshness: between(None, freshness(source)),
            end_to_end: between(None, source.end_to_end.as_deref()),
        }
    }

    /// As [`Self::last_lag`], in seconds.
    fn last_age(&self, source: &SourceStatus) -> Option<f64> {
        self.last_lag(source).ok()?;
        source.reading.as_ref()?.lag_ns.map(seconds)
    }
}
