//! Where a request is sent instead: by the client (redirect) or on the way to the backend (rewrite).

use crate::bounded::Text;
use crate::read::{At, Place, Read, Whole, record, words};
use crate::rules::field_fits;
use crate::scalar::{Port, PreciseHostname};
use crate::tree::Node;

record! {
    pub struct RequestRedirect {
        pub scheme: Option<Scheme> = "scheme",
        pub hostname: Option<PreciseHostname> = "hostname",
        pub path: Option<PathModifier> = "path",
        pub port: Option<Port> = "port",
        /// Absent: 302.
        pub status_code: Option<RedirectStatus> = "statusCode",
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
        pub replace_full_path: Option<Text<0, 1024>> = "replaceFullPath",
        pub replace_prefix_match: Option<Text<0, 1024>> = "replacePrefixMatch",
    }
    rules: [path_modifier_field_fits_type("type")]
}

words! {
    pub enum PathModifierType {
        ReplaceFullPath = "ReplaceFullPath",
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}

fn path_modifier_field_fits_type(modifier: &PathModifier, place: &mut Place<'_>) {
    let fields = [("ReplaceFullPath", "replaceFullPath"), ("ReplacePrefixMatch", "replacePrefixMatch")];
    field_fits(place, "type", modifier.kind.as_str(), &fields);
}

/// One of the answers that send a client elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedirectStatus(Whole<301, 308>);

impl RedirectStatus {
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0.get()
    }
}

impl Read for RedirectStatus {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let code = i64::read(node, at)?;
        let status = Whole::new(code).filter(|_| matches!(code, 301 | 302 | 303 | 307 | 308));
        if status.is_none() {
            at.wrong(
                "enum",
                node,
                format!("{code} is not one of 301, 302, 303, 307, 308"),
                "write 302 for a redirect that may change, 301 for one that stays; 307 and 308 keep the method",
            );
        }
        status.map(Self)
    }

    fn placeholder() -> Self {
        Self(Whole::placeholder())
    }
}
