//! Placeholder interface (being written).
/// x
#[derive(Debug, Clone, Default)]
pub struct Timeline;
/// x
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// x
    Offset(u64),
    /// x
    Sequence(u64),
    /// x
    Count(u64),
}
/// x
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// x
    pub intended_ns: u64,
    /// x
    pub acked_before: u64,
    /// x
    pub at_least: bool,
}
impl Timeline {
    /// x
    pub fn acked(&mut self, _offset: u64, _sequence: u64, _intended_ns: u64, _now_ns: u64) {}
    /// x
    pub fn find(&self, _key: Key) -> Option<Found> {
        None
    }
}
