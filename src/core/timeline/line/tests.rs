use proptest::prelude::*;

use super::*;
use crate::core::timeline::{Key, MAX_BYTES, POINT_NS};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Offset, sequence and intended time of a record.
type Acked = (u64, u64, u64);

/// Tells what is new; the line as it is kept.
fn tell(timeline: &Timeline, told: &mut Cursor, now_ns: u64) -> Option<String> {
    let (line, next) = Line::since(timeline, *told, now_ns)?;
    *told = next;
    Some(serde_json::to_string(&line).unwrap())
}

fn restored<'a>(lines: impl IntoIterator<Item = &'a String>, now_ns: u64) -> Timeline {
    let mut timeline = Timeline::default();
    for line in lines {
        let line: Line = serde_json::from_str(line).unwrap();
        timeline.restore(line.points().unwrap(), now_ns);
        assert!(timeline.bytes() <= MAX_BYTES);
    }
    timeline
}

/// A load of records at these distances, with lines told at these record numbers.
fn run(gaps_ns: &[u64], lines_at: &[usize]) -> (Timeline, Vec<Acked>, Vec<String>, u64) {
    let (mut timeline, mut told) = (Timeline::default(), Cursor::default());
    let (mut list, mut lines) = (Vec::new(), Vec::new());
    let (mut offset, mut sequence, mut now_ns) = (40, 7, S);
    for (index, gap_ns) in gaps_ns.iter().enumerate() {
        timeline.acked(offset, sequence, now_ns, now_ns);
        list.push((offset, sequence, now_ns));
        offset += 1 + u64::from(index % 5 == 0);
        sequence += 1 + gap_ns % 3;
        if lines_at.contains(&index) {
            lines.extend(tell(&timeline, &mut told, now_ns));
        }
        now_ns += gap_ns;
    }
    lines.extend(tell(&timeline, &mut told, now_ns));
    assert_eq!(tell(&timeline, &mut told, now_ns), None, "told");
    assert_eq!(told, timeline.told());
    (timeline, list, lines, now_ns)
}

