//! A page of metrics in the making: families with their samples, then text.

use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary};

/// Labels of a sample: names and values.
pub(super) type Labels<'l> = &'l [(&'l str, &'l str)];

/// Families of metrics, in the order of the page.
#[derive(Default)]
pub(super) struct Page(Vec<MetricFamily>);

/// The family that samples are added to.
pub(super) struct Family<'p>(&'p mut MetricFamily);

impl Page {
    /// Begins a family of numbers that only rise, but for a restart and `CONFIG RESETSTAT`.
    pub(super) fn counters(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, MetricType::COUNTER)
    }

    /// Begins a family of numbers that rise and fall.
    pub(super) fn gauges(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, MetricType::GAUGE)
    }

    /// Begins a family of times.
    pub(super) fn summaries(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, MetricType::SUMMARY)
    }

    /// A family of one number that only rises.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Number) {
        self.counters(name, help).add(&[], value);
    }

    /// A family of one number that rises and falls.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Number) {
        self.gauges(name, help).add(&[], value);
    }

    fn family(&mut self, name: &str, help: &str, kind: MetricType) -> Family<'_> {
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        self.0.push(family);
        Family(self.0.last_mut().expect("it was just pushed"))
    }

    /// The page; families without samples are left out.
    pub(super) fn text(mut self) -> String {
        self.0.retain(|family| !family.get_metric().is_empty());
        TextEncoder::new().encode_to_string(&self.0).expect("every family has a name and samples")
    }
}

impl Family<'_> {
    /// Adds a sample.
    pub(super) fn add(&mut self, labels: Labels<'_>, value: impl Number) -> &mut Self {
        let mut metric = labelled(labels);
        if self.0.get_field_type() == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value.number());
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value.number());
            metric.set_gauge(gauge);
        }
        self.0.mut_metric().push(metric);
        self
    }

    /// Adds the sum and the count of times, in seconds, and some of their quantiles.
    pub(super) fn add_times(&mut self, labels: Labels<'_>, sum: f64, count: u64, quantiles: &[(f64, f64)]) {
        let mut summary = Summary::default();
        summary.set_sample_sum(sum);
        summary.set_sample_count(count);
        let quantile = |(at, value): &(f64, f64)| {
            let mut quantile = Quantile::default();
            quantile.set_quantile(*at);
            quantile.set_value(*value);
            quantile
        };
        summary.set_quantile(quantiles.iter().map(quantile).collect());
        let mut metric = labelled(labels);
        metric.set_summary(summary);
        self.0.mut_metric().push(metric);
    }
}

fn labelled(labels: Labels<'_>) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}

/// The value of a sample. The text format has floating point numbers only: beyond 2^53 they are rounded.
pub(super) trait Number {
    fn number(self) -> f64;
}

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Number for u64 {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Number for usize {
    fn number(self) -> f64 {
        self as f64
    }
}

impl Number for bool {
    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl Number for std::time::Duration {
    fn number(self) -> f64 {
        self.as_secs_f64()
    }
}
