//! Rules of users and the categories of commands, compared with a real redis-server 7.0: the same rules are
//! refused for the same reasons, the same text is made of them, and the same requests are allowed.
//!
//! Rules that Redis takes, but could not read back from what it writes, are not tried: white space in a first
//! argument, and a `)` or quotes within parentheses. `TARN_SEED` draws other rules.
//! Left out where redis-server is not installed.

#![allow(clippy::unwrap_used)]

mod own_process;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use own_process::{Connection, Own, serve_if_told};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tarn_server::acl::{CATEGORIES, Catalog, Listed, User, UserId, catalog, merge_selectors};
use tarn_server::commands;

/// The users that are tried.
const USERS: usize = 10_000;
/// The requests that are tried for each.
const REQUESTS: usize = 8;
/// Commands that take another word since a later version of Redis.
const LONGER: &[&str] = &["zrank", "zrevrank"];

#[test]
fn serves() {
    serve_if_told();
}

/// Commands that show what others do with any key: Tarn wants the right to every key for them.
const STRICTER: &[&str] = &["monitor"];

/// A redis-server; `None` where there is none.
fn redis() -> Option<Own> {
    let has_redis = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_redis {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no redis-server to compare with");
        return None;
    }
    let mut redis = Own::new();
    let mut command = Command::new("redis-server");
    command.args(["--port", &redis.port.to_string(), "--save", "", "--dir"]).arg(redis.folder.path());
    redis.adopt(command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap());
    Some(redis)
}

/// A request of words that may hold anything.
fn encoded(words: &[String]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    request
}

/// The replies to requests that are sent together.
fn ask_all(client: &mut Connection, requests: &[Vec<String>]) -> Vec<String> {
    let bytes: Vec<u8> = requests.iter().flat_map(|words| encoded(words)).collect();
    client.0.get_mut().write_all(&bytes).unwrap();
    requests.iter().map(|_| client.reply()).collect()
}

/// The commands of a server as `ACL CAT` shows them, with their categories.
fn categories(client: &mut Connection) -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut found = BTreeMap::<String, BTreeSet<&str>>::new();
    for category in CATEGORIES {
        let reply = client.ask(&format!("ACL CAT {}", &category[1..]));
        for name in reply.trim_matches(['[', ']']).split_whitespace() {
            found.entry(name.to_owned()).or_default().insert(category);
        }
    }
    found
}

/// The same as rules know commands, each before its subcommands.
fn catalog_of(commands: &BTreeMap<String, BTreeSet<&'static str>>) -> Catalog {
    let mut names: Vec<&String> = commands.keys().collect();
    names.sort_by_key(|name| name.split('|').collect::<Vec<_>>());
    let listed = |name: &&String| {
        let bit = |name: &&str| 1 << catalog::category(&name.as_bytes()[1..]).unwrap();
        let parent = name.split_once('|').map(|(parent, _)| parent);
        Listed {
            name: name.to_string(),
            categories: commands[*name].iter().map(bit).fold(0, |all: u32, bit: u32| all | bit),
            parent: parent.map(|parent| names.iter().position(|name| *name == parent).unwrap()),
            is_hidden: false,
        }
    };
    Catalog::new(names.iter().map(listed).collect())
}

#[test]
fn commands_have_the_categories_of_redis() {
    let Some(mut redis) = redis() else { return };
    let theirs = categories(&mut redis.connect());
    let ours = commands::catalog();
    let mut compared = 0;
    for (_, listed) in ours.shown() {
        let Some(theirs) = theirs.get(&listed.name) else { continue };
        let is_in = |at: &usize| listed.categories >> at & 1 == 1;
        let own: BTreeSet<&str> = (0..CATEGORIES.len()).filter(is_in).map(|at| CATEGORIES[at]).collect();
        assert_eq!(&own, theirs, "{}", listed.name);
        compared += 1;
    }
    assert!(compared > 300, "only {compared} commands were compared");
}

/// Draws rules and requests.
struct Draw<'c> {
    random: StdRng,
    /// The names of the commands that both servers have.
    commands: &'c [String],
}

