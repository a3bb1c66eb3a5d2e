//! The folder of run records: `<dir>/runs/<id>/`. Calls block on the disk, so they do not belong on the async
//! runtime. Every error says what was tried where; whether a run goes on without its record is the caller's choice.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub mod record;
pub mod settings;

/// The report's file name in a run's folder.
pub const REPORT_FILE: &str = "report.json";

/// Temporary files end like this; the writer's pid stands before it.
const TEMP_END: &str = ".tmp";

/// Ids that are tried when runs of the same name begin in the same second.
const MAX_SAME_ID: u32 = 1_000;

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk said no.
    #[error("cannot {what} {path}: {reason}")]
    Disk {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: String,
        /// Why not, with what helps where that is known.
        reason: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Not an id of a run.
    #[error("{0:?} is not the id of a run: ids are made of letters, digits, `-`, `_` and `.`")]
    BadId(String),
    /// No such run, or it has no report yet.
    #[error("there is no report of run {id:?} in {dir}")]
    Unknown {
        /// The id that was asked for.
        id: String,
        /// The store's folder.
        dir: String,
    },
    /// A file that is not what its name says.
    #[error("cannot read {path}: {reason}")]
    Broken {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Too many runs of one name in one second.
    #[error(
        "cannot create a folder for run {id:?}: {MAX_SAME_ID} runs of this name began in the same second"
    )]
    TooMany {
        /// The id without a suffix.
        id: String,
    },
}

/// The folder of all runs.
#[derive(Debug, Clone)]
pub struct Store {
    runs: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    id: String,
    dir: PathBuf,
}

/// The id of a run of this name that begins at this wall time (since 1970): `<name>-<yyyymmddThhmmssZ>`.
#[must_use]
pub fn run_id(name: &str, wall: Duration) -> String {
    // The year 9999 is as far as the format goes.
    let wall = wall.min(Duration::from_secs(253_402_300_799));
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + wall).to_string();
    format!("{name}-{}", time.replace(['-', ':'], ""))
}

impl Store {
    /// Opens the store, makes its folder when it is missing, removes what an earlier crash left half-written and
    /// makes sure that something can be written.
    ///
    /// # Errors
    /// When the folder cannot be made or written: no permission, a file in the way, read-only, disk full.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let runs = dir.join("runs");
        fs::create_dir_all(&runs).map_err(disk("create the folder", &runs))?;
        let probe = runs.join(format!(".probe.{}{TEMP_END}", std::process::id()));
        write_synced(&probe, b"soakd\n")?;
        fs::remove_file(&probe).map_err(disk("remove", &probe))?;
        let store = Self { runs };
        store.remove_leftovers()?;
        Ok(store)
    }

    /// Makes the folder of a new run. When there is one of this id, `-2`, `-3`, ... is appended: the folder knows
    /// its id.
    ///
    /// # Errors
    /// When the id is none, or the folder cannot be made.
    pub fn create_run(&self, id: &str) -> Result<RunFolder, StoreError> {
        check_id(id)?;
        for attempt in 1..=MAX_SAME_ID {
            let id = if attempt == 1 { id.to_owned() } else { format!("{id}-{attempt}") };
            let dir = self.runs.join(&id);
            match fs::create_dir(&dir) {
                Ok(()) => {
                    sync_dir(&self.runs)?;
                    return Ok(RunFolder { id, dir });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(disk("create the folder", &dir)(error)),
            }
        }
        Err(StoreError::TooMany { id: id.to_owned() })
    }

    /// The ids of all runs, in the order of their names.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        let mut ids: Vec<String> = self
            .run_dirs()?
            .into_iter()
            .filter_map(|dir| dir.file_name()?.to_str().map(ToOwned::to_owned))
            .filter(|id| check_id(id).is_ok())
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads the report of a run.
    ///
    /// # Errors
    /// When there is none, it cannot be read, or it is of a later format than this program knows.
    pub fn load<T: DeserializeOwned>(&self, id: &str) -> Result<T, StoreError> {
        check_id(id)?;
        let path = self.runs.join(id).join(REPORT_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StoreError::Unknown { id: id.to_owned(), dir: self.runs.display().to_string() });
            }
            Err(error) => return Err(disk("read", &path)(error)),
        };
        parse(&text).map_err(|reason| StoreError::Broken { path: path.display().to_string(), reason })
    }

    fn run_dirs(&self) -> Result<Vec<PathBuf>, StoreError> {
        let entries = fs::read_dir(&self.runs).map_err(disk("read the folder", &self.runs))?;
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        Ok(entries.filter_map(Result::ok).filter(is_dir).map(|entry| entry.path()).collect())
    }

    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let mut dirs = self.run_dirs()?;
        dirs.push(self.runs.clone());
        for dir in dirs {
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if is_leftover(name) {
                    fs::remove_file(&path).map_err(disk("remove the leftover", &path))?;
                }
            }
        }
        Ok(())
    }
}

