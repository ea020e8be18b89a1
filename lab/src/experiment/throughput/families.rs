//! A case for each family of commands, without a log: the processor time that a request costs the server.
//!
//! Each family finds a server with its own data only, so that its figures do not depend on which other
//! families are measured.

use serde_json::json;

use super::contest;
use super::strings::{CLIENTS, KEY, KEYS, VALUE, clients, get, set};
use crate::error::Result;
use crate::load::{Arg, KeyChoice, Keys, Mix, Request};
use crate::report::Report;
use crate::setting::{Contender, Setting, fill, is_asked};

/// The length of a measurement in seconds unless another is wished: there are many.
const USUAL_S: f64 = 2.0;
/// Keys of all families but SET and GET of 64 bytes, and fields of the large hash.
const RECORDS: u64 = 100_000;
/// Fields of a small hash.
const FIELDS: u64 = 8;
const FIELD_NAMES: [&str; FIELDS as usize] =
    ["field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7"];
/// Elements of the list that grows and shrinks: so many that chance does not empty it.
const LENGTH: u64 = 10_000;
/// Lists whose elements are read, and elements of each.
const LISTS: u64 = 1_000;
const RANGE: usize = 100;
/// Sets and sorted sets, and members of each.
const SETS: u64 = 100;
const MEMBERS: u64 = 1_000;
/// Streams, and entries of each.
const STREAMS: u64 = 100;
const ENTRIES: u64 = 1_000;
/// HyperLogLogs.
const SKETCHES: u64 = 100;
/// Sorted sets of points, and points of each: within a degree of longitude and of latitude near the equator,
/// 111 km wide and high.
const MAPS: u64 = 10;
const POINTS: u64 = 10_000;
/// Keys of an MSET.
const MSET_KEYS: usize = 10;
/// SETs of a transaction.
const TRANSACTION: usize = 5;

const ELEMENT: Arg = Arg::Value(16);
const LONG: Arg = Arg::Value(1024);
const HASH: Arg = Arg::Key { prefix: "hash:", digits: 8, scattered: false };
const LIST: Arg = Arg::Key { prefix: "list:", digits: 8, scattered: false };
const SET: Arg = Arg::Key { prefix: "set:", digits: 8, scattered: false };
/// Not the keys of other families: requests of theirs may still be on their way.
const COUNTER: Arg = Arg::Key { prefix: "count:", digits: 8, scattered: false };
const SORTED_SET: Arg = Arg::Key { prefix: "board:", digits: 8, scattered: false };
const STREAM: Arg = Arg::Key { prefix: "stream:", digits: 8, scattered: false };
/// One of the streams, the same for each request of a connection.
const OWN_STREAM: Arg = Arg::Connection { prefix: "stream:", digits: 8 };
const MAP: Arg = Arg::Key { prefix: "map:", digits: 8, scattered: false };
/// A longitude or a latitude.
const DEGREES: Arg = Arg::Number { prefix: "1.", digits: 6, below: 1_000_000 };
const SKETCH: Arg = Arg::Key { prefix: "seen:", digits: 8, scattered: false };
const SCORE: Arg = Arg::Number { prefix: "", digits: 7, below: 10_000_000 };
/// From 10,000 to 19,999: no key expires while it is measured.
const SECONDS: Arg = Arg::Number { prefix: "1", digits: 4, below: 10_000 };

named! {
    /// The families of commands.
    pub enum Family {
        /// A field of a hash of 8 fields.
        Hset = "hset",
        /// A field of one hash of 100,000 fields, at scale 1.
        HsetLarge = "hset-large",
        /// A hash of 8 fields.
        Hgetall = "hgetall",
        /// Elements that come and go at the two ends of a list.
        Lpush = "lpush",
        /// The 100 elements of a list.
        Lrange = "lrange",
        /// A counter.
        Incr = "incr",
        /// Ten values of 64 bytes.
        Mset = "mset",
        /// A member of a set of 1,000.
        Sadd = "sadd",
        /// A member of a sorted set of 1,000.
        Zadd = "zadd",
        /// An entry of a stream of about 1,000.
        Xadd = "xadd",
        /// The first 10 entries of a stream of 1,000, by `XRANGE`.
        Xrange = "xrange",
        /// The same by `XREAD`.
        Xread = "xread",
        /// An entry that is added, and then read by a consumer of a group. Both are one request.
        Xreadgroup = "xreadgroup",
        /// An entry that is added, read by a consumer of a group, and acknowledged: together one request.
        XreadgroupXack = "xreadgroup-xack",
        /// An element of a HyperLogLog.
        Pfadd = "pfadd",
        /// The count of a HyperLogLog that does not change.
        Pfcount = "pfcount",
        /// The points within 3 km of a place: about 22 of 10,000.
        Geosearch = "geosearch",
        /// Those in a box of 5 km by 5 km: about 20.
        GeosearchBox = "geosearch-box",
        /// Keys that come and go.
        Del = "del",
        /// An expiry.
        Expire = "expire",
        /// A transaction of five SETs. MULTI, SETs and EXEC are one request.
        Multi = "multi",
        /// A script that calls one command.
        Script = "script",
        /// A script that calls fifty commands.
        ScriptLong = "script-50",
        /// A script that counts what a client does within a time, and refuses it beyond a limit.
        RateLimiter = "rate-limiter",
        /// A value of 64 bytes is written.
        Set = "set",
        /// A value of 64 bytes is read.
        Get = "get",
        /// A value of 1,024 bytes is written, at pipeline 16.
        SetLong = "set-1024",
        /// A value of 1,024 bytes is read, at pipeline 16.
        GetLong = "get-1024",
    }
}

