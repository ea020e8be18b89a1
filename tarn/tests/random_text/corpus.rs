//! Statements that are right, out of the documentation and other tests.

/// Texts that have statements in them.
const SOURCES: [&str; 8] = [
    include_str!("../sql.rs"),
    include_str!("../sql_answers.rs"),
    include_str!("../sql_clients.rs"),
    include_str!("../../../analytics/tests/tables.rs"),
    include_str!("../../../analytics/tests/wire.rs"),
    include_str!("../../../analytics/tests/indexes.rs"),
    include_str!("../../../docs/sql.md"),
    include_str!("../../../docs/search.md"),
];

/// The first words of statements.
const BEGINNINGS: [&str; 10] = [
    "SELECT ",
    "WITH ",
    "EXPLAIN ",
    "SHOW ",
    "CREATE ",
    "DECLARE ",
    "FETCH ",
    "VALUES ",
    "SET ",
    "DESCRIBE ",
];

/// All statements of the sources.
pub(crate) fn statements() -> Vec<String> {
    let mut found = Vec::new();
    for source in SOURCES {
        for beginning in BEGINNINGS {
            for (at, _) in source.match_indices(beginning) {
                let quote = source[..at].chars().next_back().unwrap_or(' ');
                let end = match quote {
                    '"' => source[at..].find(['"', '{']),
                    '`' => source[at..].find('`'),
                    ' ' if source[..at].ends_with("\n    ") => source[at..].find([';', '\n']),
                    _ => None,
                };
                let Some(end) = end else { continue };
                let text = source[at..at + end].replace("\\\n", " ").replace("\\n", " ");
                found.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.len() > 150, "only {} statements are found", found.len());
    found
}
