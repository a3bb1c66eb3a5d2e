//! What is counted of records, and why they did not arrive: the words that the schedule, the lanes, the metrics and the
//! report share.

/// Why a due record was given up before it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum DropReason {
    /// Older than the overload policy allows.
    Late,
    /// As `Late`, while the Kafka client's byte limit (`queue.buffering.max.kbytes`) held the load back.
    QueueBytes,
    /// The load was paused, or its rate set to 0.
    Paused,
    /// The run was stopped.
    Stopped,
    /// The record could not be made: its file went away, say.
    Unmade,
}

impl DropReason {
    /// Every reason with its label.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Late, "late"),
        (Self::QueueBytes, "queue_bytes"),
        (Self::Paused, "paused"),
        (Self::Stopped, "stopped"),
        (Self::Unmade, "unmade"),
    ];
}

/// Why a sent record was not acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    /// The client gave up after `message.timeout.ms`.
    TimedOut,
    /// Larger than the client or the broker takes.
    TooLarge,
    /// The topic or partition is not there.
    UnknownTopic,
    /// Not allowed to write.
    NotAuthorized,
    /// Any other error of broker or client.
    Broker,
    /// The report was lost with a dead client, or did not come before a stop's deadline.
    OutcomeUnknown,
}

impl FailReason {
    /// Every reason with its label.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::TimedOut, "timed_out"),
        (Self::TooLarge, "too_large"),
        (Self::UnknownTopic, "unknown_topic"),
        (Self::NotAuthorized, "not_authorized"),
        (Self::Broker, "broker"),
        (Self::OutcomeUnknown, "outcome_unknown"),
    ];
}

/// Who kept the load from what the schedule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum LimitedBy {
    Generator,
    Broker,
}

impl LimitedBy {
    /// Both, with their labels.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Generator, "generator"), (Self::Broker, "broker")];

    /// Its label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Broker => "broker",
        }
    }
}

/// Record counters. `scheduled = sent + dropped + backlog` and `sent = acked + failed + in_flight` hold in every
/// published state; none but backlog and in flight ever falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub scheduled: u64,
    pub sent: u64,
    pub acked: u64,
    /// By [`FailReason`], in the order of `ALL`.
    pub failed: [u64; FailReason::ALL.len()],
    /// By [`DropReason`], in the order of `ALL`.
    pub dropped: [u64; DropReason::ALL.len()],
    pub backlog: u64,
    pub in_flight: u64,
    /// Keys and values of acked records.
    pub bytes_acked: u64,
    /// Markers among the sent records.
    pub markers: u64,
    /// Of the stream, not of a lane: see [`HeldBack`](super::held_back::HeldBack).
    pub stalls: u64,
    pub rebuilds: u64,
    /// Nanoseconds limited, by [`LimitedBy`], in the order of `ALL`; the running episode included. Of the stream, not of
    /// a lane: see [`HeldBack`](super::held_back::HeldBack).
    pub limited_ns: [u64; LimitedBy::ALL.len()],
}

impl Counters {
    /// Whether so many records of the stream's sequence are handed over or dropped.
    #[must_use]
    pub const fn has_handed_over(&self, records: u64) -> bool {
        self.backlog == 0 && self.scheduled.saturating_sub(self.markers) >= records
    }

    /// Adds another lane's counters.
    pub fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.sent += other.sent;
        self.acked += other.acked;
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine += theirs;
        }
        for (mine, theirs) in self.dropped.iter_mut().zip(other.dropped) {
            *mine += theirs;
        }
        self.backlog += other.backlog;
        self.in_flight += other.in_flight;
        self.bytes_acked += other.bytes_acked;
        self.markers += other.markers;
        self.stalls += other.stalls;
        self.rebuilds += other.rebuilds;
        for (mine, theirs) in self.limited_ns.iter_mut().zip(other.limited_ns) {
            *mine += theirs;
        }
    }

    /// A count of sent or acked records without the markers in it; those in flight count as acked.
    #[must_use]
    pub const fn without_markers(&self, count: u64) -> u64 {
        count.saturating_sub(self.markers)
    }

    /// All dropped records.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// All failed records.
    #[must_use]
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Failed for one reason.
    #[must_use]
    pub fn failed_for(&self, reason: FailReason) -> u64 {
        self.failed.get(reason as usize).copied().unwrap_or(0)
    }

    /// Dropped for one reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or(0)
    }

    /// Both invariants.
    #[must_use]
    pub fn tie_out(&self) -> bool {
        self.scheduled == self.sent + self.dropped_total() + self.backlog
            && self.sent == self.acked + self.failed_total() + self.in_flight
    }
}

/// How far one partition is acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The offset after the highest acked one; the partition's end at the start before the first ack.
    pub next_offset: u64,
    /// The highest acked sequence of the stream in this partition.
    pub last_sequence: Option<u64>,
    /// Records acked in this partition since the start.
    pub acked: u64,
    /// The broker's end offset at the start: everything before is not ours.
    pub baseline: u64,
    /// The broker's low watermark when it was last looked at.
    pub log_start: u64,
    /// Records that may have come since the head was looked at, about: those between the last two looks at a stream that is
    /// only watched. 0 where acks tell.
    pub unseen: u64,
    /// How often the partition's offsets began again: its topic was deleted and made anew, or its log was cut short.
    pub restarts: u64,
    /// Acked records that went with those logs, about: who else writes to the topic is not known apart.
    pub lost: u64,
}
