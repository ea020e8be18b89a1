//! Declarations of tables over keys: which keys a table has, and what each column shows of them.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::logical_expr::CreateExternalTable;
use tarn_engine::record::Kind;
use tarn_engine::value::is_same;
use thiserror::Error;

/// Why a table cannot be declared so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeclarationError {
    /// `STORED AS` names no kind of value.
    #[error("STORED AS {0} is not there: use HASH, STRING, JSON, ZSET, GEO, LIST, SET or STREAM")]
    Shape(String),
    /// The pattern has no `*`, or more than one.
    #[error("LOCATION '{0}' does not have exactly one *, which stands for the part of the key that varies")]
    Pattern(String),
    /// There is not one location.
    #[error("a table has one LOCATION, a key pattern such as 'user:*'")]
    Locations,
    /// There are no columns.
    #[error("a table needs its columns, such as (id TEXT, name TEXT)")]
    NoColumns,
    /// Values of this kind have other columns.
    #[error("a table STORED AS {shape} has {wanted}, not {found} columns")]
    Columns {
        /// The kind.
        shape: Shape,
        /// The columns that it has.
        wanted: &'static str,
        /// How many were declared.
        found: usize,
    },
    /// Values cannot be read as this type.
    #[error(
        "column {column} cannot be of type {data_type}: use BOOLEAN, SMALLINT, INT, BIGINT, REAL, DOUBLE, \
             DECIMAL(p, s), TEXT, BYTEA, DATE or TIMESTAMP"
    )]
    Type {
        /// The column.
        column: String,
        /// Its type, as Arrow names it.
        data_type: String,
    },
    /// An option that is not there.
    #[error("option {0} is not there: use key_column, database, strict, or column.NAME")]
    Option(String),
    /// An option has a value that it cannot have.
    #[error("option {name} cannot be '{value}': {wanted}")]
    Value {
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// The values that it can have.
        wanted: String,
    },
    /// A key has many rows there.
    #[error(
        "a table STORED AS {0} has no indexes; those with one row for each key do: HASH, JSON and STRING"
    )]
    NoIndex(&'static str),
    /// Something that only files have.
    #[error("{0} is for tables of files; a table over keys has none")]
    Clause(&'static str),
}

/// How keys become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A row for each hash, a column for each of its fields that is named.
    Hash,
    /// A row for each string: key and value.
    String,
    /// A row for each JSON document, of `JSON.SET` or in a string; a column for each path.
    Json,
    /// A row for each member of each sorted set: key, member, score.
    ZSet,
    /// A row for each member of each sorted set whose scores are points: key, member, longitude, latitude.
    Geo,
    /// A row for each element of each list: key, index from 0, value.
    List,
    /// A row for each member of each set: key, member.
    Set,
    /// A row for each entry of each stream: its ID, and a column for each of its fields that is named.
    Stream,
}

impl Shape {
    fn layout(self) -> Layout {
        match self {
            Shape::Hash => Layout::Fields,
            Shape::Json => Layout::Documents,
            Shape::String => Layout::Elements(Kind::String),
            Shape::ZSet => Layout::Elements(Kind::ZSet),
            Shape::Geo => Layout::Points,
            Shape::List => Layout::Elements(Kind::List),
            Shape::Set => Layout::Elements(Kind::Set),
            Shape::Stream => Layout::Entries,
        }
    }
}

impl FromStr for Shape {
    type Err = DeclarationError;

    fn from_str(text: &str) -> Result<Shape, DeclarationError> {
        Ok(match text.to_ascii_uppercase().as_str() {
            "HASH" => Shape::Hash,
            "STRING" => Shape::String,
            "JSON" => Shape::Json,
            "ZSET" => Shape::ZSet,
            "GEO" => Shape::Geo,
            "LIST" => Shape::List,
            "SET" => Shape::Set,
            "STREAM" => Shape::Stream,
            _ => return Err(DeclarationError::Shape(text.to_owned())),
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Hash => "HASH",
            Shape::String => "STRING",
            Shape::Json => "JSON",
            Shape::ZSet => "ZSET",
            Shape::Geo => "GEO",
            Shape::List => "LIST",
            Shape::Set => "SET",
            Shape::Stream => "STREAM",
        })
    }
}

/// The keys of a table: the text before and after the part that varies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    prefix: Box<[u8]>,
    suffix: Box<[u8]>,
}

