//! The declared list of an experiment: its figures, tables, targets and printed numbers, as
//! `lab/figures/` has them in TOML. Values are expressions over the measurements ([`super::rows`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// Conditions on rows: a column and what it must be. `"largest"`, `"middle"` and `"smallest"` are values of
/// the part, `"!x"` anything but `x`, `"!"` a number that is not zero, a list any of its words.
pub(super) type Where = BTreeMap<String, toml::Value>;

/// The list of an experiment.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct List {
    /// The title of the report.
    pub title: String,
    /// An explanation of the variants.
    pub about: String,
    /// The columns that identify a row.
    pub same: Vec<String>,
    /// The key that an `@` without one means.
    pub pair: String,
    /// More columns of each row, by its value of `pair`: published values.
    pub more: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
    /// The source of each of these columns.
    pub sources: BTreeMap<String, Source>,
    /// All variants; those that were not measured are named.
    pub variants: Vec<String>,
    /// Names of lines in the order of the legend, each with a colour, a sign (circle, triangle, rect,
    /// diamond) and perhaps `thin`.
    pub styles: Vec<[String; 2]>,
    /// Facts on how it was measured that hold for each run.
    pub facts: Vec<[String; 2]>,
    /// A sentence on the comparison with the printed numbers.
    pub printed_about: String,
    /// The figures, in the order of the report.
    #[serde(rename = "section")]
    pub sections: Vec<Section>,
    /// The targets of the design.
    #[serde(rename = "target")]
    pub targets: Vec<Target>,
    /// The numbers of the paper.
    pub printed: Vec<Printed>,
    /// The tables that a run prints at its end.
    pub summary: Vec<Table>,
}

/// A figure of the paper, or several that belong together.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    /// Its anchor; targets and printed numbers name it.
    pub id: String,
    /// The part of the experiment that measures it.
    pub part: String,
    pub title: String,
    pub text: String,
    #[serde(rename = "chart")]
    pub charts: Vec<Chart>,
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// The kind of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Points by a parameter, at equal distances.
    #[default]
    Lines,
    /// Bars by a parameter, side by side.
    Bars,
    /// Bars of which each is a pile: the members of the object that `y` names.
    Stacked,
    /// Lists of values by time.
    Time,
}

/// A chart, or one for each value of `facet`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Chart {
    pub caption: String,
    pub kind: Kind,
    /// The part, if it is not that of its section.
    pub part: String,
    #[serde(rename = "where")]
    pub conditions: Where,
    pub facet: Vec<String>,
    /// The parameter that varies; nothing: one place for all.
    pub x: String,
    pub x_name: String,
    /// The measured quantity, a line for each value of `series` …
    pub y: String,
    pub series: String,
    /// … or several quantities, each with its name. `#` counts from 0 on, as long as there are values.
    pub lines: Vec<[String; 2]>,
    pub y_name: String,
    /// True for an axis by powers of ten.
    pub log: bool,
    /// The end of the axis.
    pub most: Option<f64>,
    /// True if the charts of all facets have the same axis.
    pub shared: bool,
    /// Beginnings and ends of times that are shaded.
    pub spans: Option<[String; 2]>,
    /// The paper's own values.
    pub printed: Option<Drawn>,
}

/// The papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    Tkde,
    Arxiv,
    Vls,
    Vtc,
    Persistence,
    OnDemandFork,
    AsyncFork,
}

impl Paper {
    /// The authors, as a source names it.
    pub(crate) const fn authors(self) -> &'static str {
        match self {
            Paper::Tkde => "Li et al. (TKDE)",
            Paper::Arxiv => "Li et al. (arXiv)",
            Paper::Vls => "Chirigati et al.",
            Paper::Vtc => "Lee",
            Paper::Persistence => "Bao et al.",
            Paper::OnDemandFork => "Zhao et al.",
            Paper::AsyncFork => "Pang et al.",
        }
    }

    /// The title.
    const fn title(self) -> &'static str {
        match self {
            Paper::Tkde => {
                "A Comparative Study of Consistent Snapshot Algorithms for Main-Memory Database Systems"
            }
            Paper::Arxiv => "the earlier text of the comparative study, arXiv",
            Paper::Vls => "Virtual Lightweight Snapshots for Consistent Analytics in NoSQL Stores",
            Paper::Vtc => {
                "Validity Tracking Based Log Management for In-Memory Databases, thesis, Seoul National \
                 University, 2021"
            }
            Paper::Persistence => {
                "Persistence and Recovery for In-Memory NoSQL Services: A Measurement Study"
            }
            Paper::OnDemandFork => {
                "On-demand-fork: A Microsecond Fork for Memory-Intensive and Latency-Sensitive Applications, \
                 EuroSys 2021"
            }
            Paper::AsyncFork => {
                "Async-fork: Mitigating Query Latency Spikes Incurred by the Fork-based Snapshot Mechanism \
                 from the OS Level, VLDB 2023"
            }
        }
    }
}

