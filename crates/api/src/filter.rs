//! Filters of HTTPRoute, GRPCRoute and listeners.

use crate::read::{List, Whole, record, words};
use crate::refs::{BackendObjectReference, LocalObjectReference};
use crate::scalar::{CorsOrigin, HeaderName, Port, PreciseHostname};

record! {
    pub struct HttpFilter {
        pub kind: HttpFilterType = "type",
        pub request_header_modifier: Option<HeaderModifier> = "requestHeaderModifier",
        pub response_header_modifier: Option<HeaderModifier> = "responseHeaderModifier",
        pub request_mirror: Option<RequestMirror> = "requestMirror",
        pub request_redirect: Option<RequestRedirect> = "requestRedirect",
        pub url_rewrite: Option<UrlRewrite> = "urlRewrite",
        pub cors: Option<Cors> = "cors",
        pub external_auth: Option<ExternalAuth> = "externalAuth",
        pub extension_ref: Option<LocalObjectReference> = "extensionRef",
    }
}

words! {
    pub enum HttpFilterType {
        RequestHeaderModifier = "RequestHeaderModifier",
        ResponseHeaderModifier = "ResponseHeaderModifier",
        RequestMirror = "RequestMirror",
        RequestRedirect = "RequestRedirect",
        UrlRewrite = "URLRewrite",
        Cors = "CORS",
        ExternalAuth = "ExternalAuth",
        ExtensionRef = "ExtensionRef",
    }
}

record! {
    pub struct GrpcFilter {
        pub kind: GrpcFilterType = "type",
        pub request_header_modifier: Option<HeaderModifier> = "requestHeaderModifier",
        pub response_header_modifier: Option<HeaderModifier> = "responseHeaderModifier",
        pub request_mirror: Option<RequestMirror> = "requestMirror",
        pub extension_ref: Option<LocalObjectReference> = "extensionRef",
    }
}

words! {
    pub enum GrpcFilterType {
        RequestHeaderModifier = "RequestHeaderModifier",
        ResponseHeaderModifier = "ResponseHeaderModifier",
        RequestMirror = "RequestMirror",
        ExtensionRef = "ExtensionRef",
    }
}

record! {
    pub struct HeaderModifier {
        pub set: List<HttpHeader, 0, 16> = "set",
        pub add: List<HttpHeader, 0, 16> = "add",
        pub remove: List<String, 0, 16> = "remove",
    }
}

record! {
    pub struct HttpHeader {
        pub name: HeaderName = "name",
        pub value: String = "value",
    }
}

record! {
    pub struct RequestMirror {
        pub backend_ref: BackendObjectReference = "backendRef",
        pub percent: Option<Whole<0, 100>> = "percent",
        pub fraction: Option<Fraction> = "fraction",
    }
}

record! {
    pub struct Fraction {
        pub numerator: Whole<0, { i32::MAX as i64 }> = "numerator",
        pub denominator: Whole<1, { i32::MAX as i64 }> = "denominator" or Whole::new(100).expect("in range"),
    }
}

record! {
    pub struct RequestRedirect {
        pub scheme: Option<Scheme> = "scheme",
        pub hostname: Option<PreciseHostname> = "hostname",
        pub path: Option<PathModifier> = "path",
        pub port: Option<Port> = "port",
        /// Absent: 302.
        pub status_code: Option<i64> = "statusCode",
    }
}

words! {
    pub enum Scheme {
        Http = "http",
        Https = "https",
    }
}

record! {
    pub struct UrlRewrite {
        pub hostname: Option<PreciseHostname> = "hostname",
        pub path: Option<PathModifier> = "path",
    }
}

record! {
    pub struct PathModifier {
        pub kind: PathModifierType = "type",
        pub replace_full_path: Option<String> = "replaceFullPath",
        pub replace_prefix_match: Option<String> = "replacePrefixMatch",
    }
}

words! {
    pub enum PathModifierType {
        ReplaceFullPath = "ReplaceFullPath",
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}

record! {
    pub struct Cors {
        pub allow_origins: List<CorsOrigin, 0, 64> = "allowOrigins",
        pub allow_credentials: bool = "allowCredentials" or false,
        pub allow_methods: List<CorsMethod, 0, 9> = "allowMethods",
        pub allow_headers: List<HeaderName, 0, 64> = "allowHeaders",
        pub expose_headers: List<HeaderName, 0, 64> = "exposeHeaders",
        pub max_age: Whole<1, { i32::MAX as i64 }> = "maxAge" or Whole::new(5).expect("in range"),
    }
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

record! {
    pub struct ExternalAuth {
        pub protocol: AuthProtocol = "protocol",
        pub backend_ref: BackendObjectReference = "backendRef",
        pub grpc: Option<GrpcAuth> = "grpc",
        pub http: Option<HttpAuth> = "http",
        pub forward_body: Option<ForwardBody> = "forwardBody",
    }
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
}

record! {
    pub struct HttpAuth {
        pub path: String = "path" or String::new(),
        pub allowed_headers: List<String, 0, 64> = "allowedHeaders",
        pub allowed_response_headers: List<String, 0, 64> = "allowedResponseHeaders",
    }
}

record! {
    pub struct ForwardBody {
        pub max_size: Whole<0, { i32::MAX as i64 }> = "maxSize" or Whole::new(0).expect("in range"),
    }
}
