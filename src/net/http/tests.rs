use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::SslAcceptor;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509NameBuilder};

use super::*;

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);
/// For what must succeed on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate that its owner signed, for 127.0.0.1.
fn certificate() -> (X509, PKey<Private>) {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "registry").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    let address = SubjectAlternativeName::new().ip("127.0.0.1").build(&builder.x509v3_context(None, None));
    builder.append_extension(address.unwrap()).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    (builder.build(), key)
}

/// Serves one request and hands it out; `tls` speaks TLS.
fn serve(tls: Option<&(X509, PKey<Private>)>) -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tls.map(|(certificate, key)| {
        let mut builder = SslAcceptor::mozilla_intermediate(SslMethod::tls()).unwrap();
        builder.set_certificate(certificate).unwrap();
        builder.set_private_key(key).unwrap();
        builder.build()
    });
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            match &acceptor {
                None => exchange(stream, &sender),
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream) {
                        exchange(stream, &sender);
                    }
                }
            }
        }
    });
    (port, receiver)
}

fn exchange(mut stream: impl Read + Write, sender: &mpsc::Sender<String>) {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !request.ends_with(b"END") {
        match stream.read(&mut part) {
            Ok(count) if count > 0 => request.extend_from_slice(&part[..count]),
            _ => return,
        }
    }
    stream.write_all(ANSWER).unwrap();
    sender.send(String::from_utf8(request).unwrap()).unwrap();
}

fn post(client: &Client) -> Result<Answer, HttpError> {
    client.request(Method::POST, "/b?c=1", Some(("text/x", "END".to_owned())), PATIENCE)
}

#[test]
fn a_request_says_all_that_it_should_and_the_answer_is_whole() {
    let (port, received) = serve(None);
    let mut client = Client::new(&format!("http://127.0.0.1:{port}/a/"), None).unwrap();
    client.basic_auth("alice", "open sesame").unwrap();
    let answer = post(&client).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (201, b"abcde".as_slice()));
    let request = received.recv().unwrap().to_ascii_lowercase();
    assert!(request.starts_with("post /a/b?c=1 http/1.1\r\n"), "{request}");
    for header in [
        &format!("host: 127.0.0.1:{port}"),
        "content-type: text/x",
        "authorization: basic ywxpy2u6b3blbibzzxnhbwu=",
    ] {
        assert!(request.contains(&format!("\r\n{header}\r\n")), "{header}: {request}");
    }
}

#[test]
fn tls_trusts_the_given_authorities_and_no_stranger() {
    let own = certificate();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, certificate: &X509| {
        let path = dir.path().join(name);
        std::fs::write(&path, certificate.to_pem().unwrap()).unwrap();
        path
    };
    let (ours, strangers) = (file("ours.pem", &own.0), file("strangers.pem", &certificate().0));
    let (port, received) = serve(Some(&own));
    let ask =
        |host: &str, ca: Option<&Path>| post(&Client::new(&format!("https://{host}:{port}"), ca).unwrap());
    assert_eq!(ask("127.0.0.1", Some(&ours)).unwrap().status, 201);
    assert!(received.recv().unwrap().contains("END"));
    for (host, ca) in [("127.0.0.1", None), ("127.0.0.1", Some(&*strangers)), ("localhost", Some(&*ours))] {
        let error = ask(host, ca).unwrap_err().to_string();
        assert!(error.contains("certificate verify failed"), "{host}: {error}");
    }
    let none = dir.path().join("none.pem");
    assert!(matches!(Client::new("https://h", Some(&none)), Err(HttpError::Tls(TlsError::Read { .. }))));
    std::fs::write(&none, "nothing").unwrap();
    assert!(matches!(Client::new("https://h", Some(&none)), Err(HttpError::Tls(TlsError::NoCertificate(_)))));
}

#[test]
fn no_answer_is_said_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let client = Client::new(&format!("http://127.0.0.1:{port}"), None).unwrap();
    let error = client.request(Method::GET, "/", None, SECOND / 10).unwrap_err();
    assert!(matches!(error, HttpError::Timeout(_)), "{error}");
    assert_eq!(error.to_string(), "no answer within 0.1 s");
    drop(silent);
    let error = client.request(Method::GET, "/", None, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn urls_that_cannot_be_used_say_why() {
    for (url, says) in [
        ("registry:8081", "does not begin with http"),
        ("ftp://h", "does not begin with http"),
        ("http://", "is not a URL"),
        ("http://u:hunter2@h", "user name or password"),
        ("http://h/?a=b", "holds a query"),
    ] {
        let Err(error) = Client::new(url, None) else { panic!("{url}") };
        let error = error.to_string();
        assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
    }
    let client = Client::new("http://[::1]:8081/a//", None).unwrap();
    assert_eq!((client.host.as_str(), client.port, client.base.as_str()), ("::1", 8081, "/a"));
    assert_eq!(Client::new("https://h", None).unwrap().port, 443);
}
