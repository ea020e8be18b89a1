//! Collections on which commands run in steps.

use super::{Connection, Running};

/// Elements of a large collection: enough for a command on it to run in steps.
pub(crate) const ELEMENTS: usize = 5_000;

/// A server with collections of every kind.
pub(crate) fn loaded(args: &[&str]) -> (Running, Connection) {
    let running = Running::start(args);
    let mut client = running.connect();
    let mut load = |command: &str, element: fn(usize) -> String| {
        for from in (0..ELEMENTS).step_by(500) {
            let elements: String = (from..from + 500).map(element).collect();
            assert!(!client.ask(&format!("{command}{elements}")).starts_with('-'));
        }
    };
    load("HSET h", |number| format!(" field:{number} value:{number}"));
    load("SADD s", |number| format!(" member:{number}"));
    load("SADD t", |number| format!(" member:{}", number * 2));
    load("ZADD z", |number| format!(" {} member:{number}", number % 77));
    load("ZADD y", |number| format!(" {number} member:{}", number * 3));
    load("GEOADD geo", |number| {
        let (east, north) = (number % 100, number / 100);
        format!(" {:.2} {:.2} member:{number}", east as f64 / 10.0 - 5.0, north as f64 / 10.0)
    });
    load("RPUSH l", |number| format!(" {}", number * 7919 % ELEMENTS));
    load("MSET", |number| format!(" key:{number} v"));
    client.ask(&format!("SET a {}", "abcdefghij".repeat(60)));
    client.ask(&format!("SET b {}", "jihgfedcba".repeat(60)));
    client.ask("SET short abc");
    client.ask(&format!("SET broad {}", "xaybzc".repeat(5_000)));
    client.ask("SETRANGE giant 3000000 x");
    (running, client)
}

/// The reply to a command within a transaction, which runs in no steps.
pub(crate) fn at_once(client: &mut Connection, command: &str) -> String {
    assert_eq!((client.ask("MULTI"), client.ask(command)), ("+OK".to_owned(), "+QUEUED".to_owned()));
    let reply = client.whole("EXEC");
    reply.strip_prefix("*[").and_then(|reply| reply.strip_suffix(']')).unwrap().to_owned()
}
