//! The numbers that the comparative study printed for figures 13 to 17: Redis with fork, with Hourglass and
//! with Piggyback.

/// The variants' names, in the order of the numbers.
pub const VARIANTS: [&str; 3] = ["Redis, fork", "Redis-HG", "Redis-PB"];

/// Numbers of a figure, by variant.
pub struct Printed {
    /// The values of the columns.
    pub columns: [&'static str; 5],
    /// By variant, in the order of `VARIANTS`.
    pub rows: [[f64; 5]; 3],
}

const SIZES: [&str; 5] = ["1 M", "2 M", "4 M", "8 M", "16 M"];

/// Throughput, operations a second.
pub const FIGURE_13: Printed = Printed {
    columns: SIZES,
    rows: [
        [12731.0, 12809.0, 12323.0, 12927.0, 12426.0],
        [13718.0, 14033.0, 14012.0, 14255.0, 14023.0],
        [13474.0, 13687.0, 13692.0, 13920.0, 13696.0],
    ],
};

/// Longest latency, in microseconds.
pub const FIGURE_14: Printed = Printed {
    columns: SIZES,
    rows: [
        [163_199.0, 217_087.0, 322_815.0, 684_031.0, 1_533_951.0],
        [21599.0, 23951.0, 21983.0, 23135.0, 21023.0],
        [21503.0, 20351.0, 23487.0, 21663.0, 21775.0],
    ],
};

/// Longest latency at 8 M records, in microseconds.
pub const FIGURE_15: Printed = Printed {
    columns: ["10 %", "20 %", "30 %", "40 %", "50 %"],
    rows: [
        [684_031.0, 608_767.0, 607_743.0, 642_047.0, 620_031.0],
        [23135.0, 32575.0, 24559.0, 22655.0, 27695.0],
        [21663.0, 27983.0, 21935.0, 20943.0, 25583.0],
    ],
};

/// Most memory, as the logarithm to the base 2 of kilobytes.
pub const FIGURE_16: Printed = Printed {
    columns: SIZES,
    rows: [
        [20.19, 21.17, 22.16, 23.14, 24.13],
        [19.46, 20.45, 21.44, 22.39, 23.43],
        [19.44, 20.44, 21.43, 22.39, 23.43],
    ],
};

/// Time of a dump, in seconds.
pub const FIGURE_17: Printed = Printed {
    columns: SIZES,
    rows: [
        [22.8, 39.1, 77.0, 155.2, 310.8],
        [38.8, 66.9, 111.1, 239.5, 449.7],
        [39.5, 62.0, 114.1, 263.1, 492.0],
    ],
};
