//! The CPU quota of the own cgroup, of version 1 or 2, whichever of its ancestors sets the tightest.

use std::path::{Path, PathBuf};

/// A quota and what it did so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quota {
    /// Cores that the group may use.
    pub(super) cores: f64,
    /// Periods in which the group wanted to run.
    pub(super) periods: u64,
    /// Those in which it had used the quota up before their end.
    pub(super) throttled: u64,
}

/// Finds it from the text of `/proc/self/cgroup`; `None` without a quota.
pub(super) fn quota(root: &Path, own: &str) -> Option<Quota> {
    let groups = own.lines().flat_map(|line| groups(root, line));
    let quotas = groups.filter_map(|group| read(&group));
    quotas.min_by(|one, other| one.cores.total_cmp(&other.cores))
}

/// The folders of a group and its ancestors, down from the group. In a container the path may be that of the host, which is not
/// there; its root then is the container's own group.
fn groups(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
        return Vec::new();
    };
    let base = match controllers {
        "" => root.to_owned(),
        list if list.split(',').any(|controller| controller == "cpu") => root.join(list),
        _ => return Vec::new(),
    };
    let group = Path::new(path.trim_start_matches('/'));
    group.ancestors().map(|ancestor| base.join(ancestor)).collect()
}

fn read(group: &Path) -> Option<Quota> {
    let cores = version_2(group).or_else(|| version_1(group))?;
    let stat = std::fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
    let figure = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|figure| figure.trim().parse().ok()).unwrap_or(0)
    };
    Some(Quota { cores, periods: figure("nr_periods"), throttled: figure("nr_throttled") })
}

fn version_2(group: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

fn version_1(group: &Path) -> Option<f64> {
    let read = |name| std::fs::read_to_string(group.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// Without a limit the quota is `max` or -1.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}
