//! Bounds the depth and the size of statements, so that planning one cannot overflow the stack of a thread.
//!
//! ```text
//!   text ─ pieces ≤ 1,000,000 ─ tokens ─ depth ≤ 2,000 ─ parser ─ planner ─ parts of the plan ≤ 10,000 ─ …
//! ```
//!
//! The parser bounds its own nesting, but chains (`1 + 1 + …`, `UNION`, `JOIN`) become trees as deep as the
//! chain is long. Code that walks such a tree, or only drops it, recurses as deep, and a stack overflow ends
//! the whole server. So the depth is bounded from above before anything is parsed, by the tokens that can
//! make a tree deeper: operators, keywords and parentheses, between two commas.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::QueryError;

/// Bytes of the stack that a thread needs which runs statements. Most of them are never touched.
pub const STACK_BYTES: usize = 128 << 20;

/// Words, signs and spaces of a statement.
const PIECES_MAX: usize = 1_000_000;
/// Depth of what a statement is parsed to.
const DEPTH_MAX: usize = 2_000;
/// As how many levels an operator counts that is a function in a plan: a plan with a chain of them is made in
/// the square of its length, and nothing stops that (`docs/design/0030`).
const FUNCTION_DEPTH: usize = 10;
/// How much deeper a join or a union is than an operator: it becomes several steps of a plan.
const JOIN_DEPTH: usize = 4;
/// Parts of a plan.
const PARTS_MAX: usize = 10_000;
/// Centroids of an approximate percentile.
const CENTROIDS_MAX: i64 = 10_000;

/// Refuses a text that is too much for the parser, or what it parses to for the planner.
pub(crate) fn check_text(sql: &str, dialect: &dyn Dialect) -> Result<(), QueryError> {
    if pieces(sql) > PIECES_MAX {
        return Err(QueryError::TooComplex(format!("more than {PIECES_MAX} words and signs")));
    }
    // A text that cannot be tokenized is refused by the parser, in better words.
    let Ok(tokens) = Tokenizer::new(dialect, sql).tokenize() else { return Ok(()) };
    if depth(&tokens) > DEPTH_MAX {
        return Err(QueryError::TooComplex(format!(
            "operators and nested parts that are more than {DEPTH_MAX} deep"
        )));
    }
    Ok(())
}