/// How a published value was read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Read {
    /// It stands in a table, or beside a point of a figure.
    Printed,
    /// It stands in the text.
    Text,
    /// It was measured in the drawing of a figure.
    Digitised,
    /// It stands in a file of the authors' repository, which is named with its commit.
    Repository(String),
}

/// The origin of published values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub paper: Paper,
    /// The figure, table or section.
    pub place: String,
    pub read: Read,
}

impl Source {
    /// The source in words.
    pub(crate) fn text(&self) -> String {
        let Source { paper, place, read } = self;
        let read = match read {
            Read::Printed => "printed".to_owned(),
            Read::Text => "said in the text".to_owned(),
            Read::Digitised => "read off the drawing".to_owned(),
            Read::Repository(file) => format!("not printed; from the authors' repository {file}"),
        };
        format!("{}, {place}: {read}", paper.authors())
    }
}

/// Values that a paper printed, line by line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drawn {
    pub source: Source,
    pub x: Vec<f64>,
    pub lines: BTreeMap<String, Vec<f64>>,
}

/// A table, with a row for each measurement.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    pub part: String,
    #[serde(rename = "where")]
    pub conditions: Where,
    /// Head, expression or template, and perhaps a format. `@*` makes a column for each key of the part,
    /// which takes the place of `*` in the head too.
    pub columns: Vec<Vec<String>>,
}

/// A target of the design, judged in each row that fulfils the conditions. Where there is no other row to
/// compare with, nothing is judged.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Target {
    /// The section that shows it.
    pub section: String,
    pub part: String,
    #[serde(rename = "where")]
    pub conditions: Where,
    pub what: String,
    pub value: String,
    pub unit: String,
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
    pub note: String,
    /// The promise that it judges, with the page that makes it: `README: each query is as of one instant`.
    pub promise: String,
    /// True if a value that is not a number is left out; otherwise it misses the target. A ratio to 0 is left
    /// out in any case.
    pub optional: bool,
}

/// A number of the paper, and the same of ours.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Printed {
    /// The section that shows it.
    pub section: String,
    pub figure: String,
    pub what: String,
    pub printed: String,
    pub source: Source,
    #[serde(default)]
    pub part: String,
    #[serde(default, rename = "where")]
    pub conditions: Where,
    /// In each row; the median over the rows, or with `range` the least and the most. Nothing for a statement
    /// that nothing here measures.
    #[serde(default)]
    pub value: String,
    /// The reason why nothing here measures it.
    #[serde(default)]
    pub unjudged: String,
    #[serde(default)]
    pub format: String,
    #[serde(default)]
    pub range: bool,
    /// Once for each value of this column, with its name.
    #[serde(default)]
    pub each: String,
    /// The word where there is no number, if this column has a text in the row that is compared.
    pub failed: Option<[String; 2]>,
    /// The least and the most of our values for which the published statement holds here. Without them the
    /// number is only shown beside ours.
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// Why it may differ.
    #[serde(default)]
    pub why: String,
}

impl Printed {
    /// Why ours may differ, or why there is none.
    pub(super) fn reason(&self) -> &str {
        if self.unjudged.is_empty() { &self.why } else { &self.unjudged }
    }
}

impl List {
    /// Reads a list, which is a part of this program. Each published value has a source, and each statement
    /// an expression that judges it or the reason why there is none.
    pub(crate) fn parse(text: &str) -> List {
        let list = toml::from_str::<List>(text).map_err(|error| error.to_string()).and_then(List::checked);
        list.unwrap_or_else(|error| panic!("a list of figures is malformed: {error}"))
    }

