//! Families of metrics as the exposition format has them: it knows how they are written and not what they count.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::observe::requests::{BUCKETS, Histogram};

/// The text as it is written, one family of metrics after the other.
pub(super) struct Page<'e>(pub(super) DescriptorEncoder<'e>);

impl Page<'_> {
    pub(super) fn counter<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, V, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A family of one without labels; nothing but its name where the value is not known.
    pub(super) fn one_counter<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: Option<V>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        value.map_or(Ok(()), |value| family.encode_counter::<NoLabelSet, V, u64>(&value, None))
    }

    pub(super) fn one_gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: Option<V>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        value.map_or(Ok(()), |value| family.encode_gauge(&value))
    }

    pub(super) fn gauge<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

impl Page<'_> {
    /// Families of histograms of times; buckets have their upper ends in microseconds.
    pub(super) fn times<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, Histogram)>,
    ) -> fmt::Result {
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        let mut family = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, histogram) in values {
            let ends = BUCKETS.iter().map(|end| seconds(*end)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(histogram.buckets).collect();
            let count = histogram.buckets.iter().sum();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                seconds(histogram.microseconds),
                count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}

pub(super) fn directions(up: u64, down: u64) -> [([(&'static str, &'static str); 1], u64); 2] {
    [([("direction", "up")], up), ([("direction", "down")], down)]
}
