//! The declared list of an experiment: its figures, tables, targets and printed numbers, as `lab/figures/`
//! has them in TOML. Values are expressions over the measurements ([`super::rows`]).

use std::collections::BTreeMap;

use serde::Deserialize;

/// Conditions on rows: a column and what it must be. `"largest"` is the largest value of the part, `"!x"`
/// anything but `x`, `"!"` a number that is not zero, a list any of its words.
pub type Where = BTreeMap<String, toml::Value>;

/// The list of an experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The title of the report.
    pub title: String,
    /// An explanation of the variants.
    #[serde(default)]
    pub about: String,
    /// The columns that identify a row.
    #[serde(default)]
    pub same: Vec<String>,
    /// The key that an `@` without one means.
    #[serde(default)]
    pub pair: String,
    /// All variants; those that were not measured are named.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Names of lines, each with a colour, a sign (circle, triangle, rect, diamond) and perhaps `thin`; in the
    /// order of the legend.
    #[serde(default)]
    pub styles: Vec<[String; 2]>,
    /// Facts on how it was measured that hold for each run.
    #[serde(default)]
    pub facts: Vec<[String; 2]>,
    /// What the printed numbers are compared with.
    #[serde(default)]
    pub printed_about: String,
    /// The figures, in the order of the report.
    #[serde(default, rename = "section")]
    pub sections: Vec<Section>,
    /// The targets of the design.
    #[serde(default, rename = "target")]
    pub targets: Vec<Target>,
    /// The numbers of the paper.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// The tables that a run prints at its end.
    #[serde(default)]
    pub summary: Vec<Table>,
}

/// A figure of the paper, or several that belong together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its anchor; targets and printed numbers name it.
    pub id: String,
    /// The part of the experiment that measures it.
    #[serde(default)]
    pub part: String,
    pub title: String,
    #[serde(default)]
    pub text: String,
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
}

/// The kind of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points by a parameter, at equal distances.
    #[default]
    Lines,
    /// Bars by a parameter, side by side.
    Bars,
    /// Lists of values by time.
    Time,
}

/// A chart, or one for each value of `facet`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    pub caption: String,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default, rename = "where")]
    pub conditions: Where,
    #[serde(default)]
    pub facet: Vec<String>,
    /// What varies; nothing: one place for all.
    #[serde(default)]
    pub x: String,
    #[serde(default)]
    pub x_name: String,
    /// The measured quantity, a line for each value of `series` …
    #[serde(default)]
    pub y: String,
    #[serde(default)]
    pub series: String,
    /// … or several quantities, each with its name. `#` counts from 0 on, as long as there are values.
    #[serde(default)]
    pub lines: Vec<[String; 2]>,
    pub y_name: String,
    /// True for an axis by powers of ten.
    #[serde(default)]
    pub log: bool,
    /// The end of the axis.
    pub most: Option<f64>,
    /// True if the charts of all facets have the same axis.
    #[serde(default)]
    pub shared: bool,
    /// Beginnings and ends of times that are shaded.
    pub spans: Option<[String; 2]>,
    /// The paper's own values.
    pub printed: Option<Drawn>,
}

/// Values that a paper printed, line by line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    pub x: Vec<f64>,
    pub lines: BTreeMap<String, Vec<f64>>,
}

/// A table, with a row for each measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    #[serde(default)]
    pub part: String,
    #[serde(default, rename = "where")]
    pub conditions: Where,
    /// Head, expression or template, and perhaps a format.
    pub columns: Vec<Vec<String>>,
}

/// A target of the design, judged in each row that fulfils the conditions. Where there is no other row to
/// compare with, nothing is judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The section that shows it.
    pub section: String,
    #[serde(default)]
    pub part: String,
    #[serde(default, rename = "where")]
    pub conditions: Where,
    pub what: String,
    pub value: String,
    #[serde(default)]
    pub unit: String,
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
    #[serde(default)]
    pub note: String,
    /// True if a value that is not a number is left out; otherwise it misses the target.
    #[serde(default)]
    pub optional: bool,
}

/// A number of the paper, and the same of ours.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The section that shows it.
    pub section: String,
    pub figure: String,
    pub what: String,
    pub printed: String,
    #[serde(default)]
    pub part: String,
    #[serde(default, rename = "where")]
    pub conditions: Where,
    /// In each row; the median over the rows, or with `range` the least and the most.
    pub value: String,
    pub format: String,
    #[serde(default)]
    pub range: bool,
    /// Once for each value of this column, with its name.
    #[serde(default)]
    pub each: String,
    /// What is said where there is no number, if this column has a text in the row that is compared.
    #[serde(default)]
    pub failed: Option<[String; 2]>,
    /// Why it may differ.
    #[serde(default)]
    pub why: String,
}

impl List {
    /// Reads a list, which is a part of this program.
    pub fn parse(text: &str) -> List {
        toml::from_str(text).unwrap_or_else(|error| panic!("a list of figures is malformed: {error}"))
    }
}
