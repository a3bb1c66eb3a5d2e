//! Interface first; the arithmetic is being written.

use std::collections::BTreeMap;

use super::stream::Head;

/// What a progress source's figure means (design.md 2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// The offset that will be read next, by partition.
    NextOffset,
    /// The offset that was read last, by partition.
    LastOffset,
    /// The highest sequence visible, by partition.
    Sequence,
    /// How many records were ingested, over all partitions.
    Count,
}

/// What it means when progress falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnReset {
    /// The system really reads again: lag is the whole distance.
    True,
    /// A statistic was lost: the fallen value is a new zero.
    Rebase,
}

/// What a progress source answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A value for each partition that has one; `None` where the system says "nothing yet".
    Partitions(BTreeMap<u32, Option<u64>>),
    /// One value over all partitions.
    Total(u64),
    /// The system answers, and has no figure yet: "no rows", "no commits yet".
    NoData(String),
}

/// One answered poll.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Before the question was asked (monotonic).
    pub asked_ns: u64,
    /// After the answer was there (monotonic).
    pub answered_ns: u64,
    /// Own acked heads before the question.
    pub heads_before: Vec<Head>,
    /// Own acked heads after the answer.
    pub heads_after: Vec<Head>,
    /// The answer.
    pub progress: Progress,
}

/// The figures of one good sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// When the sample was taken: the middle of the poll (monotonic).
    pub at_ns: u64,
    /// Records that the system has ingested since the start, by its own account.
    pub progress_records: Option<f64>,
    /// Records acked and not ingested.
    pub lag_records: Option<u64>,
    /// Age of the oldest of them in nanoseconds.
    pub lag_ns: Option<u64>,
    /// The age is only a lower bound.
    pub lag_at_least: bool,
    /// How far the lag may be off because the head moved during the poll.
    pub uncertainty_records: f64,
    /// Records that retention removed before they were ingested.
    pub expired_records: u64,
    /// Partitions without data.
    pub unknown_partitions: u32,
    /// Lag is within the source's tolerance.
    pub caught_up: bool,
}
