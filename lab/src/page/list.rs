//! The declared list of an experiment: its figures, tables, targets and printed numbers, as
//! `lab/figures/` has them in TOML. Values are expressions over the measurements ([`super::rows`]).

use std::collections::BTreeMap;

use serde::Deserialize;

/// Conditions on rows: a column and what it must be. `"largest"` is the largest value of the part, `"!x"`
/// anything but `x`, `"!"` a number that is not zero, a list any of its words.
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
    /// More columns of each row, by its value of `pair`.
    pub more: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
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

/// Values that a paper printed, line by line.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Drawn {
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
    /// True if a value that is not a number is left out; otherwise it misses the target.
    pub optional: bool,
}

/// A number of the paper, and the same of ours.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Printed {
    /// The section that shows it.
    pub section: String,
    pub figure: String,
    pub what: String,
    pub printed: String,
    pub part: String,
    #[serde(rename = "where")]
    pub conditions: Where,
    /// In each row; the median over the rows, or with `range` the least and the most.
    pub value: String,
    pub format: String,
    pub range: bool,
    /// Once for each value of this column, with its name.
    pub each: String,
    /// The word where there is no number, if this column has a text in the row that is compared.
    pub failed: Option<[String; 2]>,
    /// Why it may differ.
    pub why: String,
}

impl List {
    /// Reads a list, which is a part of this program.
    pub(crate) fn parse(text: &str) -> List {
        toml::from_str(text).unwrap_or_else(|error| panic!("a list of figures is malformed: {error}"))
    }
}
