//! Series by name and labels: as a user selects them, and as a target lists them (text format 0.0.4 and OpenMetrics).

use std::collections::BTreeMap;

use regex_lite::Regex;

/// The label that holds a series' name.
pub const NAME: &str = "__name__";

/// One line of a target's /metrics, or one series of a server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Its labels; its name is the label `__name__`, where it has one.
    pub labels: BTreeMap<String, String>,
    /// Its value as it was written.
    pub value: String,
    /// When the value was taken, where it was written: milliseconds since 1970 in the text format, seconds in OpenMetrics.
    pub timestamp: Option<String>,
}

/// Which series are meant.
#[derive(Debug)]
pub struct Selector {
    name: String,
    matchers: Vec<Matcher>,
}

#[derive(Debug)]
struct Matcher {
    label: String,
    wanted: Wanted,
    /// Whether the label must be what is wanted, or must not.
    is: bool,
}

#[derive(Debug)]
enum Wanted {
    Text(String),
    Pattern(Regex),
}

impl Selector {
    /// Reads `name{label="value", other=~"a|b"}`.
    ///
    /// # Errors
    /// Why it cannot be read, a phrase.
    pub fn parse(text: &str) -> Result<Self, String> {
        let unreadable = || "cannot be read; write it like records_total{topic=\"soak\"}".to_owned();
        let mut rest = Rest(text.trim());
        let mut name = rest.name().map(ToOwned::to_owned);
        let mut matchers = Vec::new();
        for (label, operator, value) in rest.labels().ok_or_else(unreadable)? {
            if operator == "=" && label == NAME {
                if name.replace(value).is_some() {
                    return Err("names two series; one name says which to take".to_owned());
                }
                continue;
            }
            let wanted = if operator.ends_with('~') {
                // Anchored, as in PromQL.
                let regex = Regex::new(&format!("^(?:{value})$"));
                Wanted::Pattern(
                    regex.map_err(|error| format!("has no regular expression in {label}: {error}"))?,
                )
            } else {
                Wanted::Text(value)
            };
            matchers.push(Matcher { label, wanted, is: operator.starts_with('=') });
        }
        if !rest.0.trim().is_empty() {
            return Err(unreadable());
        }
        match name {
            Some(name) => Ok(Self { name, matchers }),
            None => Err("has no name; write it like records_total{topic=\"soak\"}".to_owned()),
        }
    }

    fn takes(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(NAME) == Some(&self.name)
            && self.matchers.iter().all(|matcher| {
                // A label that is not there is empty, as in PromQL.
                let label = labels.get(&matcher.label).map(String::as_str).unwrap_or_default();
                let fits = match &matcher.wanted {
                    Wanted::Text(text) => text == label,
                    Wanted::Pattern(regex) => regex.is_match(label),
                };
                fits == matcher.is
            })
    }

    /// The series of a target that are meant.
    ///
    /// # Errors
    /// When one of them cannot be read, or nothing in the text is a series.
    pub fn find(&self, text: &str) -> Result<Vec<Series>, String> {
        let mut found = Vec::new();
        for line in text.lines().map(str::trim) {
            // Names that need quotes stand in the braces.
            let may_be = line.starts_with('{')
                || line.strip_prefix(&*self.name).is_some_and(|rest| !rest.starts_with(is_of_name));
            if !may_be {
                continue;
            }
            let series = series(line).ok_or_else(|| format!("a line of it cannot be read: {line:?}"))?;
            if self.takes(&series.labels) {
                found.push(series);
            }
        }
        let is_of_metrics = |line: &str| line.starts_with('#') || series(line).is_some();
        if found.is_empty() && !text.trim().is_empty() && !text.lines().map(str::trim).any(is_of_metrics) {
            return Err("nothing in it is a series".to_owned());
        }
        Ok(found)
    }
}

/// Reads `name{label="value"} 12 [timestamp] [# exemplar]`.
fn series(line: &str) -> Option<Series> {
    let mut rest = Rest(line);
    let mut labels = BTreeMap::new();
    if let Some(name) = rest.name() {
        labels.insert(NAME.to_owned(), name.to_owned());
    }
    for (label, operator, value) in rest.labels()? {
        if operator != "=" || labels.insert(label, value).is_some() {
            return None;
        }
    }
    labels.contains_key(NAME).then_some(())?;
    let mut words = rest.0.split_whitespace();
    let value = words.next()?;
    let timestamp = words.next().filter(|word| !word.starts_with('#')).map(ToOwned::to_owned);
    let may_be_number = |c: char| c.is_ascii_digit() || "+-.".contains(c);
    let is_word = ["nan", "inf"].iter().any(|word| value.eq_ignore_ascii_case(word));
    (is_word || value.starts_with(may_be_number)).then(|| Series {
        labels,
        value: value.to_owned(),
        timestamp,
    })
}

const fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// What is left to read.
struct Rest<'t>(&'t str);

