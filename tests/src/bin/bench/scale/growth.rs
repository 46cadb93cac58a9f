//! How costs grow: each is measured at N, 2 N and 4 N endpoints, and the exponent is the slope of its logarithm over that of N.

use super::simulated::Simulated;
use super::{Print, row};
use crate::row::Asked;

const ENDPOINTS: [&str; 3] = ["1024", "2048", "4096"];

/// One cost: its figure in the simulation, its rows at N, 2 N and 4 N, and the row of its exponent.
struct Cost {
    figure: &'static str,
    rows: [&'static str; 3],
    unit: &'static str,
    exponent: &'static str,
    asked: Asked,
}

/// A matrix has N² cells, so nothing that looks at all of them can grow slower; nothing may grow faster.
const COSTS: [Cost; 6] = [
    Cost {
        figure: "coordinator, resident memory",
        rows: ["1024: memory, pings of all pairs", "2048: the same", "4096: the same"],
        unit: "MB",
        exponent: "memory grows with this power of endpoints",
        asked: Asked::AtMost(2.1),
    },
    Cost {
        figure: "/metrics, time",
        rows: ["1024: /metrics, time", "2048: the same", "4096: the same"],
        unit: "ms",
        exponent: "/metrics, time, grows with this power",
        asked: Asked::AtMost(1.3),
    },
    Cost {
        figure: "/metrics, size",
        rows: ["1024: /metrics, size", "2048: the same", "4096: the same"],
        unit: "MB",
        exponent: "/metrics, size, grows with this power",
        asked: Asked::AtMost(1.1),
    },
    Cost {
        figure: "matrix of pings, binary, time",
        rows: ["1024: matrix of pings, binary, time", "2048: the same", "4096: the same"],
        unit: "ms",
        exponent: "matrix, binary, time, grows with this power",
        asked: Asked::AtMost(2.3),
    },
    // What the processor is used for: were fewer told of a large cluster, it would cost less for no merit.
    Cost {
        figure: "of them per second",
        rows: ["1024: batches told at 10 pings/s each", "2048: the same", "4096: the same"],
        unit: "1/s",
        exponent: "batches told grow with this power",
        asked: Asked::Between(0.95, 1.05),
    },
    Cost {
        figure: "coordinator, processor, of one core",
        rows: ["1024: processor at 10 pings/s each, of one core", "2048: the same", "4096: the same"],
        unit: "%",
        exponent: "processor at 10 pings/s each grows with this power",
        asked: Asked::AtMost(1.3),
    },
];

/// Between two looks at 4,096 endpoints; at half of them there are four, and so on: a shorter time would have none of the largest.
const SECONDS: &str = "64";

pub(super) fn rows(print: Print<'_>) {
    let seen = ENDPOINTS
        .map(|endpoints| Simulated::run(&["--endpoints", endpoints, "--filled", "--seconds", SECONDS]));
    for cost in &COSTS {
        let figures = seen.each_ref().map(|seen| seen.of(cost.figure));
        let each = cost.rows.iter().zip(figures);
        let mut rows: Vec<_> =
            each.map(|(what, figure)| row(what, figure, cost.unit, Asked::Nothing)).collect();
        // From N to 4 N.
        let exponent = (figures[2] / figures[0]).log2() / 2.0;
        rows.push(row(cost.exponent, exponent, "", cost.asked));
        print(rows);
    }
}
