//! The experiments in their order, and their options at each scale.

named! {
    /// The size of all experiments together.
    pub enum Scale {
        /// Each with `--quick`: for a look; the figures mean little.
        Quick = "quick",
        /// Smaller and shorter than by default, for a machine of two cores and 24 GB.
        Small = "small",
        /// Each as it is without options.
        Default = "default",
        /// Each with `--full`, where it has that: the papers' sizes.
        Full = "full",
    }
}

/// An experiment and its options at each scale, with the minutes that it takes on two cores, about.
pub(super) struct Step {
    pub(super) experiment: &'static str,
    small: (&'static [&'static str], u32),
    minutes: u32,
    has_full: bool,
}

impl Step {
    pub(super) fn options(&self, scale: Scale) -> &'static [&'static str] {
        match scale {
            Scale::Quick => &["--quick"],
            Scale::Small => self.small.0,
            Scale::Full if self.has_full => &["--full"],
            Scale::Default | Scale::Full => &[],
        }
    }

    pub(super) fn minutes(&self, scale: Scale) -> f64 {
        match scale {
            Scale::Quick => 0.7,
            Scale::Small => f64::from(self.small.1),
            Scale::Default => f64::from(self.minutes),
            Scale::Full => f64::from(self.minutes) * if self.has_full { 8.0 } else { 1.0 },
        }
    }
}

const fn step(
    experiment: &'static str,
    small: (&'static [&'static str], u32),
    minutes: u32,
    has_full: bool,
) -> Step {
    Step { experiment, small, minutes, has_full }
}

/// The figures of the study that are measured at the small scale.
const SNAPSHOTS_SMALL: &str = "trace,repeats,transactions,flood,trigger,dataset,row,updates,skew,huge-pages,\
                               others,hot-cold,arxiv-updates,arxiv-dataset,arxiv-flood";

/// The order: first the machine, then the papers', then the rest.
pub(super) const STEPS: [Step; 12] = [
    step("machine", (&[], 1), 1, false),
    step("snapshots", (&["--only", SNAPSHOTS_SMALL], 40), 60, true),
    step("store", (&["--sizes", "0.25,1", "--kinds", "records,lists", "--seconds", "2"], 25), 60, true),
    step("vtc", (&["--seconds", "2"], 40), 40, true),
    step("persistence", (&["--scale", "0.5"], 20), 40, true),
    step("vls", (&["--scale", "0.25", "--seconds", "1"], 18), 46, true),
    step("stalls", (&["--scale", "0.25"], 16), 35, false),
    step("throughput", (&["--seconds", "0.5", "--repeats", "1"], 3), 42, false),
    step("memory", (&["--scale", "0.25"], 1), 6, false),
    step("durability", (&["--kills", "50"], 2), 6, false),
    step("recovery", (&["--scale", "0.25"], 2), 6, false),
    step("workers", (&["--seconds", "1"], 2), 3, false),
];

/// The experiments that compare servers, and so take peers.
pub(super) const WITH_PEERS: [&str; 8] =
    ["store", "vtc", "persistence", "stalls", "throughput", "memory", "durability", "recovery"];
