//! What a reader of a chart asks about: one enum, counted when it happens, written to log and record by one
//! reader of the [`EventLog`].

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::pace::Pace;

/// Something happened that explains a change in the charts.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)] // the field names are the documentation
pub enum Event {
    RunStarted { run: String },
    MeasuringStarted { run: String },
    RunStopping { run: String, cause: String },
    RunFinished { run: String, verdict: String },
    RateChanged { stream: String, from_records_per_second: Pace, to_records_per_second: Pace },
    ProfileStarted { stream: String, profile: String },
    Paused { stream: Option<String> },
    Resumed { stream: Option<String> },
    LoadLimited { stream: String, by: &'static str, reason: String },
    LoadUnlimited { stream: String, by: &'static str, seconds: f64 },
    AcksStopped { stream: String, lane: u32 },
    AcksResumed { stream: String, lane: u32, seconds: f64 },
    ClientRebuilt { stream: String, lane: u32, reason: String },
    PartitionsChanged { stream: String, from: u32, to: u32 },
    LogRestarted { stream: String, partitions: u64, lost_records: u64 },
    SourceLost { source: String, error: String },
    SourceFound { source: String, seconds: f64 },
    ProgressReset { source: String, from: u64, to: u64 },
    Recovered { source: String, back_seconds: f64, caught_up_seconds: f64 },
    StandstillBegan { source: String, seconds: f64 },
    StandstillEnded { source: String, seconds: f64 },
    ProcessLost { process: String },
    ProcessFound { process: String, pid: Option<u32> },
    ProcessRestarted { process: String, pid: Option<u32> },
    ClockStepped { seconds: f64 },
    RecordsUnmade { stream: String, reason: String },
}

/// One name for every kind, in the order of the metric's series.
pub const KINDS: [&str; 26] = [
    "run_started",
    "measuring_started",
    "run_stopping",
    "run_finished",
    "rate_changed",
    "paused",
    "resumed",
    "load_limited",
    "load_unlimited",
    "acks_stopped",
    "acks_resumed",
    "client_rebuilt",
    "source_lost",
    "source_found",
    "progress_reset",
    "standstill_began",
    "standstill_ended",
    "process_lost",
    "process_found",
    "process_restarted",
    "clock_stepped",
    "partitions_changed",
    "records_unmade",
    "profile_started",
    "recovered",
    "log_restarted",
];

impl Event {
    /// Index of the kind in [`KINDS`].
    const fn index(&self) -> usize {
        match self {
            Self::RunStarted { .. } => 0,
            Self::MeasuringStarted { .. } => 1,
            Self::RunStopping { .. } => 2,
            Self::RunFinished { .. } => 3,
            Self::RateChanged { .. } => 4,
            Self::Paused { .. } => 5,
            Self::Resumed { .. } => 6,
            Self::LoadLimited { .. } => 7,
            Self::LoadUnlimited { .. } => 8,
            Self::AcksStopped { .. } => 9,
            Self::AcksResumed { .. } => 10,
            Self::ClientRebuilt { .. } => 11,
            Self::SourceLost { .. } => 12,
            Self::SourceFound { .. } => 13,
            Self::ProgressReset { .. } => 14,
            Self::StandstillBegan { .. } => 15,
            Self::StandstillEnded { .. } => 16,
            Self::ProcessLost { .. } => 17,
            Self::ProcessFound { .. } => 18,
            Self::ProcessRestarted { .. } => 19,
            Self::PartitionsChanged { .. } => 21,
            Self::ClockStepped { .. } => 20,
            Self::RecordsUnmade { .. } => 22,
            Self::ProfileStarted { .. } => 23,
            Self::Recovered { .. } => 24,
            Self::LogRestarted { .. } => 25,
        }
    }

    /// The kind as it stands in `soakd_events_total{kind}` and in the record.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        KINDS.get(self.index()).copied().unwrap_or("unknown")
    }
}

/// An event and when it happened (nanoseconds of [`super::clock::Clock`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Stamped {
    /// Monotonic time of the event in nanoseconds.
    pub at_ns: u64,
    /// What happened.
    pub event: Event,
}

/// Events wait here for the one task that writes them out. Bounded: when that task is stuck, the oldest go
/// first and are counted.
#[derive(Debug, Default)]
pub struct EventLog {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Stamped>,
    counts: [u64; KINDS.len()],
    lost: u64,
}

/// How many events may wait: far more than a burst of state changes, little memory.
const MAX_WAITING: usize = 4096;

impl EventLog {
    /// Counts the event and queues it for log and record.
    pub fn emit(&self, at_ns: u64, event: Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = inner.counts.get_mut(event.index()) {
            *count += 1;
        }
        if inner.waiting.len() >= MAX_WAITING {
            inner.waiting.pop_front();
            inner.lost += 1;
        }
        inner.waiting.push_back(Stamped { at_ns, event });
    }

    /// Takes all waiting events, oldest first.
    pub fn drain(&self) -> Vec<Stamped> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waiting.drain(..).collect()
    }

    /// Events by kind since the start, every kind present.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        KINDS.iter().copied().zip(inner.counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_counted_under_the_name_it_serializes_with() {
        let log = EventLog::default();
        let events = [
            Event::RateChanged {
                stream: "a".into(),
                from_records_per_second: Pace::default(),
                to_records_per_second: Pace::Max,
            },
            Event::ProcessRestarted { process: "p".into(), pid: Some(7) },
            Event::PartitionsChanged { stream: "a".into(), from: 4, to: 8 },
            Event::LogRestarted { stream: "a".into(), partitions: 2, lost_records: 9 },
            Event::Paused { stream: None },
        ];
        for event in events {
            let json = serde_json::to_value(&event).unwrap();
            assert_eq!(json["kind"], event.kind());
            log.emit(1, event.clone());
            let count = log.counts().into_iter().find(|(kind, _)| *kind == event.kind()).unwrap().1;
            assert_eq!(count, 1);
        }
        assert_eq!(log.drain().len(), 5);
        assert!(log.drain().is_empty());
    }

    #[test]
    fn a_stuck_reader_bounds_memory_and_loses_no_count() {
        let log = EventLog::default();
        for _ in 0..5000 {
            log.emit(0, Event::Paused { stream: None });
        }
        assert_eq!(log.drain().len(), MAX_WAITING);
        assert!(log.counts().contains(&("paused", 5000)));
    }
}
