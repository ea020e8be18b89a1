//! The seeds of random tests. Fixed seeds give the same commit the same verdict. Seeds of the days that the
//! environment names are tried too, so that each day's run tries what those before did not.

/// How many fixed seeds to try, unless `TARN_SEEDS` says so.
pub fn seed_count(default: u64) -> u64 {
    variable("TARN_SEEDS").unwrap_or(default)
}

/// So many fixed seeds from `TARN_FIRST_SEED` on, by default 0, and a tenth as many for each of the days in
/// `TARN_DAYS`, which are numbers with commas between them.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let first = variable("TARN_FIRST_SEED").unwrap_or(0);
    let days = std::env::var("TARN_DAYS").unwrap_or_default();
    let days: Vec<u64> = days.split_terminator(',').map(|day| number("TARN_DAYS", day)).collect();
    (first..first + count).chain(days.into_iter().flat_map(move |day| {
        let first = day << 32;
        first..first + count / 10
    }))
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| number(name, &text))
}

fn number(name: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}"))
}
