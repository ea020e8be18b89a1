//! Searches for points within a circle, a box or a polygon. Long ones run in steps.

use std::cmp::Ordering;
use std::ops::Range;

use tarn_engine::Entry;
use tarn_engine::record::Kind;
use tarn_engine::value::geohash::{Origin, Point};
use tarn_engine::value::{ImageBuilder, ValueRef, ZSetRef};
use tarn_resp::{Args, Writer};

use super::geo::{point, point_of, unit, write_distance, write_point};
use super::geo_shapes::{EDGES, Polygon, Shape};
use super::set_algebra::store_image;
use crate::error::{CommandError, printable};
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Begin, Find, FindKey, Flags, KeySpec};
use crate::execute::steps::{Steps, at_once};
use crate::execute::storing::Storing;

/// Corners of a polygon at least.
const CORNERS_MIN: usize = 3;
/// Pairs of a member and a corner that are looked at in one go, where a command cannot run in steps: about
/// half a second. A request has room for half a million corners.
const PAIRS_MAX: usize = 1 << 28;
const TOO_MANY_PAIRS: CommandError = CommandError::text(
    "ERR BYPOLYGON would compare more than 268435456 pairs of a member and a vertex in one go",
);

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

/// The place of the key that the options from `first` on store at, if this word names it: the last one does,
/// as `Request::radius_option` reads them, and a key may have the name of a word.
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
    row(
        "geosearch",
        -7,
        Flags::READONLY,
        "6.2.0",
        "Finds members in a circle, a box or a polygon.",
        geosearch,
    )
    .keys(READ)
    .complexity(SEARCH),
    row("geosearchstore", -8, STORE, "6.2.0", "As GEOSEARCH, and stores the result.", geosearchstore)
        .keys(&[KeySpec::one(&["OW", "update"]), KeySpec::range(2, 0, 1, &["RO", "access"])])
        .complexity(SEARCH),
];

/// The command that asks, as options and errors differ.
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

/// A search, and where its result goes.
struct Request<'a> {
    search: Search,
    target: Option<&'a [u8]>,
}

/// A search, and the use of its result.
struct Search {
    middle: Option<Point>,
    shape: Option<Shape>,
    /// The metres of the unit in which distances are told.
    metres: f64,
    shows: Shown,
    order: Option<Ordering>,
    count: usize,
    any: bool,
    stores_distances: bool,
}

#[derive(Clone, Copy, Default)]
struct Shown {
    distance: bool,
    number: bool,
    point: bool,
}

/// A member that was found.
#[derive(Clone, Copy)]
struct Found<'m> {
    member: &'m [u8],
    score: f64,
    distance: f64,
}

/// The options that exclude each other, and were given.
#[derive(Default)]
struct Places {
    is_from_member: bool,
    is_from_point: bool,
    is_circle: bool,
    is_box: bool,
    /// It has a middle of its own.
    is_polygon: bool,
}

/// The number of a distance, and its unit.
fn distance_of(text: &[u8], word: &[u8]) -> Result<(f64, f64), CommandError> {
    let distance = parse::float_or(text, "ERR need numeric radius")?;
    if distance < 0.0 {
        return Err(CommandError::text("ERR radius cannot be negative"));
    }
    Ok((distance, unit(word)?))
}

/// The polygon of which the number of corners stands at 1, and the corners behind it; the number, too.
fn polygon_of(args: Args<'_>) -> Result<(Polygon, usize), CommandError> {
    const NO_NUMBER: &str = "ERR invalid number of vertices";
    const TOO_FEW: CommandError = CommandError::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
    let number = parse::integer_or(args.at(1), NO_NUMBER)?;
    let number = i32::try_from(number).map_err(|_| CommandError::text(NO_NUMBER))?;
    // No more than there are arguments for.
    let is_there = |number: &usize| (CORNERS_MIN..=(args.len() - 2) / 2).contains(number);
    let number = usize::try_from(number).ok().filter(is_there).ok_or(TOO_FEW)?;
    let corners = (0..number).map(|corner| point(args.at(2 + 2 * corner), args.at(3 + 2 * corner)));
    Ok((Polygon::new(corners.collect::<Result<_, _>>()?), number))
}