impl Draw<'_> {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.choose(&mut self.random).unwrap()
    }

    fn command(&mut self) -> String {
        let name = self.commands.choose(&mut self.random).unwrap().clone();
        if self.random.random_range(0..8) == 0 { name.to_ascii_uppercase() } else { name }
    }

    fn rule(&mut self, in_selector: bool) -> String {
        const FLAGS: &str = "on OFF nopass resetpass reset sanitize-payload skip-sanitize-payload \
            clearselectors allkeys ResetKeys allchannels resetchannels allcommands nocommands +@all -@ALL ~* \
            &* nonsense + - ~ & % %R +@ > < # !";
        let sign = self.one(&["+", "-"]);
        match self.random.random_range(0..if in_selector { 9 } else { 12 }) {
            0..3 => format!("{sign}{}", self.command()),
            3 => format!("{sign}{}", self.one(CATEGORIES)),
            4 => self.one(&FLAGS.split(' ').chain(["", "on "]).collect::<Vec<_>>()).to_owned(),
            5 => format!("{sign}{}|{}", self.command(), self.one(&["0", "GET", "get", "", "a|b", "help"])),
            6 | 7 => {
                let head = self.one(&["~", "~", "%R~", "%W~", "%rw~", "%WR~", "%RR~", "%X~"]);
                format!("{head}{}", self.one(&["a", "b", "a*", "*", "", "[ab]", "a?", "k\\*"]))
            }
            8 => format!("&{}", self.one(&["a", "a*", "*", "", "x"])),
            9 => format!("{}{}", self.one(&[">", "<"]), self.one(&["a", "b", "c d"])),
            10 => {
                let digit = self.one(&["0", "1", "A", "g"]);
                format!("{}{}", self.one(&["#", "!"]), digit.repeat(self.random.random_range(63..66)))
            }
            _ => {
                let rules: Vec<String> =
                    (0..self.random.random_range(0..4)).map(|_| self.rule(true)).collect();
                let (open, close) = (self.one(&["(", "( ", "(", "(("]), self.one(&[")", " )", ")", ""]));
                format!("{open}{}{close}", rules.join(" "))
            }
        }
    }

    fn rules(&mut self) -> Vec<String> {
        let most = *[2, 4, 10, 25].choose(&mut self.random).unwrap();
        // Few requests would be allowed otherwise.
        let first = self.one(&["", "+@all", "allkeys +@all", "+@all ~a* %R~0 %W~1", "~* +@read +@fast"]);
        let mut rules = words(first);
        rules.extend((0..self.random.random_range(1..most)).map(|_| self.rule(false)));
        rules
    }

    /// The words of a request; mostly one that its command refuses.
    fn request(&mut self) -> Vec<String> {
        const WORDS: &str =
            "a b a1 * k* 0 1 2 GET STORE BY x COUNT 10 0-0 $ > STREAMS KEYS LIMIT DB REPLACE [0 + -";
        let more: Vec<&str> = WORDS.split(' ').chain([""]).collect();
        let mut words: Vec<String> = self.command().split('|').map(str::to_owned).collect();
        words.extend((0..self.random.random_range(0..6)).map(|_| self.one(&more).to_owned()));
        words
    }
}

/// The words of each selector in order: Redis shows commands in that of their hashes.
fn sorted(text: &str) -> Vec<Vec<&str>> {
    let mut selectors: Vec<Vec<&str>> =
        text.split(['(', ')']).map(|selector| selector.split_whitespace().collect()).collect();
    selectors.iter_mut().for_each(|words| words.sort_unstable());
    selectors
}

/// The line of the user `u` that rules make of a catalog; `None`: they are refused.
fn line_of(rules: &[String], catalog: &Catalog) -> Option<String> {
    let mut user = User::new(b"u", UserId(1), catalog, false);
    for rule in merge_selectors(rules.iter().map(|rule| rule.as_bytes())).ok()? {
        user.apply(&rule, catalog, false).ok()?;
    }
    // Every key in two patterns is written so that it can be read back, which Redis does not do.
    Some(String::from_utf8(user.line(catalog)).unwrap().replace("%RW~* ", "~* "))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn rules_say_the_same_to_redis() {
    let Some(mut redis) = redis() else { return };
    let seed = std::env::var("TARN_SEED").map_or(29, |seed| seed.parse().unwrap());
    let mut own = Own::new();
    let (mut theirs, mut ours) = (redis.connect(), own.start(&["--appendonly", "no"]));
    let all = categories(&mut theirs);
    let (catalog, own_catalog) = (catalog_of(&all), commands::catalog());
    let is_shared = |name: &&String| own_catalog.find(name.as_bytes()).is_some();
    let shared: Vec<String> = all.keys().filter(is_shared).cloned().collect();
    let mut draw = Draw { random: StdRng::seed_from_u64(seed), commands: &shared };
    let (mut accepted, mut allowed, mut denied) = (0, 0, 0);
    for i in 0..USERS {
        let rules = draw.rules();
        let about = format!("TARN_SEED={seed}, user {i}: {rules:?}");
        let dry: Vec<Vec<String>> = (0..REQUESTS).map(|_| draw.request()).collect();
        let mut asked = vec![[words("ACL SETUSER u"), rules.clone()].concat(), words("ACL LIST")];
        asked.extend(dry.iter().map(|request| [words("ACL DRYRUN u"), request.clone()].concat()));
        asked.extend(dry.iter().map(|request| [words("COMMAND GETKEYS"), request.clone()].concat()));
        asked.push(words("ACL DELUSER u"));
        let (their, our) = (ask_all(&mut theirs, &asked), ask_all(&mut ours, &asked));
        // The rule itself is shortened where it is long.
        let reason = |reply: &str| reply.rsplit("': ").next().unwrap_or_default().to_owned();
        assert_eq!(reason(&our[0]), reason(&their[0]), "{about}");
        let line = line_of(&rules, &catalog);
        assert_eq!(line.is_some(), their[0] == "+OK", "{about}");
        let Some(line) = line else { continue };
        accepted += 1;
        let their_line = their[1].split("user u ").nth(1).unwrap().trim_end_matches(']');
        assert_eq!(sorted(line.strip_prefix("user u ").unwrap()), sorted(their_line), "{about}");
        for (i, request) in dry.iter().enumerate() {
            let (our, their, keys) = (&our[2 + i], &their[2 + i], &their[2 + REQUESTS + i]);
            // Redis lets a request pass whose keys it cannot tell: its command refuses it.
            let is_wrong = keys.contains("Invalid arguments") && their == "+OK";
            let name = request[0].to_ascii_lowercase();
            if is_wrong || LONGER.contains(&name.as_str()) || STRICTER.contains(&name.as_str()) {
                continue;
            }
            assert_eq!(our, their, "{request:?} of {about}");
            *(if our == "+OK" { &mut allowed } else { &mut denied }) += 1;
        }
    }
    assert!(accepted > USERS / 3 && allowed > USERS / 4 && denied > USERS, "{accepted} {allowed} {denied}");
}
