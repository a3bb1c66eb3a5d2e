//! What a tracker has learnt outlives a restart.

use super::*;

proptest! {
    /// A tracker that was put down and taken up again between two samples shows what one that was not shows.
    #[test]
    fn a_tracker_taken_up_again_goes_on_as_it_would_have(
        kind in prop::sample::select(vec![ValueKind::NextOffset, ValueKind::Sequence, ValueKind::Count, ValueKind::EventTime]),
        rebase in any::<bool>(),
        values in prop::collection::vec((0_u64..400, 0_u64..400, any::<bool>()), 2..20),
        restart in any::<prop::sample::Index>(),
    ) {
        let on_reset = if rebase { OnReset::Rebase } else { OnReset::True };
        let new = || LagTracker::new(kind, 0, on_reset);
        let (mut whole, mut parted) = (new(), new());
        let mut world = World::new(2, 0);
        let restart = restart.index(values.len());
        for (index, (one, other, total)) in values.into_iter().enumerate() {
            if index == restart {
                let text = serde_json::to_string(&parted.memory()).unwrap();
                parted = new().with_memory(serde_json::from_str(&text).unwrap());
            }
            let at_ns = (index as u64 + 1) * S;
            let progress = if total && kind.may_be_total() { Progress::Total(one) } else { by_partition([Some(one), Some(other)]) };
            let seen = world.observe(&mut parted, at_ns, progress.clone());
            prop_assert_eq!(seen, world.observe(&mut whole, at_ns, progress));
            world.load(50, at_ns, MS);
        }
        prop_assert_eq!(parted.resets(), whole.resets());
        prop_assert_eq!(parted.memory(), whole.memory());
    }
}

#[test]
fn the_baseline_of_before_the_run_is_still_the_baseline_after_a_restart() {
    let mut world = World::new(2, 0);
    let mut before = LagTracker::new(ValueKind::Count, 0, OnReset::True);
    world.observe(&mut before, 0, Progress::Total(777));
    world.load(100, 0, MS);
    let text = serde_json::to_string(&before.memory()).unwrap();
    let mut after =
        LagTracker::new(ValueKind::Count, 0, OnReset::True).with_memory(serde_json::from_str(&text).unwrap());
    assert_eq!(after.baseline(), Some(777));
    let seen = world.observe(&mut after, S, Progress::Total(787));
    assert_eq!((seen.reading.lag_records, seen.reset()), (Some(90), None));
    // The rows were lost with the restart.
    assert_eq!(world.observe(&mut after, 2 * S, Progress::Total(5)).reset(), Some((787, 5)));
}
