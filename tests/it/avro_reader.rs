//! Reads Avro with the Avro project's own Python library, which shares no code with soakd.

use crate::children::Start as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The library in a process of its own; it ends with its standard input.
pub(crate) struct AvroReader {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl AvroReader {
    pub(crate) fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/avro-reader");
        let mut command = Command::new(script);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).start().unwrap();
        let (questions, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, questions, answers }
    }

    /// The one value that the bytes hold. Bytes come as hex, dates, times, decimals and UUIDs as text.
    pub(crate) fn read(&mut self, schema: &str, bytes: &[u8]) -> Value {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let question = json!({ "schema": schema, "hex": hex });
        writeln!(self.questions.as_mut().unwrap(), "{question}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let mut answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert_eq!(answer["rest"], 0, "{answer}: {hex} of {schema}");
        answer["value"].take()
    }
}

impl Drop for AvroReader {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.wait();
    }
}
