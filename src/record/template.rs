//! Values from a template of JSON, compiled once into literal pieces and places.

mod parse;
mod place;

use std::fmt;
use std::sync::Arc;

pub use parse::TemplateError;
use place::Place;

use super::Facts;
use super::format::Of;
use super::format::{BuildError, Format, MakeError};
use super::hash::{Random, seed_of};
use super::settings::TemplateValueSettings;
use super::text;
use crate::config::{key, read_file};

/// More than anybody writes by hand; a value of a megabyte is the usual limit of a broker.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;

/// What a template knows of its run: fixed texts.
#[derive(Debug, Clone, Copy)]
pub struct Fixed<'a> {
    /// The run's id.
    pub run_id: &'a str,
    /// The topic.
    pub topic: &'a str,
}

/// Makes values from a template.
#[derive(Clone)]
pub struct Template {
    seed: u64,
    compiled: Arc<Compiled>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("pieces", &self.compiled.pieces.len()).finish_non_exhaustive()
    }
}

/// A template that was found good.
#[derive(Debug)]
pub struct Compiled {
    pieces: Vec<Piece>,
    max_bytes: usize,
}

/// What stands in a value one after the other.
#[derive(Debug)]
enum Piece {
    Literal(Box<[u8]>),
    Place(Place),
}

impl Compiled {
    /// Compiles a template.
    ///
    /// # Errors
    /// When a place is not known or the values would not be JSON.
    pub fn new(text: &str, fixed: Fixed<'_>) -> Result<Self, TemplateError> {
        let pieces = parse::compile(text, fixed)?;
        let (mut bytes, mut padded) = (0_usize, 0);
        for piece in &pieces {
            match piece {
                Piece::Literal(literal) => bytes += literal.len(),
                Piece::Place(Place::Pad(size)) => padded = *size,
                Piece::Place(place) => bytes += place.max_bytes(),
            }
        }
        Ok(Self { pieces, max_bytes: bytes.max(padded) })
    }

    /// Whether the values tell how far a system is that stores them.
    fn tells_progress(&self) -> bool {
        let tells = |piece: &Piece| {
            matches!(piece, Piece::Place(Place::Sequence | Place::IntendedMs | Place::IntendedIso))
        };
        self.pieces.iter().any(tells)
    }

    fn write(&self, facts: &Facts, mut random: Random, value: &mut Vec<u8>) {
        let mut pad = None;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(literal) => value.extend_from_slice(literal),
                Piece::Place(Place::Pad(size)) => pad = Some((value.len(), *size)),
                Piece::Place(place) => place.write(facts, &mut random, value),
            }
        }
        if let Some((at, size)) = pad {
            let missing = size.saturating_sub(value.len());
            let end = value.len();
            text::letters(missing, &mut random, value);
            // The letters go to their place, what was behind it to the end.
            if let Some(tail) = value.get_mut(at..) {
                tail.rotate_left(end - at);
            }
        }
    }
}

impl Template {
    /// Compiles the template of the settings.
    ///
    /// # Errors
    /// When its file cannot be read or it is not a good template.
    pub fn new(of: Of<'_>, settings: &TemplateValueSettings) -> Result<Self, BuildError> {
        let fixed = Fixed { run_id: of.run_id, topic: of.topic };
        let (name, read);
        let text = if let Some(path) = &settings.template_file {
            name = "template_file";
            let bytes = read_file(path, MAX_TEMPLATE_BYTES).map_err(|error| {
                BuildError::new(key(of.at, name), format!("cannot read {}: {error}", path.display()))
            })?;
            read = String::from_utf8(bytes).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                BuildError::new(
                    key(of.at, name),
                    format!("{} is not UTF-8 at byte {at}; save it as UTF-8", path.display()),
                )
            })?;
            read.strip_prefix('\u{feff}').unwrap_or(&read)
        } else {
            name = "template";
            settings.template.as_deref().unwrap_or_default()
        };
        let compiled = Compiled::new(text, fixed)
            .map_err(|error| BuildError::new(key(of.at, name), error.to_string()))?;
        Ok(Self { seed: of.seed, compiled: Arc::new(compiled) })
    }
}

impl Format for Template {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let random = Random::of(seed_of(self.seed, facts.marker), facts.sequence);
        self.compiled.write(facts, random, value);
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        self.compiled.max_bytes
    }

    fn warnings(&self) -> Vec<String> {
        if self.compiled.tells_progress() {
            return Vec::new();
        }
        vec![
            "the template has neither {{sequence}} nor {{intended_ms}} or {{intended_iso}}: a system that stores the values \
             can only be asked for offsets or counts"
                .to_owned(),
        ]
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
