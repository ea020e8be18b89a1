//! Points on the earth, in sorted sets: the score of a member is its point.

use std::cmp::Ordering;
use std::ops::Range;

use tarn_engine::record::{Change, Kind};
use tarn_engine::value::{ImageBuilder, ZSetRef};
use tarn_resp::{Args, Protocol, Writer};

use super::geohash::{Point, Shape};
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Begin, Find, FindKey, Flags, KeySpec};

const STORE: Flags = Flags::WRITE.with(Flags::DENYOOM);
const RADIUS: Flags = STORE.with(Flags::MOVABLEKEYS);
const READ_KEY: KeySpec = KeySpec::one(&["RO", "access"]);
const READ: &[KeySpec] = &[READ_KEY];
const SEARCH: &str = "O(N+log(M)) where N is the number of elements in the cells of the map around the \
                      shape that is searched, and M the number of those within it";

const RADIUS_KEYS: &[KeySpec] = &[
    READ_KEY,
    stored("STORE", 6, |args| target_at(args, 6, "store")),
    stored("STOREDIST", 6, |args| target_at(args, 6, "storedist")),
];
const MEMBER_KEYS: &[KeySpec] = &[
    READ_KEY,
    stored("STORE", 5, |args| target_at(args, 5, "store")),
    stored("STOREDIST", 5, |args| target_at(args, 5, "storedist")),
];

const fn stored(word: &'static str, from: i32, target: FindKey) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { begin: Begin::Option(word, from, target), find, flags: &["OW", "update"] }
}

/// Where the key stands that the options from `first` on store at, if this word names it: the last one does,
/// as `Search::option` reads them, and a key may have the name of a word.
fn target_at(args: Args<'_>, first: usize, word: &str) -> Option<usize> {
    let (mut at, mut target) = (first, None);
    while at + 1 < args.len() {
        let is = |option: &str| args.at(at).eq_ignore_ascii_case(option.as_bytes());
        at += match () {
            () if is("store") || is("storedist") => {
                target = is(word).then_some(at + 1);
                2
            }
            () if is("count") => 2,
            () => 1,
        };
    }
    target
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("geoadd", -5, STORE, "3.2.0", "Adds members with their points.", geoadd)
        .keys(&[KeySpec::one(&["RW", "update"])])
        .complexity("O(log(N)) for each member"),
    row("geodist", -4, Flags::READONLY, "3.2.0", "Returns the distance of two members.", geodist)
        .keys(READ)
        .complexity("O(1)"),
    row("geohash", -2, Flags::READONLY, "3.2.0", "Returns the points of members in letters.", geohash)
        .keys(READ)
        .complexity("O(1) for each member"),
    row("geopos", -2, Flags::READONLY, "3.2.0", "Returns the points of members.", geopos)
        .keys(READ)
        .complexity("O(1) for each member"),
    row("georadius", -6, RADIUS, "3.2.0", "Finds members within a distance of a point.", georadius)
        .keys(RADIUS_KEYS)
        .complexity(SEARCH),
    row("georadius_ro", -6, Flags::READONLY, "3.2.10", "As GEORADIUS, without storing.", georadius_ro)
        .keys(READ)
        .complexity(SEARCH),
    row("georadiusbymember", -5, RADIUS, "3.2.0", "Finds members around another.", georadiusbymember)
        .keys(MEMBER_KEYS)
        .complexity(SEARCH),
    row(
        "georadiusbymember_ro",
        -5,
        Flags::READONLY,
        "3.2.10",
        "As GEORADIUSBYMEMBER, without storing.",
        georadiusbymember_ro,
    )
    .keys(READ)
    .complexity(SEARCH),
    row("geosearch", -7, Flags::READONLY, "6.2.0", "Finds members within a circle or a box.", geosearch)
        .keys(READ)
        .complexity(SEARCH),
    row("geosearchstore", -8, STORE, "6.2.0", "As GEOSEARCH, and stores the result.", geosearchstore)
        .keys(&[KeySpec::one(&["OW", "update"]), KeySpec::range(2, 0, 1, &["RO", "access"])])
        .complexity(SEARCH),
];