impl Pattern {
    /// All keys that begin so.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Pattern {
        Pattern { prefix: prefix.into(), suffix: Box::default() }
    }

    /// The part of `key` that varies; `None` if the key is none of these.
    #[inline]
    pub(crate) fn varying<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let (prefix, rest) = key.split_at_checked(self.prefix.len())?;
        let (varying, suffix) = rest.split_at_checked(rest.len().checked_sub(self.suffix.len())?)?;
        (is_same(prefix, &self.prefix) && is_same(suffix, &self.suffix)).then_some(varying)
    }

    /// The text before the part that varies, and that after it.
    pub(crate) fn ends(&self) -> (&[u8], &[u8]) {
        (&self.prefix, &self.suffix)
    }

    /// The key of which this part varies.
    pub(crate) fn key_of(&self, varying: &[u8]) -> Vec<u8> {
        [&*self.prefix, varying, &*self.suffix].concat()
    }
}

impl FromStr for Pattern {
    type Err = DeclarationError;

    fn from_str(text: &str) -> Result<Pattern, DeclarationError> {
        let refused = || DeclarationError::Pattern(text.to_owned());
        let (prefix, suffix) = text.split_once('*').ok_or_else(refused)?;
        if suffix.contains('*') {
            return Err(refused());
        }
        Ok(Pattern { prefix: prefix.as_bytes().into(), suffix: suffix.as_bytes().into() })
    }
}

/// The source of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The key, or the part of it that varies.
    Key,
    /// The key, all of it.
    WholeKey,
    /// All fields of a hash (`search::whole`), or the text of a JSON document.
    Whole,
    /// The type of the key's value, by the name that `TYPE` replies.
    Type,
    /// Milliseconds until the key expires; NULL if it does not.
    TtlMs,
    /// Bytes of memory that key and value take.
    Bytes,
    /// A field of a hash, or of an entry of a stream: the first of that name.
    Field(Box<[u8]>),
    /// The value at this path of a JSON document.
    Path(Box<[Step]>),
    /// The value at this path of a JSON document, or each element of an array there: a JSON array of texts.
    Each(Box<[Step]>),
    /// The member of a set, or the name of a field.
    Name,
    /// The string, the element of a list, or the value of a field.
    Value,
    /// The score of a member.
    Score,
    /// The longitude of the point that a score stands for, in degrees.
    Longitude,
    /// The latitude of that point, in degrees.
    Latitude,
    /// The place in a list, from 0.
    Index,
    /// The ID of an entry of a stream.
    Id,
    /// The first part of the ID: milliseconds since the Unix epoch, or a `TIMESTAMP`.
    Ms,
    /// The second part of the ID.
    Seq,
}

impl Source {
    /// The part of an ID that a column of this name shows, where no option says otherwise.
    pub(crate) fn of_id(column: &str) -> Option<Source> {
        match column {
            "id" => Some(Source::Id),
            "ms" => Some(Source::Ms),
            "seq" => Some(Source::Seq),
            _ => None,
        }
    }
}

/// A step of a path into a JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The member of an object.
    Member(Box<str>),
    /// The element of an array, from 0; negative: from its end.
    Element(i64),
}

/// Reads a path such as `$.address.city` or `tags[0]`; the `$` may be left out.
pub(crate) fn parse_path(text: &str) -> Option<Box<[Step]>> {
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    let mut steps = Vec::new();
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        steps.push(Step::Member(rest[..end].into()));
        rest = &rest[end..];
    }
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('.') {
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Member(inner[..end].into()));
            rest = &inner[end..];
        } else {
            let inner = rest.strip_prefix('[')?;
            let end = inner.find(']')?;
            let step = match inner[..end].strip_prefix(['"', '\'']) {
                Some(name) => Step::Member(name.strip_suffix(['"', '\''])?.into()),
                None => Step::Element(inner[..end].parse().ok()?),
            };
            steps.push(step);
            rest = &inner[end + 1..];
        }
    }
    Some(steps.into())
}

/// A table over keys.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    /// How keys become rows.
    pub(crate) shape: Layout,
    /// Its keys.
    pub(crate) pattern: Pattern,
    /// Its columns.
    pub(crate) schema: SchemaRef,
    /// The source of each column.
    pub(crate) sources: Vec<Source>,
    /// The logical database.
    pub(crate) database: u8,
    /// Whether a value that cannot be read as its column's type is an error, not NULL.
    pub(crate) strict: bool,
}

/// How keys become rows, for declared tables and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A row for each key, whatever it holds.
    Keys,
    /// A row for each element of values of this kind; a string is one. Those of streams are the fields of
    /// their entries.
    Elements(Kind),
    /// A row for each member of each sorted set, whose scores are points.
    Points,
    /// A row for each hash.
    Fields,
    /// A row for each JSON document.
    Documents,
    /// A row for each entry of each stream.
    Entries,
}

