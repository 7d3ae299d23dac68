//! Copies of requests, for a second backend to look at.

use crate::read::{Place, Whole, record};
use crate::refs::BackendObjectReference;

record! {
    pub struct RequestMirror {
        pub backend_ref: BackendObjectReference = "backendRef",
        pub percent: Option<Whole<0, 100>> = "percent",
        pub fraction: Option<Fraction> = "fraction",
    }
    rules: [mirror_has_percent_or_fraction()]
}

record! {
    pub struct Fraction {
        pub numerator: Whole<0, { i32::MAX as i64 }> = "numerator",
        pub denominator: Whole<1, { i32::MAX as i64 }> = "denominator" or Whole::new(100).expect("in range"),
    }
    rules: [fraction_is_at_most_one("numerator", "denominator")]
}

fn mirror_has_percent_or_fraction(mirror: &RequestMirror, place: &mut Place<'_>) {
    if mirror.percent.is_some() && mirror.fraction.is_some() {
        place.wrong("fraction", "`percent` and `fraction` both say how much to mirror", "remove one of them");
    }
}

fn fraction_is_at_most_one(fraction: &Fraction, place: &mut Place<'_>) {
    let (numerator, denominator) = (fraction.numerator.get(), fraction.denominator.get());
    if numerator > denominator {
        let by_default = if place.has("denominator") { "" } else { " (the default)" };
        place.wrong(
            "numerator",
            format!("{numerator} of {denominator}{by_default} is more than all requests"),
            format!("write at most {denominator}, or a larger `denominator`"),
        );
    }
}
