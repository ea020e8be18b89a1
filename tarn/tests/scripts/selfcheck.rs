//! Tests the player itself: small scripts are played against a server that gives prepared answers, right or
//! wrong.

use crate::player;
use crate::script::Script;
use crate::server::Kind;
use libtest_mimic::Trial;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

/// A name, the commands and replies of a script, the server's answers to each command in turn, and a part of
/// the player's complaint; empty: nothing.
type Case = (&'static str, &'static str, &'static [&'static str], &'static str);

const CASES: &[Case] = &[
    ("right_replies_pass", "GET k\nDEL k\n---\n\"v\"\n(integer) 1", &["$1\r\nv\r\n", ":1\r\n"], ""),
    ("a_wrong_string", "GET k\n---\n\"v\"", &["$1\r\nw\r\n"], "written: \"v\"\n  replied: \"w\""),
    ("a_wrong_number", "DEL k\n---\n(integer) 1", &[":2\r\n"], "replied: (integer) 2"),
    ("a_number_for_a_string", "GET k\n---\n\"1\"", &[":1\r\n"], "replied: (integer) 1"),
    ("a_simple_string_for_a_bulk_string", "PING\n---\nPONG", &["$4\r\nPONG\r\n"], "replied: \"PONG\""),
    ("another_kind_of_nothing", "GET k\n---\n(nil)", &["*-1\r\n"], "replied: (nil array)"),
    (
        "a_missing_error",
        "INCR k\n---\n(error) ERR no",
        &["+OK\r\n"],
        "written: (error) ERR no\n  replied: OK",
    ),
    ("another_error", "INCR k\n---\n(error) ERR no", &["-ERR not\r\n"], "replied: (error) ERR not"),
    ("an_error_out_of_place", "GET k\n---\n\"v\"", &["-ERR no\r\n"], "replied: (error) ERR no"),
    ("a_missing_element", "KEYS *\n---\n[\"a\", \"b\"]", &["*1\r\n$1\r\na\r\n"], "replied: [\"a\"]"),
    (
        "elements_in_another_order",
        "LRANGE l 0 -1\n---\n[\"a\", \"b\"]",
        &["*2\r\n$1\r\nb\r\n$1\r\na\r\n"],
        "replied: [\"b\", \"a\"]",
    ),
    (
        "any_order_where_it_is_free",
        "@unordered KEYS *\n---\n[\"a\", \"b\"]",
        &["*2\r\n$1\r\nb\r\n$1\r\na\r\n"],
        "",
    ),
    (
        "a_missing_element_where_order_is_free",
        "@unordered KEYS *\n---\n[\"a\", \"b\"]",
        &["*1\r\n$1\r\nb\r\n"],
        "replied: [\"b\"]",
    ),
    ("another_count", "@count KEYS *\n---\n(2 elements)", &["*1\r\n$1\r\nb\r\n"], "replied: (1 element"),
    ("what_a_pattern_does_not_fit", "@match GET k\n---\n\"a*c\"", &["$3\r\nabd\r\n"], "replied: \"abd\""),
    ("what_a_pattern_fits", "@match GET k\n---\n\"a*c\"", &["$3\r\nabc\r\n"], ""),
    (
        "a_reply_more_at_the_end",
        "GET k\n---\n\"v\"",
        &["$1\r\nv\r\n+OK\r\n"],
        "more came on connection main than was asked for",
    ),
    (
        "a_reply_more_within",
        "GET k\nGET k\n---\n\"v\"\n\"v\"",
        &["$1\r\nv\r\n+OK\r\n", "$1\r\nv\r\n"],
        "written: \"v\"\n  replied: OK",
    ),
    ("a_server_that_hangs_up", "GET k\n---\n\"v\"", &[], "replied: (closed)"),
    ("half_a_reply", "GET k\n---\n\"v\"", &["$5\r\nab"], "GET k"),
    ("a_script_without_replies", "GET k", &[], "no replies are written"),
];

/// A test for each case, and one for scripts that are written wrongly.
pub(crate) fn trials() -> Vec<Trial> {
    let played = CASES.iter().map(|(name, body, answers, expected)| {
        Trial::test(format!("selfcheck::{name}"), move || {
            let said = play(body, answers)?;
            let seen = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
            if seen { Ok(()) } else { Err(format!("{expected:?} is not in {said:?}").into()) }
        })
    });
    let refused = [
        ("too_few_replies_are_refused", "GET k\nGET k\n---\n(nil)", "2 replies are due here, 1 are written"),
        ("too_many_replies_are_refused", "GET k\n---\n(nil)\n(nil)", "1 replies are due here, 2 are written"),
        ("unknown_directives_are_refused", "@sometimes GET k\n---\n(nil)", "@sometimes is no directive"),
        ("open_brackets_are_refused", "KEYS *\n---\n[\"a\"", "a bracket is not closed"),
    ];
    let refused = refused.into_iter().map(|(name, body, expected)| {
        Trial::test(format!("selfcheck::{name}"), move || match script(body) {
            Err(problem) if problem.contains(expected) => Ok(()),
            Err(problem) => Err(format!("{expected:?} is not in {problem:?}").into()),
            Ok(_) => Err("the script is taken".into()),
        })
    });
    played.chain(refused).collect()
}

fn script(body: &str) -> Result<Script, String> {
    Script::parse("selfcheck".to_owned(), Path::new("selfcheck.txt"), format!("# A case.\n\n{body}\n"))
}

/// The player's output for these answers, failures included.
fn play(body: &str, answers: &'static [&'static str]) -> Result<String, String> {
    let script = script(body)?;
    let shown = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").map_err(shown)?;
    let address = listener.local_addr().map_err(shown)?.to_string();
    // A script that sends nothing leaves the thread waiting; it ends with the process.
    std::thread::spawn(move || answer(&listener, answers));
    match player::compare(&script, &address, Kind::Tarn) {
        Ok(problems) => Ok(problems.join("\n")),
        Err(problem) => Ok(problem),
    }
}

/// Gives one answer to each request of one client and hangs up, without any answers after the first request.
fn answer(listener: &TcpListener, answers: &[&str]) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let nothing = answers.is_empty().then_some(&"");
    let mut request = [0; 1024];
    for answer in answers.iter().chain(nothing) {
        if !stream.read(&mut request).is_ok_and(|count| count > 0)
            || stream.write_all(answer.as_bytes()).is_err()
        {
            return;
        }
    }
}