impl Layout {
    /// How it is declared.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Layout::Keys => "KEYS",
            Layout::Fields => "HASH",
            Layout::Documents => "JSON",
            Layout::Elements(Kind::String) => "STRING",
            Layout::Elements(Kind::List) => "LIST",
            Layout::Elements(Kind::Set) => "SET",
            Layout::Elements(Kind::ZSet) => "ZSET",
            Layout::Points => "GEO",
            Layout::Elements(Kind::Hash | Kind::Json) => "HASHES",
            Layout::Elements(Kind::Stream) => "STREAMS",
            Layout::Entries => "STREAM",
        }
    }

    /// Whether keys that hold this have rows.
    #[inline]
    pub(crate) fn reads(self, kind: Kind) -> bool {
        match self {
            Layout::Keys => true,
            Layout::Elements(wanted) => wanted == kind,
            Layout::Points => kind == Kind::ZSet,
            Layout::Fields => kind == Kind::Hash,
            Layout::Entries => kind == Kind::Stream,
            // Documents were kept in strings before there were any others.
            Layout::Documents => matches!(kind, Kind::Json | Kind::String),
        }
    }
}

impl Declaration {
    /// The declaration in a statement, for a server with this number of databases.
    pub(crate) fn of_statement(
        statement: &CreateExternalTable,
        databases: usize,
    ) -> Result<Declaration, DeclarationError> {
        let shape: Shape = statement.file_type.parse()?;
        let [location] = statement.locations.as_slice() else { return Err(DeclarationError::Locations) };
        let pattern = location.parse()?;
        for (is_there, clause) in [
            (!statement.table_partition_cols.is_empty(), "PARTITIONED BY"),
            (!statement.order_exprs.is_empty(), "WITH ORDER"),
            (statement.unbounded, "UNBOUNDED"),
            (statement.temporary, "TEMPORARY"),
            (!statement.column_defaults.is_empty(), "DEFAULT"),
        ] {
            if is_there {
                return Err(DeclarationError::Clause(clause));
            }
        }
        let fields = statement.schema.fields();
        if fields.is_empty() {
            return Err(DeclarationError::NoColumns);
        }
        for field in fields {
            check_type(field)?;
        }
        let options = Options::read(&statement.options, fields, databases)?;
        let sources = options.sources(shape, fields)?;
        let nullable = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_nullable(true));
        Ok(Declaration {
            shape: shape.layout(),
            pattern,
            schema: Arc::new(Schema::new(fields.iter().map(nullable).collect::<Vec<_>>())),
            sources,
            database: options.database,
            strict: options.strict,
        })
    }
}

impl Declaration {
    /// Whether the values of a column are texts or bytes, just as the store has them.
    pub(crate) fn is_text(&self, column: usize) -> bool {
        use DataType::{Binary, BinaryView, Utf8, Utf8View};
        matches!(self.schema.field(column).data_type(), Utf8 | Utf8View | Binary | BinaryView)
    }

    /// The statement that declares a table so.
    pub(crate) fn to_sql(&self, name: &str) -> String {
        let column = |field: &Arc<Field>| format!("{} {}", quoted(field.name()), sql_type(field.data_type()));
        let columns: Vec<_> = self.schema.fields().iter().map(column).collect();
        let mut options = Vec::new();
        if let Some(at) = self.sources.iter().position(|source| *source == Source::Key).filter(|at| *at > 0) {
            options.push(("key_column".to_owned(), self.schema.field(at).name().clone()));
        }
        if self.database > 0 {
            options.push(("database".to_owned(), self.database.to_string()));
        }
        if self.strict {
            options.push(("strict".to_owned(), "true".to_owned()));
        }
        for (field, source) in self.schema.fields().iter().zip(&self.sources) {
            let named = match source {
                Source::Field(name) => String::from_utf8_lossy(name).into_owned(),
                Source::Path(steps) => path_text(steps),
                _ => continue,
            };
            let is_its_name = match source {
                Source::Field(_)
                    if self.shape == Layout::Entries && Source::of_id(field.name()).is_some() =>
                {
                    false
                }
                Source::Path(steps) => matches!(&**steps, [Step::Member(name)] if **name == **field.name()),
                _ => named == *field.name(),
            };
            if !is_its_name {
                options.push((format!("column.{}", field.name()), named));
            }
        }
        let options: Vec<_> =
            options.iter().map(|(name, value)| format!("{} {}", literal(name), literal(value))).collect();
        let pattern = [&self.pattern.prefix, &self.pattern.suffix].map(|part| String::from_utf8_lossy(part));
        format!(
            "CREATE EXTERNAL TABLE {} ({}) STORED AS {} LOCATION {}{}",
            quoted(name),
            columns.join(", "),
            self.shape.word(),
            literal(&pattern.join("*")),
            if options.is_empty() { String::new() } else { format!(" OPTIONS ({})", options.join(", ")) },
        )
    }
}

