//! What scripts of other origins may ask for.

use crate::read::{List, Place, Whole, record, words};
use crate::rules::each_once;
use crate::scalar::{CorsOrigin, HeaderName};

record! {
    pub struct Cors {
        pub allow_origins: List<CorsOrigin, 0, 64> = "allowOrigins",
        pub allow_credentials: bool = "allowCredentials" or false,
        pub allow_methods: List<CorsMethod, 0, 9> = "allowMethods",
        pub allow_headers: List<HeaderName, 0, 64> = "allowHeaders",
        pub expose_headers: List<HeaderName, 0, 64> = "exposeHeaders",
        pub max_age: Whole<1, { i32::MAX as i64 }> = "maxAge" or Whole::new(5).expect("in range"),
    }
    rules: [
        cors_wildcard_stands_alone("allowOrigins", "allowMethods", "allowHeaders"),
        cors_items_are_unique("allowOrigins", "allowMethods", "allowHeaders", "exposeHeaders"),
    ]
}

words! {
    pub enum CorsMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Delete = "DELETE",
        Connect = "CONNECT",
        Options = "OPTIONS",
        Trace = "TRACE",
        Patch = "PATCH",
        Any = "*",
    }
}

fn cors_wildcard_stands_alone(cors: &Cors, place: &mut Place<'_>) {
    stands_alone(place, "allowOrigins", cors.allow_origins.iter().map(CorsOrigin::as_str));
    stands_alone(place, "allowMethods", cors.allow_methods.iter().map(|method| method.as_str()));
    stands_alone(place, "allowHeaders", cors.allow_headers.iter().map(HeaderName::as_str));
}

fn stands_alone<'a>(place: &mut Place<'_>, list: &str, mut items: impl ExactSizeIterator<Item = &'a str>) {
    let others = items.len() > 1;
    if let Some(index) = items.position(|item| item == "*").filter(|_| others) {
        place.wrong(
            &format!("{list}[{index}]"),
            "`*` allows everything, so nothing can stand beside it",
            format!("write `{list}: [\"*\"]`, or remove the `*`"),
        );
    }
}

fn cors_items_are_unique(cors: &Cors, place: &mut Place<'_>) {
    each_once(place, "allowOrigins", "", &*cors.allow_origins);
    each_once(place, "allowMethods", "", &*cors.allow_methods);
    each_once(place, "allowHeaders", "", &*cors.allow_headers);
    each_once(place, "exposeHeaders", "", &*cors.expose_headers);
}