/// Every answer of a timeline against the plain list: never younger, and older by no more than is allowed.
fn check(timeline: &Timeline, list: &[Acked], from: usize, now_ns: u64) {
    for (index, (offset, sequence, intended_ns)) in
        list.iter().enumerate().skip(from).step_by(1 + list.len() / 300)
    {
        let age_ns = now_ns - intended_ns;
        let keys = [
            Some(Key::Offset(*offset)),
            sequence.checked_sub(1).map(Key::Sequence),
            Some(Key::Count(index as u64)),
            Some(Key::Intended(*intended_ns)),
        ];
        for key in keys.into_iter().flatten() {
            let found = timeline.find(key).unwrap_or_else(|| panic!("{key:?} is outstanding"));
            assert!(found.intended_ns <= *intended_ns, "{key:?} is answered younger than it is");
            let error_ns = intended_ns - found.intended_ns;
            assert!(error_ns <= POINT_NS.max(age_ns / 100), "{key:?}: {error_ns} ns at {age_ns} ns");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Wherever lines are cut, the timeline that they give answers like the one that they tell, and goes on like it.
    #[test]
    fn a_restored_timeline_answers_as_the_original(
        gaps in prop::collection::vec(prop_oneof![0..3 * MS, 0..30 * MS, Just(90 * S)], 1..3000),
        lines in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let lines_at: Vec<usize> = lines.iter().map(|line| line.index(gaps.len())).collect();
        let (timeline, mut list, lines, now_ns) = run(&gaps, &lines_at);
        let mut again = restored(&lines, now_ns);
        prop_assert_eq!((again.count(), again.last()), (timeline.count(), timeline.last()));
        prop_assert_eq!(again.find(Key::Count(timeline.count())), None);
        check(&again, &list, 0, now_ns);
        // Told twice, as after a line of which nobody knows whether it was written, it is the same.
        let twice = restored(lines.iter().flat_map(|line| [line, line]), now_ns);
        prop_assert!(twice.points().eq(again.points()));
        // The next process goes on, and the one after it reads the lines of both.
        let (mut told, mut all) = (again.told(), lines);
        for _ in 0..500 {
            let (offset, sequence, intended_ns) = list.last().map(|last| (last.0 + 3, last.1 + 2, last.2 + 4 * MS)).unwrap();
            again.acked(offset, sequence, intended_ns, intended_ns);
            list.push((offset, sequence, intended_ns));
        }
        let now_ns = now_ns + 2 * S;
        all.extend(tell(&again, &mut told, now_ns));
        let third = restored(&all, now_ns);
        prop_assert_eq!((third.count(), third.last()), (again.count(), again.last()));
        check(&third, &list, 0, now_ns);
    }

    /// Lines that are lost cost what they told: it becomes as old as what was told before it, never younger.
    #[test]
    fn a_lost_line_makes_its_records_older_and_no_others(
        lines in 3_usize..20,
        lost in any::<prop::sample::Index>(),
        gap_ns in 1..20 * MS,
    ) {
        let gaps = vec![gap_ns; lines * 100];
        let lines_at: Vec<usize> = (1..=lines).map(|line| line * 100 - 1).collect();
        let (timeline, list, mut told, now_ns) = run(&gaps, &lines_at);
        let lost = 1 + lost.index(lines - 2);
        told.remove(lost);
        let again = restored(&told, now_ns);
        prop_assert_eq!((again.count(), again.last()), (timeline.count(), timeline.last()));
        check(&again, &list, (lost + 1) * 100, now_ns);
        for (index, (offset, sequence, intended_ns)) in list.iter().enumerate().step_by(7) {
            for key in [Key::Offset(*offset), Key::Sequence(sequence - 1), Key::Count(index as u64)] {
                let found = again.find(key).unwrap();
                prop_assert!(found.intended_ns <= *intended_ns, "{key:?} is answered younger than it is");
            }
        }
    }

    /// Whatever stands in a record, reading it is an answer or an error.
    #[test]
    fn no_text_panics(text in prop_oneof!["1:[A-Za-z0-9_-]{0,200}", ".{0,50}"]) {
        let line: Line = serde_json::from_value(text.clone().into()).unwrap();
        if let Ok(points) = line.points() {
            let mut timeline = Timeline::default();
            timeline.restore(points, S);
            prop_assert!(timeline.bytes() <= MAX_BYTES);
            for key in [Key::Offset(5), Key::Sequence(5), Key::Count(5), Key::Intended(5)] {
                let _ = timeline.find(key);
            }
        }
    }
}

#[test]
fn no_line_that_is_cut_or_foreign_is_believed() {
    let (_, _, lines, _) = run(&[3 * MS; 50], &[]);
    let text: String = serde_json::from_str(&lines[0]).unwrap();
    assert!(text.starts_with("1:"));
    let whole = Line(text.clone()).points().unwrap();
    let mut cut_between_points = 0;
    for end in 0..text.len() {
        match Line(text[..end].to_owned()).points() {
            // Between two points a line may be cut without being seen: what is there is true.
            Ok(points) => {
                assert_eq!(points[..], whole[..points.len()]);
                cut_between_points += 1;
            }
            Err(error) => assert!(matches!(error, LineError::Damaged(_) | LineError::Version(_)), "{error}"),
        }
    }
    assert_eq!(cut_between_points, whole.len());
    for (text, expected) in [
        (
            "2:AAAA",
            "timeline points begin with \"2\", and this soakd reads version 1 only; read them with the soakd that wrote them",
        ),
        ("1:A!", "timeline points are damaged at character 3; leave the line out"),
        ("1:", "timeline points are damaged at character 2; leave the line out"),
        ("1:__________________", "timeline points are damaged at character 14; leave the line out"),
    ] {
        assert_eq!(Line(text.to_owned()).points().unwrap_err().to_string(), expected, "{text}");
    }
}

/// Acks of a retry without idempotence add to the count and move no offset; a marker makes an open point older after
/// it was told.
#[test]
fn what_changes_a_point_that_was_told_is_told_too() {
    let (mut timeline, mut told, mut lines) = (Timeline::default(), Cursor::default(), Vec::new());
    timeline.acked(5, 50, 10 * S, 18 * S);
    lines.extend(tell(&timeline, &mut told, 18 * S));
    timeline.acked(5, 50, 10 * S, 18 * S);
    lines.extend(tell(&timeline, &mut told, 18 * S));
    timeline.acked(6, 50, 18 * S, 18 * S);
    lines.extend(tell(&timeline, &mut told, 18 * S));
    timeline.acked(7, 60, 10 * S + 20 * MS, 18 * S);
    lines.extend(tell(&timeline, &mut told, 18 * S));
    assert_eq!(lines.len(), 4);
    let again = restored(&lines, 18 * S);
    assert!(again.points().eq(timeline.points()));
    assert_eq!(again.find(Key::Offset(7)).map(|found| found.intended_ns), Some(10 * S + 20 * MS));
}

/// How large lines are, and that they shrink with age: what the record costs on disk.
#[test]
fn a_line_has_no_more_points_than_its_age_needs() {
    for (seconds, most_points) in [(1, 101), (10, 400), (60, 640)] {
        let (mut timeline, mut told) = (Timeline::default(), Cursor::default());
        let mut line = None;
        for record in 0..3 * seconds * 25_000 {
            let intended_ns = record * 40_000;
            // Keys scatter the sequences over four partitions.
            timeline.acked(record, record * 4 + record % 3, intended_ns, intended_ns);
            if (record + 1) % (seconds * 25_000) == 0 {
                line = tell(&timeline, &mut told, intended_ns);
            }
        }
        let line = line.unwrap();
        let points = serde_json::from_str::<Line>(&line).unwrap().points().unwrap();
        eprintln!("{seconds} s at 25,000/s: {} points, {} bytes", points.len(), line.len());
        assert!(points.len() <= most_points, "{} points in {seconds} s", points.len());
        assert!(line.len() <= 24 * points.len() + 40, "{} bytes for {} points", line.len(), points.len());
    }
}
