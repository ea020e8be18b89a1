//! The writes of a writer, and the expected content of its keys after any number of them.
//!
//! Everything follows from the seed, the writer's number and the number of writes. So the state after write
//! `n` can be computed again and compared with the content of a restarted server. Nearly every write contains
//! its number, so that two different prefixes rarely leave the same state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

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

/// The keys of one writer. A collection without elements is a key that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// Strings, by the ends of their keys.
    pub strings: BTreeMap<String, String>,
    /// A string with an expiry, in Unix milliseconds.
    pub expiring: Option<(String, u64)>,
    /// A hash.
    pub hash: BTreeMap<String, String>,
    /// A list.
    pub list: VecDeque<String>,
    /// A sorted set.
    pub sorted: BTreeMap<String, u64>,
    /// A set.
    pub set: BTreeSet<String>,
}

impl Keys {
    /// The counter; 0 if it is not there.
    pub(super) fn counter(&self) -> i64 {
        self.strings.get("counter").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The content of each key that is there, by the end of the key, in words.
    fn in_words(&self) -> BTreeMap<&str, String> {
        let mut all: BTreeMap<&str, String> =
            self.strings.iter().map(|(name, text)| (name.as_str(), format!("{text:?}"))).collect();
        let mut add = |name, is_there: bool, content: &dyn fmt::Debug| {
            all.extend(is_there.then(|| (name, format!("{content:?}"))));
        };
        add("expiring", self.expiring.is_some(), &self.expiring);
        add("hash", !self.hash.is_empty(), &self.hash);
        add("list", !self.list.is_empty(), &self.list);
        add("sorted", !self.sorted.is_empty(), &self.sorted);
        add("set", !self.set.is_empty(), &self.set);
        all
    }

    /// The number of keys that are there.
    pub(super) fn count(&self) -> usize {
        self.in_words().len()
    }
}

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
        Model { writer, seed, done: 0, keys: Keys::default() }
    }

    /// A key of this writer. Its `counter` only ever rises.
    pub(super) fn key(&self, name: &str) -> String {
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
            _ => self.delete_or_rename(number, slot, chance),
        }
    }

    /// Sets a string to a value.
    fn put(&mut self, name: &str, value: &str) -> String {
        self.keys.strings.insert(name.to_owned(), value.to_owned());
        self.key(name)
    }

    fn set(&mut self, number: u64, slot: u64, chance: u64) -> Write {
        // One value in sixteen is long.
        let length = if (chance >> 20).is_multiple_of(16) { (chance >> 24) % VALUE_BYTES_MAX } else { 0 };
        let value = format!("{number}:{}", "x".repeat(length as usize));
        let key = self.put(&format!("text{slot}"), &value);
        Write::of(words(&["SET", &key, &value]), None)
    }

    fn increment(&mut self) -> Write {
        let count = self.keys.counter() + 1;
        let key = self.put("counter", &count.to_string());
        Write::of(words(&["INCR", &key]), Some(count))
    }

    fn set_field(&mut self, number: u64, slot: u64) -> Write {
        let (field, value) = (format!("field{slot}"), number.to_string());
        let is_new = self.keys.hash.insert(field.clone(), value.clone()).is_none();
        Write::of(words(&["HSET", &self.key("hash"), &field, &value]), Some(is_new.into()))
    }

    fn delete_field(&mut self, slot: u64) -> Write {
        let field = format!("field{slot}");
        let was_there = self.keys.hash.remove(&field).is_some();
        Write::of(words(&["HDEL", &self.key("hash"), &field]), Some(was_there.into()))
    }

    fn push(&mut self, number: u64) -> Write {
        self.keys.list.push_back(number.to_string());
        let length = self.keys.list.len() as i64;
        Write::of(words(&["RPUSH", &self.key("list"), &number.to_string()]), Some(length))
    }

    fn trim(&mut self, slot: u64) -> Write {
        let keep = slot as usize + 1;
        let excess = self.keys.list.len().saturating_sub(keep);
        self.keys.list.drain(..excess);
        Write::of(words(&["LTRIM", &self.key("list"), &format!("-{keep}"), "-1"]), None)
    }

    fn add_scored(&mut self, number: u64, slot: u64) -> Write {
        let member = format!("member{slot}");
        let is_new = self.keys.sorted.insert(member.clone(), number).is_none();
        Write::of(words(&["ZADD", &self.key("sorted"), &number.to_string(), &member]), Some(is_new.into()))
    }

    fn add_member(&mut self, number: u64) -> Write {
        self.keys.set.insert(number.to_string());
        Write::of(words(&["SADD", &self.key("set"), &number.to_string()]), Some(1))
    }

    /// Removes an old member. In a large set also others, so that the set stays small.
    fn remove_member(&mut self, slot: u64) -> Write {
        let members = &mut self.keys.set;
        let excess = members.len().saturating_sub(SLOTS as usize) + 1;
        let gone: Vec<String> = members.iter().skip(slot as usize % 3).take(excess).cloned().collect();
        let gone = if gone.is_empty() { vec!["absent".to_owned()] } else { gone };
        let removed = gone.iter().filter(|&member| members.remove(member)).count();
        let mut request = words(&["SREM", &self.key("set")]);
        request.extend(gone);
        Write::of(request, Some(removed as i64))
    }

    /// Two keys in one write: they must never differ.
    fn set_pair(&mut self, number: u64) -> Write {
        let value = number.to_string();
        let (left, right) = (self.put("left", &value), self.put("right", &value));
        Write::of(words(&["MSET", &left, &value, &right, &value]), None)
    }

    /// Several writes that are there or not, all of them: keys are deleted and made again in it.
    fn transact(&mut self, number: u64, slot: u64, chance: u64) -> Write {
        let mut requests = vec![words(&["MULTI"])];
        for step in 0..2 + slot / 2 {
            let slot = (slot + step) % SLOTS;
            let write = match step % 5 {
                0 => self.set(number, slot, chance),
                1 => self.push(number),
                2 => self.set_field(number, slot),
                3 if self.keys.strings.contains_key(&format!("text{slot}")) => {
                    self.delete_or_rename(number, slot, chance)
                }
                3 => self.set_pair(number),
                _ => self.increment(),
            };
            requests.extend(write.requests);
        }
        requests.push(words(&["EXEC"]));
        Write { requests, integer: None }
    }

    fn append(&mut self, number: u64) -> Write {
        let text = self.keys.strings.get("growing").cloned().unwrap_or_default();
        if text.len() > 2000 {
            let value = number.to_string();
            let key = self.put("growing", &value);
            return Write::of(words(&["SET", &key, &value]), None);
        }
        let piece = format!("{number},");
        let longer = text + &piece;
        let key = self.put("growing", &longer);
        Write::of(words(&["APPEND", &key, &piece]), Some(longer.len() as i64))
    }

    fn set_expiring(&mut self, number: u64) -> Write {
        let (value, at) = (number.to_string(), FAR_MS + number);
        let key = self.key("expiring");
        let write = Write::of(words(&["SET", &key, &value, "PXAT", &at.to_string()]), None);
        self.keys.expiring = Some((value, at));
        write
    }

    /// Deletes a string or gives it another name, or sets it where it is not there.
    fn delete_or_rename(&mut self, number: u64, slot: u64, chance: u64) -> Write {
        let name = format!("text{slot}");
        let Some(content) = self.keys.strings.remove(&name) else { return self.set(number, slot, chance) };
        let key = self.key(&name);
        if number.is_multiple_of(2) {
            return Write::of(words(&["DEL", &key]), Some(1));
        }
        let to = self.put("renamed", &content);
        Write::of(words(&["RENAME", &key, &to]), None)
    }

    /// Reads the server's content of this writer's keys.
    pub(super) fn read_found(&self, client: &mut Client) -> Result<Keys> {
        let mut found = Keys::default();
        let mut names: Vec<String> = (0..SLOTS).map(|slot| format!("text{slot}")).collect();
        names.extend(["counter", "left", "right", "growing", "renamed"].map(str::to_owned));
        let mut request = vec!["MGET".to_owned()];
        request.extend(names.iter().map(|name| self.key(name)));
        for (name, reply) in names.into_iter().zip(elements(&client.call(&request)?)?) {
            if !reply.is_null() {
                found.strings.insert(name, text(reply)?);
            }
        }
        let key = self.key("expiring");
        let value = client.call(&["GET", &key])?;
        if !value.is_null() {
            let at = integer(&client.call(&["PEXPIRETIME", &key])?)?;
            found.expiring = Some((text(&value)?, at.unsigned_abs()));
        }
        found.hash = pairs(&client.call(&["HGETALL", &self.key("hash")])?)?.into_iter().collect();
        found.list = strings(&client.call(&["LRANGE", &self.key("list"), "0", "-1"])?)?.into();
        found.set = strings(&client.call(&["SMEMBERS", &self.key("set")])?)?.into_iter().collect();
        let members = client.call(&["ZRANGE", &self.key("sorted"), "0", "-1", "WITHSCORES"])?;
        for (member, score) in pairs(&members)? {
            let score = score.parse().map_err(|_| LabError::Reply(format!("score {score}")))?;
            found.sorted.insert(member, score);
        }
        Ok(found)
    }
}

/// The first key in which two states differ, with both contents cut short; `None` if they are equal.
pub(super) fn difference(expected: &Keys, found: &Keys) -> Option<String> {
    let (expected, found) = (expected.in_words(), found.in_words());
    let all: BTreeSet<&str> = expected.keys().chain(found.keys()).copied().collect();
    let name = all.into_iter().find(|name| expected.get(name) != found.get(name))?;
    let show = |keys: &BTreeMap<&str, String>| match keys.get(name) {
        None => "nothing".to_owned(),
        Some(content) => content.chars().take(160).collect(),
    };
    Some(format!("{name}: expected {}, found {}", show(&expected), show(&found)))
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
        let Keys { hash, list, sorted, set, .. } = &one.keys;
        let sizes = [hash.len(), list.len(), sorted.len(), set.len()];
        assert!(sizes.iter().all(|size| *size < 200), "{sizes:?}");
    }
}