impl<'t> Rest<'t> {
    fn name(&mut self) -> Option<&'t str> {
        let end = self.0.find(|c| !is_of_name(c)).unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.0 = rest;
        Some(name)
    }

    /// Takes a mark, and the space before it.
    fn mark(&mut self, mark: &str) -> bool {
        match self.0.trim_start().strip_prefix(mark) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// A text in double quotes, with `\\`, `\"` and `\n` in it.
    fn quoted(&mut self) -> Option<String> {
        self.mark("\"").then_some(())?;
        let mut text = String::new();
        let mut chars = self.0.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = self.0.get(at + 1..)?;
                    return Some(text);
                }
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    other @ ('\\' | '"') => text.push(other),
                    // What is no escape stands for itself.
                    other => text.extend(['\\', other]),
                },
                c => text.push(c),
            }
        }
        None
    }

    /// Labels in braces, or none; a quoted text alone is the series' name.
    fn labels(&mut self) -> Option<Vec<(String, &'static str, String)>> {
        let mut labels = Vec::new();
        if !self.mark("{") {
            return Some(labels);
        }
        loop {
            if self.mark("}") {
                return Some(labels);
            }
            self.0 = self.0.trim_start();
            let quoted = self.0.starts_with('"');
            let label = if quoted { self.quoted()? } else { self.name()?.to_owned() };
            match ["=~", "!~", "!=", "="].into_iter().find(|operator| self.mark(operator)) {
                Some(operator) => labels.push((label, operator, self.quoted()?)),
                None if quoted => labels.push((NAME.to_owned(), "=", label)),
                None => return None,
            }
            if !self.mark(",") {
                return self.mark("}").then_some(labels);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = r#"# HELP n_total What n is.
# TYPE n_total counter
n_total{topic="soak",partition="0"} 10 1764540000000
n_total{topic="soak",partition="1",} 1.2e+01
n_total {topic = "other" , partition="0"} 7
n_total_created{topic="soak"} 1764540000.5
n_totals 99

odd{path="C:\\dir\"x\"\nend",brace="}{,="} 3
{"n.dotted",topic="soak"} 4 # {trace_id="a"} 0.5 1.0
plain 5
bad NaN
h_bucket{le="+Inf"} 12 # {trace_id="KOO5S4vxi0o"} 0.67
# EOF
"#;

    fn values(selector: &str) -> Vec<String> {
        let found = Selector::parse(selector).unwrap().find(TEXT).unwrap();
        found.into_iter().map(|series| series.value).collect()
    }

    #[test]
    fn series_are_found_by_name_and_labels_in_both_formats() {
        for (selector, expected) in [
            ("n_total", vec!["10", "1.2e+01", "7"]),
            ("n_total{}", vec!["10", "1.2e+01", "7"]),
            (r#"n_total{topic="soak"}"#, vec!["10", "1.2e+01"]),
            (r#"n_total{topic!="soak"}"#, vec!["7"]),
            (r#"n_total{topic=~"so.*|none", partition!~"1"}"#, vec!["10"]),
            (r#"n_total{topic=~"oa"}"#, vec![]),
            (r#"n_total{missing=""}"#, vec!["10", "1.2e+01", "7"]),
            (r#"n_total{missing!=""}"#, vec![]),
            (r#"{__name__="plain"}"#, vec!["5"]),
            (r#"{"n.dotted"}"#, vec!["4"]),
            (r#"odd{path="C:\\dir\"x\"\nend"}"#, vec!["3"]),
            (r#"odd{brace="}{,="}"#, vec!["3"]),
            ("bad", vec!["NaN"]),
            (r#"h_bucket{le="+Inf"}"#, vec!["12"]),
            ("n", vec![]),
        ] {
            assert_eq!(values(selector), expected, "{selector}");
        }
    }

    #[test]
    fn selectors_that_cannot_be_read_say_so() {
        for (selector, says) in [
            ("", "has no name"),
            ("{a=\"b\"}", "has no name"),
            ("n{a=b}", "cannot be read"),
            ("n{a=\"b\"", "cannot be read"),
            ("n{a=\"b\"}[5m]", "cannot be read"),
            ("sum(n)", "cannot be read"),
            ("n{a=~\"(\"}", "no regular expression in a"),
            ("n{__name__=\"m\"}", "names two series"),
        ] {
            let error = Selector::parse(selector).unwrap_err();
            assert!(error.contains(says), "{selector}: {error}");
        }
    }

    #[test]
    fn m3_what_is_no_text_of_metrics_is_an_error_and_not_a_missing_series() {
        let selector = Selector::parse("n").unwrap();
        for text in ["{\"count\": 12}", "12", "<html><body>n 12</body></html>", "n{a=\"b} 12", "n x", "n"] {
            assert!(selector.find(text).is_err(), "{text}");
        }
        for text in ["", "\n", "# EOF\n", "m 1\n"] {
            assert_eq!(selector.find(text), Ok(Vec::new()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fall_over(text in ".{0,60}", labels in "[a{}\"=~!,\\\\ ]{0,20}") {
            let _ = Selector::parse(&text);
            let _ = Selector::parse(&format!("n{{{labels}"));
            let _ = Selector::parse("n").unwrap().find(&format!("n{{{labels}\n{text}"));
        }

        #[test]
        fn any_value_of_a_label_is_found_again(value in "\\PC{0,30}") {
            let written = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let selector = Selector::parse(&format!("n{{l=\"{written}\"}}")).unwrap();
            let found = selector.find(&format!("n{{k=\"x\",l=\"{written}\"}} 1\n")).unwrap();
            prop_assert_eq!(found.len(), 1);
        }
    }
}
