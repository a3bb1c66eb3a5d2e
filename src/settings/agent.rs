//! Settings of `soakd agent`: which processes of its machine it watches, and where it tells of them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name_problem;
use crate::config::{self, ConfigErrors, Loaded, Problem, key};
use crate::http::settings::HttpSettings;
use crate::process::settings::ProcessSettings;

/// Beside soakd's own port, so that both can run on one machine.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9641));

/// All settings of the agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// The watched processes by name, all of kind "local".
    pub processes: BTreeMap<String, ProcessSettings>,
    /// Where the agent is asked.
    pub http: AgentHttpSettings,
    /// What is watched of the machine.
    pub machine: AgentMachineSettings,
}

/// Where the agent is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentHttpSettings {
    /// Address and port to listen on; beyond loopback `token_file` is needed.
    #[schemars(with = "String", extend("format" = "socket-address"))]
    pub listen: SocketAddr,
    /// File that holds the bearer token without which nothing is told.
    pub token_file: Option<PathBuf>,
}

impl Default for AgentHttpSettings {
    fn default() -> Self {
        Self { listen: DEFAULT_LISTEN, token_file: None }
    }
}

/// What is watched of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentMachineSettings {
    /// A folder of the file system whose space is shown: where the watched system keeps its data.
    pub disk: PathBuf,
}

impl Default for AgentMachineSettings {
    fn default() -> Self {
        Self { disk: "/".into() }
    }
}

impl AgentSettings {
    /// Loads the layers and holds the result against all rules.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(
        files: &[PathBuf],
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Loaded<Self>, ConfigErrors> {
        let loaded: Loaded<Self> = config::load(files, env, sets, &|_| Ok(Vec::new()))?;
        let problems = loaded.settings.problems();
        if problems.is_empty() { Ok(loaded) } else { Err(loaded.blame(problems)) }
    }

    /// As the server takes them.
    #[must_use]
    pub fn http(&self) -> HttpSettings {
        HttpSettings { listen: self.http.listen, token_file: self.http.token_file.clone() }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = self.http().problems("http");
        if self.processes.is_empty() {
            problems.push(Problem::new(
                "processes",
                "no process is set; an agent needs one, like [processes.sut] with kind = \"local\" and name = \"postgres\"",
            ));
        }
        for (name, process) in &self.processes {
            let at = key("processes", name);
            problems.extend(name_problem(name, &at));
            problems.extend(process.problems(&at));
            if !matches!(process, ProcessSettings::Local(_)) {
                problems.push(Problem::new(
                    key(&at, "kind"),
                    "an agent tells of what is on its own machine; use \"local\", and other kinds in soakd's settings",
                ));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sets: &[&str]) -> Result<AgentSettings, String> {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let loaded = AgentSettings::load(&[], [], &sets);
        loaded.map(|loaded| loaded.settings).map_err(|errors| errors.to_string())
    }

    #[test]
    fn an_agent_needs_local_processes_and_beyond_loopback_a_token() {
        let sut = ["processes.sut.kind=local", "processes.sut.name=postgres"];
        let settings = load(&sut).unwrap();
        assert_eq!(settings.http().listen.to_string(), "127.0.0.1:9641");
        for (more, says) in [
            (&["http.listen=0.0.0.0:9641"][..], "set http.token_file"),
            (&["processes.far.kind=agent", "processes.far.url=http://h"], "on its own machine"),
            (&["streams.main.rate=5"], "streams"),
            (&["processes.sut.pid=7"], "in more than one way"),
        ] {
            let error = load(&[&sut[..], more].concat()).unwrap_err();
            assert!(error.contains(says), "{more:?}: {error}");
        }
        assert!(load(&[]).unwrap_err().contains("an agent needs one"));
        assert!(load(&[&sut[..], &["http.listen=0.0.0.0:9641", "http.token_file=/t"]].concat()).is_ok());
    }
}
