//! Reads metrics as strictly as their text format is written down.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Metrics as they were at one moment.
pub(crate) struct Scrape(pub Vec<Family>);

/// A metric with its samples.
pub(crate) struct Family {
    pub name: String,
    pub help: String,
    pub kind: String,
    /// By name of the sample, and labels in their order.
    pub samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

/// The status line and the headers, and the body, of the answer to a request.
pub(crate) fn ask(port: u16, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(super::LIMIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

impl Scrape {
    /// The metrics that are served at a port.
    pub(crate) fn of(port: u16) -> Scrape {
        let (head, body) = ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        Scrape::parse(&body)
    }

    /// Every line is a comment or a sample; each family has its help, then its type, then its samples.
    fn parse(text: &str) -> Scrape {
        assert!(text.ends_with('\n'));
        let mut families: Vec<Family> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(families.last().is_none_or(|last| !last.samples.is_empty()), "no samples: {line}");
                assert!(families.iter().all(|other| other.name != name), "twice: {line}");
                assert!(is_name(name) && help.ends_with('.'), "{line}");
                let (name, help) = (name.to_owned(), help.to_owned());
                families.push(Family { name, help, kind: String::new(), samples: BTreeMap::new() });
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                let family = families.last_mut().unwrap();
                assert!(family.name == name && family.kind.is_empty(), "{line}");
                assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
                family.kind = kind.to_owned();
            } else {
                families.last_mut().unwrap_or_else(|| panic!("no family: {line}")).add(line);
            }
        }
        Scrape(families)
    }

    /// The only sample, or that with these labels; `None` if there is none.
    pub(crate) fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let key = (name.to_owned(), labels);
        self.0.iter().find_map(|family| family.samples.get(&key)).copied()
    }

    /// As `find`, of one that must be there.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.find(name, &[]).unwrap_or_else(|| panic!("no {name}"))
    }
}

impl Family {
    /// Adds a line `name{label="value",…} value`.
    fn add(&mut self, line: &str) {
        let name_len = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
        let (name, mut rest) = line.split_at(name_len);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = read_labels(inside, &mut labels);
        }
        let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no blank: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(value.is_finite() && (value >= 0.0 || self.kind == "gauge"), "{line}");
        let suffix = name.strip_prefix(&self.name).unwrap_or_else(|| panic!("not of the family: {line}"));
        let is_quantile = labels.last().is_some_and(|(name, _): &(String, String)| name == "quantile");
        match self.kind.as_str() {
            "summary" => {
                assert!(is_quantile && suffix.is_empty() || ["_sum", "_count"].contains(&suffix), "{line}")
            }
            kind => assert!(!kind.is_empty() && suffix.is_empty(), "{line}"),
        }
        let names: Vec<_> = labels.iter().map(|(name, _)| name.clone()).collect();
        assert!(names.iter().all(|name| is_name(name)), "{line}");
        let before = self.samples.insert((name.to_owned(), labels), value);
        assert!(before.is_none(), "twice: {line}");
    }

    /// The names of its labels, but for `quantile`.
    pub(crate) fn labels(&self) -> Vec<String> {
        let (_, labels) = self.samples.keys().next().unwrap();
        labels.iter().map(|(name, _)| name.clone()).filter(|name| name != "quantile").collect()
    }
}

/// Reads labels up to the closing brace; returns the rest after it.
fn read_labels<'t>(mut rest: &'t str, labels: &mut Vec<(String, String)>) -> &'t str {
    loop {
        let (name, value) = rest.split_once("=\"").unwrap();
        let (mut text, mut chars) = (String::new(), value.char_indices());
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at + 1,
                (_, '\\') => text.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c} stands for nothing"),
                }),
                (_, c) => text.push(c),
            }
        };
        labels.push((name.to_owned(), text));
        rest = &value[end..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return rest.strip_prefix('}').unwrap(),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_letter)
}
