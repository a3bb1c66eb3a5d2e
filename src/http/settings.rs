//! Settings of the HTTP server.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Problem, key};

/// Loopback: whoever reaches the API changes the load. The port is one that Prometheus's list of exporters leaves free.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9640));

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Address and port to listen on; beyond loopback `token_file` is needed.
    #[schemars(with = "String", extend("format" = "socket-address"))]
    pub listen: SocketAddr,
    /// File that holds the bearer token without which nothing can be changed.
    pub token_file: Option<PathBuf>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings { listen: DEFAULT_LISTEN, token_file: None }
    }
}

impl HttpSettings {
    /// What is wrong with the values, beyond their types.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        if self.token_file.is_some() || self.listen.ip().is_loopback() {
            return Vec::new();
        }
        let message =
            format!("{} is beyond loopback; set http.token_file, or listen on 127.0.0.1", self.listen);
        vec![Problem::new(key(at, "listen"), message)]
    }
}
