//! `openedx_tracking`: the events of Open edX's tracking log as event-tracking hands them to the event bus
//! (`org.openedx.analytics.tracking.event.emitted.v1`): name, timestamp, data and context, keyed by the name, which is
//! the LMS's `event_key_field = tracking_log.name`.

use super::super::Facts;
use super::super::format::{Format, MakeError};
use super::super::hash::below;
use super::super::settings::PresetValueSettings;
use super::super::text::{facts_object, instant, number, padded, uuid, words};
use super::campus::{Block, Campus, Kind, Visit};

pub(super) const HOST: &str = "lms.example.com";
const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0",
];
const LANGUAGES: [&str; 3] = ["en-US,en;q=0.9", "es-419,es;q=0.9,en;q=0.8", "fr-FR,fr;q=0.9,en;q=0.7"];
/// What other random numbers can add to the longest event that is looked at for the bound: 25 words 50 bytes, an
/// agent 46, a title 15, a language 9, numbers 30.
const SLACK_BYTES: usize = 192;

/// One event, written field by field: so JSON and Avro carry the same.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    visit: Visit,
    facts: &'a Facts,
}

impl<'a> Event<'a> {
    /// The event of a record.
    #[must_use]
    pub fn new(campus: &Campus, facts: &'a Facts) -> Self {
        Self { visit: campus.visit(facts), facts }
    }

    /// The event of a visit.
    pub(super) const fn of(visit: Visit, facts: &'a Facts) -> Self {
        Self { visit, facts }
    }

