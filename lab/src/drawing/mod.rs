//! Reports: charts as SVG, and a page of HTML in one file.

mod charts;
mod facts;
mod page;
mod times;

pub use charts::{Axis, Curve, Look, Words, bars, decades, lines, short, trace};
pub use facts::{Facts, Statement, change, factor};
pub use page::{Page, escape, utc, write};
pub use times::{Series, groups, legend, times};