/// A name as SQL writes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text, quoted.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn path_text(steps: &[Step]) -> String {
    steps.iter().fold("$".to_owned(), |path, step| match step {
        Step::Member(name) => format!("{path}[\"{name}\"]"),
        Step::Element(index) => format!("{path}[{index}]"),
    })
}

/// A type as SQL writes it.
fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "REAL".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Binary | DataType::BinaryView => "BYTEA".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Timestamp(_, None) => "TIMESTAMP".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        _ => "TEXT".to_owned(),
    }
}

fn check_type(field: &Field) -> Result<(), DeclarationError> {
    match field.data_type() {
        DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Utf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Timestamp(TimeUnit::Nanosecond, _) => Ok(()),
        other => Err(DeclarationError::Type { column: field.name().clone(), data_type: other.to_string() }),
    }
}

/// The `OPTIONS` of a declaration.
struct Options {
    /// Where the key stands.
    key_column: usize,
    database: u8,
    strict: bool,
    /// The field or path of a column, where it is not the column's name.
    named: HashMap<String, String>,
}

impl Options {
    fn read(
        given: &HashMap<String, String>,
        fields: &[Arc<Field>],
        databases: usize,
    ) -> Result<Options, DeclarationError> {
        let mut options = Options { key_column: 0, database: 0, strict: false, named: HashMap::new() };
        let place = |name: &str| fields.iter().position(|field| field.name() == name);
        for (name, value) in given {
            // The planner sets `format.` before what has no dot.
            let name = name.strip_prefix("format.").unwrap_or(name);
            let refused = |wanted: String| DeclarationError::Value {
                name: name.to_owned(),
                value: value.clone(),
                wanted,
            };
            match name {
                "key_column" => {
                    options.key_column =
                        place(value).ok_or_else(|| refused("it is none of the columns".to_owned()))?;
                }
                "database" => {
                    let found = value.parse().ok().filter(|db| usize::from(*db) < databases);
                    options.database =
                        found.ok_or_else(|| refused(format!("use 0 to {}", databases.saturating_sub(1))))?;
                }
                "strict" => {
                    options.strict = value.parse().map_err(|_| refused("use true or false".to_owned()))?;
                }
                _ => {
                    let column = name
                        .strip_prefix("column.")
                        .filter(|column| place(column).is_some())
                        .ok_or_else(|| DeclarationError::Option(name.to_owned()))?;
                    options.named.insert(column.to_owned(), value.clone());
                }
            }
        }
        Ok(options)
    }

    /// The source of each column.
    fn sources(&self, shape: Shape, fields: &[Arc<Field>]) -> Result<Vec<Source>, DeclarationError> {
        let (behind, wanted): (&[Source], _) = match shape {
            Shape::Hash | Shape::Json | Shape::Stream => return self.named_sources(shape, fields),
            Shape::String => (&[Source::Value], "2 columns, for the key and the value"),
            Shape::ZSet => {
                (&[Source::Name, Source::Score], "3 columns, for the key, the member and the score")
            }
            Shape::Geo => (
                &[Source::Name, Source::Longitude, Source::Latitude],
                "4 columns, for the key, the member, the longitude and the latitude",
            ),
            Shape::List => {
                (&[Source::Index, Source::Value], "3 columns, for the key, the index and the value")
            }
            Shape::Set => (&[Source::Name], "2 columns, for the key and the member"),
        };
        if fields.len() != behind.len() + 1 || !self.named.is_empty() {
            return Err(DeclarationError::Columns { shape, wanted, found: fields.len() });
        }
        let mut sources = behind.to_vec();
        sources.insert(self.key_column, Source::Key);
        Ok(sources)
    }

    fn named_sources(&self, shape: Shape, fields: &[Arc<Field>]) -> Result<Vec<Source>, DeclarationError> {
        let source = |(at, field): (usize, &Arc<Field>)| {
            if at == self.key_column {
                return Ok(Source::Key);
            }
            let name = self.named.get(field.name());
            let of_id = Source::of_id(field.name()).filter(|_| shape == Shape::Stream && name.is_none());
            if let Some(source) = of_id {
                return Ok(source);
            }
            let Some(name) = name.filter(|_| shape == Shape::Json) else {
                let name = name.unwrap_or(field.name());
                return Ok(match shape {
                    Shape::Json => Source::Path([Step::Member(name.as_str().into())].into()),
                    _ => Source::Field(name.as_bytes().into()),
                });
            };
            let refused = || DeclarationError::Value {
                name: format!("column.{}", field.name()),
                value: name.clone(),
                wanted: "use a path such as $.address.city or $.tags[0]".to_owned(),
            };
            parse_path(name).map(Source::Path).ok_or_else(refused)
        };
        fields.iter().enumerate().map(source).collect()
    }
}