    /// The name, like `play_video`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.visit.name()
    }

    /// The intended time in the form of Python's `isoformat`, like `2026-11-30T12:00:00.123000+00:00`.
    pub fn timestamp(&self, out: &mut Vec<u8>) {
        instant(self.facts.intended_ms, b"000+00:00", out);
    }

    /// The data as a JSON object.
    pub fn data(&self, out: &mut Vec<u8>) {
        let mut visit = self.visit;
        match visit.kind {
            Kind::LoadVideo
            | Kind::PlayVideo
            | Kind::PauseVideo
            | Kind::StopVideo
            | Kind::SeekVideo
            | Kind::SpeedChange => video(&mut visit, out),
            Kind::ProblemCheck => problem_check(&mut visit, out),
            Kind::ProblemSubmitted | Kind::ShowAnswer | Kind::Hint => problem(&mut visit, out),
            Kind::Next | Kind::Previous | Kind::Tab | Kind::LinkClicked | Kind::Outline => {
                navigation(&mut visit, out);
            }
            Kind::ThreadViewed | Kind::ThreadCreated => thread(&mut visit, out),
            Kind::Enrolled | Kind::Unenrolled => {
                text(out, "{\"course_id\":\"");
                visit.course_id(out);
                text(out, "\",\"user_id\":");
                number(visit.user_id(), out);
                text(out, ",\"mode\":\"");
                text(out, if below(visit.random.next(), 10) == 0 { "verified" } else { "audit" });
                text(out, "\"}");
            }
        }
    }

    /// The context as a JSON object; its field `soakd` holds the record's facts.
    pub fn context(&self, out: &mut Vec<u8>) {
        let visit = &self.visit;
        let mut actor = visit.actor_random();
        let (agent, language, ip) = (actor.next(), actor.next(), actor.next());
        text(out, "{\"user_id\":");
        number(visit.user_id(), out);
        text(out, ",\"username\":\"");
        visit.username(out);
        text(out, "\",\"session\":\"");
        visit.session(out);
        text(out, "\",\"course_id\":\"");
        visit.course_id(out);
        text(out, "\",\"org_id\":\"");
        text(out, visit.org());
        text(out, "\",\"path\":\"");
        if visit.by_browser() {
            text(out, "/event");
        } else {
            text(out, "/courses/");
            visit.course_id(out);
            text(out, "/xblock/handler");
        }
        text(out, "\",\"ip\":\"10");
        for shift in [0, 8, 16] {
            out.push(b'.');
            number((ip >> shift) & 0xff, out);
        }
        text(out, "\",\"host\":\"");
        text(out, HOST);
        text(out, "\",\"agent\":\"");
        text(out, one_of(&AGENTS, agent));
        text(out, "\",\"accept_language\":\"");
        text(out, one_of(&LANGUAGES, language));
        text(out, "\",\"referer\":\"");
        course_page(visit, out);
        text(out, "\",\"client_id\":null");
        if visit.by_browser() {
            text(out, ",\"event_source\":\"browser\",\"page\":\"");
            course_page(visit, out);
            text(out, "\"");
        }
        text(out, ",\"soakd\":");
        facts_object(self.facts, out);
        text(out, "}");
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn one_of(texts: &[&'static str], random: u64) -> &'static str {
    texts.get(below(random, texts.len() as u64) as usize).copied().unwrap_or_default()
}

fn course_page(visit: &Visit, out: &mut Vec<u8>) {
    text(out, "https://");
    text(out, HOST);
    text(out, "/courses/");
    visit.course_id(out);
    text(out, "/course/");
}

/// Seconds of a video with milliseconds.
fn at(visit: &mut Visit, duration: u64, out: &mut Vec<u8>) {
    let ms = below(visit.random.next(), duration * 1000);
    number(ms / 1000, out);
    text(out, ".");
    padded(ms % 1000, 3, out);
}

fn video(visit: &mut Visit, out: &mut Vec<u8>) {
    let block = visit.video();
    let duration = block.duration();
    text(out, "{\"id\":\"");
    out.extend_from_slice(&block.id);
    text(out, "\",\"code\":\"");
    block.code(out);
    text(out, "\",\"duration\":");
    number(duration, out);
    match visit.kind {
        Kind::SeekVideo => {
            text(out, ",\"old_time\":");
            at(visit, duration, out);
            text(out, ",\"new_time\":");
            at(visit, duration, out);
            text(out, ",\"type\":\"onSlideSeek\"");
        }
        Kind::SpeedChange => {
            text(out, ",\"current_time\":");
            at(visit, duration, out);
            text(out, ",\"old_speed\":\"1.0\",\"new_speed\":\"");
            text(out, one_of(&["0.75", "1.25", "1.50", "2.0"], visit.random.next()));
            text(out, "\"");
        }
        Kind::LoadVideo => {}
        _ => {
            text(out, ",\"currentTime\":");
            at(visit, duration, out);
        }
    }
    text(out, "}");
}

/// The field that answers and their correctness are keyed by.
fn answer_id(block: &Block, out: &mut Vec<u8>) {
    text(out, "\"");
    out.extend_from_slice(&block.id);
    text(out, "_2_1\":");
}

fn problem_check(visit: &mut Visit, out: &mut Vec<u8>) {
    let block = visit.problem();
    let (points, choice) = (block.points(), below(visit.random.next(), 3));
    let correct = choice == block.right_choice();
    let word = if correct { "correct" } else { "incorrect" };
    text(out, "{\"problem_id\":\"");
    visit.usage_key("problem", &block.id, out);
    text(out, "\",\"answers\":{");
    answer_id(&block, out);
    text(out, "\"choice_");
    number(choice, out);
    text(out, "\"},\"submission\":{");
    answer_id(&block, out);
    text(out, "{\"question\":\"\",\"answer\":\"choice_");
    number(choice, out);
    text(out, "\",\"response_type\":\"multiplechoiceresponse\",\"input_type\":\"choicegroup\",\"correct\":");
    text(out, if correct { "true" } else { "false" });
    text(out, ",\"variant\":\"\",\"group_label\":\"\"}},\"correct_map\":{");
    answer_id(&block, out);
    text(out, "{\"correctness\":\"");
    text(out, word);
    text(
        out,
        "\",\"npoints\":null,\"msg\":\"\",\"hint\":\"\",\"hintmode\":null,\"queuestate\":null}},\"grade\":",
    );
    number(if correct { points } else { 0 }, out);
    text(out, ",\"max_grade\":");
    number(points, out);
    text(out, ",\"success\":\"");
    text(out, word);
    text(out, "\",\"attempts\":");
    number(1 + below(visit.random.next(), 5), out);
    text(out, "}");
}

fn problem(visit: &mut Visit, out: &mut Vec<u8>) {
    let block = visit.problem();
    let points = block.points();
    match visit.kind {
        Kind::ProblemSubmitted => {
            text(out, "{\"user_id\":\"");
            number(visit.user_id(), out);
            text(out, "\",\"course_id\":\"");
            visit.course_id(out);
            text(out, "\",\"problem_id\":\"");
            visit.usage_key("problem", &block.id, out);
            text(out, "\",\"event_transaction_id\":\"");
            uuid(&mut visit.random, out);
            text(out, "\",\"event_transaction_type\":\"edx.grades.problem.submitted\",\"weighted_earned\":");
            number(below(visit.random.next(), points + 1), out);
            text(out, ",\"weighted_possible\":");
            number(points, out);
        }
        Kind::Hint => {
            text(out, "{\"module_id\":\"");
            visit.usage_key("problem", &block.id, out);
            text(out, "\",\"hint_index\":0,\"hint_len\":2,\"hint_text\":\"");
            words(8, &mut visit.random, out);
            text(out, "\"");
        }
        _ => {
            text(out, "{\"problem_id\":\"");
            visit.usage_key("problem", &block.id, out);
            text(out, "\"");
        }
    }
    text(out, "}");
}

fn navigation(visit: &mut Visit, out: &mut Vec<u8>) {
    let block = visit.sequential();
    let tabs = 2 + below(visit.random.next(), 8);
    let tab = 1 + below(visit.random.next(), tabs);
    match visit.kind {
        Kind::LinkClicked | Kind::Outline => {
            text(out, "{\"current_url\":\"");
            course_page(visit, out);
            text(out, "\",\"target_url\":\"https://");
            text(out, HOST);
            text(out, "/courses/");
            visit.course_id(out);
            text(out, "/jump_to/");
            visit.usage_key("sequential", &block.id, out);
            text(out, "\"");
            if visit.kind == Kind::Outline {
                text(out, ",\"target_name\":\"Lesson ");
                number(tab, out);
                text(out, "\",\"widget_placement\":\"accordion\"");
            }
        }
        kind => {
            text(out, "{\"id\":\"");
            visit.usage_key("sequential", &block.id, out);
            text(out, "\",\"current_tab\":");
            number(tab, out);
            text(out, ",\"tab_count\":");
            number(tabs, out);
            if kind == Kind::Tab {
                text(out, ",\"target_tab\":");
                number(1 + below(visit.random.next(), tabs), out);
            }
            text(out, ",\"widget_placement\":\"top\"");
        }
    }
    text(out, "}");
}

fn thread(visit: &mut Visit, out: &mut Vec<u8>) {
    let mut block = visit.thread();
    text(out, "{\"id\":\"");
    out.extend_from_slice(block.id.get(..24).unwrap_or(&block.id));
    text(out, "\",\"commentable_id\":\"general\",\"title\":\"");
    words(5, &mut block.random, out);
    text(
        out,
        "\",\"thread_type\":\"discussion\",\"user_forums_roles\":[\"Student\"],\"user_course_roles\":[]",
    );
    if visit.kind == Kind::ThreadCreated {
        text(out, ",\"anonymous\":false,\"truncated\":false,\"body\":\"");
        words(25, &mut visit.random, out);
        text(out, "\"");
    }
    text(out, "}");
}

/// The events as JSON: `{"name", "timestamp", "data": {…}, "context": {…}}`.
#[derive(Debug, Clone)]
pub(super) struct TrackingJson {
    campus: Campus,
}

impl TrackingJson {
    pub(super) fn new(seed: u64, settings: &PresetValueSettings) -> Self {
        Self { campus: Campus::new(seed, settings.cardinality) }
    }
}

fn write(event: &Event<'_>, out: &mut Vec<u8>) {
    text(out, "{\"name\":\"");
    text(out, event.name());
    text(out, "\",\"timestamp\":\"");
    event.timestamp(out);
    text(out, "\",\"data\":");
    event.data(out);
    text(out, ",\"context\":");
    event.context(out);
    text(out, "}");
}

/// Most bytes of what is written of any event of a campus.
pub(super) fn longest(campus: &Campus, mut write: impl FnMut(Visit, &Facts, &mut Vec<u8>)) -> usize {
    let mut out = Vec::new();
    let mut bytes = |visit| {
        out.clear();
        write(visit, &Facts::LONGEST, &mut out);
        out.len()
    };
    campus.longest().map(&mut bytes).fold(0, usize::max) + SLACK_BYTES
}

impl Format for TrackingJson {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        write(&Event::new(&self.campus, facts), value);
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        longest(&self.campus, |visit, facts, out| write(&Event { visit, facts }, out))
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let (kind, name) = self.campus.kind(sequence);
        text(key, name);
        Some(kind)
    }

    fn max_key_bytes(&self) -> usize {
        self.campus.longest().map(|visit| visit.name().len()).fold(0, usize::max)
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
