//! Rows and statements by chance, of the constructs that `docs/sql.md` names.
//!
//! A statement is made with marks: `{t}` and `{u}` stand for tables, `⟦INT:5⟧` for a constant, which is
//! written in its place or given as a parameter.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A type of expressions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Int,
    Float,
    Numeric,
    Text,
    Truth,
    Day,
    Moment,
}

const ALL: [Of; 7] = [Of::Int, Of::Float, Of::Numeric, Of::Text, Of::Truth, Of::Day, Of::Moment];

/// The columns of both tables: names, types in a declaration, and kinds.
pub(crate) const T: [(&str, &str, Of); 9] = [
    ("id", "INT", Of::Int),
    ("a", "INT", Of::Int),
    ("b", "BIGINT", Of::Int),
    ("f", "DOUBLE PRECISION", Of::Float),
    ("n", "DECIMAL(12,3)", Of::Numeric),
    ("s", "TEXT", Of::Text),
    ("d", "DATE", Of::Day),
    ("ts", "TIMESTAMP", Of::Moment),
    ("p", "BOOLEAN", Of::Truth),
];
pub(crate) const U: [(&str, &str, Of); 5] = [
    ("id", "INT", Of::Int),
    ("a", "INT", Of::Int),
    ("f", "DOUBLE PRECISION", Of::Float),
    ("n", "DECIMAL(12,3)", Of::Numeric),
    ("s", "TEXT", Of::Text),
];

/// A value of a column, as text.
pub(crate) fn value(rng: &mut StdRng, of: Of) -> Option<String> {
    if rng.random_ratio(1, 5) {
        return None;
    }
    let pick = |rng: &mut StdRng, of: &[&str]| of.choose(rng).map(|text| (*text).to_owned());
    match of {
        Of::Int => Some(rng.random_range(-3..12).to_string()),
        Of::Float => pick(
            rng,
            &["0", "0.5", "-0.5", "1.5", "2.5", "-2.5", "3", "0.1", "100000000000000000", "7.25", "4"],
        ),
        Of::Numeric => pick(rng, &["0", "0.5", "1.25", "-1.5", "2.500", "10.125", "-3.375", "7", "3", "1"]),
        Of::Text => {
            pick(rng, &["a", "ab", "abc", "b", "B", "Ab", "a%c", "a_c", "é", "x y", "7", "12", "-3", "zz"])
        }
        Of::Truth => pick(rng, &["true", "false"]),
        Of::Day => {
            pick(rng, &["2020-01-05", "2020-02-29", "2019-12-31", "2021-07-04", "2000-01-01", "2020-01-06"])
        }
        Of::Moment => pick(
            rng,
            &[
                "2020-01-05 13:07:09",
                "2020-02-29 00:00:00",
                "2019-12-31 23:59:59.5",
                "2021-07-04 06:30:00.125",
                "2020-01-06 00:00:01",
            ],
        ),
    }
}

/// A statement.
pub(crate) struct Made {
    text: String,
    /// True if the order of its rows is defined.
    pub is_ordered: bool,
}

impl Made {
    /// The text with tables of these names, with constants in their places.
    pub(crate) fn plain(&self, t: &str, u: &str) -> String {
        self.with(t, u, |kind, value, _| literal(kind, value)).0
    }

    /// The text and the values of its parameters.
    pub(crate) fn with_parameters(&self, t: &str, u: &str) -> (String, Vec<String>) {
        self.with(t, u, |kind, value, number| {
            let _ = value;
            format!("CAST(${number} AS {kind})")
        })
    }

    fn with(&self, t: &str, u: &str, write: impl Fn(&str, &str, usize) -> String) -> (String, Vec<String>) {
        let text = self.text.replace("{t}", t).replace("{u}", u);
        let (mut out, mut values, mut rest) = (String::new(), Vec::new(), text.as_str());
        while let Some((before, marked)) = rest.split_once('⟦') {
            let (constant, behind) = marked.split_once('⟧').unwrap();
            let (kind, value) = constant.split_once(':').unwrap();
            out += before;
            values.push(value.to_owned());
            out += &write(kind, value, values.len());
            rest = behind;
        }
        (out + rest, values)
    }
}

fn literal(kind: &str, value: &str) -> String {
    match kind {
        "INT" | "DECIMAL(12,3)" => value.to_owned(),
        "TEXT" => format!("'{value}'"),
        "DOUBLE PRECISION" => format!("CAST({value} AS DOUBLE PRECISION)"),
        kind => format!("{kind} '{value}'"),
    }
}

