//! Logs: lines of text or JSON on standard error.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How to log.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LogArgs {
    /// Log lines as JSON objects
    #[arg(long, global = true)]
    pub log_json: bool,
    /// What to log, like `debug` or `soakd::progress=debug`
    #[arg(long, global = true, value_name = "FILTER", default_value = "info")]
    pub log: String,
}

impl LogArgs {
    /// Starts logging.
    ///
    /// # Errors
    /// When the filter makes no sense.
    pub fn start(&self) -> Result<(), String> {
        // The client library's own lines repeat themselves in an outage; soakd tells each change once.
        let filter = format!("{},tokio_postgres=warn,librdkafka=error,rdkafka=error", self.log);
        let filter = EnvFilter::builder().parse(filter).map_err(|error| {
            format!(
                "--log {:?} is not a filter: {error}; use error, warn, info, debug or target=level",
                self.log
            )
        })?;
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(OwnLine::new());
        if self.log_json {
            builder.json().flatten_event(true).init();
        } else {
            builder.with_ansi(io::stderr().is_terminal()).with_target(false).init();
        }
        Ok(())
    }
}

/// Standard error, and on a terminal each line on a line of its own although the status line stands there.
#[derive(Debug, Clone, Copy)]
struct OwnLine {
    wipe: bool,
}

impl OwnLine {
    fn new() -> Self {
        Self { wipe: io::stderr().is_terminal() && io::stdout().is_terminal() }
    }
}

impl<'a> MakeWriter<'a> for OwnLine {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for OwnLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if self.wipe {
            stderr.write_all(b"\r\x1b[2K")?;
        }
        stderr.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
