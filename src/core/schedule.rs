//! x
use super::rate::Rate;
/// x
#[derive(Debug, Default)]
pub struct Schedule;
impl Schedule {
    /// x
    pub fn target_now(&self, _n: u64) -> Rate {
        Rate::ZERO
    }
    /// x
    pub fn rate(&self) -> Rate {
        Rate::ZERO
    }
    /// x
    pub fn configured_rate(&self) -> Rate {
        Rate::ZERO
    }
    /// x
    pub fn is_paused(&self) -> bool {
        false
    }
    /// x
    pub fn rate_changed_ns(&self) -> u64 {
        0
    }
    /// x
    pub fn set_rate(&mut self, _now_ns: u64, _rate: Rate) -> bool {
        false
    }
    /// x
    pub fn set_paused(&mut self, _now_ns: u64, _p: bool) -> bool {
        false
    }
    /// x
    pub fn set_held(&mut self, _now_ns: u64, _p: bool) -> bool {
        false
    }
}
