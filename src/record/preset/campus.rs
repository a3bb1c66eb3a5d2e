//! What learners do in Open edX: who, in which session, in which course, at which block, and which event.

use super::super::Facts;
use super::super::hash::{Random, below, mix};
use super::super::text::{digits, hex, number};
use super::popular::Popular;
use super::seed_of;

/// Actors when the settings say nothing.
const ACTORS: u64 = 10_000;
const COURSES: u64 = 24;
/// Events of one session, on average over all actors.
const SESSION_EVENTS: u64 = 20;
const VIDEOS: u64 = 48;
const PROBLEMS: u64 = 60;
const SEQUENTIALS: u64 = 40;
const THREADS: u64 = 200;

const ORGS: [&str; 6] = ["edX", "DemoX", "OpenUX", "CityX", "NorthX", "DataX"];
const NUMBERS: [&str; 8] = ["CS101", "MATH1", "BIO20", "HIST3", "STAT7", "PHYS2", "ENG11", "ECON5"];
const RUNS: [&str; 3] = ["2026_T1", "2026_T2", "2026_T3"];

/// Kinds of events, by their names in the tracking log, and how often each comes of a thousand.
const KINDS: [(Kind, &str, u64); 19] = [
    (Kind::LoadVideo, "load_video", 90),
    (Kind::PlayVideo, "play_video", 170),
    (Kind::PauseVideo, "pause_video", 140),
    (Kind::SeekVideo, "seek_video", 60),
    (Kind::StopVideo, "stop_video", 30),
    (Kind::SpeedChange, "speed_change_video", 15),
    (Kind::ProblemCheck, "problem_check", 110),
    (Kind::ProblemSubmitted, "edx.grades.problem.submitted", 90),
    (Kind::ShowAnswer, "showanswer", 15),
    (Kind::Hint, "edx.problem.hint.demandhint_displayed", 10),
    (Kind::Next, "edx.ui.lms.sequence.next_selected", 90),
    (Kind::Previous, "edx.ui.lms.sequence.previous_selected", 20),
    (Kind::Tab, "edx.ui.lms.sequence.tab_selected", 40),
    (Kind::LinkClicked, "edx.ui.lms.link_clicked", 50),
    (Kind::Outline, "edx.ui.lms.outline.selected", 25),
    (Kind::ThreadViewed, "edx.forum.thread.viewed", 30),
    (Kind::ThreadCreated, "edx.forum.thread.created", 3),
    (Kind::Enrolled, "edx.course.enrollment.activated", 10),
    (Kind::Unenrolled, "edx.course.enrollment.deactivated", 2),
];

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names of `KINDS` say it
pub enum Kind {
    LoadVideo,
    PlayVideo,
    PauseVideo,
    SeekVideo,
    StopVideo,
    SpeedChange,
    ProblemCheck,
    ProblemSubmitted,
    ShowAnswer,
    Hint,
    Next,
    Previous,
    Tab,
    LinkClicked,
    Outline,
    ThreadViewed,
    ThreadCreated,
    Enrolled,
    Unenrolled,
}

/// Where the events of a stream come from.
#[derive(Debug, Clone)]
pub struct Campus {
    seed: u64,
    actors: Popular,
    courses: Popular,
}

/// One event: everything about it that is not text.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    /// What happened.
    pub kind: Kind,
    /// Its number among the kinds.
    pub kind_index: u64,
    /// Who did it.
    pub actor: u64,
    /// From 0; few have most of the events.
    pub course: u64,
    /// The actor's session.
    pub session: u64,
    /// More random numbers of this event.
    pub random: Random,
    seed: u64,
}

impl Campus {
    /// A campus with so many actors; of what `None` says, with 10,000.
    #[must_use]
    pub fn new(seed: u64, actors: Option<u64>) -> Self {
        Self { seed, actors: Popular::new(actors.unwrap_or(ACTORS)), courses: Popular::new(COURSES) }
    }

    /// Number of kinds of events.
    #[must_use]
    pub const fn kinds() -> u64 {
        KINDS.len() as u64
    }

    /// The kind of a record's event, which is also that of its key: number and name.
    #[must_use]
    pub fn kind(&self, sequence: u64) -> (u64, &'static str) {
        let mut random = Random::of(self.seed, sequence);
        let (index, _, name) = pick_kind(random.next());
        (index, name)
    }

    /// Who is behind a record, as its event has it.
    pub(super) fn actor(&self, sequence: u64) -> u64 {
        let mut random = Random::of(self.seed, sequence);
        // The first one is the kind.
        random.next();
        self.actors.rank(random.next())
    }

    /// An actor's public id.
    pub(super) const fn actor_random(&self, actor: u64) -> Random {
        actor_random(self.seed, actor)
    }

    /// The event of a record.
    #[must_use]
    pub fn visit(&self, facts: &Facts) -> Visit {
        let mut random = Random::of(seed_of(self.seed, facts.marker), facts.sequence);
        let (kind_index, kind, _) = pick_kind(random.next());
        let actor = self.actors.rank(random.next());
        // An actor has one session in each stretch of the stream, and visits one course in it.
        let stretch = facts.sequence / (SESSION_EVENTS * self.actors.count());
        let session = mix(self.seed ^ mix(actor.wrapping_add(mix(stretch))));
        let course = self.courses.rank(mix(session));
        Visit { kind, kind_index, actor, course, session, random, seed: self.seed }
    }