/// Makes expressions.
struct Maker<'r> {
    rng: &'r mut StdRng,
    /// The tables in reach: their names here, and whether they are of the first kind.
    reach: Vec<(String, bool)>,
    /// Names that have been given.
    names: usize,
    /// The number of further levels of subqueries that it may have.
    subqueries: usize,
}

/// Makes a statement.
pub(crate) fn statement(rng: &mut StdRng) -> Made {
    let mut maker = Maker { rng, reach: Vec::new(), names: 0, subqueries: 2 };
    let (text, is_ordered) = match maker.rng.random_range(0..12) {
        0..=3 => maker.plain(),
        4..=6 => maker.grouped(),
        7 => maker.joined_sets(),
        8..=9 => maker.windowed(),
        10 => maker.nested(),
        _ => maker.distinct(),
    };
    Made { text, is_ordered }
}

impl Maker<'_> {
    fn chance(&mut self, part: u32) -> bool {
        self.rng.random_ratio(1, part)
    }

    fn pick(&mut self, of: &[&str]) -> String {
        (*of.choose(self.rng).unwrap()).to_owned()
    }

    fn one_of(&mut self, most: usize) -> usize {
        self.rng.random_range(0..most)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("q{}", self.names)
    }

    /// `FROM`, with all that is then in reach.
    fn from(&mut self) -> String {
        let first = self.name();
        let (of, table) = if self.chance(3) { (false, "{u}") } else { (true, "{t}") };
        self.reach.push((first.clone(), of));
        let mut text = format!("{table} AS {first}");
        if self.chance(3) {
            let second = self.name();
            let (of, table) = if self.chance(2) { (false, "{u}") } else { (true, "{t}") };
            let kind = self.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN"]);
            self.reach.push((second.clone(), of));
            let on = match self.one_of(4) {
                0 => format!("{first}.a = {second}.a"),
                1 => format!("{first}.id = {second}.id"),
                2 => format!("{first}.a = round({second}.n, 1)"),
                _ => format!("{first}.s = {second}.s AND {first}.a IS NOT DISTINCT FROM {second}.a"),
            };
            text += &format!(" {kind} {table} AS {second} ON {on}");
        }
        text
    }

    fn condition(&mut self) -> String {
        if self.chance(3) { String::new() } else { format!(" WHERE {}", self.expr(Of::Truth, 2)) }
    }

    fn exprs(&mut self) -> Vec<String> {
        (0..1 + self.one_of(3))
            .map(|_| {
                let of = *ALL.choose(self.rng).unwrap();
                self.expr(of, 3)
            })
            .collect()
    }

    /// Rows in the order of all columns, or of those that are named by their places.
    fn ordered(&mut self, columns: usize) -> (String, bool) {
        if self.chance(2) {
            return (String::new(), false);
        }
        let orders: Vec<String> = (1..=columns)
            .map(|at| format!("{at}{}", self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])))
            .collect();
        let limit = match self.one_of(4) {
            0 => format!(" LIMIT {}", self.one_of(8)),
            1 => format!(" OFFSET {}", self.one_of(4)),
            2 => format!(" FETCH FIRST {} ROWS ONLY", 1 + self.one_of(5)),
            _ => String::new(),
        };
        (format!(" ORDER BY {}{limit}", orders.join(", ")), true)
    }

    fn plain(&mut self) -> (String, bool) {
        let from = self.from();
        let exprs = self.exprs();
        let condition = self.condition();
        let (order, is_ordered) = self.ordered(exprs.len());
        (format!("SELECT {} FROM {from}{condition}{order}", exprs.join(", ")), is_ordered)
    }

    fn distinct(&mut self) -> (String, bool) {
        let from = self.from();
        let exprs = self.exprs();
        let condition = self.condition();
        (format!("SELECT DISTINCT {} FROM {from}{condition}", exprs.join(", ")), false)
    }

    fn aggregate(&mut self) -> String {
        let (int, float, numeric) =
            (self.expr(Of::Int, 1), self.expr(Of::Float, 1), self.expr(Of::Numeric, 1));
        let (text, truth) = (self.expr(Of::Text, 1), self.expr(Of::Truth, 1));
        let call = match self.one_of(16) {
            0 => "count(*)".to_owned(),
            1 => format!("count({text})"),
            2 => format!("count(DISTINCT {int})"),
            3 => format!("sum({int})"),
            4 => format!("sum({numeric})"),
            5 => format!("avg({int})"),
            6 => format!("avg({numeric})"),
            7 => format!("min({text})"),
            8 => format!("max({int})"),
            9 => format!("bool_and({truth})"),
            10 => format!("bool_or({truth})"),
            11 => format!("min({float})"),
            12 => format!("max({numeric})"),
            13 => return format!("string_agg({text}, ',' ORDER BY {text})"),
            14 => format!("sum(DISTINCT {int})"),
            _ => format!("max({})", self.expr(Of::Moment, 1)),
        };
        if self.chance(5) { format!("{call} FILTER (WHERE {truth})") } else { call }
    }

    fn grouped(&mut self) -> (String, bool) {
        let from = self.from();
        let condition = self.condition();
        let aggregates: Vec<String> = (0..1 + self.one_of(2)).map(|_| self.aggregate()).collect();
        if self.chance(3) {
            return (format!("SELECT {} FROM {from}{condition}", aggregates.join(", ")), false);
        }
        let of = *ALL.choose(self.rng).unwrap();
        let key = self.expr(of, 1);
        let having =
            if self.chance(3) { format!(" HAVING count(*) > {}", self.one_of(4)) } else { String::new() };
        let text =
            format!("SELECT {key}, {} FROM {from}{condition} GROUP BY 1{having}", aggregates.join(", "));
        let (order, is_ordered) = self.ordered(1 + aggregates.len());
        (text + &order, is_ordered)
    }

    fn joined_sets(&mut self) -> (String, bool) {
        let of: Vec<Of> = (0..1 + self.one_of(2)).map(|_| *ALL.choose(self.rng).unwrap()).collect();
        let mut side = || {
            let from = self.from();
            let exprs: Vec<String> = of.iter().map(|of| self.alike(*of, 1)).collect();
            let condition = self.condition();
            self.reach.clear();
            format!("SELECT {} FROM {from}{condition}", exprs.join(", "))
        };
        let (one, other) = (side(), side());
        let op = self.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
        (format!("{one} {op} {other}"), false)
    }

    fn windowed(&mut self) -> (String, bool) {
        let name = self.name();
        self.reach.push((name.clone(), true));
        let (int, float, numeric) =
            (self.expr(Of::Int, 1), self.expr(Of::Float, 1), self.expr(Of::Numeric, 1));
        let call = match self.one_of(10) {
            0 => "row_number()".to_owned(),
            1 => "rank()".to_owned(),
            2 => "dense_rank()".to_owned(),
            3 => format!("lag({int})"),
            4 => format!("lead({int}, 2)"),
            5 => format!("sum({int})"),
            6 => format!("sum({float})"),
            7 => format!("avg({numeric})"),
            8 => format!("min({int})"),
            _ => "count(*)".to_owned(),
        };
        let is_framed =
            call.contains("sum") || call.contains("avg") || call.contains("min") || call.contains("count");
        let frame = match self.one_of(4) {
            0 if is_framed => " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            1 if is_framed => " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            2 if is_framed => " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
            _ => "",
        };
        let partition = if self.chance(2) { format!("PARTITION BY {name}.a ") } else { String::new() };
        let text = format!(
            "SELECT {name}.id, {call} OVER ({partition}ORDER BY {name}.s, {name}.id{frame}) FROM {{t}} \
             AS {name}"
        );
        (text, false)
    }

    fn nested(&mut self) -> (String, bool) {
        let inner = self.name();
        self.reach.push((inner.clone(), true));
        let (int, text, condition) = (self.expr(Of::Int, 1), self.expr(Of::Text, 1), self.condition());
        let limit = self.pick(&["OFFSET 17", "LIMIT 9", "LIMIT 11 OFFSET 5", "OFFSET 3"]);
        let (outer, other) = (self.name(), self.name());
        let query = format!(
            "SELECT {int} AS x, {text} AS y, {inner}.id AS z FROM {{t}} AS {inner}{condition} ORDER BY \
             {inner}.id {limit}"
        );
        let text = match self.one_of(3) {
            0 => format!("SELECT {outer}.x, {outer}.y FROM ({query}) AS {outer}"),
            1 => format!("WITH {outer} AS ({query}) SELECT count(*), sum(x), min(y) FROM {outer}"),
            _ => format!(
                "WITH {outer} AS ({query}) SELECT {outer}.x, {other}.s FROM {outer} LEFT JOIN {{u}} AS \
                 {other} ON {other}.id = {outer}.z"
            ),
        };
        (text, false)
    }

    fn column(&mut self, of: Of) -> Option<String> {
        let mut found = Vec::new();
        for (name, is_t) in &self.reach {
            let columns: &[(&str, &str, Of)] = if *is_t { &T } else { &U };
            found.extend(
                columns.iter().filter(|column| column.2 == of).map(|column| format!("{name}.{}", column.0)),
            );
        }
        found.choose(self.rng).cloned()
    }

    fn constant(&mut self, of: Of) -> String {
        match of {
            Of::Int => format!("⟦INT:{}⟧", self.one_of(9)),
            Of::Float => format!("⟦DOUBLE PRECISION:{}⟧", self.pick(&["0.5", "2.5", "1.5", "3", "0.1"])),
            Of::Numeric => format!("⟦DECIMAL(12,3):{}⟧", self.pick(&["0.5", "1.25", "2.5", "3.125"])),
            Of::Text => format!("⟦TEXT:{}⟧", self.pick(&["a", "ab", "b", "x y", "7"])),
            Of::Truth => self.pick(&["true", "false"]),
            Of::Day => format!("⟦DATE:{}⟧", self.pick(&["2020-01-05", "2020-02-29", "2019-12-31"])),
            Of::Moment => {
                format!("⟦TIMESTAMP:{}⟧", self.pick(&["2020-01-05 13:07:09", "2019-12-31 23:59:59.5"]))
            }
        }
    }

    fn leaf(&mut self, of: Of) -> String {
        match self.column(of) {
            Some(column) if !self.chance(6) => column,
            _ if of == Of::Numeric && self.chance(4) => {
                format!("CAST({} AS NUMERIC)", self.constant(Of::Int))
            }
            _ => self.constant(of),
        }
    }

    fn expr(&mut self, of: Of, depth: usize) -> String {
        if depth == 0 || self.chance(4) {
            return self.leaf(of);
        }
        let depth = depth - 1;
        if self.chance(9) {
            let (test, one, other) =
                (self.expr(Of::Truth, depth), self.expr(of, depth), self.expr(of, depth));
            return match self.one_of(4) {
                0 => format!("CASE WHEN {test} THEN {one} ELSE {other} END"),
                1 => format!("CASE WHEN {test} THEN {one} END"),
                2 => self.chosen(of, depth),
                _ => format!("coalesce({one}, {other})"),
            };
        }
        match of {
            Of::Int => self.int(depth),
            Of::Float => self.float(depth),
            Of::Numeric => self.numeric(depth),
            Of::Text => self.text(depth),
            Of::Truth => self.truth(depth),
            Of::Day => match self.one_of(3) {
                0 => format!("CAST({} AS DATE)", self.expr(Of::Moment, depth)),
                _ => self.leaf(Of::Day),
            },
            Of::Moment => {
                let unit = self.pick(&["day", "month", "year", "hour"]);
                match self.one_of(4) {
                    0 => format!("({} + INTERVAL '1 day')", self.expr(Of::Day, depth)),
                    1 => format!("({} - INTERVAL '2 hours')", self.expr(Of::Moment, depth)),
                    2 => format!("date_trunc('{unit}', {})", self.expr(Of::Moment, depth)),
                    _ => format!("({} + INTERVAL '1 month')", self.expr(Of::Moment, depth)),
                }
            }
        }
    }

    /// An expression of a type, or of another type of numbers.
    fn alike(&mut self, of: Of, depth: usize) -> String {
        let numbers = [Of::Int, Of::Float, Of::Numeric];
        let of = if numbers.contains(&of) { *numbers.choose(self.rng).unwrap() } else { of };
        self.expr(of, depth)
    }

    /// `CASE x WHEN y …` of numbers of several types.
    fn chosen(&mut self, of: Of, depth: usize) -> String {
        let [one, two, three] = [0; 3].map(|_| self.alike(Of::Int, depth.min(1)));
        let (then, other) = (self.expr(of, depth), self.expr(of, depth));
        format!("CASE {one} WHEN {two} THEN {then} WHEN {three} THEN {other} END")
    }

    fn int(&mut self, depth: usize) -> String {
        match self.one_of(13) {
            0..=2 => {
                let op = self.pick(&["+", "-", "*"]);
                format!("({} {op} {})", self.expr(Of::Int, depth), self.expr(Of::Int, depth))
            }
            3 => format!("({} / {})", self.expr(Of::Int, depth), 1 + self.one_of(4)),
            4 => format!("({} % {})", self.expr(Of::Int, depth), 1 + self.one_of(4)),
            5 => format!("abs({})", self.expr(Of::Int, depth)),
            6 => format!("length({})", self.expr(Of::Text, depth)),
            7 => format!("CAST({} AS INT)", self.expr(Of::Numeric, depth.min(1))),
            8 => format!("CAST(round({}) AS INT)", self.pick(&["2.5", "-2.5", "0.5", "1.5"])),
            9 => {
                let field = self.pick(&["year", "month", "day", "hour", "doy", "dow", "week", "quarter"]);
                format!("CAST(extract({field} FROM {}) AS INT)", self.expr(Of::Moment, depth))
            }
            10 => format!("nullif({}, {})", self.expr(Of::Int, depth), self.expr(Of::Int, depth)),
            11 => format!("(-{})", self.expr(Of::Int, depth)),
            _ => self.counted(),
        }
    }

    /// A subquery that answers one number.
    fn counted(&mut self) -> String {
        if self.subqueries == 0 {
            return self.leaf(Of::Int);
        }
        self.subqueries -= 1;
        let outer = self.column(Of::Int);
        let name = self.name();
        let call = self.pick(&["count(*)", "max", "sum", "min"]);
        let call = if call == "count(*)" { call } else { format!("{call}({name}.id)") };
        let text = match outer {
            Some(outer) if !self.chance(3) => {
                format!("(SELECT {call} FROM {{u}} AS {name} WHERE {name}.a = {outer})")
            }
            _ => format!("(SELECT {call} FROM {{u}} AS {name})"),
        };
        self.subqueries += 1;
        text
    }

    fn float(&mut self, depth: usize) -> String {
        match self.one_of(9) {
            0..=1 => {
                let op = self.pick(&["+", "-", "*"]);
                format!("({} {op} {})", self.expr(Of::Float, depth), self.expr(Of::Float, depth))
            }
            2 => format!("({} / {})", self.expr(Of::Float, depth), self.constant(Of::Float)),
            3 => format!(
                "{}({})",
                self.pick(&["round", "floor", "ceil", "trunc", "abs", "sign"]),
                self.expr(Of::Float, depth)
            ),
            4 => format!("sqrt(abs({}))", self.expr(Of::Float, depth)),
            5 => format!("CAST({} AS DOUBLE PRECISION)", self.expr(Of::Int, depth)),
            6 => format!("CAST({} AS DOUBLE PRECISION)", self.expr(Of::Numeric, depth)),
            7 => format!("({} * {})", self.expr(Of::Float, depth), self.expr(Of::Numeric, depth)),
            _ => format!("greatest({}, {})", self.expr(Of::Float, depth), self.expr(Of::Float, depth)),
        }
    }

    fn numeric(&mut self, depth: usize) -> String {
        match self.one_of(9) {
            0..=1 => {
                let op = self.pick(&["+", "-", "*"]);
                format!("({} {op} {})", self.expr(Of::Numeric, depth), self.expr(Of::Numeric, depth.min(1)))
            }
            2 => format!("({} / {})", self.expr(Of::Numeric, depth), self.constant(Of::Numeric)),
            3 => format!("round({}, {})", self.expr(Of::Numeric, depth), self.one_of(3)),
            4 => format!(
                "{}({})",
                self.pick(&["round", "floor", "ceil", "trunc", "abs"]),
                self.expr(Of::Numeric, depth)
            ),
            5 => format!("({} + {})", self.expr(Of::Int, depth), self.expr(Of::Numeric, depth)),
            6 => format!("CAST({} AS NUMERIC)", self.expr(Of::Int, depth)),
            7 => format!("CAST({} AS DECIMAL(10,1))", self.expr(Of::Numeric, depth)),
            _ => format!("mod({}, 2)", self.expr(Of::Numeric, depth)),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        match self.one_of(14) {
            0 => format!("({} || {})", self.expr(Of::Text, depth), self.expr(Of::Text, depth)),
            1 => format!(
                "{}({})",
                self.pick(&["upper", "lower", "reverse", "btrim", "initcap"]),
                self.expr(Of::Text, depth)
            ),
            2 => format!("substr({}, {}, {})", self.expr(Of::Text, depth), self.one_of(3), self.one_of(3)),
            3 => format!(
                "{}({}, {})",
                self.pick(&["left", "right"]),
                self.expr(Of::Text, depth),
                self.rng.random_range(-2..3)
            ),
            4 => format!("replace({}, 'a', 'xy')", self.expr(Of::Text, depth)),
            5 => format!("CAST({} AS TEXT)", self.expr(Of::Int, depth)),
            6 => format!("CAST({} AS TEXT)", self.leaf(Of::Float)),
            7 => format!("CAST({} AS TEXT)", self.expr(Of::Moment, depth)),
            8 => format!("CAST({} AS TEXT)", self.expr(Of::Day, depth)),
            9 => {
                let pattern = self.pick(&[
                    "YYYY-MM",
                    "DD Mon YYYY",
                    "HH24:MI:SS",
                    "Day",
                    "Q WW",
                    "YYYY-MM-DD HH12:MI AM",
                ]);
                format!("to_char({}, '{pattern}')", self.expr(Of::Moment, depth))
            }
            10 => format!("CAST({} AS TEXT)", self.expr(Of::Truth, depth)),
            11 => format!("lpad({}, {}, 'xy')", self.expr(Of::Text, depth), self.one_of(5)),
            12 => format!("CAST({} AS VARCHAR(2))", self.expr(Of::Text, depth)),
            _ => format!("split_part({}, 'a', {})", self.expr(Of::Text, depth), 1 + self.one_of(2)),
        }
    }

    fn truth(&mut self, depth: usize) -> String {
        let of = *[Of::Int, Of::Float, Of::Numeric, Of::Text, Of::Day, Of::Moment].choose(self.rng).unwrap();
        match self.one_of(17) {
            0..=3 => {
                let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
                format!("{} {op} {}", self.expr(of, depth), self.expr(of, depth))
            }
            4..=5 => {
                let op = self.pick(&["AND", "OR"]);
                format!("({} {op} {})", self.expr(Of::Truth, depth), self.expr(Of::Truth, depth))
            }
            6 => format!("NOT ({})", self.expr(Of::Truth, depth)),
            7 => format!("{} IS {}NULL", self.leaf(of), self.pick(&["", "NOT "])),
            8 => {
                let op = self.pick(&["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                let (one, other, third) = (self.leaf(of), self.leaf(of), self.leaf(Of::Truth));
                format!("({one} {op} {other} {} {third})", self.pick(&["OR", "AND"]))
            }
            9 => {
                let not = self.pick(&["", "NOT "]);
                format!("{} {not}BETWEEN {} AND {}", self.expr(of, depth), self.leaf(of), self.leaf(of))
            }
            10 => {
                let not = self.pick(&["", "NOT "]);
                format!("{} {not}IN ({}, {})", self.expr(of, depth), self.leaf(of), self.constant(of))
            }
            11 => {
                let op = self.pick(&["LIKE", "NOT LIKE", "ILIKE"]);
                format!(
                    "{} {op} '{}'",
                    self.expr(Of::Text, depth),
                    self.pick(&["a%", "%b", "_b%", "a\\%c", "%"])
                )
            }
            12 => format!(
                "{} SIMILAR TO '{}'",
                self.expr(Of::Text, depth),
                self.pick(&["a%", "(a|b)+", "_b", "[ab]%"])
            ),
            13 => format!(
                "({}) IS {}",
                self.expr(Of::Truth, depth),
                self.pick(&["TRUE", "NOT TRUE", "FALSE", "UNKNOWN"])
            ),
            14..=15 => self.member(depth),
            _ => format!("({} > {})", self.int(depth), self.numeric(depth)),
        }
    }

    fn member(&mut self, depth: usize) -> String {
        if self.subqueries == 0 {
            return self.leaf(Of::Truth);
        }
        self.subqueries -= 1;
        let one = self.expr(Of::Int, depth.min(1));
        let outer = self.column(Of::Int);
        let name = self.name();
        let correlated = match outer {
            Some(outer) if self.chance(2) => format!(" WHERE {name}.id = {outer}"),
            _ if self.chance(3) => format!(" WHERE {name}.id > {}", self.one_of(30)),
            _ => String::new(),
        };
        let query = format!("SELECT {name}.a FROM {{u}} AS {name}{correlated}");
        let text = match self.one_of(6) {
            0 => format!("{one} IN ({query})"),
            1 => format!("{one} NOT IN ({query})"),
            2 => format!("EXISTS ({query})"),
            3 => format!("{one} = ANY ({query})"),
            4 => format!("{one} {} ({query})", self.pick(&["> ALL", "< ANY", "<> ALL"])),
            _ => {
                let two = self.leaf(Of::Text);
                format!(
                    "({one}, {two}) {}IN (SELECT {name}.a, {name}.s FROM {{u}} AS {name}{correlated})",
                    self.pick(&["", "NOT "])
                )
            }
        };
        self.subqueries += 1;
        format!("({text})")
    }
}
