//! Expressions of `APPLY` and `FILTER`.
//!
//! ```text
//!   or      = and { "||" and }            and     = compare { "&&" compare }
//!   compare = sum [ ("==" "!=" "<" "<=" ">" ">=") sum ]
//!   sum     = product { ("+" "-") product }    product = power { ("*" "/" "%") power }
//!   power   = unary [ "^" power ]
//!   unary   = { "!" "-" } ( "(" or ")" | @name | number | 'text' | call )
//! ```

use super::error::SearchError;

/// Bytes of an expression.
const BYTES_MAX: usize = 64 << 10;
/// Parts of an expression.
const PARTS_MAX: usize = 256;
/// Brackets, signs and calls within each other.
const DEPTH_MAX: usize = 32;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// The value of this name.
    Property(String),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// The opposite.
    Not(Box<Expression>),
    /// Two values and what is made of them.
    Both(Operator, Box<Expression>, Box<Expression>),
    /// A function, in lower case.
    Call(String, Vec<Expression>),
}

/// An operator of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<=`
    LessOrEqual,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
}

/// Operators by how closely they bind, the loosest first; longer signs before their beginnings.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Modulo)],
];

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expression, SearchError> {
    let mut parser = Parser { text, at: 0, parts: 0, depth: 0 };
    if text.len() > BYTES_MAX {
        return Err(parser.refused(format!("it has more than {BYTES_MAX} bytes")));
    }
    let expression = parser.level(0)?;
    match parser.rest() {
        "" => Ok(expression),
        _ => Err(parser.refused("what stands here has no meaning")),
    }
}

struct Parser<'e> {
    text: &'e str,
    at: usize,
    parts: usize,
    depth: usize,
}