/// The requests of a family.
struct Case {
    name: &'static str,
    /// The requests that make the data, and their number.
    data: (u64, Mix),
    mix: Mix,
    pipelines: &'static [u32],
}

/// A script, by its source and the SHA1 of that.
struct Script {
    source: &'static str,
    sha1: &'static str,
}

const ONE_CALL: Script =
    Script { source: "return redis.call('INCR', KEYS[1])", sha1: "61636018f4e6b5817b89791bbed242f93fa089e3" };
const MANY_CALLS: Script = Script {
    source: "for i = 1, 50 do redis.call('INCR', KEYS[1]) end return 1",
    sha1: "49555c1bdb47b36321b5a7652e62d4553b046af0",
};
const RATE_LIMITER: Script = Script {
    source: "local count = redis.call('INCR', KEYS[1]) \
             if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end \
             return count <= tonumber(ARGV[2]) and 1 or 0",
    sha1: "1e191a2559e81460dc7f08f0fb37d96d8bb7f96b",
};

/// A script with one key and perhaps arguments.
fn script(name: &'static str, script: Script, arguments: &[Arg], keys: u64) -> Case {
    let load = request("SCRIPT", &[Arg::Text("LOAD"), Arg::Text(script.source)]);
    let call = [&[Arg::Text(script.sha1), Arg::Text("1")], arguments].concat();
    let mix = Mix::of(request("EVALSHA", &call), Keys::new(KeyChoice::Uniform, keys));
    Case { name, data: (1, Mix::in_order(load, 1)), mix, pipelines: &[1, 16, 64] }
}

/// A request of these arguments, the first of them its name.
fn request(name: &'static str, arguments: &[Arg]) -> Request {
    Request::new(&[&[Arg::Text(name)], arguments].concat())
}

