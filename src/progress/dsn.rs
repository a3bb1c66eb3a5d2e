//! Where a PostgreSQL server is and how its session is protected, from a URL or a `key=value` text. On top of what
//! the driver reads, `sslmode` may be `allow`, `verify-ca` and `verify-full`, and `sslrootcert` names a file, as for psql.

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::settings::TlsMode;

/// An idle session is probed well before the minutes after which firewalls and load balancers forget it.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// The driver's own value when the text sets none.
const DRIVER_KEEPALIVE_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// How much of a TLS session is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Protection {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Disable, "disable"),
        (Self::Prefer, "allow"),
        (Self::Prefer, "prefer"),
        (Self::Require, "require"),
        (Self::VerifyCa, "verify-ca"),
        (Self::VerifyFull, "verify-full"),
    ];

    /// Whether the server's certificate is checked.
    pub(super) const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }

    const fn driver_mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

impl From<TlsMode> for Protection {
    fn from(mode: TlsMode) -> Self {
        match mode {
            TlsMode::Disable => Self::Disable,
            TlsMode::Prefer => Self::Prefer,
            TlsMode::Require => Self::Require,
            TlsMode::VerifyFull => Self::VerifyFull,
        }
    }
}

/// A server, or several to be tried in order.
#[derive(Debug)]
pub(super) struct Dsn {
    /// One configuration a host, so that a host that hangs cannot use up the time of the next.
    pub(super) hosts: Vec<Config>,
    pub(super) protection: Protection,
    pub(super) ca_file: Option<PathBuf>,
}

/// Reads a connection text. `tls` and `tls_ca_file` are the settings beside it.
///
/// # Errors
/// What is wrong with it, without quoting the text: it may hold a password.
pub(super) fn parse(text: &str, tls: TlsMode, tls_ca_file: Option<&Path>) -> Result<Dsn, String> {
    let (rest, ours) = take_ours(text);
    let in_text = ours.sslmode.as_deref().map(protection_named).transpose()?;
    let mut protection = match (Protection::from(tls), in_text) {
        (setting, None) => setting,
        // What is not set is `prefer`, so that is no contradiction.
        (Protection::Prefer, Some(in_text)) => in_text,
        (setting, Some(in_text)) if setting == in_text => setting,
        _ => return Err("holds another sslmode than tls says; take one of them out".to_owned()),
    };
    if protection == Protection::Require && ours.sslrootcert.is_some() {
        // As psql does: who names an authority wants it asked.
        protection = Protection::VerifyCa;
    }
    let ca_file = tls_ca_file.map(Path::to_owned).or(ours.sslrootcert);
    let mut config: Config = rest.parse().map_err(|error| refusal(&error))?;
    config.ssl_mode(protection.driver_mode());
    if config.get_application_name().is_none() {
        config.application_name("soakd");
    }
    if config.get_keepalives_idle() == DRIVER_KEEPALIVE_IDLE {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    Ok(Dsn { hosts: by_host(&config)?, protection, ca_file })
}

fn protection_named(name: &str) -> Result<Protection, String> {
    Protection::ALL.iter().find(|(_, known)| *known == name).map(|(protection, _)| *protection).ok_or_else(
        || {
            "holds an unknown sslmode; known are disable, allow, prefer, require, verify-ca, verify-full"
                .to_owned()
        },
    )
}

/// The driver's own text may quote parts of a password, so only what cannot is taken over.
fn refusal(error: &tokio_postgres::Error) -> String {
    const UNSUPPORTED: [&str; 8] =
        ["sslcert", "sslkey", "sslcrl", "sslpassword", "passfile", "service", "krbsrvname", "gssencmode"];
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let option = cause.strip_prefix("unknown option `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(option) = UNSUPPORTED.iter().find(|known| Some(**known) == option) {
        return format!("holds the option {option}, which is not supported; take it out");
    }
    if cause.starts_with("invalid value for option") {
        return format!("holds an {cause}");
    }
    "cannot be parsed as postgres://user:password@host:port/database or as key=value pairs; special characters in a URL need %-escapes".to_owned()
}

/// One configuration for each host of the list.
fn by_host(all: &Config) -> Result<Vec<Config>, String> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err("names no host".to_owned());
    }
    let fits = |len: usize| len <= 1 || len == count;
    if !fits(ports.len()) || (!hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len()) {
        return Err("names other numbers of hosts, addresses and ports".to_owned());
    }
    Ok((0..count)
        .map(|index| {
            let mut one = without_hosts(all);
            match hosts.get(index) {
                Some(tokio_postgres::config::Host::Tcp(host)) => {
                    one.host(host);
                }
                Some(tokio_postgres::config::Host::Unix(path)) => {
                    one.host_path(path);
                }
                None => {}
            }
            if let Some(address) = addresses.get(index) {
                one.hostaddr(*address);
            }
            if let Some(port) = ports.get(index).or_else(|| ports.first()) {
                one.port(*port);
            }
            one
        })
        .collect())
}

