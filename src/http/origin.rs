//! Who is asked and who asks: the names in `Host` and `Origin`. A page in the operator's browser can reach loopback,
//! by DNS rebinding under a name of its own; the name in `Host` gives it away.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, Uri, Version, header};

use super::problem::Problem;

/// Splits `name:port`; `None` when it is no such thing. The brackets of an IPv6 address are taken off.
fn name_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (name, rest) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match rest.strip_prefix(':') {
        Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((name, Some(port)))
        }
        None if rest.is_empty() => Some((name, None)),
        _ => None,
    }
}

/// Whether this names the machine itself, whatever the port.
fn is_loopback(authority: &str) -> bool {
    name_and_port(authority).is_some_and(|(name, _)| {
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    })
}

/// The one `Host` of the request; HTTP/1.0 may have none.
fn host(version: Version, headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut all = headers.get_all(header::HOST).iter();
    match (all.next(), all.next()) {
        (Some(host), None) => {
            host.to_str().map(Some).map_err(|_| Problem::bad_request("the Host header is not a name"))
        }
        (None, _) if version < Version::HTTP_11 => Ok(None),
        (None, _) => Err(Problem::bad_request("the request has no Host header")),
        _ => Err(Problem::bad_request("the request has more than one Host header")),
    }
}

/// Refuses a request that was meant for another name, unless a token protects the changes anyway.
pub(super) fn check_host(
    version: Version,
    uri: &Uri,
    headers: &HeaderMap,
    has_token: bool,
) -> Result<(), Problem> {
    let host = host(version, headers)?;
    if has_token {
        return Ok(());
    }
    // A proxy's request line carries a name too, and that one would count.
    for name in host.into_iter().chain(uri.authority().map(|authority| authority.as_str())) {
        if !is_loopback(name) {
            let detail = format!(
                "without a token soakd answers to loopback names only, and the request is for {name:?}: \
                 use 127.0.0.1 or localhost, or set http.token_file"
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail));
        }
    }
    Ok(())
}

/// Refuses a change that a page of another origin asks for.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    for origin in headers.get_all(header::ORIGIN) {
        let own = headers.get(header::HOST).is_some_and(|host| {
            let (Ok(origin), Ok(host)) = (origin.to_str(), host.to_str()) else { return false };
            same_origin(origin, host)
        });
        if !own {
            let detail = format!(
                "a page of the origin {:?} may not change the load: only pages that soakd serves may",
                String::from_utf8_lossy(origin.as_bytes())
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
    }
    Ok(())
}

/// Behind a proxy the page may be `https` while soakd sees `http`: name and port decide.
fn same_origin(origin: &str, host: &str) -> bool {
    let (Some((scheme, authority)), Some((own_name, own_port))) =
        (origin.split_once("://"), name_and_port(host))
    else {
        return false;
    };
    let default_port = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return false,
    };
    name_and_port(authority).is_some_and(|(name, port)| {
        name.eq_ignore_ascii_case(own_name)
            && port.unwrap_or(default_port) == own_port.unwrap_or(default_port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for good in ["localhost", "LocalHost:9640", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9640"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example:9640",
            "127.0.0.1.evil.example",
            "10.0.0.1:9640",
            "[::2]:1",
            "[::1",
            "[::1]x",
            "::1",
            "user@localhost",
            "localhost:",
            "localhost:evil",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn an_origin_is_own_when_name_and_port_are() {
        for (origin, host) in [
            ("http://localhost:9640", "localhost:9640"),
            ("http://LOCALHOST:80", "localhost"),
            ("https://soak.example", "soak.example"),
            ("http://[::1]:9640", "[::1]:9640"),
        ] {
            assert!(same_origin(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("null", "localhost:9640"),
            ("http://localhost:3000", "localhost:9640"),
            ("http://evil.example", "localhost"),
            ("file://localhost", "localhost"),
            ("http://localhost:9640/x", "localhost:9640"),
        ] {
            assert!(!same_origin(origin, host), "{origin} {host}");
        }
    }
}
