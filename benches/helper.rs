//! What the scripts beside this file run that only Rust can:
//! `helper mock` is a broker in memory, in a process of its own, that every client can use;
//! `helper parts` lists the pure parts, `helper part NAME RECORDS` does one of them so often.
#![allow(clippy::expect_used, clippy::print_stdout, clippy::print_stderr, missing_docs, unreachable_pub)]

mod parts;

use std::io::{Read, stdin};

use soakd::embedded::broker::EmbeddedBroker;

/// Records that are worked on in one call.
const BATCH: u64 = 4096;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["mock"] => {
            mock();
            0.into()
        }
        ["parts"] => {
            parts::all().iter().for_each(|part| println!("{}", part.name));
            0.into()
        }
        ["part", name, records] => part(name, records),
        _ => {
            eprintln!("usage: helper mock | parts | part NAME RECORDS");
            2.into()
        }
    }
}

/// A mock cluster that lives until standard input is closed, so that it cannot outlive who started it. Topics come
/// into being with four partitions when a client asks for them.
fn mock() {
    let broker = EmbeddedBroker::start(&[]).expect("the mock cluster starts");
    println!("{}", broker.bootstrap());
    let _ = stdin().read_to_end(&mut Vec::new());
}

fn part(name: &str, records: &str) -> std::process::ExitCode {
    let found = parts::all().into_iter().find(|part| part.name == name);
    let (Some(part), Ok(records)) = (found, records.parse::<u64>()) else {
        eprintln!("helper: no part {name:?}, or {records:?} is no number of records");
        return 2.into();
    };
    let (mut work, mut next) = ((part.prepare)(), 0);
    while next < records {
        let end = (next + BATCH).min(records);
        work(next..end);
        next = end;
    }
    0.into()
}