    fn checked(self) -> Result<List, String> {
        if let Some(own) = self.printed.iter().find(|own| own.value.is_empty() == own.unjudged.is_empty()) {
            return Err(format!("{} needs either a value or why there is none", own.what));
        }
        let mut columns = self.more.values().flat_map(serde_json::Map::keys);
        match columns.find(|column| !self.sources.contains_key(*column)) {
            Some(column) => Err(format!("the published values {column} have no source")),
            None => Ok(self),
        }
    }

    /// The published values that charts and columns have, each with its source.
    pub(crate) fn drawn(&self) -> Vec<(String, &Source)> {
        let charts = self.sections.iter().flat_map(|section| &section.charts);
        let charts = charts.filter_map(|own| Some((own.caption.clone(), &own.printed.as_ref()?.source)));
        charts.chain(self.sources.iter().map(|(column, own)| (column.replace('_', " "), own))).collect()
    }

    /// The papers from which there are values: authors and title.
    pub(crate) fn papers(&self) -> Vec<String> {
        let printed = self.printed.iter().map(|own| own.source.paper);
        let papers: BTreeSet<Paper> =
            printed.chain(self.drawn().iter().map(|(_, source)| source.paper)).collect();
        papers.into_iter().map(|paper| format!("{}: {}.", paper.authors(), paper.title())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str =
        "[[printed]]\nsection = 's'\nfigure = '1'\nwhat = 'w'\nprinted = '2x'\nvalue = 'v'\n";

    #[test]
    fn sources_and_papers_are_said_in_words() {
        let drawn = "[more]\nNS = { printed_mean = 1.5 }\n[sources]\nprinted_mean = { paper = 'tkde', \
            place = 'table 4', read = { repository = 'a/b c.txt' } }\n";
        let source = "source = { paper = 'vtc', place = '4.2', read = 'text' }\n";
        let list = List::parse(&format!("{drawn}{PRINTED}{source}"));
        assert_eq!(list.printed[0].source.text(), "Lee, 4.2: said in the text");
        let [(what, source)] = &list.drawn()[..] else { panic!("one column: {:?}", list.drawn()) };
        assert_eq!(what, "printed mean");
        let text = "Li et al. (TKDE), table 4: not printed; from the authors' repository a/b c.txt";
        assert_eq!(source.text(), text);
        let papers = list.papers();
        assert!(papers.len() == 2 && papers[1].starts_with("Lee: Validity Tracking"), "{papers:?}");
    }

    fn malformed(text: &str) -> String {
        match toml::from_str::<List>(text).map_err(|error| error.to_string()).and_then(List::checked) {
            Ok(list) => panic!("{list:?}"),
            Err(error) => error,
        }
    }

    #[test]
    fn a_published_value_without_a_source_is_refused() {
        assert!(malformed(PRINTED).contains("missing field `source`"));
        let drawn = "[[section]]\n[[section.chart]]\n[section.chart.printed]\nx = [1.0]\nlines = {}\n";
        assert!(malformed(drawn).contains("missing field `source`"));
        let column = "[more]\nNS = { printed_mean = 1.5 }\n";
        assert_eq!(malformed(column), "the published values printed_mean have no source");
        let place = "source = { paper = 'vtc', read = 'text' }\n";
        assert!(malformed(&format!("{PRINTED}{place}")).contains("missing field `place`"));
    }

    #[test]
    fn a_statement_is_judged_or_has_a_reason() {
        let source = "source = { paper = 'vtc', place = '4.2', read = 'text' }\n";
        let refused = "w needs either a value or why there is none";
        assert_eq!(malformed(&format!("{PRINTED}unjudged = 'no disk'\n{source}")), refused);
        let unjudged = PRINTED.replace("value = 'v'\n", "");
        assert_eq!(malformed(&format!("{unjudged}{source}")), refused);
        let list = List::parse(&format!("{unjudged}unjudged = 'no disk'\n{source}"));
        assert_eq!(list.printed[0].reason(), "no disk");
    }
}