/// Refuses a plan that grew, by names that stand for much, to more than a planner can finish, and one with a
/// function that would make room for too much.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<(), QueryError> {
    let (mut parts, mut is_too_fine) = (0, false);
    plan.apply_with_subqueries(|step| {
        parts += 1;
        step.apply_expressions(|expression| {
            expression.apply(|part| {
                is_too_fine |= is_too_fine_percentile(part);
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(if parts > PARTS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match () {
        () if parts > PARTS_MAX => Err(QueryError::TooComplex(format!("more than {PARTS_MAX} steps"))),
        () if is_too_fine => Err(QueryError::TooComplex(format!(
            "a percentile by other than a number of centroids up to {CENTROIDS_MAX}"
        ))),
        () => Ok(()),
    }
}

/// Whether a function computes a percentile by more centroids than there may be. There is room for all of
/// them before it sees a row.
fn is_too_fine_percentile(part: &Expr) -> bool {
    let Expr::AggregateFunction(function) = part else { return false };
    let place = match function.func.name() {
        "approx_percentile_cont" => 2,
        "approx_percentile_cont_with_weight" => 3,
        _ => return false,
    };
    let number = |value: &ScalarValue| match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => number,
        _ => None,
    };
    function.params.args.get(place).is_some_and(|centroids| match centroids {
        Expr::Literal(value, _) => number(value).is_none_or(|count| count > CENTROIDS_MAX),
        _ => true,
    })
}

/// At least as many as there will be tokens.
fn pieces(sql: &str) -> usize {
    let mut is_in_word = false;
    let begins = |letter: char| {
        let is_word = letter.is_alphanumeric() || letter == '_';
        let begins = !(is_word && is_in_word);
        is_in_word = is_word;
        begins
    };
    sql.chars().map(begins).filter(|begins| *begins).count()
}

/// The text between two parentheses, or outside of all.
#[derive(Default)]
struct Level {
    /// Depth that commas do not end.
    lasting: usize,
    /// Depth since the last comma.
    here: usize,
    /// The deepest of what stands in parentheses since the last comma.
    inside: usize,
    /// The deepest until the last comma.
    deepest: usize,
    /// A comma joins tables.
    joins: bool,
    /// A group in parentheses may be built on an earlier group.
    builds: bool,
}

impl Level {
    fn comma(&mut self) {
        self.deepest = self.depth_here();
        (self.here, self.inside) = (0, 0);
        if self.joins {
            self.lasting += JOIN_DEPTH;
        }
    }

    fn word(&mut self, word: Keyword) {
        match word {
            Keyword::NoKeyword => return,
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                self.lasting += JOIN_DEPTH;
            }
            Keyword::JOIN | Keyword::APPLY => self.lasting += JOIN_DEPTH,
            Keyword::FROM => self.joins = true,
            Keyword::WITH => self.builds = true,
            _ => {}
        }
        self.here += 1;
    }

    fn depth_here(&self) -> usize {
        self.deepest.max(self.here + self.inside)
    }

    fn depth(&self) -> usize {
        self.lasting + self.depth_here()
    }
}

/// At least as deep as what these tokens are parsed to.
fn depth(tokens: &[Token]) -> usize {
    let mut levels = vec![Level::default()];
    let mut deepest = 0;
    for token in tokens {
        let innermost = levels.len() - 1;
        let level = &mut levels[innermost];
        match token {
            Token::Whitespace(_) => {}
            Token::Comma => level.comma(),
            Token::Word(word) if word.quote_style.is_none() => level.word(word.keyword),
            Token::Word(_) | Token::Number(..) | Token::Placeholder(_) => {}
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => {}
            Token::SemiColon if innermost == 0 => {
                deepest = deepest.max(level.depth());
                *level = Level::default();
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                level.here += 1;
                levels.push(Level::default());
            }
            Token::RParen | Token::RBracket | Token::RBrace if innermost > 0 => {
                let inside = level.depth();
                levels.pop();
                let outer = &mut levels[innermost - 1];
                outer.inside = outer.inside.max(inside);
                if outer.builds {
                    outer.lasting += inside;
                }
            }
            Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod => level.here += FUNCTION_DEPTH,
            Token::Caret | Token::StringConcat => level.here += FUNCTION_DEPTH,
            _ => level.here += 1,
        }
    }
    // A group that is not closed counts as if it were.
    levels.iter().map(Level::depth).sum::<usize>().max(deepest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    fn depth_of(sql: &str) -> usize {
        depth(&Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().expect("tokens"))
    }

    #[test]
    fn chains_are_as_deep_as_they_are_long() {
        for link in ["+1", " OR true", "::int", " UNION SELECT 1,1", "[1]", "(1)", " IS NOT NULL", ".a"] {
            let sql = format!("SELECT 1{}", link.repeat(1000));
            assert!((1000..12_000).contains(&depth_of(&sql)), "{link}: {}", depth_of(&sql));
        }
        for chain in [", a", " JOIN a ON true", ", (SELECT 1) a"] {
            let sql = format!("SELECT 1 FROM a{}", chain.repeat(1000));
            assert!(depth_of(&sql) >= 1000, "{chain}");
        }
        let built: String = (1..1000).map(|i| format!(", a{i} AS (SELECT 1 FROM a{})", i - 1)).collect();
        assert!(depth_of(&format!("WITH a0 AS (SELECT 1){built} SELECT 1")) >= 1000);
        assert!(depth_of(&"(".repeat(1000)) >= 1000);
    }

    #[test]
    fn chains_of_functions_are_refused_earlier() {
        for link in ["+1", "-1", "*1", "/1", "%1", "^1", "||1"] {
            assert!(depth_of(&format!("SELECT 1{}", link.repeat(199))) < DEPTH_MAX, "{link}");
            assert!(depth_of(&format!("SELECT 1{}", link.repeat(200))) > DEPTH_MAX, "{link}");
        }
        assert!(depth_of(&format!("SELECT 1{}", " OR a = 1".repeat(900))) < DEPTH_MAX);
    }

    #[test]
    fn lists_are_not_deep() {
        let list: String = (0..100_000).map(|i| format!(", 'k{i}'")).collect();
        assert!(check_text(&format!("SELECT 1 WHERE 'k' IN ('k'{list})"), &PostgreSqlDialect {}).is_ok());
        let rows: String = (0..50_000).map(|i| format!(",({i} + 1, -{i})")).collect();
        assert!(depth_of(&format!("SELECT * FROM (VALUES (0, 0){rows}) t")) < 50);
        assert!(depth_of(&"SELECT 1 + 1;".repeat(10_000)) < 40);
        let columns: String = (0..1000).map(|i| format!(", a + {i} AS a{i}")).collect();
        assert!(depth_of(&format!("SELECT 1{columns} FROM t")) < 40);
    }

    #[test]
    fn too_many_pieces_are_refused_before_they_are_read() {
        let spaces = " ".repeat(PIECES_MAX + 1);
        assert!(check_text(&spaces, &PostgreSqlDialect {}).is_err());
        assert!(check_text(&"x".repeat(2 * PIECES_MAX), &PostgreSqlDialect {}).is_ok());
    }
}
