//! The one line that a run prints: who was measured, in which row of the table, and what came out.

use clap::Args;
use serde_json::{Map, Number, Value};

#[derive(Clone, Debug, Args)]
pub(crate) struct Label {
    /// Who is measured; printed as it is
    #[arg(long, default_value = "?")]
    tag: String,
    /// Which row this is for [default: the mode]
    #[arg(long)]
    metric: Option<String>,
    /// Which round of a run this is
    #[arg(long, default_value_t = 1)]
    round: u32,
}

#[derive(Debug)]
pub(crate) struct Record(Map<String, Value>);

impl Record {
    pub(crate) fn new(label: &Label, mode: &str) -> Self {
        Self::unlabelled(mode)
            .set("tag", label.tag.as_str())
            .set("metric", label.metric.as_deref().unwrap_or(mode))
            .set("round", label.round)
    }

    pub(crate) fn unlabelled(mode: &str) -> Self {
        Self(Map::new()).set("mode", mode)
    }

    pub(crate) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Rounded to as many digits after the point as are worth reading.
    pub(crate) fn number(self, key: &str, value: f64, digits: i32) -> Self {
        let scale = 10_f64.powi(digits);
        let rounded = Number::from_f64((value * scale).round() / scale);
        self.set(key, rounded.map_or(Value::Null, Value::Number))
    }

    pub(crate) fn print(self) {
        println!("{}", Value::Object(self.0));
    }
}