impl<'e> Parser<'e> {
    /// The rest of the text, from the next sign on.
    fn rest(&mut self) -> &'e str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.at += sign.len();
        }
        is_next
    }

    /// Takes letters as long as they are such; what they were.
    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'e str {
        let rest = &self.text[self.at..];
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn refused(&self, why: impl std::fmt::Display) -> SearchError {
        SearchError::refused(format!("the expression cannot be read at offset {}: {why}", self.at))
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        self.depth += 1;
        self.parts += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.refused(format!("there are more than {DEPTH_MAX} brackets within each other")));
        }
        if self.parts > PARTS_MAX {
            return Err(self.refused(format!("an expression has at most {PARTS_MAX} parts")));
        }
        let read = read(self)?;
        self.depth -= 1;
        Ok(read)
    }

    fn level(&mut self, level: usize) -> Result<Expression, SearchError> {
        let Some(operators) = LEVELS.get(level) else { return self.power() };
        let mut left = self.level(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            let right = self.level(level + 1)?;
            left = Expression::Both(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<Expression, SearchError> {
        let base = self.deeper(Self::unary)?;
        if !self.take("^") {
            return Ok(base);
        }
        let exponent = self.deeper(Self::power)?;
        Ok(Expression::Both(Operator::Power, Box::new(base), Box::new(exponent)))
    }

    fn unary(&mut self) -> Result<Expression, SearchError> {
        if self.take("!") {
            return Ok(Expression::Not(Box::new(self.deeper(Self::unary)?)));
        }
        if self.take("-") {
            let negated = self.deeper(Self::unary)?;
            let zero = Box::new(Expression::Number(0.0));
            return Ok(Expression::Both(Operator::Subtract, zero, Box::new(negated)));
        }
        self.value()
    }

    fn value(&mut self) -> Result<Expression, SearchError> {
        match self.rest().chars().next() {
            Some('(') => {
                self.at += 1;
                let inner = self.deeper(|parser| parser.level(0))?;
                self.close()?;
                Ok(inner)
            }
            Some('@') => {
                self.at += 1;
                let name = self.take_while(|letter| letter.is_alphanumeric() || "_.$[]".contains(letter));
                match name {
                    "" => Err(self.refused("the name of a field is wanted behind @")),
                    name => Ok(Expression::Property(name.to_owned())),
                }
            }
            Some(quote @ ('"' | '\'')) => self.text(quote),
            Some(letter) if letter.is_ascii_digit() || letter == '.' => self.number(),
            Some(letter) if letter.is_alphabetic() => self.call(),
            _ => Err(self.refused("a field (@name), a number, a 'text', a function or a bracket is wanted")),
        }
    }

    fn close(&mut self) -> Result<(), SearchError> {
        if self.take(")") { Ok(()) } else { Err(self.refused("a ')' is missing")) }
    }

    fn number(&mut self) -> Result<Expression, SearchError> {
        let from = self.at;
        self.take_while(|letter| letter.is_ascii_digit() || letter == '.');
        let behind = &self.text[self.at..];
        if behind.starts_with(['e', 'E']) {
            self.at += 1;
            if self.text[self.at..].starts_with(['+', '-']) {
                self.at += 1;
            }
            self.take_while(|letter| letter.is_ascii_digit());
        }
        let text = &self.text[from..self.at];
        text.parse().map(Expression::Number).map_err(|_| self.refused(format!("'{text}' is no number")))
    }

    fn text(&mut self, quote: char) -> Result<Expression, SearchError> {
        let mut text = String::new();
        let mut letters = self.text[self.at + 1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => text.extend(letters.next().map(|(_, escaped)| escaped)),
                letter if letter == quote => {
                    self.at += 1 + at + 1;
                    return Ok(Expression::Text(text));
                }
                letter => text.push(letter),
            }
        }
        Err(self.refused(format!("a {quote} is missing")))
    }

    fn call(&mut self) -> Result<Expression, SearchError> {
        let name = self.take_while(|letter| letter.is_alphanumeric() || letter == '_').to_ascii_lowercase();
        if !self.take("(") {
            return Err(
                self.refused(format!("'{name}' is no function; fields begin with @, texts stand in quotes"))
            );
        }
        let mut arguments = Vec::new();
        if self.take(")") {
            return Ok(Expression::Call(name, arguments));
        }
        loop {
            arguments.push(self.deeper(|parser| parser.level(0))?);
            if !self.take(",") {
                self.close()?;
                return Ok(Expression::Call(name, arguments));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_binds_closer_comes_first() {
        assert_eq!(parse("1+2*3").unwrap(), parse("1+(2*3)").unwrap());
        assert_eq!(parse("1-2-3").unwrap(), parse("(1-2)-3").unwrap());
        assert_eq!(parse("2^3^4").unwrap(), parse("2^(3^4)").unwrap());
        assert_eq!(parse("@a>1&&@b<2||!@c").unwrap(), parse("((@a>1)&&(@b<2))||(!@c)").unwrap());
        assert_eq!(
            parse(" upper( @name ) ").unwrap(),
            Expression::Call("upper".to_owned(), vec![Expression::Property("name".to_owned())])
        );
        assert_eq!(parse(r#""a\"b""#).unwrap(), Expression::Text("a\"b".to_owned()));
        assert_eq!(parse("1.5e-3").unwrap(), Expression::Number(0.0015));
    }

    #[test]
    fn errors_say_what_is_wanted() {
        for (text, words) in [
            ("", "is wanted"),
            ("1+", "is wanted"),
            ("(1", "')' is missing"),
            ("1)", "no meaning"),
            ("a", "no function"),
            ("'a", "is missing"),
            ("@", "name of a field"),
            ("1.2.3", "no number"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(words), "{text}: {said}");
        }
        for sign in ["(", "!", "-", "2^", "f(", "1+"] {
            parse(&format!("{}1", sign.repeat(30_000))).unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[-+*/%^!&|<>=()@a-e'\"., 0-9\\\\é]{0,60}") {
            let _ = parse(&text);
        }
    }
}
