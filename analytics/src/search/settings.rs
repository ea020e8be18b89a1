//! `FT.CONFIG`: the limits of search by the names that RediSearch has for them. They are fixed.

use super::cursor::CURSORS_MAX;
use super::error::SearchError;
use super::find::SHOWN_MAX;
use super::options::IDLE_MAX;
use super::tree::Tree;
use super::words::Words;

/// A limit: its name, its meaning, its value.
type Setting = (&'static str, &'static str, String);

fn settings() -> [Setting; 7] {
    [
        ("CURSOR_MAX_IDLE", "Milliseconds that a cursor may stay idle", IDLE_MAX.as_millis().to_string()),
        ("DEFAULT_DIALECT", "The dialect of queries", "2".to_owned()),
        ("INDEX_CURSOR_LIMIT", "Cursors at a time, of all indexes", CURSORS_MAX.to_string()),
        ("MAXAGGREGATERESULTS", "Rows of FT.AGGREGATE: no limit", "-1".to_owned()),
        ("MAXSEARCHRESULTS", "Keys that FT.SEARCH may skip and show", SHOWN_MAX.to_string()),
        ("MINPREFIX", "Letters before the * of a query", "1".to_owned()),
        ("TIMEOUT", "Milliseconds that a query may take: no limit, unless it says TIMEOUT", "0".to_owned()),
    ]
}

/// The reply to what follows `FT.CONFIG`.
pub(super) fn config(words: &mut Words<'_>, is_resp3: bool) -> Result<Tree, SearchError> {
    let what = words.next("GET, SET or HELP")?.to_ascii_uppercase();
    let name = words.next("the name of an option")?.to_ascii_uppercase();
    let mut named = settings().into_iter().filter(|(known, ..)| name == "*" || name == *known);
    match what.as_str() {
        "GET" if is_resp3 => {
            Ok(Tree::Map(named.map(|(name, _, value)| (Tree::text(name), Tree::text(value))).collect()))
        }
        "GET" => {
            Ok(Tree::Array(named.map(|(name, _, value)| Tree::texts([name.to_owned(), value])).collect()))
        }
        "HELP" if is_resp3 => {
            let described = |(name, meaning, value): Setting| {
                let about = [("Description", Tree::text(meaning)), ("Value", Tree::text(value))];
                (Tree::text(name), Tree::map(about))
            };
            Ok(Tree::Map(named.map(described).collect()))
        }
        "HELP" => {
            let described = |(name, meaning, value): Setting| {
                Tree::texts([name, "Description", meaning, "Value", &value])
            };
            Ok(Tree::Array(named.map(described).collect()))
        }
        "SET" => {
            let wanted = words.next("a value")?;
            match named.next() {
                None => Err(SearchError::refused(format!("No such option `{name}`"))),
                Some((.., value)) if value == wanted => Ok(Tree::Simple("OK")),
                Some((.., value)) => {
                    Err(SearchError::refused(format!("{name} is fixed: it is {value}, not {wanted}")))
                }
            }
        }
        _ => Err(SearchError::refused(format!("FT.CONFIG {what} is not there: there are GET, SET and HELP"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ask(text: &str, is_resp3: bool) -> Result<Tree, SearchError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        config(&mut Words::new(&words), is_resp3)
    }

    #[test]
    fn limits_are_shown_and_cannot_be_changed() {
        let pair = Tree::texts(["DEFAULT_DIALECT", "2"]);
        assert_eq!(ask("get default_dialect", false).unwrap(), Tree::Array(vec![pair]));
        let Tree::Map(all) = ask("GET *", true).unwrap() else { panic!("a map") };
        assert_eq!(all.len(), settings().len());
        assert_eq!(ask("GET NOTHING", false).unwrap(), Tree::Array(Vec::new()));
        assert_eq!(ask("SET DEFAULT_DIALECT 2", false).unwrap(), Tree::Simple("OK"));
        for (text, why) in [
            ("SET DEFAULT_DIALECT 3", "ERR DEFAULT_DIALECT is fixed: it is 2, not 3"),
            ("SET NOTHING 3", "ERR No such option `NOTHING`"),
            ("SET TIMEOUT", "ERR a value is missing at the end of the command"),
            ("RESET TIMEOUT", "ERR FT.CONFIG RESET is not there: there are GET, SET and HELP"),
        ] {
            assert_eq!(ask(text, false).unwrap_err().to_string(), why);
        }
    }
}
