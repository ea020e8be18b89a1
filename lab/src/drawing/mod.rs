//! Reports: charts as SVG, and a page of HTML that needs nothing but itself.

mod charts;
mod page;

pub use charts::{Axis, Curve, Look, Words, bars, decades, lines, short, trace};
pub use page::{Page, escape, utc};
