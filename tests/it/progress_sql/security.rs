//! TLS and passwords.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use soakd::core::lag::Progress;
use soakd::core::status::ProgressErrorKind;
use soakd::kafka::settings::KafkaSettings;
use soakd::progress::Poller;

use super::{PATIENCE, ask, settings};
use crate::board::board;
use crate::children::Start as _;
use crate::postgres::Postgres;

/// A certificate for "localhost" that signs itself, readable for the server's user only where the server asks for that.
fn certificate(dir: &Path, name: &str) {
    let (key, certificate) = (dir.join(format!("{name}.key")), dir.join(format!("{name}.crt")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
    openssl
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate);
    assert!(openssl.run_for_output().unwrap().status.success());
    // The server takes a key of root's that its group may read; when the test is no root, the key is its own.
    if std::fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0).unwrap() {
        assert!(Command::new("chown").arg("postgres").arg(&key).run_for_status().unwrap().success());
    }
    assert!(Command::new("chmod").arg("0600").arg(&key).run_for_status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_checked_as_far_as_the_settings_say() {
    let home = tempfile::tempdir().unwrap();
    certificate(home.path(), "server");
    certificate(home.path(), "other");
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (ca, other, key) = (file("server.crt"), file("other.crt"), file("server.key"));
    let (cert_setting, key_setting) = (format!("ssl_cert_file={ca}"), format!("ssl_key_file={key}"));
    let pg = Postgres::start_in(home, &["ssl=on", &cert_setting, &key_setting]);
    let port = pg.port();
    let query = "select count(*) from pg_stat_ssl where pid = pg_backend_pid() and ssl";
    let by_name = format!("postgres://postgres@localhost:{port}/postgres");
    let by_address = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let in_url = |mode: &str| format!("{by_name}?sslmode={mode}&sslrootcert={ca}");
    for (url, changes, encrypted) in [
        (&by_name, json!({ "tls": "disable" }), 0),
        (&by_name, json!({ "tls": "prefer" }), 1),
        (&by_address, json!({ "tls": "require" }), 1),
        (&by_name, json!({ "tls": "verify_full", "tls_ca_file": ca }), 1),
        (&in_url("verify-full"), json!({}), 1),
        (&in_url("verify-ca").replace("localhost", "127.0.0.1"), json!({}), 1),
        (&in_url("require").replace("localhost", "127.0.0.1"), json!({}), 1),
        (&in_url("disable"), json!({}), 0),
    ] {
        let found = ask(1, &settings(url, query, "count", changes.clone())).await;
        assert_eq!(found, Ok(Progress::Total(encrypted)), "{url} {changes}");
    }
    for (url, changes) in [
        (&by_name, json!({ "tls": "verify_full" })),
        (&by_name, json!({ "tls": "verify_full", "tls_ca_file": other })),
        (&by_address, json!({ "tls": "verify_full", "tls_ca_file": ca })),
        (&in_url("require").replace(&ca, &other), json!({})),
    ] {
        let error = ask(1, &settings(url, query, "count", changes.clone())).await.unwrap_err();
        assert_eq!(error.kind, ProgressErrorKind::Connect, "{error}");
        assert!(
            error.text.contains("certificate") || error.text.contains("ostname"),
            "{url} {changes}: {error}"
        );
    }
    let plain = Postgres::start(&[]);
    let error =
        ask(1, &settings(plain.url(), query, "count", json!({ "tls": "require" }))).await.unwrap_err();
    assert!(error.text.contains("does not support TLS"), "{error}");
    assert_eq!(ask(1, &settings(plain.url(), query, "count", json!({}))).await, Ok(Progress::Total(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_is_used_and_its_content_shown_nowhere() {
    let pg = Postgres::start(&["password_encryption=scram-sha-256"]);
    pg.psql("create role guarded login password 'hunter2'");
    pg.psql("copy (select 'host all guarded 127.0.0.1/32 scram-sha-256' union all select 'host all all 127.0.0.1/32 trust') to program 'sort -r > pg_hba.new && grep guarded pg_hba.new > pg_hba.conf; grep trust pg_hba.new >> pg_hba.conf'");
    pg.psql("select pg_reload_conf()");
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("password");
    let url = format!("postgres://guarded@127.0.0.1:{}/postgres", pg.port());
    let with_file = settings(&url, "select 42", "count", json!({ "password_file": path }));
    let board = board("t", 1, &[("view", &with_file)]);
    let missing = Poller::new("view", &with_file, &KafkaSettings::default(), &board).unwrap_err().to_string();
    assert!(missing.starts_with("progress.view: cannot read the secret file"), "{missing}");
    std::fs::write(&path, "hunter2\n").unwrap();
    // The reload takes effect when the postmaster has seen the signal.
    let mut found = ask(1, &with_file).await;
    assert_eq!(found, Ok(Progress::Total(42)));
    std::fs::write(&path, "hunter3\n").unwrap();
    let began = Instant::now();
    while found.is_ok() {
        assert!(began.elapsed() < PATIENCE, "a wrong password goes through");
        found = ask(1, &with_file).await;
    }
    let error = found.unwrap_err();
    assert_eq!(error.kind, ProgressErrorKind::Connect);
    assert!(
        error.text.contains("password authentication failed") && !error.text.contains("hunter"),
        "{error}"
    );
}
