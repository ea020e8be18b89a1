//! This module splits JSON into tokens.

use crate::interpreter::library::number;

/// The kind of a token, with its value.
pub(crate) enum Kind {
    /// `{`
    ObjectBegin,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayBegin,
    /// `]`
    ArrayEnd,
    /// A string, without its escapes.
    String(Vec<u8>),
    /// A number.
    Number(f64),
    /// `true` or `false`
    Boolean(bool),
    /// `null`
    Null,
    /// `:`
    Colon,
    /// `,`
    Comma,
    /// The end of the text.
    End,
    /// A text that is no token. The value says what is wrong.
    Error(&'static str),
}

impl Kind {
    /// Returns the name that error messages use.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(text) => text,
        }
    }
}

/// A token and the offset at which it starts, or at which an error is.
pub(crate) struct Token {
    /// The kind of the token.
    pub kind: Kind,
    /// The offset in bytes.
    pub at: usize,
}

/// A `Lexer` reads the tokens of a text. A zero byte ends the text.
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    invalid_numbers: bool,
}

impl<'a> Lexer<'a> {
    /// Starts to read a text. The flag allows numbers that JSON does not have.
    pub(crate) fn new(text: &'a [u8], invalid_numbers: bool) -> Self {
        Lexer { text, at: 0, invalid_numbers }
    }

    /// Returns the offset after the last token.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn byte(&self, offset: usize) -> u8 {
        self.at.checked_add(offset).and_then(|at| self.text.get(at)).copied().unwrap_or(0)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.byte(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Skips the end of an array if it comes next.
    pub(crate) fn skip_array_end(&mut self) -> bool {
        self.skip_blanks();
        let found = self.byte(0) == b']';
        self.at += usize::from(found);
        found
    }

    /// Reads the next token.
    pub(crate) fn next(&mut self) -> Token {
        self.skip_blanks();
        let at = self.at;
        let kind = match self.byte(0) {
            b'{' => self.single(Kind::ObjectBegin),
            b'}' => self.single(Kind::ObjectEnd),
            b'[' => self.single(Kind::ArrayBegin),
            b']' => self.single(Kind::ArrayEnd),
            b':' => self.single(Kind::Colon),
            b',' => self.single(Kind::Comma),
            0 => Kind::End,
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.invalid_numbers && self.is_invalid_number() {
                    Kind::Error("invalid number")
                } else {
                    self.number()
                }
            }
            _ => self.word(),
        };
        let at = if matches!(kind, Kind::Error(_)) { self.at } else { at };
        Token { kind, at }
    }

    fn single(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        kind
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or(b"")
    }

    fn word(&mut self) -> Kind {
        let words = [("true", Kind::Boolean(true)), ("false", Kind::Boolean(false)), ("null", Kind::Null)];
        for (word, kind) in words {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return kind;
            }
        }
        if self.invalid_numbers && self.is_invalid_number() {
            return self.number();
        }
        Kind::Error("invalid token")
    }

    /// Returns true if a number comes next that JSON does not have.
    fn is_invalid_number(&self) -> bool {
        if self.byte(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.byte(0) == b'-');
        let first = self.byte(sign);
        if first == b'0' {
            return matches!(self.byte(sign + 1), b'x' | b'X' | b'0'..=b'9');
        }
        let word = [first, self.byte(sign + 1), self.byte(sign + 2)].map(|c| c.to_ascii_lowercase());
        !first.is_ascii_digit() && (word == *b"inf" || word == *b"nan")
    }

    fn number(&mut self) -> Kind {
        match number::parse_prefix(self.rest()) {
            Some((value, len)) => {
                self.at += len;
                Kind::Number(value)
            }
            None => Kind::Error("invalid number"),
        }
    }

    fn string(&mut self) -> Kind {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.byte(0) {
                b'"' => break,
                0 => return Kind::Error("unexpected end of string"),
                b'\\' => {
                    if let Err(text) = self.escape(&mut out) {
                        return Kind::Error(text);
                    }
                }
                other => {
                    out.push(other);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Kind::String(out)
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let plain = match self.byte(1) {
            c @ (b'"' | b'\\' | b'/') => c,
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => {
                let (code, len) = self.unicode().ok_or("invalid unicode escape code")?;
                out.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += len;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    /// Reads one or two `\uXXXX` parts. Returns the character and the length of its escape.
    fn unicode(&self) -> Option<(char, usize)> {
        let high = self.hex4(2)?;
        if let Some(c) = char::from_u32(high) {
            return Some((c, 6));
        }
        if high >= 0xdc00 || self.byte(6) != b'\\' || self.byte(7) != b'u' {
            return None;
        }
        let low = self.hex4(8).filter(|low| (0xdc00..0xe000).contains(low))?;
        let code = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
        Some((char::from_u32(code)?, 12))
    }

    fn hex4(&self, offset: usize) -> Option<u32> {
        (offset..offset + 4)
            .try_fold(0, |value, at| Some(value * 16 + char::from(self.byte(at)).to_digit(16)?))
    }
}
