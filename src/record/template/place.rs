//! The places of a template: what stands between `{{` and `}}`.

use super::super::Facts;
use super::super::hash::{Random, below};
use super::super::text;

/// Most decimals of a `float`.
const MAX_DECIMALS: u32 = 9;
/// Most characters or words of one place, so that a typing error cannot fill the memory.
const MAX_LENGTH: usize = 10_000_000;
/// All names, for the error that names the nearest.
pub(super) const NAMES: [&str; 20] = [
    "sequence",
    "partition",
    "key",
    "intended_ms",
    "intended_iso",
    "marker",
    "run",
    "topic",
    "cycle",
    "uuid",
    "int",
    "float",
    "bool",
    "pick",
    "weighted",
    "text",
    "digits",
    "hex",
    "words",
    "pad",
];

/// One place of a compiled template.
#[derive(Debug)]
pub(super) enum Place {
    Sequence,
    Partition,
    Key,
    IntendedMs,
    IntendedIso,
    Marker,
    /// The sequence modulo this.
    Cycle(u64),
    Uuid,
    /// Smallest value and how far the largest is from it.
    Int(i64, u64),
    /// The same in units of 10^-decimals.
    Float(i64, u64, u32),
    /// True when 64 random bits are below.
    Bool(u64),
    Pick(Pick),
    Text(Length),
    Digits(Length),
    Hex(Length),
    Words(Length),
    /// Letters up to this size of the whole value.
    Pad(usize),
}

/// One of several texts.
#[derive(Debug)]
pub(super) struct Pick {
    /// Each with the sum of the weights up to and with its own.
    items: Vec<(u64, Box<[u8]>)>,
    total: u64,
}

/// A number of characters or words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    min: usize,
    max: usize,
}

impl Length {
    fn of(self, random: &mut Random) -> usize {
        if self.min == self.max {
            return self.min;
        }
        self.min + below(random.next(), (self.max - self.min) as u64 + 1) as usize
    }
}

/// A word after the name of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arg {
    pub(super) text: String,
    /// It stood in quotes: always a text, never a number.
    pub(super) quoted: bool,
}

/// A number from `min` to `min + span`.
fn within(random: u64, min: i64, span: u64) -> i64 {
    let above = span.checked_add(1).map_or(random, |bound| below(random, bound));
    min.wrapping_add_unsigned(above)
}

impl Place {
    pub(super) fn write(&self, facts: &Facts, random: &mut Random, out: &mut Vec<u8>) {
        match self {
            Self::Sequence => text::number(facts.sequence, out),
            Self::Partition => text::number(facts.partition, out),
            Self::Key => text::number(facts.key_id, out),
            Self::IntendedMs => text::number(facts.intended_ms, out),
            Self::IntendedIso => text::instant(facts.intended_ms, b"Z", out),
            Self::Marker => out.extend_from_slice(truth(facts.marker)),
            Self::Cycle(bound) => text::number(facts.sequence % bound, out),
            Self::Uuid => text::uuid(random, out),
            Self::Int(min, span) => text::number(within(random.next(), *min, *span), out),
            Self::Float(min, span, decimals) => {
                text::fixed(within(random.next(), *min, *span), *decimals, out);
            }
            Self::Bool(threshold) => out.extend_from_slice(truth(random.next() < *threshold)),
            Self::Pick(pick) => out.extend_from_slice(pick.item(below(random.next(), pick.total))),
            Self::Text(length) => text::letters(length.of(random), random, out),
            Self::Digits(length) => text::digits(length.of(random), random, out),
            Self::Hex(length) => text::hex(length.of(random), random, out),
            Self::Words(length) => text::words(length.of(random), random, out),
            Self::Pad(_) => {}
        }
    }