/// The driver's configuration can only grow hosts, so everything else is copied to a new one.
fn without_hosts(all: &Config) -> Config {
    let mut one = Config::new();
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(dbname) = all.get_dbname() {
        one.dbname(dbname);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = all.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(timeout) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding())
        .load_balance_hosts(all.get_load_balance_hosts());
    one
}

/// The options that the driver does not know as psql does.
#[derive(Debug, Default)]
struct Ours {
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
}

/// Takes our options out of the text.
fn take_ours(text: &str) -> (String, Ours) {
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    let pairs = if is_url { url_pairs(text) } else { spaced_pairs(text) };
    let (mut rest, mut ours) = (text.to_owned(), Ours::default());
    // From the back, so that the ranges in front stay right.
    for pair in pairs.into_iter().rev() {
        let raw = text.get(pair.clone()).unwrap_or_default();
        let Some((key, value)) = raw.split_once('=') else { continue };
        let decoded = || {
            // The driver knows how its values are escaped: it reads this one under a name it knows.
            let head = if is_url { "postgres://h/?" } else { "" };
            let config: Config = format!("{head}application_name={value}").parse().ok()?;
            config.get_application_name().map(ToOwned::to_owned)
        };
        match key.trim() {
            "sslmode" => ours.sslmode = Some(decoded().unwrap_or_default()),
            "sslrootcert" => ours.sslrootcert = decoded().map(PathBuf::from),
            _ => continue,
        }
        let end = if rest.get(pair.end..).is_some_and(|after| after.starts_with('&')) {
            pair.end + 1
        } else {
            pair.end
        };
        rest.replace_range(pair.start..end, "");
    }
    if is_url {
        rest.truncate(rest.trim_end_matches(['&', '?']).len());
    }
    (rest, ours)
}

/// The pairs behind a URL's question mark.
fn url_pairs(text: &str) -> Vec<Range<usize>> {
    // The driver takes everything before the first `@` as user and password, question marks included.
    let host = text.find('@').unwrap_or(0);
    let Some(query) = text.get(host..).and_then(|behind| behind.find('?')) else { return Vec::new() };
    let mut start = host + query + 1;
    let mut pairs = Vec::new();
    for pair in text.get(start..).unwrap_or_default().split('&') {
        pairs.push(start..start + pair.len());
        start += pair.len() + 1;
    }
    pairs
}

