//! A histogram's counts, and quantiles of them.

use prometheus::proto::MetricFamily;

/// Counts by upper bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Each bucket's upper bound, and the values at or below it but above the bucket before.
    pub buckets: Vec<(f64, u64)>,
    /// All values, also those above the last bound.
    pub count: u64,
}

impl Distribution {
    /// Reads the histograms of a figure, all labels together.
    pub(super) fn of(families: &[MetricFamily]) -> Self {
        let mut all = Self::default();
        for metric in families.iter().flat_map(MetricFamily::get_metric) {
            all.add(metric);
        }
        all
    }

    /// Reads the histograms of a figure with this value of its first label.
    pub(super) fn labelled(families: &[MetricFamily], value: &str) -> Self {
        let mut all = Self::default();
        for metric in families.iter().flat_map(MetricFamily::get_metric) {
            if metric.get_label().first().is_some_and(|label| label.value() == value) {
                all.add(metric);
            }
        }
        all
    }

    fn add(&mut self, metric: &prometheus::proto::Metric) {
        let histogram = metric.get_histogram();
        self.count += histogram.get_sample_count();
        let mut below = 0;
        for (at, bucket) in histogram.get_bucket().iter().enumerate() {
            let own = bucket.cumulative_count().saturating_sub(below);
            below = bucket.cumulative_count();
            match self.buckets.get_mut(at) {
                Some((_, count)) => *count += own,
                None => self.buckets.push((bucket.upper_bound(), own)),
            }
        }
    }

    /// Returns the values that came after `earlier` was read.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |at: usize| earlier.buckets.get(at).map_or(0, |(_, count)| *count);
        let left =
            |(at, (bound, count)): (usize, &(f64, u64))| (*bound, count.saturating_sub(before(at)));
        Self {
            buckets: self.buckets.iter().enumerate().map(left).collect(),
            count: self.count.saturating_sub(earlier.count),
        }
    }

    /// Returns the value at or below which so many of a hundred values lie, as `histogram_quantile`
    /// of Prometheus estimates it: evenly spread within a bucket, and the last bound for values
    /// above it. None without values.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = f64::from(percent) / 100.0 * self.count as f64;
        let (mut below, mut from) = (0_u64, 0.0);
        for (bound, count) in &self.buckets {
            let upto = below + count;
            if upto as f64 >= rank && *count > 0 {
                let part = (rank - below as f64) / *count as f64;
                return Some((bound - from).mul_add(part, from));
            }
            below = upto;
            from = *bound;
        }
        Some(from)
    }
}
