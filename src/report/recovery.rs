//! How long a system needed to come back: away, fallen back or at a standstill.

use serde::{Deserialize, Serialize};

use super::{Absent, Reasons};
use crate::core::recovery::Trouble;
use crate::store::record::RecoveryRecord;

/// A time that a system needed to come back, as one source saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// When it began, from what, and how long it took.
    #[serde(flatten)]
    pub recovery: RecoveryRecord,
    /// Why a field is null.
    #[serde(default, skip_serializing_if = "Absent::is_empty")]
    pub absent: Absent,
}

/// With the reasons for what there is not.
pub(super) fn recovery(found: &RecoveryRecord) -> RecoveryReport {
    let mut why = Reasons::default();
    let never_back = match found.trouble {
        Trouble::StoodStill => "it did not move any more",
        Trouble::Away | Trouble::Fell => "it did not answer any more",
    };
    why.need("back_seconds", found.back_seconds, never_back);
    why.need("caught_up_seconds", found.caught_up_seconds, "it was further behind than before to the end");
    RecoveryReport { recovery: found.clone(), absent: why.0 }
}