fn member_point(zset: Option<ZSetRef<'_>>, member: &[u8]) -> Result<Point, CommandError> {
    point_of(zset, member).ok_or(CommandError::text("ERR could not decode requested zset member"))
}

impl<'a> Request<'a> {
    fn parse(form: Form, zset: Option<ZSetRef<'_>>, args: Args<'a>) -> Result<Request<'a>, CommandError> {
        let search = Search {
            middle: None,
            shape: None,
            metres: 1.0,
            shows: Shown::default(),
            order: None,
            count: 0,
            any: false,
            stores_distances: false,
        };
        let mut request = Request { search, target: None };
        let first = match form {
            Form::Radius { by_member: false, .. } => {
                request.search.middle = Some(point(args.at(2), args.at(3))?);
                request.search.take_circle(args.at(4), args.at(5))?;
                6
            }
            Form::Radius { by_member: true, .. } => {
                if zset.is_some() {
                    request.search.middle = Some(member_point(zset, args.at(2))?);
                    request.search.take_circle(args.at(3), args.at(4))?;
                }
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                request.target = Some(args.at(1));
                3
            }
        };
        let mut places = Places::default();
        let mut at = first;
        while at < args.len() {
            at += match form {
                Form::Radius { stores, .. } => request.radius_option(stores, args.tail(at))?,
                Form::Search | Form::SearchStore => {
                    let taken = request.search.place_option(zset, args.tail(at), &mut places)?;
                    match taken {
                        Some(taken) => taken,
                        None => request.search_option(form, args.tail(at))?,
                    }
                }
            };
        }
        request.check(form, args, &places)?;
        Ok(request)
    }

    /// Reads an option of GEORADIUS and its like; how many arguments it has.
    fn radius_option(&mut self, stores: bool, args: Args<'a>) -> Result<usize, CommandError> {
        let is = |option: &str| args.at(0).eq_ignore_ascii_case(option.as_bytes());
        if stores && args.len() > 1 && (is("store") || is("storedist")) {
            self.target = Some(args.at(1));
            self.search.stores_distances = is("storedist");
            return Ok(2);
        }
        self.search.option(args)
    }

    /// Reads an option of GEOSEARCH and GEOSEARCHSTORE that names no place; how many arguments it has.
    fn search_option(&mut self, form: Form, args: Args<'a>) -> Result<usize, CommandError> {
        if form == Form::SearchStore && args.at(0).eq_ignore_ascii_case(b"storedist") {
            self.search.stores_distances = true;
            return Ok(1);
        }
        self.search.option(args)
    }

    fn check(&self, form: Form, args: Args<'_>, places: &Places) -> Result<(), CommandError> {
        let searches = matches!(form, Form::Search | Form::SearchStore);
        let command = || printable(args.at(0));
        let Shown { distance, number, point } = self.search.shows;
        if self.target.is_some() && (distance || number || point) {
            let what = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(CommandError::owned(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if searches && !(places.is_from_member || places.is_from_point || places.is_polygon) {
            return Err(CommandError::owned(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}",
                command()
            )));
        }
        if searches && !(places.is_circle || places.is_box || places.is_polygon) {
            return Err(CommandError::owned(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {}",
                command()
            )));
        }
        if self.search.any && self.search.count == 0 {
            return Err(CommandError::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }
}

impl Search {
    fn take_circle(&mut self, text: &[u8], word: &[u8]) -> Result<(), CommandError> {
        let (radius, metres) = distance_of(text, word)?;
        (self.shape, self.metres) = (Some(Shape::Circle { radius: radius * metres }), metres);
        Ok(())
    }

    /// Reads an option that all commands have; how many arguments it has.
    fn option(&mut self, args: Args<'_>) -> Result<usize, CommandError> {
        let is = |option: &str| args.at(0).eq_ignore_ascii_case(option.as_bytes());
        match () {
            () if is("withdist") => self.shows.distance = true,
            () if is("withhash") => self.shows.number = true,
            () if is("withcoord") => self.shows.point = true,
            () if is("any") => self.any = true,
            () if is("asc") => self.order = Some(Ordering::Less),
            () if is("desc") => self.order = Some(Ordering::Greater),
            () if is("count") && args.len() > 1 => {
                let count = parse::integer(args.at(1))?;
                const TOO_FEW: CommandError = CommandError::text("ERR COUNT must be > 0");
                self.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(TOO_FEW)?;
                return Ok(2);
            }
            () => return Err(CommandError::Syntax),
        }
        Ok(1)
    }

    /// Reads an option that says where GEOSEARCH looks; how many arguments it has, `None` if it says nothing
    /// of the kind.
    fn place_option(
        &mut self,
        zset: Option<ZSetRef<'_>>,
        args: Args<'_>,
        places: &mut Places,
    ) -> Result<Option<usize>, CommandError> {
        let is = |option: &str| args.at(0).eq_ignore_ascii_case(option.as_bytes());
        let more = args.len() - 1;
        let may_have_middle = !places.is_polygon;
        Ok(match () {
            () if more > 0 && is("frommember") && !places.is_from_point && may_have_middle => {
                if zset.is_some() {
                    self.middle = Some(member_point(zset, args.at(1))?);
                }
                places.is_from_member = true;
                Some(2)
            }
            () if more > 1 && is("fromlonlat") && !places.is_from_member && may_have_middle => {
                self.middle = Some(point(args.at(1), args.at(2))?);
                places.is_from_point = true;
                Some(3)
            }
            () if more > 1 && is("byradius") && !places.is_box && !places.is_polygon => {
                self.take_circle(args.at(1), args.at(2))?;
                places.is_circle = true;
                Some(3)
            }
            () if more > 2 && is("bybox") && !places.is_circle && !places.is_polygon => {
                let width = parse::float_or(args.at(1), "ERR need numeric width")?;
                let height = parse::float_or(args.at(2), "ERR need numeric height")?;
                if width < 0.0 || height < 0.0 {
                    return Err(CommandError::text("ERR height or width cannot be negative"));
                }
                self.metres = unit(args.at(3))?;
                self.shape = Some(Shape::Box { width: width * self.metres, height: height * self.metres });
                places.is_box = true;
                Some(4)
            }
            () if more > 1 && is("bypolygon") && places.may_have_polygon() => {
                let (polygon, corners) = polygon_of(args)?;
                self.middle = Some(polygon.middle());
                (self.shape, self.metres) = (Some(Shape::Polygon(polygon)), 1.0);
                places.is_polygon = true;
                Some(2 + 2 * corners)
            }
            () => None,
        })
    }

    /// The ranks of the members in the cells of the map that are looked into, in the order of the cells.
    fn ranks(&self, zset: ZSetRef<'_>) -> Vec<Range<usize>> {
        let (Some(middle), Some(shape)) = (self.middle, &self.shape) else { return Vec::new() };
        let rank = |score: f64| zset.lower_bound_score(score, false);
        shape.scores(middle).into_iter().map(|cell| rank(cell.start)..rank(cell.end)).collect()
    }

    /// Pairs of a member and a corner of a polygon that are compared.
    fn pairs(&self, ranks: &[Range<usize>]) -> usize {
        members_at(ranks).saturating_mul(self.shape.as_ref().map_or(0, Shape::edges))
    }

    /// Whether the search is to run in steps.
    fn is_long(&self, cx: &Context<'_, '_>, entry: &Entry, ranks: &[Range<usize>]) -> bool {
        cx.runs_long([(entry, members_at(ranks))].into_iter()) || cx.is_long(self.pairs(ranks) / EDGES, 0)
    }

    /// Members that are gathered before anything is replied, at most.
    fn gathered(&self, ranks: &[Range<usize>]) -> usize {
        members_at(ranks).min(self.most())
    }

    /// Members that are enough.
    fn most(&self) -> usize {
        if self.any { self.count } else { usize::MAX }
    }

    /// The members that are found, in the order in which they are replied, and as many as are.
    async fn run<'m>(&self, steps: &Steps, entry: &'m Entry, ranks: &[Range<usize>]) -> Vec<Found<'m>> {
        let mut found = Vec::new();
        let (Some(middle), Some(shape), Some(zset)) = (self.middle, &self.shape, zset_of(entry)) else {
            return found;
        };
        let origin = Origin::at(middle);
        'cells: for cell in ranks {
            for (member, score) in zset.iter_from(cell.start).take(cell.len()) {
                steps.pass(1).await;
                let point = Point::of_score(score);
                if let Shape::Polygon(polygon) = shape
                    && !polygon.contains(steps, point).await
                {
                    continue;
                }
                let Some(distance) = shape.distance(middle, &origin, point) else { continue };
                found.push(Found { member, score, distance });
                if found.len() == self.most() {
                    break 'cells;
                }
            }
        }
        let sorts_all = self.count > 0 && !self.any;
        if let Some(order) = self.order.or(sorts_all.then_some(Ordering::Less)) {
            let compare = |a: &Found<'m>, b: &Found<'m>| {
                let ascending = a.distance.total_cmp(&b.distance);
                if order == Ordering::Less { ascending } else { ascending.reverse() }
            };
            steps.sort(&mut found, compare).await;
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

    /// The score that a member is stored with.
    fn stored(&self, found: &Found<'_>) -> f64 {
        if self.stores_distances { found.distance / self.metres } else { found.score }
    }
}

