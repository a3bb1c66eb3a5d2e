//! A lane's own reading of the file, with the blocks that it read last.

use std::fs::File;
use std::io::{self, BufRead};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::format::MakeError;
use super::index::{Identity, Index, content};
use crate::config::open_regular;

/// Memory for blocks, by lane. One block is held whatever its size.
const CACHE_BYTES: u64 = 4 << 20;
/// Most blocks in it: what a lane walks in one go (4096 records) when lines are short.
const MAX_SLOTS: usize = 256;
/// A file that is gone is not asked for at each record.
const RETRY: Duration = Duration::from_millis(100);

/// Reads lines by number.
#[derive(Debug)]
pub(super) struct Reader {
    index: Arc<Index>,
    /// By block number modulo their number.
    slots: Vec<Slot>,
    /// The file, opened again by its name.
    reopened: Option<File>,
    failed: Option<(Instant, MakeError)>,
}

/// A block in memory.
#[derive(Debug, Default)]
struct Slot {
    block: Option<u64>,
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
    /// Whether each line has a key, where that is known.
    keyed: Vec<Option<bool>>,
}

impl Reader {
    pub(super) fn new(index: Arc<Index>) -> Self {
        let fit = usize::try_from(CACHE_BYTES / index.block_bytes().max(1)).unwrap_or(MAX_SLOTS);
        let slots = fit.clamp(1, MAX_SLOTS).min(index.blocks().max(1));
        Self { index, slots: (0..slots).map(|_| Slot::default()).collect(), reopened: None, failed: None }
    }

    /// A line without its end.
    pub(super) fn line(&mut self, line: u64) -> Result<&[u8], MakeError> {
        let (block, slot, at) = self.place(line);
        if self.slots.get(slot).is_none_or(|slot| slot.block != Some(block)) {
            self.load(block, slot)?;
        }
        let slot = self.slots.get(slot);
        let bytes = slot.and_then(|slot| slot.lines.get(at).and_then(|range| slot.bytes.get(range.clone())));
        bytes.ok_or_else(|| MakeError(format!("{} has no line {}", self.index.path.display(), line + 1)))
    }

    /// Whether a line that is in memory has a key, when that was found out.
    pub(super) fn has_key(&self, line: u64) -> Option<bool> {
        let (block, slot, at) = self.place(line);
        let slot = self.slots.get(slot).filter(|slot| slot.block == Some(block))?;
        slot.keyed.get(at).copied().flatten()
    }

    pub(super) fn set_has_key(&mut self, line: u64, has_key: bool) {
        let (block, slot, at) = self.place(line);
        if let Some(slot) = self.slots.get_mut(slot).filter(|slot| slot.block == Some(block))
            && let Some(known) = slot.keyed.get_mut(at)
        {
            *known = Some(has_key);
        }
    }

    /// A line's block, the slot for it, and which of its lines it is.
    fn place(&self, line: u64) -> (u64, usize, usize) {
        let (block, at) = (line / self.index.lines_per_block, line % self.index.lines_per_block);
        (block, (block % self.slots.len() as u64) as usize, at as usize)
    }

    fn load(&mut self, block: u64, slot: usize) -> Result<(), MakeError> {
        if let Some((at, error)) = &self.failed
            && at.elapsed() < RETRY
        {
            return Err(error.clone());
        }
        let Some(slot) = self.slots.get_mut(slot) else { return Ok(()) };
        let read = match read(&self.index, self.reopened.as_ref().unwrap_or(&self.index.file), block, slot) {
            Ok(()) => Ok(()),
            // The name may lead to the file as it was again: put back, or its file system is there again.
            Err(_) => open_regular(&self.index.path).and_then(|(file, _)| {
                read(&self.index, &file, block, slot)?;
                self.reopened = Some(file);
                Ok(())
            }),
        };
        match read {
            Ok(()) => {
                self.failed = None;
                Ok(())
            }
            Err(error) => {
                let error = MakeError(format!("{}: {error}", self.index.path.display()));
                self.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

/// Reads a block into a slot; the slot is empty when that fails.
fn read(index: &Index, file: &File, block: u64, slot: &mut Slot) -> io::Result<()> {
    slot.block = None;
    slot.lines.clear();
    let (start, end) = index.block(block).ok_or_else(|| io::Error::other("there is no such block"))?;
    slot.bytes.resize(usize::try_from(end - start).map_err(io::Error::other)?, 0);
    let read = file.read_exact_at(&mut slot.bytes, start);
    // Held against the start's after the reading: what was read before a change is good.
    if Identity::of(&file.metadata()?) != index.identity {
        return Err(io::Error::other(
            "the file was changed since the start; put it back as it was (also its time), or start a new run",
        ));
    }
    read?;
    let (mut at, mut rest) = (0, slot.bytes.as_slice());
    while !rest.is_empty() {
        let from = rest;
        // The standard library looks for a byte faster in here than by any iterator.
        let bytes = rest.skip_until(b'\n')?;
        if let Some(content) = from.get(..bytes).and_then(content) {
            slot.lines.push(at..at + content.len());
        }
        at += bytes;
    }
    if slot.lines.len() as u64 != index.lines_in(block) {
        return Err(io::Error::other("the file was changed since the start; start a new run"));
    }
    slot.keyed.clear();
    slot.keyed.resize(slot.lines.len(), None);
    slot.block = Some(block);
    Ok(())
}
