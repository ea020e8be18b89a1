//! Points on the earth, in sorted sets: the score of a member is its point.

use tarn_engine::record::Change;
use tarn_engine::value::ZSetRef;
use tarn_engine::value::geohash::Point;
use tarn_resp::{Args, Protocol, Writer};

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};

const STORE: Flags = Flags::WRITE.with(Flags::DENYOOM);
const READ: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];

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
];

/// The point that two arguments say.
pub(super) fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, CommandError> {
    let (longitude, latitude) = (parse::float(longitude)?, parse::float(latitude)?);
    Point::on_map(longitude, latitude).ok_or_else(|| {
        CommandError::owned(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"))
    })
}

/// The metres of a unit.
pub(super) fn unit(word: &[u8]) -> Result<f64, CommandError> {
    let units = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let found = units.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    found
        .map(|(_, metres)| *metres)
        .ok_or(CommandError::text("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// A distance, in the unit in which it is told.
pub(super) fn write_distance(reply: &mut Writer<'_>, distance: f64) {
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

/// A point as GEOPOS replies it.
pub(super) fn write_point(reply: &mut Writer<'_>, point: Point) {
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
pub(super) fn point_of(zset: Option<ZSetRef<'_>>, member: &[u8]) -> Option<Point> {
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