impl Family {
    /// The kind of target that the design has for it.
    pub(super) fn aim(self) -> &'static str {
        match self {
            Family::Xadd | Family::Xrange | Family::Xread | Family::Xreadgroup | Family::XreadgroupXack => {
                "streams"
            }
            Family::Pfadd | Family::Pfcount | Family::Geosearch | Family::GeosearchBox => {
                "sketches and points"
            }
            _ => "others",
        }
    }

    /// The requests of a family of streams.
    fn of_streams(self, setting: &Setting) -> Case {
        let text = Arg::Text;
        let trimmed = [STREAM, text("MAXLEN"), text("~"), text("1000"), text("*"), text("field"), ELEMENT];
        let add = request("XADD", &trimmed);
        let adds = (setting.scaled(STREAMS * ENTRIES), Mix::in_order(add.clone(), STREAMS));
        let make = [text("CREATE"), STREAM, text("readers"), text("$"), text("MKSTREAM")];
        let groups = (STREAMS, Mix::in_order(request("XGROUP", &make), STREAMS));
        let read = |options: &[Arg], stream: Arg| {
            let group = [text("GROUP"), text("readers"), text("one")];
            request("XREADGROUP", &[&group[..], options, &[text("STREAMS"), stream, text(">")]].concat())
        };
        let (name, data, own) = match self {
            Family::Xadd => ("XADD", adds, add),
            Family::Xrange => {
                let own = request("XRANGE", &[STREAM, text("-"), text("+"), text("COUNT"), text("10")]);
                ("XRANGE of 10", adds, own)
            }
            Family::Xread => {
                let own = request("XREAD", &[text("COUNT"), text("10"), text("STREAMS"), STREAM, text("0")]);
                ("XREAD of 10", adds, own)
            }
            Family::Xreadgroup => {
                let read = read(&[text("NOACK"), text("COUNT"), text("1")], STREAM);
                ("XADD and XREADGROUP", groups, Request::joined(&[add, read]))
            }
            _ => {
                // A request knows the ID of the entry that it reads: no other connection uses the stream. It
                // reads up to ten, so that what the end of an earlier load has left does not stay for ever.
                let trimmed = [text("MAXLEN"), text("~"), text("1000"), Arg::Turn, text("field"), ELEMENT];
                let add = request("XADD", &[&[OWN_STREAM][..], &trimmed].concat());
                let read = read(&[text("COUNT"), text("10")], OWN_STREAM);
                let acknowledge = request("XACK", &[OWN_STREAM, text("readers"), Arg::Turn]);
                ("XADD, XREADGROUP and XACK", groups, Request::joined(&[add, read, acknowledge]))
            }
        };
        let mix = Mix::of(own, Keys::new(KeyChoice::Uniform, STREAMS));
        Case { name, data, mix, pipelines: &[1, 16, 64] }
    }

    /// The requests of a family of points.
    fn of_points(self, setting: &Setting) -> Case {
        let text = Arg::Text;
        let (name, shape) = match self {
            Family::Geosearch => ("GEOSEARCH, radius of 3 km", vec![text("BYRADIUS"), text("3"), text("km")]),
            _ => ("GEOSEARCH, box of 5 km", vec![text("BYBOX"), text("5"), text("5"), text("km")]),
        };
        let place = Arg::Number { prefix: "place:", digits: 6, below: POINTS };
        let add = request("GEOADD", &[MAP, DEGREES, DEGREES, place]);
        // Places are drawn, so many repeat: of five times as many, one in 150 is not there.
        let data = (setting.scaled(MAPS * POINTS * 5), Mix::in_order(add, MAPS));
        let middle = [MAP, text("FROMLONLAT"), DEGREES, DEGREES];
        let own = request("GEOSEARCH", &[&middle[..], &shape].concat());
        Case { name, data, mix: Mix::of(own, Keys::new(KeyChoice::Uniform, MAPS)), pipelines: &[1, 16, 64] }
    }

    /// The requests, at the scale of the setting.
    fn case(self, setting: &Setting) -> Case {
        let records = setting.scaled(RECORDS);
        let count = if matches!(self, Family::Set | Family::Get) { setting.scaled(KEYS) } else { records };
        let of = |request, count| Mix::of(request, Keys::new(KeyChoice::Uniform, count));
        let halves = |one, two| Mix::weighted(&[(1, one), (1, two)], Keys::new(KeyChoice::Uniform, count));
        let case = |name, load: Request, loads, mix| Case {
            name,
            data: (loads, Mix::in_order(load, loads)),
            mix,
            pipelines: &[1, 16, 64],
        };
        let any_key = Arg::Number { prefix: "key:", digits: 12, below: records };
        let sets = request("SET", &[any_key, VALUE]);
        match self {
            Family::Hset | Family::Hgetall => {
                let mut fields = vec![HASH];
                FIELD_NAMES.iter().for_each(|name| fields.extend([Arg::Text(name), ELEMENT]));
                let field = Arg::Number { prefix: "field", digits: 1, below: FIELDS };
                let (name, own) = match self {
                    Family::Hset => ("HSET, hash of 8", request("HSET", &[HASH, field, ELEMENT])),
                    _ => ("HGETALL of 8", request("HGETALL", &[HASH])),
                };
                case(name, request("HSET", &fields), records, of(own, records))
            }
            Family::HsetLarge => {
                let field = Arg::Key { prefix: "field:", digits: 8, scattered: false };
                let own = request("HSET", &[Arg::Text("large"), field, ELEMENT]);
                case("HSET, large hash", own.clone(), records, of(own, records))
            }
            Family::Lpush => {
                let list = Arg::Text("list");
                let push = request("LPUSH", &[list, ELEMENT]);
                let mix = halves(push.clone(), request("RPOP", &[list]));
                case("LPUSH 50 % RPOP 50 %", push, setting.scaled(LENGTH), mix)
            }
            Family::Lrange => {
                let lists = setting.scaled(LISTS);
                let all = request("RPUSH", &[&[LIST][..], &[ELEMENT; RANGE]].concat());
                let own = request("LRANGE", &[LIST, Arg::Text("0"), Arg::Text("-1")]);
                case("LRANGE of 100", all, lists, of(own, lists))
            }
            Family::Incr => {
                let own = request("INCR", &[KEY]);
                case("INCR", own.clone(), records, of(own, records))
            }
            Family::Mset => {
                let own = request("MSET", &[any_key, VALUE].repeat(MSET_KEYS));
                case("MSET of 10", set(), records, of(own, 1))
            }
            Family::Sadd | Family::Zadd => {
                let member = Arg::Number { prefix: "member:", digits: 6, below: MEMBERS };
                let (name, own) = match self {
                    Family::Sadd => ("SADD", request("SADD", &[SET, member])),
                    _ => ("ZADD", request("ZADD", &[SORTED_SET, SCORE, member])),
                };
                // Members are drawn, so some repeat: one and a half times as many leave most of them there.
                let adds = setting.scaled(SETS * MEMBERS * 3 / 2);
                let data = (adds, Mix::in_order(own.clone(), SETS));
                Case { data, ..case(name, own.clone(), 1, of(own, SETS)) }
            }
            Family::Xadd | Family::Xrange | Family::Xread | Family::Xreadgroup | Family::XreadgroupXack => {
                self.of_streams(setting)
            }
            Family::Geosearch | Family::GeosearchBox => self.of_points(setting),
            Family::Pfadd | Family::Pfcount => {
                let element = Arg::Number { prefix: "user:", digits: 7, below: 10_000_000 };
                let add = request("PFADD", &[SKETCH, element]);
                let (name, own) = match self {
                    Family::Pfadd => ("PFADD", add.clone()),
                    _ => ("PFCOUNT", request("PFCOUNT", &[SKETCH])),
                };
                let data = (setting.scaled(RECORDS), Mix::in_order(add.clone(), SKETCHES));
                Case { data, ..case(name, add, 1, of(own, SKETCHES)) }
            }
            Family::Del => case("SET 50 % DEL 50 %", set(), records, halves(set(), request("DEL", &[KEY]))),
            Family::Expire => case("EXPIRE", set(), records, of(request("EXPIRE", &[KEY, SECONDS]), records)),
            Family::Multi => {
                let ends = ["MULTI", "EXEC"].map(|name| request(name, &[]));
                let all = [&ends[..1], &vec![sets; TRANSACTION], &ends[1..]].concat();
                case("MULTI of 5 SET", set(), records, of(Request::joined(&all), 1))
            }
            Family::Script => script("EVALSHA of 1 call", ONE_CALL, &[COUNTER], records),
            Family::ScriptLong => script("EVALSHA of 50 calls", MANY_CALLS, &[COUNTER], records),
            Family::RateLimiter => {
                let limits = [COUNTER, Arg::Text("100"), Arg::Text("50")];
                script("EVALSHA, rate limiter", RATE_LIMITER, &limits, records)
            }
            Family::Set => case("SET", set(), count, of(set(), count)),
            Family::Get => case("GET", set(), count, of(get(), count)),
            Family::SetLong | Family::GetLong => {
                let long = request("SET", &[KEY, LONG]);
                let (name, own) = match self {
                    Family::SetLong => ("SET of 1 024 bytes", long.clone()),
                    _ => ("GET of 1 024 bytes", get()),
                };
                Case { pipelines: &[16], ..case(name, long, records, of(own, records)) }
            }
        }
    }
}