impl RunFolder {
    /// The run's id: the name of its folder.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the folder of a run that did not begin. What has something in it stays.
    pub fn discard(self) {
        // A leftover empty folder harms nobody.
        let _ = fs::remove_dir(&self.dir);
    }

    /// Writes the report as a whole: a reader sees the old one or the new one, also after a crash at any instant.
    ///
    /// # Errors
    /// When it cannot be written; the report before, if there was one, is still there.
    pub fn write_report(&self, report: &impl Serialize) -> Result<PathBuf, StoreError> {
        let path = self.dir.join(REPORT_FILE);
        let mut text = serde_json::to_vec_pretty(report).map_err(|error| StoreError::Broken {
            path: path.display().to_string(),
            reason: format!("the report cannot be put into JSON: {error}"),
        })?;
        text.push(b'\n');
        let temp = self.dir.join(format!(".{REPORT_FILE}.{}{TEMP_END}", std::process::id()));
        let written = write_synced(&temp, &text)
            .and_then(|()| fs::rename(&temp, &path).map_err(disk("replace", &path)))
            .and_then(|()| sync_dir(&self.dir));
        if written.is_err() {
            // Half a file on a full disk helps nobody; when this fails too, the next start removes it.
            let _ = fs::remove_file(&temp);
        }
        written.map(|()| path)
    }
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    /// The one field that every version has.
    #[derive(serde::Deserialize)]
    struct Versioned {
        format_version: u32,
    }
    let known = record::FORMAT_VERSION;
    match serde_json::from_slice::<Versioned>(text).map_err(|error| error.to_string())?.format_version {
        version if version > known => Err(format!(
            "it is of format {version}, and this soakd knows formats up to {known}: use the soakd that wrote it, or a later one"
        )),
        _ => serde_json::from_slice(text).map_err(|error| error.to_string()),
    }
}

/// Ids come from the command line and over HTTP, and must not lead out of the store.
fn check_id(id: &str) -> Result<(), StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let good = (1..=200).contains(&id.len()) && id.chars().all(allowed) && !id.starts_with('.');
    if good { Ok(()) } else { Err(StoreError::BadId(id.to_owned())) }
}

/// A temporary file of ours whose writer lives no more. Another soakd may write into the same store right now.
fn is_leftover(name: &str) -> bool {
    let Some(rest) = name.strip_suffix(TEMP_END).filter(|_| name.starts_with('.')) else { return false };
    let Some(pid) = rest.rsplit('.').next().and_then(|pid| pid.parse::<u32>().ok()) else { return false };
    pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists()
}

fn write_synced(path: &Path, text: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create(path).map_err(disk("create", path))?;
    file.write_all(text).map_err(disk("write", path))?;
    file.sync_all().map_err(disk("write", path))
}

/// A rename or a new folder survives a power cut only when the folder around it was synced.
fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(disk("sync the folder", dir))
}

fn disk<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> StoreError + 'a {
    move |source| StoreError::Disk {
        what,
        path: path.display().to_string(),
        reason: explain(&source),
        source,
    }
}

fn explain(error: &io::Error) -> String {
    let help = match error.kind() {
        ErrorKind::PermissionDenied => "; run soakd as a user who may write there, or set store.dir",
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            "; a file is where a folder is needed: move it away, or set store.dir"
        }
        ErrorKind::ReadOnlyFilesystem => "; set store.dir to a folder that can be written",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; the disk is full: make room",
        _ => "",
    };
    format!("{error}{help}")
}

#[cfg(test)]
mod tests;
