//! Random sequences of the commands on streams that Redis 7.0 lacks: replies equal those of a model, and a
//! start behind a kill has the same stream.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tarn_resp::Frame;

use crate::client::Client;
use crate::running::Running;

/// Requests of a sequence.
const STEPS: usize = 1_500;
/// The milliseconds of all IDs: behind now, so that those of the server's are known.
const MS: u64 = 9_000_000_000_000;

/// The number of an ID within its millisecond.
type Seq = u64;

fn id(seq: Seq) -> String {
    format!("{MS}-{seq}")
}

fn integer(number: usize) -> Frame {
    Frame::Integer(number as i64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refs {
    Keep,
    Remove,
    Acked,
}

impl Refs {
    fn word(self) -> &'static str {
        match self {
            Refs::Keep => "KEEPREF",
            Refs::Remove => "DELREF",
            Refs::Acked => "ACKED",
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    Length(usize),
    Below(Seq),
}

impl Bound {
    fn words(self) -> [String; 2] {
        match self {
            Bound::Length(most) => ["MAXLEN".to_owned(), most.to_string()],
            Bound::Below(seq) => ["MINID".to_owned(), id(seq)],
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Trim {
    bound: Bound,
    refs: Refs,
}

/// A request, in short.
#[derive(Clone, Debug)]
enum Request {
    /// With a number or one of the server's, and the message of a producer, which may have no name.
    Add {
        seq: Option<Seq>,
        value: String,
        message: Option<(String, Option<String>)>,
        trim: Option<Trim>,
    },
    Trim(Trim),
    Delete(Refs, Vec<Seq>),
    AckAndDelete(String, Refs, Vec<Seq>),
    Ack(String, Vec<Seq>),
    Create(String, Seq),
    SetId(String, Seq),
    Destroy(String),
    /// By a consumer; so many, or what is pending, too; acknowledged at once or not.
    Read {
        group: String,
        consumer: String,
        count: Option<usize>,
        acknowledges: bool,
    },
    Configure(usize),
}

impl Request {
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        let mut ids: &[Seq] = &[];
        match self {
            Request::Add { seq, value, message, trim } => {
                add(&["XADD", "s"]);
                match message {
                    Some((producer, Some(name))) => add(&["IDMP", producer, name]),
                    Some((producer, None)) => add(&["IDMPAUTO", producer]),
                    None => {}
                }
                if let Some(Trim { bound, refs }) = trim {
                    let [by, most] = bound.words();
                    add(&[refs.word(), &by, &most]);
                }
                add(&[&seq.map_or("*".to_owned(), id), "f", value]);
            }
            Request::Trim(Trim { bound, refs }) => {
                let [by, most] = bound.words();
                add(&["XTRIM", "s", &by, &most, refs.word()]);
            }
            Request::Delete(refs, of) => {
                add(&["XDELEX", "s", refs.word(), "IDS", &of.len().to_string()]);
                ids = of;
            }
            Request::AckAndDelete(group, refs, of) => {
                add(&["XACKDEL", "s", group, refs.word(), "IDS", &of.len().to_string()]);
                ids = of;
            }
            Request::Ack(group, of) => {
                add(&["XACK", "s", group]);
                ids = of;
            }
            Request::Create(group, seq) => add(&["XGROUP", "CREATE", "s", group, &id(*seq)]),
            Request::SetId(group, seq) => add(&["XGROUP", "SETID", "s", group, &id(*seq)]),
            Request::Destroy(group) => add(&["XGROUP", "DESTROY", "s", group]),
            Request::Read { group, consumer, count, acknowledges } => {
                add(&["XREADGROUP", "GROUP", group, consumer]);
                match count {
                    Some(count) => add(&["COUNT", &count.to_string()]),
                    None => add(&["CLAIM", "0"]),
                }
                if *acknowledges {
                    add(&["NOACK"]);
                }
                add(&["STREAMS", "s", ">"]);
            }
            Request::Configure(most) => add(&["XCFGSET", "s", "IDMP-MAXSIZE", &most.to_string()]),
        }
        words.extend(ids.iter().map(|seq| id(*seq)));
        words
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    last: Seq,
    /// For whom, and how often it was delivered.
    pending: BTreeMap<Seq, (String, i64)>,
}

/// A stream as the documentation has it.
#[derive(Debug, Default)]
struct Model {
    entries: BTreeMap<Seq, String>,
    last: Seq,
    groups: BTreeMap<String, Group>,
    /// The names of the messages of each producer, and their entries, the oldest first.
    messages: BTreeMap<String, Vec<(String, Seq)>>,
    messages_max: usize,
    added: usize,
    duplicates: usize,
}

impl Model {
    fn is_needed(&self, seq: Seq, but: Option<&str>) -> bool {
        self.groups.iter().any(|(name, group)| {
            group.last < seq || (Some(name.as_str()) != but && group.pending.contains_key(&seq))
        })
    }

    fn forget_pending(&mut self, seq: Seq) {
        self.groups.values_mut().for_each(|group| _ = group.pending.remove(&seq));
    }

    fn trim(&mut self, trim: Trim) -> usize {
        let len = self.entries.len();
        let (most, candidates): (usize, Vec<Seq>) = match trim.bound {
            Bound::Length(most) => (len.saturating_sub(most), self.entries.keys().copied().collect()),
            Bound::Below(seq) => (len, self.entries.range(..seq).map(|(seq, _)| *seq).collect()),
        };
        let goes = |seq: &Seq| trim.refs != Refs::Acked || !self.is_needed(*seq, None);
        let gone: Vec<Seq> = candidates.into_iter().filter(goes).take(most).collect();
        for seq in &gone {
            self.entries.remove(seq);
            if trim.refs == Refs::Remove {
                self.forget_pending(*seq);
            }
        }
        gone.len()
    }

    fn add(
        &mut self,
        seq: Option<Seq>,
        value: &str,
        message: Option<&(String, Option<String>)>,
        trim: Option<Trim>,
    ) -> Frame {
        let named = message.map(|(producer, name)| {
            (producer.clone(), name.clone().unwrap_or_else(|| format!("with {value}")))
        });
        if let Some((producer, name)) = &named
            && let Some((_, seq)) =
                self.messages.get(producer).into_iter().flatten().find(|(known, _)| known == name)
        {
            self.duplicates += 1;
            return Frame::bulk(id(*seq));
        }
        let seq = seq.unwrap_or(self.last + 1);
        if seq <= self.last {
            const TOO_SMALL: &str =
                "ERR The ID specified in XADD is equal or smaller than the target stream top item";
            return Frame::error(TOO_SMALL);
        }
        self.entries.insert(seq, value.to_owned());
        self.last = seq;
        if let Some((producer, name)) = named {
            let of_it = self.messages.entry(producer).or_default();
            of_it.push((name, seq));
            if of_it.len() > self.messages_max {
                of_it.remove(0);
            }
            self.added += 1;
        }
        if let Some(trim) = trim {
            self.trim(trim);
        }
        Frame::bulk(id(seq))
    }

    /// Removes an entry, of which nothing is pending any more for `but`; what became of it.
    fn delete(&mut self, refs: Refs, seq: Seq, but: Option<&str>) -> i64 {
        match refs {
            Refs::Acked if self.is_needed(seq, but) => return 2,
            Refs::Remove => self.forget_pending(seq),
            Refs::Keep | Refs::Acked => {}
        }
        if self.entries.remove(&seq).is_some() { 1 } else { -1 }
    }

    fn acknowledge(&mut self, group: &str, seq: Seq) -> bool {
        self.groups.get_mut(group).is_some_and(|group| group.pending.remove(&seq).is_some())
    }

    fn entry(&self, seq: Seq, deliveries: Option<i64>) -> Frame {
        let fields = [Frame::bulk("f"), Frame::bulk(self.entries[&seq].as_str())];
        let mut frames = vec![Frame::bulk(id(seq)), Frame::Array(fields.to_vec())];
        if let Some(deliveries) = deliveries {
            frames.extend([Frame::NullBulk, Frame::Integer(deliveries)]);
        }
        Frame::Array(frames)
    }

    fn read(&mut self, name: &str, consumer: &str, count: Option<usize>, acknowledges: bool) -> Frame {
        let Some(mut group) = self.groups.remove(name) else {
            return Frame::error(format!(
                "NOGROUP No such key 's' or consumer group '{name}' in XREADGROUP with GROUP option"
            ));
        };
        let mut frames = Vec::new();
        let claims = count.is_none();
        let is_there = |(seq, _): &(&Seq, &mut (String, i64))| claims && self.entries.contains_key(*seq);
        for (seq, (owner, deliveries)) in group.pending.iter_mut().filter(is_there) {
            frames.push(self.entry(*seq, Some(*deliveries)));
            *owner = consumer.to_owned();
            *deliveries += 1;
        }
        let new = self.entries.range(group.last + 1..).map(|(seq, _)| *seq);
        for seq in new.take(count.unwrap_or(usize::MAX)) {
            frames.push(self.entry(seq, claims.then_some(0)));
            group.last = seq;
            if !acknowledges {
                group.pending.insert(seq, (consumer.to_owned(), 1));
            }
        }
        self.groups.insert(name.to_owned(), group);
        match frames.is_empty() {
            true => Frame::NullArray,
            false => Frame::Array(vec![Frame::Array(vec![Frame::bulk("s"), Frame::Array(frames)])]),
        }
    }

    /// Does what a request asks for, and replies.
    fn answer(&mut self, request: &Request) -> Frame {
        match request {
            Request::Add { seq, value, message, trim } => self.add(*seq, value, message.as_ref(), *trim),
            Request::Trim(trim) => integer(self.trim(*trim)),
            Request::Delete(refs, ids) => {
                Frame::Array(ids.iter().map(|seq| Frame::Integer(self.delete(*refs, *seq, None))).collect())
            }
            Request::AckAndDelete(group, refs, ids) => {
                let outcomes = ids.iter().map(|seq| match self.acknowledge(group, *seq) {
                    true => self.delete(*refs, *seq, Some(group.as_str())).max(1),
                    false => -1,
                });
                Frame::Array(outcomes.map(Frame::Integer).collect())
            }
            Request::Ack(group, ids) => {
                integer(ids.iter().filter(|seq| self.acknowledge(group, **seq)).count())
            }
            Request::Create(group, _) if self.groups.contains_key(group) => {
                Frame::error("BUSYGROUP Consumer Group name already exists")
            }
            Request::SetId(group, _) if !self.groups.contains_key(group) => {
                Frame::error(format!("NOGROUP No such consumer group '{group}' for key name 's'"))
            }
            Request::Create(group, last) | Request::SetId(group, last) => {
                self.groups.entry(group.clone()).or_default().last = *last;
                Frame::simple("OK")
            }
            Request::Destroy(group) => integer(usize::from(self.groups.remove(group).is_some())),
            Request::Read { group, consumer, count, acknowledges } => {
                self.read(group, consumer, *count, *acknowledges)
            }
            Request::Configure(most) => {
                if self.messages_max != *most {
                    self.messages_max = *most;
                    self.messages.clear();
                }
                Frame::simple("OK")
            }
        }
    }

    /// Whether a server has the same stream.
    fn check(&self, client: &mut Client) {
        let entries = self.entries.keys().map(|seq| self.entry(*seq, None)).collect();
        assert_eq!(client.ask(&["XRANGE", "s", "-", "+"]), Frame::Array(entries));
        for (name, group) in &self.groups {
            let shown = |(seq, (owner, deliveries)): (&Seq, &(String, i64))| {
                let owner = Frame::bulk(owner.as_str());
                Frame::Array(vec![Frame::bulk(id(*seq)), owner, Frame::NullBulk, Frame::Integer(*deliveries)])
            };
            let expected = Frame::Array(group.pending.iter().map(shown).collect());
            let reply = client.ask(&["XPENDING", "s", name, "-", "+", "1000000"]);
            assert_eq!(without_idle(reply), expected, "{name}");
        }
        let Frame::Array(info) = client.ask(&["XINFO", "STREAM", "s"]) else { panic!("it is a stream") };
        let field = |name: &str| {
            let at = info.iter().position(|field| field.as_bytes() == Some(name.as_bytes()));
            at.and_then(|at| info[at + 1].as_integer())
        };
        let messages: usize = self.messages.values().map(Vec::len).sum();
        for (name, number) in [
            ("length", self.entries.len()),
            ("idmp-maxsize", self.messages_max),
            ("pids-tracked", self.messages.len()),
            ("iids-tracked", messages),
            ("iids-added", self.added),
            ("iids-duplicates", self.duplicates),
        ] {
            assert_eq!(field(name), Some(number as i64), "{name}");
        }
    }
}

/// An array without the times at the third places of its arrays of four.
fn without_idle(reply: Frame) -> Frame {
    let Frame::Array(frames) = reply else { return reply };
    let mut frames: Vec<Frame> = frames.into_iter().map(without_idle).collect();
    if frames.len() == 4 && matches!(frames[2], Frame::Integer(_)) {
        frames[2] = Frame::NullBulk;
    }
    Frame::Array(frames)
}

/// A reply of `XREADGROUP`, in which what was claimed stands by ID: nobody knows who was first of what was
/// delivered within one millisecond.
fn by_id(reply: Frame) -> Frame {
    let key = |frame: &Frame| {
        let Frame::Array(parts) = frame else { return (0, 0) };
        let text = parts[0].as_bytes().map(String::from_utf8_lossy).unwrap_or_default();
        let seq: Seq = text.rsplit('-').next().and_then(|seq| seq.parse().ok()).unwrap_or_default();
        (i64::from(parts.last().and_then(Frame::as_integer) == Some(0)), seq)
    };
    match without_idle(reply) {
        Frame::Array(mut streams) => {
            for stream in &mut streams {
                if let Frame::Array(parts) = stream
                    && let Some(Frame::Array(entries)) = parts.get_mut(1)
                {
                    entries.sort_by_key(key);
                }
            }
            Frame::Array(streams)
        }
        other => other,
    }
}

struct Requests {
    rng: SmallRng,
}

impl Requests {
    fn of(&mut self, words: &[&str]) -> String {
        (*words.choose(&mut self.rng).unwrap()).to_owned()
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn refs(&mut self) -> Refs {
        *[Refs::Keep, Refs::Remove, Refs::Acked].choose(&mut self.rng).unwrap()
    }

    fn group(&mut self) -> String {
        self.of(&["g", "g", "g", "h", "h", "none"])
    }

    /// An ID near the newest one.
    fn seq(&mut self, last: Seq) -> Seq {
        let back = self.rng.random_range(0..40);
        (last + 2).saturating_sub(back).max(1)
    }

    fn ids(&mut self, last: Seq) -> Vec<Seq> {
        (0..self.rng.random_range(1..6)).map(|_| self.seq(last)).collect()
    }

    fn trim(&mut self, last: Seq) -> Trim {
        let bound = match self.happens(50) {
            true => Bound::Length(self.rng.random_range(0..40)),
            false => Bound::Below(self.seq(last)),
        };
        Trim { bound, refs: self.refs() }
    }

    fn any(&mut self, last: Seq) -> Request {
        match self.rng.random_range(0..40) {
            0..16 => {
                let message = self.happens(40).then(|| {
                    let name = format!("m{}", self.rng.random_range(0..12));
                    (self.of(&["p", "q", "other"]), self.happens(70).then_some(name))
                });
                let seq = self.rng.random_range(0..4) + last;
                let seq = (message.is_none() && self.happens(70)).then_some(seq);
                let value = format!("v{}", self.rng.random_range(0..8));
                let trim = self.happens(15).then(|| self.trim(last));
                Request::Add { seq, value, message, trim }
            }
            16..19 => Request::Trim(self.trim(last)),
            19..22 => Request::Delete(self.refs(), self.ids(last)),
            22..26 => Request::AckAndDelete(self.group(), self.refs(), self.ids(last)),
            26..29 => Request::Ack(self.group(), self.ids(last)),
            29 => Request::Create(self.of(&["g", "h"]), self.seq(last)),
            30 if self.happens(30) => Request::Destroy(self.group()),
            30 => Request::SetId(self.group(), self.seq(last)),
            31 if self.happens(20) => Request::Configure(self.rng.random_range(1..6)),
            _ => {
                let (group, consumer) = (self.group(), self.of(&["a", "b"]));
                let count = self.happens(70).then(|| self.rng.random_range(1..8));
                Request::Read { group, consumer, count, acknowledges: self.happens(10) }
            }
        }
    }
}

#[test]
fn newer_commands_on_streams_do_what_a_model_does_also_behind_a_kill() {
    let mut server = Running::start(&["--threads", "2", "--appendfsync", "always"]);
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(6)) {
        let mut client = Client::connect(server.port);
        client.ask(&["FLUSHALL"]);
        let mut requests = Requests { rng: SmallRng::seed_from_u64(seed) };
        let mut model = Model { messages_max: 4, last: 1, ..Model::default() };
        model.entries.insert(1, "first".to_owned());
        client.ask(&["XADD", "s", &id(1), "f", "first"]);
        client.ask(&["XCFGSET", "s", "IDMP-DURATION", "86400", "IDMP-MAXSIZE", "4"]);
        let mut told = Vec::new();
        for step in 0..STEPS {
            let request = requests.any(model.last);
            let words = request.words();
            let is_read = matches!(request, Request::Read { .. });
            let comparable = |frame| if is_read { by_id(frame) } else { frame };
            let expected = comparable(model.answer(&request));
            let reply = comparable(client.ask(&words));
            told.push(format!("{words:?} -> {expected}"));
            let before = || told[told.len().saturating_sub(12)..].join("\n");
            assert!(reply == expected, "seed {seed}: {reply}\ninstead of the last reply here\n{}", before());
            if step.is_multiple_of(50) {
                model.check(&mut client);
            }
        }
        server.restart();
        let mut client = Client::connect(server.port);
        model.check(&mut client);
        let known: Vec<(String, String, Seq)> = (model.messages.iter())
            .flat_map(|(producer, of_it)| {
                of_it.iter().map(move |(name, seq)| (producer.clone(), name.clone(), *seq))
            })
            .filter(|(_, name, _)| name.starts_with('m'))
            .collect();
        for (producer, name, seq) in known {
            let reply = client.ask(&["XADD", "s", "IDMP", &producer, &name, "*", "f", "again"]);
            assert_eq!(reply, Frame::bulk(id(seq)), "seed {seed}");
        }
    }
}