/// The point that two arguments say.
fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, CommandError> {
    let (longitude, latitude) = (parse::float(longitude)?, parse::float(latitude)?);
    Point::on_map(longitude, latitude).ok_or_else(|| {
        CommandError::owned(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
    })
}

/// The metres of a unit.
fn unit(word: &[u8]) -> Result<f64, CommandError> {
    let units = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let found = units.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    found
        .map(|(_, metres)| *metres)
        .ok_or(CommandError::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

fn write_distance(reply: &mut Writer<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

/// A coordinate, as long as a `long double` of C writes it with 17 digits behind the point.
fn write_coordinate(reply: &mut Writer<'_>, degrees: f64) {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk(text.as_bytes()),
        Protocol::Resp3 => reply.raw(format!(",{text}\r\n").as_bytes()),
    }
}

fn write_point(reply: &mut Writer<'_>, point: Point) {
    reply.array(2);
    write_coordinate(reply, point.longitude);
    write_coordinate(reply, point.latitude);
}

fn geoadd<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (mut only_new, mut only_known, mut counts_changed) = (false, false, false);
    let mut first = 2;
    while let Some(word) = args.get(first) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        match () {
            () if is("nx") => only_new = true,
            () if is("xx") => only_known = true,
            () if is("ch") => counts_changed = true,
            () => break,
        }
        first += 1;
    }
    if !(args.len() - first).is_multiple_of(3) || only_new && only_known {
        return Err(CommandError::Syntax);
    }
    let key = args.at(1);
    let places = (first..args.len()).step_by(3);
    let points =
        places.clone().map(|at| point(args.at(at), args.at(at + 1))).collect::<Result<Vec<_>, _>>()?;
    let zset = cx.zset(key)?;
    let mut named = super::decided::Decided::default();
    let (mut added, mut updated) = (0, 0);
    for (at, point) in places.zip(points) {
        let member = args.at(at + 2);
        let score = point.number() as f64;
        let current = named.entry(member, || zset.and_then(|zset| zset.score(member)));
        match *current {
            Some(_) if only_new => continue,
            None if only_known => continue,
            Some(before) if before == score => continue,
            Some(_) => updated += 1,
            None => added += 1,
        }
        *current = Some(score);
        cx.write(key, Change::ZSetPut { member: member.into(), score });
    }
    cx.reply.integer(if counts_changed { added + updated } else { added });
    Ok(())
}

/// The point of a member.
fn point_of(zset: Option<ZSetRef<'_>>, member: &[u8]) -> Option<Point> {
    zset.and_then(|zset| zset.score(member)).map(Point::of_score)
}

fn geodist<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let metres = match args.len() {
        4 => 1.0,
        5 => unit(args.at(4))?,
        _ => return Err(CommandError::Syntax),
    };
    let zset = cx.zset(args.at(1))?;
    match (point_of(zset, args.at(2)), point_of(zset, args.at(3))) {
        (Some(one), Some(other)) => write_distance(&mut cx.reply, one.distance(other) / metres),
        _ => cx.reply.null(),
    }
    Ok(())
}

fn geohash<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let zset = cx.zset(args.at(1))?;
    cx.reply.array(args.len() - 2);
    for member in args.tail(2) {
        match point_of(zset, member) {
            Some(point) => cx.reply.bulk(&point.letters()),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn geopos<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let zset = cx.zset(args.at(1))?;
    cx.reply.array(args.len() - 2);
    for member in args.tail(2) {
        match point_of(zset, member) {
            Some(point) => write_point(&mut cx.reply, point),
            None => cx.reply.null_array(),
        }
    }
    Ok(())
}

/// Which command asks, as options and errors differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `GEORADIUS` and `GEORADIUSBYMEMBER`, and whether it may store.
    Radius {
        by_member: bool,
        stores: bool,
    },
    Search,
    SearchStore,
}

/// A search, and the use of its result.
struct Search<'a> {
    middle: Option<Point>,
    shape: Option<Shape>,
    /// The metres of the unit in which distances are told.
    metres: f64,
    shows: Shown,
    order: Option<Ordering>,
    count: usize,
    any: bool,
    target: Option<&'a [u8]>,
    stores_distances: bool,
}

#[derive(Clone, Copy, Default)]
struct Shown {
    distance: bool,
    number: bool,
    point: bool,
}

/// A member that was found.
struct Found<'m> {
    member: &'m [u8],
    score: f64,
    distance: f64,
}

