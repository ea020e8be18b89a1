//! `LOLWUT`: a picture, and the version.

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::Flags;
use crate::version::REDIS_VERSION;

const FLAGS: Flags = Flags::READONLY.with(Flags::FAST);
/// Columns and lines of the picture, and the most that may be asked for.
const SIZE: [i64; 2] = [64, 16];
const SIZE_MAX: i64 = 256;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("lolwut", -1, FLAGS, "5.0.0", "Draws a picture and tells the version.", lolwut)];

fn lolwut<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut numbers = args.tail(1);
    if numbers.len() > 1 && numbers.at(0).eq_ignore_ascii_case(b"version") {
        // Other versions of Redis draw other pictures; here is one.
        parse::integer(numbers.at(1))?;
        numbers = args.tail(3);
        let mut size = SIZE;
        for (side, number) in size.iter_mut().zip(numbers.iter()) {
            *side = parse::integer(number)?.clamp(1, SIZE_MAX);
        }
        return draw(cx, size);
    }
    draw(cx, SIZE)
}

fn draw(cx: &mut Context<'_, '_>, [columns, lines]: [i64; 2]) -> Result<(), CommandError> {
    let picture = picture(columns, lines, rand::random());
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("{picture}\nA lake in the rain. Tarn {version}, Redis ver. {REDIS_VERSION}\n");
    cx.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// Rings around the places where drops have fallen.
fn picture(columns: i64, lines: i64, seed: u64) -> String {
    const SHADES: [char; 6] = [' ', '.', '-', '~', '-', '.'];
    // Three drops from the bits of the seed. A line is as high as two columns are wide.
    let drops = [0, 16, 32].map(|bits| {
        let (x, y) = ((seed >> bits & 0xFF) as i64, (seed >> (bits + 8) & 0xFF) as i64);
        (x * columns / 256, 2 * y * lines / 256)
    });
    let mut text = String::new();
    for line in 0..lines {
        let row: String = (0..columns)
            .map(|column| {
                let nearest = drops.iter().map(|(x, y)| {
                    let (dx, dy) = ((column - x) as f64, (2 * line - y) as f64);
                    dx.hypot(dy)
                });
                let distance = nearest.fold(f64::INFINITY, f64::min);
                SHADES[distance as usize % SHADES.len()]
            })
            .collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_size_and_is_that_of_its_seed() {
        let one = picture(40, 10, 7);
        assert_eq!(one.lines().count(), 10);
        assert!(one.lines().all(|line| line.len() <= 40) && one.contains('~'));
        assert_eq!(one, picture(40, 10, 7));
        assert_ne!(one, picture(40, 10, u64::MAX));
    }
}