/// The pairs of a `key = 'a value' key=value` text.
fn spaced_pairs(text: &str) -> Vec<Range<usize>> {
    #[derive(PartialEq)]
    enum At {
        Key,
        Equals,
        Value,
        Quoted,
    }
    let (mut at, mut start, mut escaped, mut pairs) = (At::Key, None, false, Vec::new());
    for (index, char) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (&at, char) {
            (At::Key, '=') => at = At::Equals,
            (At::Key, _) if start.is_none() && !char.is_whitespace() => start = Some(index),
            (At::Equals, '\'') => at = At::Quoted,
            (At::Equals, _) if !char.is_whitespace() => {
                at = At::Value;
                escaped = char == '\\';
            }
            (At::Value | At::Quoted, '\\') => escaped = true,
            (At::Quoted, '\'') => {
                pairs.extend(start.take().map(|start| start..index + 1));
                at = At::Key;
            }
            (At::Value, _) if char.is_whitespace() => {
                pairs.extend(start.take().map(|start| start..index));
                at = At::Key;
            }
            _ => {}
        }
    }
    if at == At::Value {
        pairs.extend(start.map(|start| start..text.len()));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_postgres::config::Host;

    fn read(text: &str) -> Dsn {
        parse(text, TlsMode::Prefer, None).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn sslmode_is_understood_as_psql_does() {
        use Protection::{Disable, Prefer, Require, VerifyCa, VerifyFull};
        for (text, protection) in [
            ("postgres://u:p@h:5/db", Prefer),
            ("postgres://u:p@h/db?sslmode=disable", Disable),
            ("postgresql://u:p@h/db?sslmode=allow", Prefer),
            ("postgres://u:p@h/db?connect_timeout=3&sslmode=require", Require),
            ("postgres://u:p@h/db?sslmode=verify-ca&connect_timeout=3", VerifyCa),
            ("postgres://u:p@h?sslmode=verify-full", VerifyFull),
            ("postgres://u:p?sslmode=x@h/db?sslmode=verify-full", VerifyFull),
            ("host=h sslmode=verify-full user=u", VerifyFull),
            ("host=h user = u sslmode = 'require'", Require),
            ("host=h password='a sslmode=disable \\' b' sslmode=verify-ca", VerifyCa),
        ] {
            let dsn = read(text);
            assert_eq!(dsn.protection, protection, "{text}");
            assert_eq!(dsn.hosts[0].get_hosts(), [Host::Tcp("h".to_owned())], "{text}");
        }
        assert_eq!(
            read("postgres://u:p@h/db?connect_timeout=3&sslmode=require").hosts[0].get_connect_timeout(),
            Some(&Duration::from_secs(3))
        );
        let quoted = read("host=h password='a sslmode=disable \\' b' sslmode=verify-ca");
        assert_eq!(quoted.hosts[0].get_password(), Some(&b"a sslmode=disable ' b"[..]));
    }

    #[test]
    fn an_authority_in_the_text_is_found_and_makes_require_check_it() {
        for text in [
            "postgres://h/db?sslrootcert=%2Fetc%2Fmy%20ca.pem&sslmode=require",
            "postgres://h/db?sslmode=require&sslrootcert=/etc/my ca.pem",
            "host=h sslmode=require sslrootcert='/etc/my ca.pem'",
        ] {
            let dsn = read(text);
            assert_eq!(dsn.ca_file.as_deref(), Some(Path::new("/etc/my ca.pem")), "{text}");
            assert_eq!(dsn.protection, Protection::VerifyCa, "{text}");
        }
    }

    #[test]
    fn tls_beside_the_text_must_not_contradict_it() {
        assert!(
            parse("postgres://h/?sslmode=disable", TlsMode::VerifyFull, None)
                .unwrap_err()
                .contains("take one")
        );
        assert_eq!(
            parse("postgres://h/?sslmode=verify-full", TlsMode::VerifyFull, None).unwrap().protection,
            Protection::VerifyFull
        );
        assert_eq!(parse("postgres://h/", TlsMode::Disable, None).unwrap().protection, Protection::Disable);
    }

    #[test]
    fn each_host_has_its_own_configuration() {
        let dsn = read("postgres://u:p@a:1,b:2/db?target_session_attrs=read-write");
        let shown: Vec<_> =
            dsn.hosts.iter().map(|host| (host.get_hosts().to_vec(), host.get_ports().to_vec())).collect();
        assert_eq!(
            shown,
            [(vec![Host::Tcp("a".to_owned())], vec![1]), (vec![Host::Tcp("b".to_owned())], vec![2])]
        );
        for host in &dsn.hosts {
            assert_eq!((host.get_user(), host.get_dbname()), (Some("u"), Some("db")));
            assert_eq!(host.get_application_name(), Some("soakd"));
            assert_eq!(
                host.get_target_session_attrs(),
                tokio_postgres::config::TargetSessionAttrs::ReadWrite
            );
        }
        assert!(
            parse("host=a,b port=1,2,3", TlsMode::Prefer, None).unwrap_err().contains("numbers of hosts")
        );
        assert!(parse("postgres:///db", TlsMode::Prefer, None).unwrap_err().contains("names no host"));
    }

    #[test]
    fn no_error_shows_a_password() {
        for text in [
            "postgres://u:hunter2@h/db?sslmode=hunter2",
            "postgres://u:hunt?hunter2@h:port/db",
            "postgres://h/db?hunter2",
            "postgres://h/db?hunter2=1",
            "host=h password=x hunter2=5",
            "host=h password=x hunter2",
            "host=h password='hunter2",
            "hunter2",
            "postgres://u:hunter2@h/db?sslcert=x",
            "postgres://u:hunter2@h/db?port=hunter2",
        ] {
            let error = parse(text, TlsMode::Prefer, None).unwrap_err();
            assert!(!error.contains("hunter2"), "{text}: {error}");
        }
        let error = parse("postgres://u:hunter2@h/db?sslcert=x", TlsMode::Prefer, None).unwrap_err();
        assert!(error.contains("sslcert"), "{error}");
    }
}