/// The words of a case, but for its pipeline.
fn words(name: &str) -> String {
    format!("families: {name}")
}

/// Those of the families that are asked for, of none all.
pub(super) fn all_words(setting: &Setting, asked: &[Family]) -> Vec<String> {
    let asked = Family::ALL.into_iter().filter(|family| is_asked(asked, family));
    asked.map(|family| words(family.case(setting).name)).collect()
}

/// Measures the families and the pipelines that are asked for, of none all, on servers that run, by turns.
pub(crate) fn run(
    setting: &Setting,
    report: &mut Report,
    asked: &[Family],
    asked_pipelines: &[u32],
    contenders: &[Contender],
) -> Result<()> {
    for family in Family::ALL.into_iter().filter(|family| is_asked(asked, family)) {
        let Case { name, data: (requests, data), mix, pipelines } = family.case(setting);
        let contenders = contest::prepared(report, &[words(name)], contenders, |contender| {
            contender.server.client()?.call(&["FLUSHALL"])?;
            let what = format!("load {} for {name}", contender.label);
            fill(&contender.server, &what, requests, data.clone(), setting.seed).map(|_| ())
        })?;
        for &pipeline in pipelines.iter().filter(|pipeline| is_asked(asked_pipelines, pipeline)) {
            let words = format!("{} pipeline {pipeline}", words(name));
            let parameters = json!({
                "persistence": "none", "clients": CLIENTS, "pipeline": pipeline, "family": family,
                "request": name, "loaded_with": requests,
            });
            let (groups, usual_s) = ([clients(pipeline, mix.clone())], USUAL_S);
            let case = contest::Case { name: &words, parameters: &parameters, groups: &groups, usual_s };
            contest::hold_for(setting, report, &case, &contenders, |_| Ok(()))?;
        }
    }
    Ok(())
}
