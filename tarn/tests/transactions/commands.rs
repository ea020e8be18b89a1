//! Random commands whose replies leave nothing to chance.

use rand::Rng;
use rand::rngs::SmallRng;

/// `{k}` stands for a key, `{n}` for a small number, `{e}` for an element, `{d}` for a database.
const COMMANDS: &[&str] = &[
    "SET {k} {n}",
    "SET {k} {n} XX",
    "SET {k} {n} GET",
    "SET {k} {n} EXAT 99999999999",
    "SET {k} v{n} KEEPTTL",
    "GET {k}",
    "GETSET {k} {n}",
    "GETDEL {k}",
    "GETEX {k} PERSIST",
    "APPEND {k} {e}",
    "STRLEN {k}",
    "SETRANGE {k} {n} {e}",
    "GETRANGE {k} 0 {n}",
    "INCR {k}",
    "INCRBY {k} {n}",
    "DECRBY {k} {n}",
    "INCRBYFLOAT {k} 0.5",
    "SETBIT {k} {n} 1",
    "SETBIT {k} {n} 0",
    "BITCOUNT {k}",
    "BITOP OR {k} {k} {k}",
    "BITFIELD {k} INCRBY u8 {n} 3",
    "MSET {k} {n} {k} {n}",
    "MSETNX {k} {n} {k} {n}",
    "MGET {k} {k} {k}",
    "SETNX {k} {n}",
    "DEL {k}",
    "DEL {k} {k}",
    "UNLINK {k}",
    "EXISTS {k} {k}",
    "TYPE {k}",
    "RENAME {k} {k}",
    "RENAMENX {k} {k}",
    "COPY {k} {k}",
    "COPY {k} {k} DB {d} REPLACE",
    "MOVE {k} {d}",
    "EXPIREAT {k} 99999999999",
    "EXPIREAT {k} 1",
    "EXPIRETIME {k}",
    "PERSIST {k}",
    "OBJECT ENCODING {k}",
    "LPUSH {k} {e}",
    "RPUSH {k} {e} {e}",
    "RPUSHX {k} {e}",
    "LPOP {k}",
    "RPOP {k} {n}",
    "LLEN {k}",
    "LRANGE {k} 0 {n}",
    "LINDEX {k} {n}",
    "LSET {k} {n} {e}",
    "LINSERT {k} BEFORE {e} {e}",
    "LREM {k} 0 {e}",
    "LTRIM {k} 1 -1",
    "LMOVE {k} {k} LEFT RIGHT",
    "RPOPLPUSH {k} {k}",
    "LMPOP 2 {k} {k} LEFT COUNT 2",
    "LPOS {k} {e}",
    "SADD {k} {e} {e}",
    "SREM {k} {e}",
    "SMOVE {k} {k} {e}",
    "SCARD {k}",
    "SISMEMBER {k} {e}",
    "SUNIONSTORE {k} {k} {k}",
    "SINTERSTORE {k} {k} {k}",
    "SDIFFSTORE {k} {k} {k}",
    "SORT {k} ALPHA",
    "SORT {k} ALPHA STORE {k}",
    "SORT {k} ALPHA GET # GET {k}",
    "HSET {k} {e} {n}",
    "HSETNX {k} {e} {n}",
    "HDEL {k} {e}",
    "HGET {k} {e}",
    "HMGET {k} {e} {e}",
    "HINCRBY {k} {e} {n}",
    "HLEN {k}",
    "HEXISTS {k} {e}",
    "ZADD {k} {n} {e}",
    "ZADD {k} NX {n} {e} {n} {e}",
    "ZADD {k} GT CH {n} {e}",
    "ZREM {k} {e}",
    "ZINCRBY {k} {n} {e}",
    "ZRANGE {k} 0 -1 WITHSCORES",
    "ZRANGESTORE {k} {k} 0 {n}",
    "ZUNIONSTORE {k} 2 {k} {k}",
    "ZINTERSTORE {k} 2 {k} {k}",
    "ZPOPMIN {k}",
    "ZPOPMAX {k} 2",
    "ZSCORE {k} {e}",
    "ZREMRANGEBYSCORE {k} 0 {n}",
    "ZMPOP 2 {k} {k} MIN",
    "SELECT {d}",
    "DBSIZE",
    "PING",
    "ECHO {e}",
];

/// Commands that change whole databases: rarer.
const WHOLE: &[&str] = &["FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "SWAPDB {d} 2", "SWAPDB 0 0"];

/// Commands that would wait.
pub(crate) const WAITING: &[&str] = &[
    "BLPOP {k} {k} 0",
    "BRPOP {k} 0",
    "BLMOVE {k} {k} LEFT LEFT 0",
    "BRPOPLPUSH {k} {k} 0",
    "BLMPOP 0 1 {k} LEFT",
    "BZPOPMIN {k} 0",
    "BZMPOP 0 1 {k} MAX",
    "WAIT 1 0",
];

/// Builds the collections that are large from the beginning.
pub(crate) fn large() -> Vec<String> {
    let numbers = || 0..300;
    let join = |word: &dyn Fn(i32) -> String| numbers().map(word).collect::<Vec<_>>().join(" ");
    vec![
        format!("RPUSH k0 {}", join(&|i| format!("e{}", i % 7))),
        format!("HSET k1 {}", join(&|i| format!("f{i} {i}"))),
        format!("ZADD k2 {}", join(&|i| format!("{i} m{i}"))),
        format!("SADD k3 {}", join(&|i| format!("m{i}"))),
        format!("SET k4 {}", "x".repeat(5_000)),
    ]
}

fn fill_in(rng: &mut SmallRng, pattern: &str) -> String {
    let mut text = String::new();
    for (at, part) in pattern.split(['{', '}']).enumerate() {
        match (at % 2, part) {
            (0, literal) => text.push_str(literal),
            (_, "k") => text.push_str(&format!("k{}", rng.random_range(0..7))),
            (_, "n") => text.push_str(&rng.random_range(0..9).to_string()),
            (_, "e") => text.push_str(&format!("e{}", rng.random_range(0..7))),
            _ => text.push_str(&rng.random_range(0..3).to_string()),
        }
    }
    text
}

/// Any command that does not wait.
pub(crate) fn any(rng: &mut SmallRng) -> String {
    let among = if rng.random_bool(0.03) { WHOLE } else { COMMANDS };
    let pattern = among[rng.random_range(0..among.len())];
    fill_in(rng, pattern)
}

/// Any command, those included that would wait outside of a transaction.
pub(crate) fn any_in_transaction(rng: &mut SmallRng) -> String {
    if rng.random_bool(0.05) {
        let pattern = WAITING[rng.random_range(0..WAITING.len())];
        return fill_in(rng, pattern);
    }
    any(rng)
}