    /// Most bytes that it writes.
    pub(super) fn max_bytes(&self) -> usize {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out.len()
        };
        match self {
            Self::Sequence | Self::Key | Self::IntendedMs => text::NUMBER_BYTES,
            Self::Partition => 10,
            Self::IntendedIso => text::INSTANT_BYTES + 1,
            Self::Marker | Self::Bool(_) => 5,
            Self::Cycle(bound) => written(&|out| text::number(bound - 1, out)),
            Self::Uuid => text::UUID_BYTES,
            Self::Int(min, span) => [*min, min.wrapping_add_unsigned(*span)]
                .map(|end| written(&|out| text::number(end, out)))
                .into_iter()
                .fold(0, usize::max),
            Self::Float(min, span, decimals) => [*min, min.wrapping_add_unsigned(*span)]
                .map(|end| written(&|out| text::fixed(end, *decimals, out)))
                .into_iter()
                .fold(0, usize::max),
            Self::Pick(pick) => pick.items.iter().map(|(_, item)| item.len()).fold(0, usize::max),
            Self::Text(length) | Self::Digits(length) | Self::Hex(length) => length.max,
            Self::Words(length) => (length.max * (text::LONGEST_WORD + 1)).saturating_sub(1),
            Self::Pad(_) => 0,
        }
    }

    /// Whether it is a text, and so stands in quotes where it is a whole value.
    pub(super) const fn is_text(&self) -> bool {
        match self {
            Self::IntendedIso
            | Self::Uuid
            | Self::Text(_)
            | Self::Digits(_)
            | Self::Hex(_)
            | Self::Words(_)
            | Self::Pad(_) => true,
            Self::Sequence
            | Self::Partition
            | Self::Key
            | Self::IntendedMs
            | Self::Marker
            | Self::Cycle(_)
            | Self::Int(..)
            | Self::Float(..)
            | Self::Bool(_)
            // Its items bring their own quotes.
            | Self::Pick(_) => false,
        }
    }

    /// The place of a name with its words; `bare` when it stands outside quotes.
    pub(super) fn parse(name: &str, args: &[Arg], bare: bool) -> Result<Self, String> {
        let plain = |place: Self| match args {
            [] => Ok(place),
            _ => Err(format!("{name} takes no words; write {{{{{name}}}}}")),
        };
        let length = |example| Length::parse(args).map_err(|error| format!("{error}; write {example}"));
        match name {
            "sequence" => plain(Self::Sequence),
            "partition" => plain(Self::Partition),
            "key" => plain(Self::Key),
            "intended_ms" => plain(Self::IntendedMs),
            "intended_iso" => plain(Self::IntendedIso),
            "marker" => plain(Self::Marker),
            "uuid" => plain(Self::Uuid),
            "cycle" => match args {
                [bound] => match bound.text.parse() {
                    Ok(bound) if bound > 0 => Ok(Self::Cycle(bound)),
                    _ => Err(format!(
                        "{:?} is not a number of 1 or more; write {{{{cycle 1000}}}}",
                        bound.text
                    )),
                },
                _ => Err("cycle takes one number; write {{cycle 1000}} for the sequence modulo 1000".into()),
            },
            "int" => int(args),
            "float" => float(args),
            "bool" => boolean(args),
            "pick" => Pick::parse(args.iter().map(|item| (item, 1)), bare),
            "weighted" => weighted(args, bare),
            "text" => Ok(Self::Text(length("{{text 20}} or {{text 5 20}}")?)),
            "digits" => Ok(Self::Digits(length("{{digits 8}} or {{digits 4 8}}")?)),
            "hex" => Ok(Self::Hex(length("{{hex 16}} or {{hex 8 16}}")?)),
            "words" => Ok(Self::Words(length("{{words 5}} or {{words 3 8}}")?)),
            "pad" => match Length::parse(args) {
                Ok(Length { min, max }) if min == max => Ok(Self::Pad(max)),
                _ => Err("pad takes the size of the whole value in bytes; write {{pad 500}}".into()),
            },
            other => {
                let hint = crate::config::suggest(other, NAMES);
                Err(format!(
                    "there is no place {other:?}{hint}; a literal {{{{ in a text is written \\u007b{{"
                ))
            }
        }
    }
}

const fn truth(is: bool) -> &'static [u8] {
    if is { b"true" } else { b"false" }
}

fn int(args: &[Arg]) -> Result<Place, String> {
    let example = "write {{int 1 100}}, both ends belong to it";
    let [min, max] = args else { return Err(format!("int takes two numbers; {example}")) };
    let parse = |arg: &Arg| {
        arg.text.parse::<i64>().map_err(|_| format!("{:?} is not a whole number; {example}", arg.text))
    };
    let (min, max) = (parse(min)?, parse(max)?);
    if min > max {
        return Err(format!("{min} is above {max}; put the smaller one first"));
    }
    Ok(Place::Int(min, max.abs_diff(min)))
}