    /// Events that are as long as any: each kind in each course, by the last actor.
    pub(super) fn longest(&self) -> impl Iterator<Item = Visit> {
        let (seed, actor) = (self.seed, self.actors.count() - 1);
        (0_u64..).zip(KINDS).flat_map(move |(kind_index, (kind, ..))| {
            (0..COURSES).map(move |course| {
                let random = Random::of(seed, course);
                Visit { kind, kind_index, actor, course, session: mix(course), random, seed }
            })
        })
    }
}

const fn actor_random(seed: u64, actor: u64) -> Random {
    Random::of(mix(seed ^ 0x6163_746f_7273), actor)
}

fn pick_kind(random: u64) -> (u64, Kind, &'static str) {
    let mut ticket = below(random, 1000);
    for (index, (kind, name, share)) in (0..).zip(KINDS) {
        if ticket < share {
            return (index, kind, name);
        }
        ticket -= share;
    }
    (0, Kind::LoadVideo, "load_video")
}

impl Visit {
    /// The event's name in the tracking log.
    #[must_use]
    pub fn name(&self) -> &'static str {
        KINDS.get(self.kind_index as usize).map_or("load_video", |(_, name, _)| name)
    }

    /// Whether a browser sent it, and not the server itself.
    #[must_use]
    pub const fn by_browser(&self) -> bool {
        !matches!(
            self.kind,
            Kind::ProblemCheck
                | Kind::ProblemSubmitted
                | Kind::ShowAnswer
                | Kind::Hint
                | Kind::ThreadViewed
                | Kind::ThreadCreated
                | Kind::Enrolled
                | Kind::Unenrolled
        )
    }

    /// Random numbers that belong to a thing of the course, the same whenever it comes.
    fn of_course(&self, what: u64, index: u64) -> Random {
        Random::of(mix(self.seed ^ what ^ mix(self.course)), index)
    }

    pub(super) fn org(&self) -> &'static str {
        ORGS.get((self.course % ORGS.len() as u64) as usize).copied().unwrap_or("edX")
    }

    /// `edX+CS101+2026_T1`.
    fn course_parts(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.org().as_bytes());
        for part in [&NUMBERS[..], &RUNS[..]] {
            out.push(b'+');
            let name = part.get((self.course % part.len() as u64) as usize).copied().unwrap_or("CS101");
            out.extend_from_slice(name.as_bytes());
        }
    }

    /// `course-v1:edX+CS101+2026_T1`.
    pub(super) fn course_id(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"course-v1:");
        self.course_parts(out);
    }

    /// `block-v1:edX+CS101+2026_T1+type@video+block@…`.
    pub(super) fn usage_key(&self, kind: &str, id: &[u8; 32], out: &mut Vec<u8>) {
        out.extend_from_slice(b"block-v1:");
        self.course_parts(out);
        out.extend_from_slice(b"+type@");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"+block@");
        out.extend_from_slice(id);
    }

    /// The actor's public id.
    pub(super) const fn actor_random(&self) -> Random {
        actor_random(self.seed, self.actor)
    }

    /// Not the number alone: it would be one that many systems give to their first users.
    pub(super) const fn user_id(&self) -> u64 {
        self.actor + 1001
    }

    pub(super) fn username(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"learner_");
        number(self.user_id(), out);
    }

    /// The session as 32 hexadecimal digits.
    pub(super) fn session(&self, out: &mut Vec<u8>) {
        hex(32, &mut Random::of(self.session, 0), out);
    }

    /// One of the course's videos.
    pub(super) fn video(&mut self) -> Block {
        let index = below(self.random.next(), VIDEOS);
        Block::new(self.of_course(0x0076_6964_656f, index))
    }

    /// One of its problems.
    pub(super) fn problem(&mut self) -> Block {
        let index = below(self.random.next(), PROBLEMS);
        Block::new(self.of_course(0x7072_6f62, index))
    }

    /// One of its sequences of pages.
    pub(super) fn sequential(&mut self) -> Block {
        let index = below(self.random.next(), SEQUENTIALS);
        Block::new(self.of_course(0x7365_7175, index))
    }

    /// One of the threads in its forum.
    pub(super) fn thread(&mut self) -> Block {
        let index = below(self.random.next(), THREADS);
        Block::new(self.of_course(0x0074_6872_6561, index))
    }
}

/// A thing of a course: its id and what else never changes about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) id: [u8; 32],
    pub(super) random: Random,
}

impl Block {
    fn new(mut random: Random) -> Self {
        let mut id = [b'0'; 32];
        for half in id.as_chunks_mut::<16>().0 {
            let bits = random.next();
            for (place, digit) in (0..).zip(half) {
                let nibble = (bits >> (60 - 4 * place)) as u8 & 15;
                *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
            }
        }
        Self { id, random }
    }

    /// Length of a video in seconds.
    pub(super) fn duration(&self) -> u64 {
        60 + below(mix(self.first()), 1140)
    }

    /// The code of a video, eleven digits.
    pub(super) fn code(&self, out: &mut Vec<u8>) {
        let mut random = self.random;
        digits(11, &mut random, out);
    }

    /// Points of a problem.
    pub(super) fn points(&self) -> u64 {
        1 + below(mix(self.first() ^ 1), 5)
    }

    /// Which of three answers is right.
    pub(super) fn right_choice(&self) -> u64 {
        below(mix(self.first() ^ 2), 3)
    }

    fn first(&self) -> u64 {
        let mut random = self.random;
        random.next()
    }
}
