//! Headers that a filter sets, adds or removes.

use crate::bounded::Text;
use crate::read::{List, Place, record};
use crate::rules::{each_once, warn_of_equivalent_headers};
use crate::scalar::HeaderName;

record! {
    pub struct HeaderModifier {
        pub set: List<HttpHeader, 0, 16> = "set",
        pub add: List<HttpHeader, 0, 16> = "add",
        pub remove: List<String, 0, 16> = "remove",
    }
    rules: [
        modified_headers_are_unique("set[].name", "add[].name", "remove"),
        modified_headers_differ_in_more_than_case("set[].name", "add[].name"),
    ]
}

record! {
    pub struct HttpHeader {
        pub name: HeaderName = "name",
        /// The experimental channel also asks for visible ASCII with single spaces; the standard one does not,
        /// and some values that it takes cannot be sent.
        pub value: Text<1, 4096> = "value",
    }
    rules: [header_value_can_be_sent("value")]
}

fn modified_headers_are_unique(modifier: &HeaderModifier, place: &mut Place<'_>) {
    each_once(place, "set", ".name", modifier.set.iter().map(|header| &header.name));
    each_once(place, "add", ".name", modifier.add.iter().map(|header| &header.name));
    each_once(place, "remove", "", &*modifier.remove);
}

fn modified_headers_differ_in_more_than_case(modifier: &HeaderModifier, place: &mut Place<'_>) {
    warn_of_equivalent_headers(place, "set", modifier.set.iter().map(|header| &header.name));
    warn_of_equivalent_headers(place, "add", modifier.add.iter().map(|header| &header.name));
}

fn header_value_can_be_sent(header: &HttpHeader, place: &mut Place<'_>) {
    if header.value.chars().any(|character| character.is_control() && character != '\t') {
        place.warn(
            "value",
            "has a line break or another control character, which no header can carry",
            "write it on one line",
        );
    }
}
