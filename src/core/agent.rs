//! What an agent tells of its machine and its processes: the document that soakd reads from it.
//!
//! Either side may be the newer one. A field that the reader does not know is left out, one that the writer does not know has its
//! default, which is "unknown" everywhere. What changes the meaning of a field raises [`FORMAT`], and a reader refuses what
//! is above its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine::MachineStatus;
use super::status::ProcessStatus;

/// The format that this soakd writes, and the highest that it reads.
pub const FORMAT: u32 = 1;

/// Where an agent serves its report.
pub const PATH: &str = "/api/v1/agent";

/// The state of an agent's machine and processes at one instant. All times are of the agent's own monotonic clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Version of the agent.
    #[serde(default)]
    pub version: String,
    /// Another with each start of an agent: its counters and its clock begin anew then.
    pub instance: String,
    /// When the report was made.
    pub now_ns: u64,
    /// The agent's wall clock at that instant, in milliseconds since 1970.
    #[serde(default)]
    pub wall_ms: Option<i64>,
    /// Time between two looks of the agent, by process, in nanoseconds.
    #[serde(default)]
    pub interval_ns: BTreeMap<String, u64>,
    /// The machine.
    #[serde(default)]
    pub machine: MachineStatus,
    /// The processes by the names of the agent's settings.
    #[serde(default)]
    pub processes: BTreeMap<String, ProcessStatus>,
}

/// A report that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The text is none.
    #[error("the answer is no report of a soakd agent ({0})")]
    Unreadable(String),
    /// The writer is newer than the reader.
    #[error(
        "the agent (version {version}) writes format {format} and this soakd reads up to {FORMAT}: update soakd"
    )]
    TooNew {
        /// The writer's format.
        format: u32,
        /// The writer's version.
        version: String,
    },
}

impl AgentReport {
    /// Reads a report.
    ///
    /// # Errors
    /// When it is none, or a later format than [`FORMAT`].
    pub fn read(text: &str) -> Result<Self, ReportError> {
        // Alone first: of a later format nothing else may be readable.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
            #[serde(default)]
            version: String,
        }
        let unreadable = |error: serde_json::Error| ReportError::Unreadable(error.to_string());
        let head: Head = serde_json::from_str(text).map_err(unreadable)?;
        if head.format > FORMAT {
            return Err(ReportError::TooNew { format: head.format, version: head.version });
        }
        serde_json::from_str(text).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_side_may_be_newer() {
        let least = r#"{"format":1,"instance":"a","now_ns":5}"#;
        let report = AgentReport::read(least).unwrap();
        assert_eq!((report.processes.len(), report.machine.up), (0, false));
        // Fields that this version does not know, and figures that an older one does not send.
        let newer = r#"{"format":1,"version":"9.9","instance":"a","now_ns":5,"herds":{"x":[1]},
            "processes":{"sut":{"up":true,"pid":7,"gpu_seconds":3.5}},"machine":{"up":true,"fans":2}}"#;
        let report = AgentReport::read(newer).unwrap();
        let sut = &report.processes["sut"];
        assert_eq!((sut.up, sut.pid, sut.cpu_user_ns, sut.memory_rss_bytes), (true, Some(7), None, None));
        let later = r#"{"format":2,"version":"9.9","instance":{"id":1}}"#;
        let error = AgentReport::read(later).unwrap_err().to_string();
        assert!(error.contains("version 9.9") && error.contains("format 2"), "{error}");
        for text in
            ["", "{}", "[]", "<html>", r#"{"format":1}"#, r#"{"format":"1","instance":"a","now_ns":1}"#]
        {
            assert!(matches!(AgentReport::read(text), Err(ReportError::Unreadable(_))), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let sut = ProcessStatus {
            up: true,
            cpu_user_ns: Some(u64::MAX),
            cpu_cores: Some(1.25),
            error: Some("é \"".into()),
            looked_ns: Some(9),
            ..ProcessStatus::default()
        };
        let report = AgentReport {
            format: FORMAT,
            version: "0.1.0".into(),
            instance: "a".into(),
            now_ns: 10,
            wall_ms: Some(-1),
            interval_ns: BTreeMap::from([("sut".into(), 1_000_000_000)]),
            machine: MachineStatus { up: true, load1: Some(0.25), ..MachineStatus::default() },
            processes: BTreeMap::from([("sut".into(), sut)]),
        };
        assert_eq!(AgentReport::read(&serde_json::to_string(&report).unwrap()), Ok(report));
    }
}