/// The number of a distance, and its unit.
fn distance_of(text: &[u8], word: &[u8]) -> Result<(f64, f64), CommandError> {
    let distance = parse::float_or(text, "ERR need numeric radius")?;
    if distance < 0.0 {
        return Err(CommandError::text("ERR radius cannot be negative"));
    }
    Ok((distance, unit(word)?))
}

impl<'a> Search<'a> {
    fn parse(form: Form, zset: Option<ZSetRef<'_>>, args: Args<'a>) -> Result<Search<'a>, CommandError> {
        let mut search = Search {
            middle: None,
            shape: None,
            metres: 1.0,
            shows: Shown::default(),
            order: None,
            count: 0,
            any: false,
            target: None,
            stores_distances: false,
        };
        let first = match form {
            Form::Radius { by_member: false, .. } => {
                search.middle = Some(point(args.at(2), args.at(3))?);
                search.take_circle(args.at(4), args.at(5))?;
                6
            }
            Form::Radius { by_member: true, .. } => {
                if zset.is_some() {
                    search.middle = Some(member_point(zset, args.at(2))?);
                    search.take_circle(args.at(3), args.at(4))?;
                }
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                search.target = Some(args.at(1));
                3
            }
        };
        let mut places = Places::default();
        let mut at = first;
        while at < args.len() {
            at += search.option(form, zset, args.tail(at), &mut places)?;
        }
        search.check(form, args, &places)?;
        Ok(search)
    }

    fn take_circle(&mut self, text: &[u8], word: &[u8]) -> Result<(), CommandError> {
        let (radius, metres) = distance_of(text, word)?;
        (self.shape, self.metres) = (Some(Shape::Circle { radius: radius * metres }), metres);
        Ok(())
    }

    /// Reads an option; how many arguments it has.
    fn option(
        &mut self,
        form: Form,
        zset: Option<ZSetRef<'_>>,
        args: Args<'a>,
        places: &mut Places,
    ) -> Result<usize, CommandError> {
        let is = |option: &str| args.at(0).eq_ignore_ascii_case(option.as_bytes());
        let more = args.len() - 1;
        let searches = matches!(form, Form::Search | Form::SearchStore);
        let may_store = matches!(form, Form::Radius { stores: true, .. });
        match () {
            () if is("withdist") => self.shows.distance = true,
            () if is("withhash") => self.shows.number = true,
            () if is("withcoord") => self.shows.point = true,
            () if is("any") => self.any = true,
            () if is("asc") => self.order = Some(Ordering::Less),
            () if is("desc") => self.order = Some(Ordering::Greater),
            () if is("count") && more > 0 => {
                let count = parse::integer(args.at(1))?;
                const TOO_FEW: CommandError = CommandError::text("ERR COUNT must be > 0");
                self.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(TOO_FEW)?;
                return Ok(2);
            }
            () if may_store && more > 0 && (is("store") || is("storedist")) => {
                self.target = Some(args.at(1));
                self.stores_distances = is("storedist");
                return Ok(2);
            }
            () if searches && more > 0 && is("frommember") && !places.is_from_point => {
                if zset.is_some() {
                    self.middle = Some(member_point(zset, args.at(1))?);
                }
                places.is_from_member = true;
                return Ok(2);
            }
            () if searches && more > 1 && is("fromlonlat") && !places.is_from_member => {
                self.middle = Some(point(args.at(1), args.at(2))?);
                places.is_from_point = true;
                return Ok(3);
            }
            () if searches && more > 1 && is("byradius") && !places.is_box => {
                self.take_circle(args.at(1), args.at(2))?;
                places.is_circle = true;
                return Ok(3);
            }
            () if searches && more > 2 && is("bybox") && !places.is_circle => {
                let width = parse::float_or(args.at(1), "ERR need numeric width")?;
                let height = parse::float_or(args.at(2), "ERR need numeric height")?;
                if width < 0.0 || height < 0.0 {
                    return Err(CommandError::text("ERR height or width cannot be negative"));
                }
                self.metres = unit(args.at(3))?;
                self.shape = Some(Shape::Box { width: width * self.metres, height: height * self.metres });
                places.is_box = true;
                return Ok(4);
            }
            () if form == Form::SearchStore && is("storedist") => self.stores_distances = true,
            () => return Err(CommandError::Syntax),
        }
        Ok(1)
    }

    fn check(&self, form: Form, args: Args<'_>, places: &Places) -> Result<(), CommandError> {
        let searches = matches!(form, Form::Search | Form::SearchStore);
        let command = || printable(args.at(0));
        let Shown { distance, number, point } = self.shows;
        if self.target.is_some() && (distance || number || point) {
            let what = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(CommandError::owned(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if searches && !(places.is_from_member || places.is_from_point) {
            return Err(CommandError::owned(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}",
                command()
            )));
        }
        if searches && !(places.is_circle || places.is_box) {
            return Err(CommandError::owned(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {}",
                command()
            )));
        }
        if self.any && self.count == 0 {
            return Err(CommandError::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The members that are found, in the order in which they are replied, and as many as are.
    fn run<'m>(&self, zset: ZSetRef<'m>) -> Vec<Found<'m>> {
        let (Some(middle), Some(shape)) = (self.middle, self.shape) else { return Vec::new() };
        let most = if self.any { self.count } else { usize::MAX };
        let within = move |(member, score): (&'m [u8], f64)| {
            let distance = shape.distance(middle, Point::of_score(score))?;
            Some(Found { member, score, distance })
        };
        let cells = shape.scores(middle).into_iter();
        let of_cell = move |Range { start, end }: Range<f64>| {
            let from = zset.lower_bound_score(start, false);
            zset.iter_from(from).take_while(move |(_, score)| *score < end).filter_map(within)
        };
        let mut found: Vec<Found<'m>> = cells.flat_map(of_cell).take(most).collect();
        let sorts_all = self.count > 0 && !self.any;
        if let Some(order) = self.order.or(sorts_all.then_some(Ordering::Less)) {
            found.sort_by(|a, b| {
                let ascending = a.distance.total_cmp(&b.distance);
                if order == Ordering::Less { ascending } else { ascending.reverse() }
            });
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found
    }

    fn write(&self, reply: &mut Writer<'_>, found: &Found<'_>) {
        let Shown { distance, number, point } = self.shows;
        let parts = usize::from(distance) + usize::from(number) + usize::from(point);
        if parts > 0 {
            reply.array(parts + 1);
        }
        reply.bulk(found.member);
        if distance {
            write_distance(reply, found.distance / self.metres);
        }
        if number {
            reply.integer(found.score as i64);
        }
        if point {
            write_point(reply, Point::of_score(found.score));
        }
    }
}

/// Which of the options that exclude each other were given.
#[derive(Default)]
struct Places {
    is_from_member: bool,
    is_from_point: bool,
    is_circle: bool,
    is_box: bool,
}

fn member_point(zset: Option<ZSetRef<'_>>, member: &[u8]) -> Result<Point, CommandError> {
    point_of(zset, member).ok_or(CommandError::text("ERR could not decode requested zset member"))
}

fn search<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, form: Form) -> Result<(), CommandError> {
    let source = args.at(if form == Form::SearchStore { 2 } else { 1 });
    let zset = cx.zset(source)?;
    let search = Search::parse(form, zset, args)?;
    let found = zset.map(|zset| search.run(zset)).unwrap_or_default();
    let Some(target) = search.target else {
        cx.reply.array(found.len());
        found.iter().for_each(|found| search.write(&mut cx.reply, found));
        return Ok(());
    };
    let len = found.len() as i64;
    if found.is_empty() {
        if cx.entry(target).is_some() {
            cx.write(target, Change::Delete);
        }
    } else {
        let mut image = ImageBuilder::new(Kind::ZSet);
        for Found { member, score, distance } in found {
            image.push_scored(member, if search.stores_distances { distance / search.metres } else { score });
        }
        let elements = image.finish().into();
        cx.write(target, Change::Image { kind: Kind::ZSet, elements, expiry: None, sticky: false });
    }
    cx.reply.integer(len);
    Ok(())
}

fn georadius<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    search(cx, args, Form::Radius { by_member: false, stores: true })
}

fn georadius_ro<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    search(cx, args, Form::Radius { by_member: false, stores: false })
}

fn georadiusbymember<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    search(cx, args, Form::Radius { by_member: true, stores: true })
}

fn georadiusbymember_ro<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    search(cx, args, Form::Radius { by_member: true, stores: false })
}

fn geosearch<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    search(cx, args, Form::Search)
}

fn geosearchstore<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    search(cx, args, Form::SearchStore)
}