fn float(args: &[Arg]) -> Result<Place, String> {
    let example = "write {{float 0 1 2}}: smallest, largest, decimals";
    let (min, max, decimals) = match args {
        [min, max] => (min, max, 2),
        [min, max, decimals] => match decimals.text.parse() {
            Ok(decimals) if (1..=MAX_DECIMALS).contains(&decimals) => (min, max, decimals),
            _ => {
                return Err(format!(
                    "{:?} is not a number of decimals from 1 to {MAX_DECIMALS}",
                    decimals.text
                ));
            }
        },
        _ => return Err(format!("float takes two or three numbers; {example}")),
    };
    let parse = |arg: &Arg| {
        scaled(&arg.text, decimals).ok_or_else(|| {
            format!("{:?} is not a number with at most {decimals} decimals; {example}", arg.text)
        })
    };
    let (min, max) = (parse(min)?, parse(max)?);
    if min > max {
        return Err("the first number is above the second; put the smaller one first".into());
    }
    Ok(Place::Float(min, max.abs_diff(min), decimals))
}

/// A decimal number in units of 10^-decimals.
fn scaled(text: &str, decimals: u32) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(part) || part.len() > decimals as usize {
        return None;
    }
    let all = format!("{whole}{part:0<width$}", width = decimals as usize);
    let units: i64 = all.parse().ok()?;
    Some(if negative { -units } else { units })
}

fn boolean(args: &[Arg]) -> Result<Place, String> {
    let share = match args {
        [] => 500_000_000,
        [share] => scaled(&share.text, MAX_DECIMALS)
            .filter(|share| (0..=1_000_000_000).contains(share))
            .ok_or_else(|| format!("{:?} is not a share from 0 to 1; write {{{{bool 0.3}}}}", share.text))?,
        _ => return Err("bool takes one share at most; write {{bool 0.3}}".into()),
    };
    let threshold = (u128::from(share.unsigned_abs()) << 64) / 1_000_000_000;
    Ok(Place::Bool(u64::try_from(threshold).unwrap_or(u64::MAX)))
}

fn weighted(args: &[Arg], bare: bool) -> Result<Place, String> {
    let (pairs, rest) = args.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(
            "weighted takes pairs of a text and its weight; write {{weighted open 9 closed 1}}".into()
        );
    }
    let mut items = Vec::new();
    for [item, weight] in pairs {
        let weight: u32 = weight.text.parse().map_err(|_| {
            format!("{:?}, the weight of {:?}, is not a whole number", weight.text, item.text)
        })?;
        items.push((item, u64::from(weight)));
    }
    Pick::parse(items, bare)
}

impl Pick {
    fn parse<'a>(items: impl IntoIterator<Item = (&'a Arg, u64)>, bare: bool) -> Result<Place, String> {
        let mut total = 0;
        let mut of = |(item, weight): (&Arg, u64)| {
            total += weight;
            let mut out = Vec::new();
            // A word that JSON knows as a number, a truth or null is that where it is a whole value.
            let is_json = || {
                serde_json::from_str::<serde_json::Value>(&item.text).is_ok_and(|value| !value.is_string())
            };
            if bare && !item.quoted && is_json() {
                out.extend_from_slice(item.text.as_bytes());
            } else {
                let quote: &[u8] = if bare { b"\"" } else { b"" };
                out.extend_from_slice(quote);
                text::escaped(&item.text, &mut out);
                out.extend_from_slice(quote);
            }
            (total, out.into_boxed_slice())
        };
        let items: Vec<_> = items.into_iter().map(&mut of).collect();
        if total == 0 {
            return Err("there is nothing to pick from; write {{pick red green blue}}".into());
        }
        Ok(Place::Pick(Self { items, total }))
    }

    fn item(&self, ticket: u64) -> &[u8] {
        let at = self.items.partition_point(|(until, _)| *until <= ticket);
        self.items.get(at).map_or(&[], |(_, item)| item)
    }
}

impl Length {
    fn parse(args: &[Arg]) -> Result<Self, String> {
        let parse = |arg: &Arg| match arg.text.parse() {
            Ok(length) if length <= MAX_LENGTH => Ok(length),
            _ => Err(format!("{:?} is not a length from 0 to {MAX_LENGTH}", arg.text)),
        };
        match args {
            [exact] => {
                let exact = parse(exact)?;
                Ok(Self { min: exact, max: exact })
            }
            [min, max] => {
                let (min, max) = (parse(min)?, parse(max)?);
                if min > max {
                    return Err(format!("{min} is above {max}"));
                }
                Ok(Self { min, max })
            }
            _ => Err("it takes a length, or a smallest and a largest one".into()),
        }
    }
}
