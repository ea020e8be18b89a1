//! The writes of a writer, and the expected content of its keys after any number of them.
//!
//! Everything follows from the seed, the writer's number and the number of writes. So the state after write
//! `n` can be computed again and compared with the content of a restarted server. Nearly every write contains
//! its number, so that two different prefixes rarely leave the same state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tarn_resp::Frame;

use crate::error::{LabError, Result};
use crate::load::scatter;
use tarn_resp::client::{Client, elements, integer, text, texts as strings};

/// Fields, members and plain keys of each writer.
const SLOTS: u64 = 12;
/// The longest value, in bytes: several blocks of a disk.
const VALUE_BYTES_MAX: u64 = 20_000;
/// A moment in the year 2100: keys with an expiry must come back with it.
const FAR_MS: u64 = 4_102_444_800_000;

/// The content of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A string.
    Text(String),
    /// A string with an expiry, in Unix milliseconds.
    Expiring(String, u64),
    /// A hash.
    Hash(BTreeMap<String, String>),
    /// A list.
    List(VecDeque<String>),
    /// A sorted set.
    SortedSet(BTreeMap<String, u64>),
    /// A set.
    Set(BTreeSet<String>),
}

/// The keys of one writer.
pub(super) type Keys = BTreeMap<String, Content>;

/// A write to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// The request; of a transaction all of them, from `MULTI` to `EXEC`.
    pub requests: Vec<Vec<String>>,
    /// The expected integer reply, where the model knows it.
    pub integer: Option<i64>,
}

impl Write {
    fn of(request: Vec<String>, integer: Option<i64>) -> Write {
        Write { requests: vec![request], integer }
    }
}

/// A writer's keys after some of its writes.
#[derive(Debug, Clone)]
pub(super) struct Model {
    writer: usize,
    seed: u64,
    /// The number of writes after which this is the state.
    pub done: u64,
    /// The keys.
    pub keys: Keys,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

impl Model {
    /// A writer that has written nothing.
    pub(super) fn new(writer: usize, seed: u64) -> Model {
        Model { writer, seed, done: 0, keys: Keys::new() }
    }

    /// The key of this writer's counter, which only ever rises.
    pub(super) fn counter_key(&self) -> String {
        self.key("counter")
    }

