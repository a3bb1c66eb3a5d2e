//! One file a command. Only here is anything printed.

pub mod agent;
pub mod check;
pub mod config;
pub mod demo;
pub mod drawing;
pub mod logs;
pub mod metrics;
pub mod run;

use std::io::Write;
use std::process::ExitCode;

/// The settings cannot work, or the command line is wrong.
pub const USAGE: u8 = 2;

/// What a command leaves for its end: text for standard output, text for standard error, an exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For standard output.
    pub out: String,
    /// For standard error.
    pub err: String,
    /// The exit code.
    pub code: u8,
}

impl Outcome {
    /// A good end with a text.
    #[must_use]
    pub fn text(out: String) -> Self {
        Self { out, ..Self::default() }
    }

    /// A bad end with a sentence.
    #[must_use]
    pub fn error(code: u8, error: &impl std::fmt::Display) -> Self {
        Self { err: format!("soakd: {error}\n"), code, ..Self::default() }
    }

    /// Prints it. A reader that went away (`soakd config | head`) is no error.
    #[must_use]
    pub fn print(&self) -> ExitCode {
        let _ = std::io::stdout().write_all(self.out.as_bytes());
        let _ = std::io::stderr().write_all(self.err.as_bytes());
        ExitCode::from(self.code)
    }
}
