//! Single requests, whose replies a real `redis-server` knows.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_resp::Frame;

use crate::client::Client;
use crate::commands_of;
use crate::running::Running;
use crate::running::redis::Redis;
use crate::words::{BEGINNING, Words, request, show};

/// Commands that chance, the clock or the server itself answers, or that wait, or that end something.
const LEFT_OUT: &str = "object|encoding shutdown debug config config|set config|get config|rewrite \
    config|resetstat client client|pause client|kill client|list client|info client|id \
    client|reply client|unpause sync psync replicaof slaveof failover monitor info time \
    randomkey spop srandmember hrandfield zrandmember quit lastsave save bgsave \
    bgrewriteaof command command|docs command|info command|list command|count \
    slowlog|get slowlog|len memory|usage memory|stats memory|doctor memory|malloc-stats hello wait waitaof \
    blpop brpop blmove brpoplpush bzpopmin bzpopmax blmpop bzmpop dump object|freq \
    object|idletime object|refcount client|no-touch client|setinfo \
    reset auth client|tracking multi exec scan hscan \
    subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe \
    module module|list module|load module|loadex module|unload acl|genpass \
    sscan zscan select restore migrate client|no-evict client|unblock role lolwut latency script|debug";

/// Commands by which a key gets a time to live.
const EXPIRING: &[&str] = &["set", "getex", "setex", "psetex", "expire", "pexpire", "expireat", "pexpireat"];

/// Commands that take a fourth word since a later version of Redis.
const LONGER: &[&str] = &["zrank", "zrevrank"];

/// Commands whose replies have no defined order.
const UNORDERED: &[&str] =
    &["keys", "smembers", "sunion", "sinter", "sdiff", "hgetall", "hkeys", "hvals", "config|get"];

/// Commands whose keys Redis looks for without reading all options as the command does.
const FOUND_OTHERWISE: &[&str] = &["sort", "georadius", "georadiusbymember", "xread", "xreadgroup"];

/// The question for the keys of a request; the request itself where the servers find others. A number of keys
/// that is written oddly, such as 1e3, is 1 for that question to Redis.
fn about_keys(words: Words) -> Words {
    let is_odd = |word: &Vec<u8>| {
        let text = String::from_utf8_lossy(word);
        let begins_as_number = text
            .trim_start()
            .trim_start_matches(['-', '+'])
            .starts_with(|first: char| first.is_ascii_digit());
        begins_as_number && text.parse::<i64>().ok().is_none_or(|number| number.to_string() != text)
    };
    let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
    if FOUND_OTHERWISE.contains(&name.as_str()) || words.iter().any(is_odd) {
        return words;
    }
    ["COMMAND", "GETKEYSANDFLAGS"].into_iter().map(|word| word.as_bytes().to_vec()).chain(words).collect()
}

fn parts(frame: &Frame) -> Vec<String> {
    match frame {
        Frame::Array(frames) | Frame::Set(frames) => frames.iter().map(Frame::to_string).collect(),
        Frame::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [key.to_string(), value.to_string()]).collect()
        }
        other => vec![other.to_string()],
    }
}

/// True if two replies are the same, or differ only as they may.
fn equal(words: &Words, ours: &Frame, theirs: &Frame) -> bool {
    let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
    // Each server lists its own subcommands, and finds keys of its own commands.
    let is_help = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"help"));
    let is_absent = *ours == Frame::error("ERR Invalid command specified") && name == "command";
    if is_help || is_absent {
        return true;
    }
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    if UNORDERED.contains(&name.as_str()) {
        let (mut one, mut other) = (parts(&ours), parts(&theirs));
        one.sort_unstable();
        other.sort_unstable();
        return one == other;
    }
    for frame in [&mut ours, &mut theirs] {
        if let Frame::Error(text) = frame {
            *text = essence(text);
        }
    }
    ours == theirs
}

/// Deletes a key that is going to expire, at both: they would not do it in the same moment.
fn forget(words: &Words, ours: &mut Client, theirs: &mut Client) {
    let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
    if let (true, Some(key)) = (EXPIRING.contains(&name.as_str()), words.get(1)) {
        let expires = |client: &mut Client| client.ask(&[&b"PTTL"[..], key]) != Frame::Integer(-1);
        if expires(ours) | expires(theirs) {
            for client in [ours, theirs] {
                client.ask(&[&b"DEL"[..], key]);
            }
        }
    }
}

/// An error without the parts that differ by design.
fn essence(text: &[u8]) -> Vec<u8> {
    // Bytes that are no UTF-8 are shown as such.
    String::from_utf8_lossy(text).into_owned().into_bytes()
}

#[test]
fn single_requests_are_answered_as_redis_answers_them() {
    let Some(redis) = Redis::start() else {
        eprintln!("left out: redis-server is not on the PATH");
        return;
    };
    let tarn = Running::start(&["--threads", "2"]);
    let (mut ours, mut theirs) = (Client::connect(tarn.port), Client::connect(redis.port));
    let known: BTreeMap<String, i64> =
        commands_of(&mut theirs).into_iter().map(|known| (known.name, known.arity)).collect();
    let mut commands = commands_of(&mut ours);
    let left_out: Vec<&str> = LEFT_OUT.split_whitespace().collect();
    commands
        .retain(|command| known.contains_key(&command.name) && !left_out.contains(&command.name.as_str()));
    let mut differences = Vec::new();
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(60)) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut told = Vec::new();
        let protocol = if rng.random() { "2" } else { "3" };
        for client in [&mut ours, &mut theirs] {
            client.ask(&["FLUSHALL"]);
            client.ask(&["RESET"]);
            client.ask(&["HELLO", protocol]);
            BEGINNING.iter().for_each(|request| assert!(!client.ask(request).is_error(), "{request:?}"));
        }
        // Every second round runs in steps what can.
        let steps_from = if seed.is_multiple_of(2) { "0" } else { "1024" };
        assert!(!ours.ask(&["DEBUG", "STEPS-FROM", steps_from]).is_error());
        for _ in 0..200 {
            let words = request(&mut rng, &commands);
            let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
            let is_longer = LONGER.contains(&name.as_str()) && words.len() > 3;
            if left_out.contains(&name.as_str()) || is_longer {
                continue;
            }
            let words = if rng.random_ratio(1, 8) { about_keys(words) } else { words };
            let (reply, expected) = (ours.ask(&words), theirs.ask(&words));
            forget(&words, &mut ours, &mut theirs);
            told.push(format!("{} -> {expected}", show(&words)));
            if !equal(&words, &reply, &expected) {
                let before = told[told.len().saturating_sub(12)..].join("\n");
                differences.push(format!(
                    "seed {seed}, RESP{protocol}: {reply}\ninstead of the last reply here\n{before}"
                ));
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n\n"));
}
