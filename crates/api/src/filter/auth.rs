//! A service that is asked whether a request may pass.

use crate::bounded::Text;
use crate::http_route::has_url_path_characters;
use crate::read::{List, Place, Whole, record, words};
use crate::refs::BackendObjectReference;
use crate::rules::{each_once, field_fits};
use crate::scalar::shorten;

record! {
    pub struct ExternalAuth {
        pub protocol: AuthProtocol = "protocol",
        pub backend_ref: BackendObjectReference = "backendRef",
        pub grpc: Option<GrpcAuth> = "grpc",
        pub http: Option<HttpAuth> = "http",
        pub forward_body: Option<ForwardBody> = "forwardBody",
    }
    rules: [auth_field_fits_protocol("protocol")]
}

words! {
    pub enum AuthProtocol {
        Http = "HTTP",
        Grpc = "GRPC",
    }
}

record! {
    pub struct GrpcAuth {
        pub allowed_headers: List<String, 0, 64> = "allowedHeaders",
    }
    rules: [grpc_auth_headers_are_unique]
}

record! {
    pub struct HttpAuth {
        pub path: Text<0, 1024> = "path" or Text::default(),
        pub allowed_headers: List<String, 0, 64> = "allowedHeaders",
        pub allowed_response_headers: List<String, 0, 64> = "allowedResponseHeaders",
    }
    rules: [
        http_auth_headers_are_unique("allowedHeaders", "allowedResponseHeaders"),
        http_auth_path_is_a_path("path"),
    ]
}

record! {
    pub struct ForwardBody {
        pub max_size: Whole<0, { i32::MAX as i64 }> = "maxSize" or Whole::new(0).expect("in range"),
    }
}

fn auth_field_fits_protocol(auth: &ExternalAuth, place: &mut Place<'_>) {
    field_fits(place, "protocol", auth.protocol.as_str(), &[("HTTP", "http"), ("GRPC", "grpc")]);
}

fn grpc_auth_headers_are_unique(auth: &GrpcAuth, place: &mut Place<'_>) {
    each_once(place, "allowedHeaders", "", &*auth.allowed_headers);
}

fn http_auth_headers_are_unique(auth: &HttpAuth, place: &mut Place<'_>) {
    each_once(place, "allowedHeaders", "", &*auth.allowed_headers);
    each_once(place, "allowedResponseHeaders", "", &*auth.allowed_response_headers);
}

fn http_auth_path_is_a_path(auth: &HttpAuth, place: &mut Place<'_>) {
    if place.has("path") && (auth.path.is_empty() || !has_url_path_characters(&auth.path)) {
        place.wrong(
            "path",
            format!("`{}` is not a path", shorten(&auth.path)),
            "write it without a query, percent-encode all but letters, digits and -._~!$&'()*+,;=:@/, or leave `path` out",
        );
    }
}