impl Places {
    fn may_have_polygon(&self) -> bool {
        !(self.is_from_member || self.is_from_point || self.is_circle || self.is_box)
    }
}

fn zset_of(entry: &Entry) -> Option<ZSetRef<'_>> {
    match entry.value() {
        ValueRef::ZSet(zset) => Some(zset),
        _ => None,
    }
}

fn members_at(ranks: &[Range<usize>]) -> usize {
    ranks.iter().map(|cell| cell.len()).sum()
}

fn search<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, form: Form) -> Result<(), CommandError> {
    let source = args.at(if form == Form::SearchStore { 2 } else { 1 });
    let entry = cx.entry_of(source, Kind::ZSet)?;
    let zset = entry.and_then(zset_of);
    let Request { search, target } = Request::parse(form, zset, args)?;
    let ranks = zset.map(|zset| search.ranks(zset)).unwrap_or_default();
    match target {
        Some(target) => store(cx, search, (source, entry), ranks, target),
        None => reply(cx, search, entry, ranks),
    }
}

fn reply(
    cx: &mut Context<'_, '_>,
    search: Search,
    entry: Option<&Entry>,
    ranks: Vec<Range<usize>>,
) -> Result<(), CommandError> {
    let Some(entry) = entry else {
        cx.reply.array(0);
        return Ok(());
    };
    if search.is_long(cx, entry, &ranks) {
        let copy = cx.keys.copy(entry);
        cx.run_in_steps(search.gathered(&ranks), async move |steps| {
            let found = search.run(&steps, &copy, &ranks).await;
            steps.hold(size_of_val(&found[..]))?;
            steps.reply(|reply| reply.array(found.len()));
            steps.each(found.iter(), |reply, found| search.write(reply, found)).await;
            Ok(())
        });
        return Ok(());
    }
    if search.pairs(&ranks) > PAIRS_MAX {
        return Err(TOO_MANY_PAIRS);
    }
    let found = at_once(async |steps| search.run(steps, entry, &ranks).await);
    cx.reply.array(found.len());
    found.iter().for_each(|found| search.write(&mut cx.reply, found));
    Ok(())
}

