//! What a progress source's figure means.

/// What a progress source's figure means, and in which unit [`Progress`](super::Progress) holds it.
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
    /// The newest intended time visible, in milliseconds since 1970, by partition or over all of them.
    EventTime,
    /// The number of the newest marker visible, by partition.
    Marker,
    /// The lag as the system states it, in records, by partition or over all of them.
    LagRecords,
    /// The lag as the system states it, in nanoseconds, by partition or over all of them.
    LagSeconds,
}

impl ValueKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::NextOffset,
        Self::LastOffset,
        Self::Sequence,
        Self::Count,
        Self::EventTime,
        Self::Marker,
        Self::LagRecords,
        Self::LagSeconds,
    ];

    /// The kind's name in settings, status and record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NextOffset => "next_offset",
            Self::LastOffset => "last_offset",
            Self::Sequence => "sequence",
            Self::Count => "count",
            Self::EventTime => "event_time",
            Self::Marker => "marker",
            Self::LagRecords => "lag_records",
            Self::LagSeconds => "lag_seconds",
        }
    }

    /// Whether the system states a lag, rather than how far it is: such a value may fall, and has no baseline.
    #[must_use]
    pub const fn is_stated(self) -> bool {
        matches!(self, Self::LagRecords | Self::LagSeconds)
    }

    /// Whether one value may stand for all partitions of a stream with several.
    #[must_use]
    pub const fn may_be_total(self) -> bool {
        matches!(self, Self::Count | Self::EventTime | Self::LagRecords | Self::LagSeconds)
    }

    /// Whether minus one is how systems write "nothing yet".
    pub(crate) const fn may_be_minus_one(self) -> bool {
        matches!(self, Self::LastOffset | Self::Sequence | Self::Marker | Self::LagRecords)
    }
}
