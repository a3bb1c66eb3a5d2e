//! The thin binary: arguments, logs, command, exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use soakd::cli::{self, Outcome};

/// Also the C client's: it takes and gives back a piece of memory for each record, larger than what glibc's allocator keeps at
/// hand.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A load daemon for systems that ingest from Kafka.
#[derive(Debug, Parser)]
#[command(name = "soakd", version, about, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    logs: cli::logs::LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole job at once with an embedded broker and ingestor: no file, no service
    Demo(cli::demo::DemoArgs),
    /// Run the daemon
    Run(cli::run::RunArgs),
    /// Check the settings and connect to every broker, source and process; writes nothing
    Check(cli::check::CheckArgs),
    /// Show the effective settings and where each value comes from
    Config(cli::config::ConfigArgs),
    /// Tell of this machine's processes, for a soakd on another machine
    Agent(cli::agent::AgentArgs),
    /// Print the catalogue of metrics as Markdown
    Metrics,
}

fn main() -> ExitCode {
    // First of all: it tells OpenSSL not to clean up at the exit. A Kafka client that still waits for a dead broker then
    // may use TLS in its own thread, and would find everything freed.
    openssl::init();
    // clap's own exit code for a wrong command line is 2, as the contract has it.
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Demo(demo) => cli::demo::run(demo, &arguments.logs),
        Command::Run(run) => cli::run::run(run, &arguments.logs),
        Command::Check(check) => cli::check::run(check),
        Command::Config(config) => cli::config::outcome(config),
        Command::Agent(agent) => cli::agent::run(agent, &arguments.logs),
        Command::Metrics => Outcome::text(cli::metrics::text()),
    };
    outcome.print()
}