fn store<'a>(
    cx: &mut Context<'_, 'a>,
    search: Search,
    (source, entry): (&'a [u8], Option<&Entry>),
    ranks: Vec<Range<usize>>,
    target: &'a [u8],
) -> Result<(), CommandError> {
    if let Some(elements) = cx.put_ready(cx.db, target) {
        cx.reply.integer(elements as i64);
        return Ok(());
    }
    let mut image = ImageBuilder::new(Kind::ZSet);
    if let Some(entry) = entry {
        if cx.may_prepare(target) && search.is_long(cx, entry, &ranks) {
            let (copy, gathered) = (cx.keys.copy(entry), search.gathered(&ranks));
            let place = (cx.db, target);
            return cx.prepare(place, Kind::ZSet, &[source], gathered, async move |steps, preparing| {
                let found = search.run(&steps, &copy, &ranks).await;
                let mut storing = Storing::new(steps, preparing, Kind::ZSet);
                for found in found {
                    storing.scored(found.member, search.stored(&found)).await?;
                }
                storing.end().await
            });
        }
        if search.pairs(&ranks) > PAIRS_MAX {
            return Err(TOO_MANY_PAIRS);
        }
        for found in at_once(async |steps| search.run(steps, entry, &ranks).await) {
            image.push_scored(found.member, search.stored(&found));
        }
    }
    store_image(cx, target, Kind::ZSet, image);
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