    /// The counter in a state of this writer's keys; 0 if it is not there.
    pub(super) fn counter_in(&self, keys: &Keys) -> i64 {
        match keys.get(&self.counter_key()) {
            Some(Content::Text(text)) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }

    fn key(&self, name: &str) -> String {
        format!("writer:{}:{name}", self.writer)
    }

    /// Applies the next write and returns it.
    pub(super) fn advance(&mut self) -> Write {
        self.done += 1;
        let number = self.done;
        let chance = scatter(self.seed ^ scatter((self.writer as u64) << 48 | number));
        let slot = (chance >> 8) % SLOTS;
        match chance % 21 {
            0..4 => self.set(number, slot, chance),
            4 | 5 => self.increment(),
            6 | 7 => self.set_field(number, slot),
            8 => self.delete_field(slot),
            9 | 10 => self.push(number),
            11 => self.trim(slot),
            12 | 13 => self.add_scored(number, slot),
            14 => self.add_member(number),
            15 => self.remove_member(slot),
            16 => self.set_pair(number),
            17 => self.append(number),
            18 => self.set_expiring(number),
            19 => self.transact(number, slot, chance),
            _ if self.keys.contains_key(&self.key(&format!("text{slot}"))) => {
                self.delete_or_rename(number, slot)
            }
            _ => self.set(number, slot, chance),
        }
    }

    fn set(&mut self, number: u64, slot: u64, chance: u64) -> Write {
        // One value in sixteen is long.
        let length = if (chance >> 20).is_multiple_of(16) { (chance >> 24) % VALUE_BYTES_MAX } else { 0 };
        let value = format!("{number}:{}", "x".repeat(length as usize));
        let key = self.key(&format!("text{slot}"));
        self.keys.insert(key.clone(), Content::Text(value.clone()));
        Write::of(words(&["SET", &key, &value]), None)
    }

    fn increment(&mut self) -> Write {
        let key = self.key("counter");
        let content = self.keys.entry(key.clone()).or_insert_with(|| Content::Text("0".to_owned()));
        let Content::Text(text) = content else { unreachable!("the counter is a string") };
        let count = text.parse::<i64>().expect("the counter is a number") + 1;
        *text = count.to_string();
        Write::of(words(&["INCR", &key]), Some(count))
    }

    fn hash(&mut self) -> (String, &mut BTreeMap<String, String>) {
        let key = self.key("hash");
        let content = self.keys.entry(key.clone()).or_insert_with(|| Content::Hash(BTreeMap::new()));
        let Content::Hash(fields) = content else { unreachable!("the hash is a hash") };
        (key, fields)
    }

    fn set_field(&mut self, number: u64, slot: u64) -> Write {
        let (key, fields) = self.hash();
        let field = format!("field{slot}");
        let is_new = fields.insert(field.clone(), number.to_string()).is_none();
        Write::of(words(&["HSET", &key, &field, &number.to_string()]), Some(is_new.into()))
    }

    fn delete_field(&mut self, slot: u64) -> Write {
        let (key, fields) = self.hash();
        let field = format!("field{slot}");
        let was_there = fields.remove(&field).is_some();
        if fields.is_empty() {
            self.keys.remove(&key);
        }
        Write::of(words(&["HDEL", &key, &field]), Some(was_there.into()))
    }

    fn list(&mut self) -> (String, &mut VecDeque<String>) {
        let key = self.key("list");
        let content = self.keys.entry(key.clone()).or_insert_with(|| Content::List(VecDeque::new()));
        let Content::List(elements) = content else { unreachable!("the list is a list") };
        (key, elements)
    }

    fn push(&mut self, number: u64) -> Write {
        let (key, elements) = self.list();
        elements.push_back(number.to_string());
        let length = elements.len() as i64;
        Write::of(words(&["RPUSH", &key, &number.to_string()]), Some(length))
    }

    fn trim(&mut self, slot: u64) -> Write {
        let (key, elements) = self.list();
        let keep = slot as usize + 1;
        elements.drain(..elements.len().saturating_sub(keep));
        if elements.is_empty() {
            self.keys.remove(&key);
        }
        Write::of(words(&["LTRIM", &key, &format!("-{keep}"), "-1"]), None)
    }

    fn add_scored(&mut self, number: u64, slot: u64) -> Write {
        let key = self.key("sorted");
        let content = self.keys.entry(key.clone()).or_insert_with(|| Content::SortedSet(BTreeMap::new()));
        let Content::SortedSet(members) = content else { unreachable!("the sorted set is one") };
        let member = format!("member{slot}");
        let is_new = members.insert(member.clone(), number).is_none();
        Write::of(words(&["ZADD", &key, &number.to_string(), &member]), Some(is_new.into()))
    }

    fn set_members(&mut self) -> (String, &mut BTreeSet<String>) {
        let key = self.key("set");
        let content = self.keys.entry(key.clone()).or_insert_with(|| Content::Set(BTreeSet::new()));
        let Content::Set(members) = content else { unreachable!("the set is a set") };
        (key, members)
    }

    fn add_member(&mut self, number: u64) -> Write {
        let (key, members) = self.set_members();
        members.insert(number.to_string());
        Write::of(words(&["SADD", &key, &number.to_string()]), Some(1))
    }

    /// Removes an old member. In a large set also others, so that the set stays small.
    fn remove_member(&mut self, slot: u64) -> Write {
        let (key, members) = self.set_members();
        let excess = members.len().saturating_sub(SLOTS as usize) + 1;
        let gone: Vec<String> = members.iter().skip(slot as usize % 3).take(excess).cloned().collect();
        let gone = if gone.is_empty() { vec!["absent".to_owned()] } else { gone };
        let removed = gone.iter().filter(|&member| members.remove(member)).count();
        if members.is_empty() {
            self.keys.remove(&key);
        }
        let mut request = words(&["SREM", &key]);
        request.extend(gone);
        Write::of(request, Some(removed as i64))
    }

    /// Two keys in one write: they must never differ.
    fn set_pair(&mut self, number: u64) -> Write {
        let (left, right) = (self.key("left"), self.key("right"));
        let value = number.to_string();
        self.keys.insert(left.clone(), Content::Text(value.clone()));
        self.keys.insert(right.clone(), Content::Text(value.clone()));
        Write::of(words(&["MSET", &left, &value, &right, &value]), None)
    }

    /// Several writes that are there or not, all of them: keys are deleted and made again in it.
    fn transact(&mut self, number: u64, slot: u64, chance: u64) -> Write {
        let mut requests = vec![words(&["MULTI"])];
        let mut add = |write: Write| requests.extend(write.requests);
        for step in 0..2 + slot / 2 {
            let slot = (slot + step) % SLOTS;
            add(match step % 5 {
                0 => self.set(number, slot, chance),
                1 => self.push(number),
                2 => self.set_field(number, slot),
                3 if self.keys.contains_key(&self.key(&format!("text{slot}"))) => {
                    self.delete_or_rename(number, slot)
                }
                3 => self.set_pair(number),
                _ => self.increment(),
            });
        }
        requests.push(words(&["EXEC"]));
        Write { requests, integer: None }
    }

    fn append(&mut self, number: u64) -> Write {
        let key = self.key("growing");
        let content = self.keys.entry(key.clone()).or_insert_with(|| Content::Text(String::new()));
        let Content::Text(text) = content else { unreachable!("the growing text is a string") };
        if text.len() > 2000 {
            *text = number.to_string();
            return Write::of(words(&["SET", &key, text]), None);
        }
        let piece = format!("{number},");
        text.push_str(&piece);
        let length = text.len() as i64;
        Write::of(words(&["APPEND", &key, &piece]), Some(length))
    }

    fn set_expiring(&mut self, number: u64) -> Write {
        let key = self.key("expiring");
        let at = FAR_MS + number;
        self.keys.insert(key.clone(), Content::Expiring(number.to_string(), at));
        Write::of(words(&["SET", &key, &number.to_string(), "PXAT", &at.to_string()]), None)
    }

    fn delete_or_rename(&mut self, number: u64, slot: u64) -> Write {
        let key = self.key(&format!("text{slot}"));
        let content = self.keys.remove(&key).expect("the caller has looked");
        if number.is_multiple_of(2) {
            return Write::of(words(&["DEL", &key]), Some(1));
        }
        let to = self.key("renamed");
        self.keys.insert(to.clone(), content);
        Write::of(words(&["RENAME", &key, &to]), None)
    }

    /// Reads the server's content of this writer's keys.
    pub(super) fn read_found(&self, client: &mut Client) -> Result<Keys> {
        let mut keys = Keys::new();
        let mut texts: Vec<String> = (0..SLOTS).map(|slot| self.key(&format!("text{slot}"))).collect();
        texts.extend(["counter", "left", "right", "growing", "renamed"].map(|name| self.key(name)));
        let mut request = vec!["MGET".to_owned()];
        request.extend(texts.iter().cloned());
        for (key, reply) in texts.into_iter().zip(elements(&client.call(&request)?)?) {
            if !reply.is_null() {
                keys.insert(key, Content::Text(text(reply)?));
            }
        }
        let key = self.key("expiring");
        let value = client.call(&["GET", &key])?;
        if !value.is_null() {
            let at = integer(&client.call(&["PEXPIRETIME", &key])?)?;
            keys.insert(key, Content::Expiring(text(&value)?, at.unsigned_abs()));
        }
        let mut insert = |name: &str, content: Content, is_empty: bool| {
            if !is_empty {
                keys.insert(self.key(name), content);
            }
        };
        let fields = pairs(&client.call(&["HGETALL", &self.key("hash")])?)?;
        insert("hash", Content::Hash(fields.iter().cloned().collect()), fields.is_empty());
        let list = strings(&client.call(&["LRANGE", &self.key("list"), "0", "-1"])?)?;
        insert("list", Content::List(list.iter().cloned().collect()), list.is_empty());
        let members = strings(&client.call(&["SMEMBERS", &self.key("set")])?)?;
        insert("set", Content::Set(members.iter().cloned().collect()), members.is_empty());
        let scores = pairs(&client.call(&["ZRANGE", &self.key("sorted"), "0", "-1", "WITHSCORES"])?)?;
        let number =
            |text: &String| text.parse::<u64>().map_err(|_| LabError::Reply(format!("score {text}")));
        let scores: BTreeMap<_, _> = scores
            .iter()
            .map(|(member, score)| Ok((member.clone(), number(score)?)))
            .collect::<Result<_>>()?;
        let is_empty = scores.is_empty();
        insert("sorted", Content::SortedSet(scores), is_empty);
        Ok(keys)
    }
}

/// The first key in which two states differ, with both contents cut short; `None` if they are equal.
pub(super) fn difference(expected: &Keys, found: &Keys) -> Option<String> {
    let all: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let key = all.into_iter().find(|&key| expected.get(key) != found.get(key))?;
    let show = |keys: &Keys| match keys.get(key) {
        None => "nothing".to_owned(),
        Some(content) => format!("{content:?}").chars().take(160).collect(),
    };
    Some(format!("{key}: expected {}, found {}", show(expected), show(found)))
}

fn pairs(reply: &Frame) -> Result<Vec<(String, String)>> {
    let strings = strings(reply)?;
    Ok(strings.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_writes_and_small_collections() {
        let (mut one, mut two) = (Model::new(3, 8), Model::new(3, 8));
        for _ in 0..5000 {
            assert_eq!(one.advance(), two.advance());
        }
        assert_eq!(one.keys, two.keys);
        assert_eq!(one.keys.len(), two.keys.len());
        for content in one.keys.values() {
            let size = match content {
                Content::Hash(fields) => fields.len(),
                Content::List(elements) => elements.len(),
                Content::SortedSet(members) => members.len(),
                Content::Set(members) => members.len(),
                Content::Text(_) | Content::Expiring(..) => 1,
            };
            assert!((1..200).contains(&size), "{size}");
        }
    }
}
