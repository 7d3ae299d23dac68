//! What backends are told about the client: `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, and `Forwarded`.
//!
//! A client that is in none of the trusted networks says nothing about itself: what it sent of these is replaced.
//! One that is in them (another proxy) is believed: addresses are added to its own, and what it says about scheme,
//! host and port stays. No `Via` is set: few proxies do, and some servers stop compressing when they see it.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::networks::Networks;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// More hops than this are no chain of proxies.
const HOPS: usize = 64;

/// What all requests of one connection have in common, made once for it.
#[derive(Clone, Debug)]
pub struct Client {
    address: IpAddr,
    trusted: bool,
    /// `X-Forwarded-For`, `-Proto` and `-Port` where nobody else has a say in them.
    plain: [HeaderValue; 3],
    /// The beginning of an element of `Forwarded`.
    element: String,
    /// What is said for the host that was asked for last: most connections ask for no other.
    last: RefCell<Option<Rc<Announced>>>,
}

/// What is said of a client for requests to one host.
#[derive(Debug)]
pub struct Announced {
    /// A copy: the value is a part of all that was read.
    host: Box<[u8]>,
    lines: Vec<(HeaderName, HeaderValue)>,
    /// The same as HTTP/1.1 has it.
    text: Box<[u8]>,
}

impl Announced {
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Sets them on a request that has none of them.
    pub(crate) fn set(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.lines {
            headers.insert(name, value.clone());
        }
    }
}

impl Client {
    /// `local` is where the client connected to, as the plan has it.
    #[must_use]
    pub fn new(client: SocketAddr, local: SocketAddr, https: bool, trusted: &Networks) -> Self {
        let address = client.ip().to_canonical();
        let proto = if https { "https" } else { "http" };
        let ascii = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("unknown"));
        let plain =
            [ascii(&address.to_string()), HeaderValue::from_static(proto), HeaderValue::from(local.port())];
        let element = match address {
            IpAddr::V4(address) => format!("for={address};proto={proto}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\";proto={proto}"),
        };
        Self { address, trusted: trusted.contain(address), plain, element, last: RefCell::new(None) }
    }

    #[must_use]
    pub const fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Who sent the request in the first place: behind trusted proxies the last address of `X-Forwarded-For` that is
    /// not one of theirs.
    #[must_use]
    pub fn origin(&self, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
        if !self.trusted {
            return self.address;
        }
        let mut origin = self.address;
        for line in headers.get_all(FOR).iter().rev().take(HOPS) {
            for hop in line.as_bytes().rsplit(|byte| *byte == b',').take(HOPS) {
                let Some(address) = std::str::from_utf8(hop).ok().and_then(|hop| address(hop.trim())) else {
                    return origin;
                };
                origin = address;
                if !trusted.contain(address) {
                    return origin;
                }
            }
        }
        origin
    }

    /// Sets them on a request; the Host header must still be the client's.
    pub fn announce(&self, headers: &mut HeaderMap) {
        let host = headers.get(header::HOST).cloned();
        if headers.keys().any(is_other_spelling) {
            let others: Vec<HeaderName> =
                headers.keys().filter(|name| is_other_spelling(name)).cloned().collect();
            others.iter().for_each(|name| _ = headers.remove(name));
        }
        if !self.trusted {
            headers.remove(HOST);
            return self.of_host(host.as_ref()).set(headers);
        }
        let [address, proto, port] = &self.plain;
        extend(headers, FOR, address);
        extend(headers, header::FORWARDED, &self.new_element(host.as_ref()));
        headers.entry(PROTO).or_insert_with(|| proto.clone());
        headers.entry(PORT).or_insert_with(|| port.clone());
        if let Some(host) = host {
            headers.entry(HOST).or_insert(host);
        }
    }

    /// What [`announce`](Self::announce) would set, where it would only add to the request: it can then be written behind
    /// the headers, without being one of them.
    pub(crate) fn announced(&self, headers: &HeaderMap) -> Option<Rc<Announced>> {
        if self.trusted || headers.keys().any(is_announcement) {
            return None;
        }
        Some(self.of_host(headers.get(header::HOST)))
    }

    fn of_host(&self, host: Option<&HeaderValue>) -> Rc<Announced> {
        let asked = host.map_or(&[][..], HeaderValue::as_bytes);
        let mut last = self.last.borrow_mut();
        if let Some(last) = &*last
            && *last.host == *asked
        {
            return Rc::clone(last);
        }
        let announced = Rc::new(self.new_announced(host));
        *last = Some(Rc::clone(&announced));
        announced
    }

    fn new_announced(&self, host: Option<&HeaderValue>) -> Announced {
        let [address, proto, port] = self.plain.clone();
        let asked = host.map_or(&[][..], HeaderValue::as_bytes);
        let element = self.new_element(host);
        let mut lines = vec![(FOR, address), (header::FORWARDED, element), (PROTO, proto), (PORT, port)];
        lines.extend(HeaderValue::from_bytes(asked).ok().filter(|_| host.is_some()).map(|host| (HOST, host)));
        let line = |(name, value): &(HeaderName, HeaderValue)| {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat()
        };
        Announced { host: asked.into(), text: lines.iter().flat_map(line).collect(), lines }
    }

    fn new_element(&self, host: Option<&HeaderValue>) -> HeaderValue {
        let host = host.and_then(|host| host.to_str().ok());
        let text = match host {
            None => self.element.clone(),
            // A port, or the brackets of an address, are no token.
            Some(host) if host.contains([':', '[']) => format!("{};host=\"{host}\"", self.element),
            Some(host) => format!("{};host={host}", self.element),
        };
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("for=unknown"))
    }
}

fn is_announcement(name: &HeaderName) -> bool {
    *name == header::FORWARDED || name.as_str().starts_with("x-forwarded-") || is_other_spelling(name)
}

/// `X_Forwarded_For` and the like. Servers in the tradition of CGI do not tell it from the one with hyphens, so that
/// it is nobody's to say, not even a trusted proxy's, which may have passed it on without a look.
fn is_other_spelling(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    name.starts_with(b"x")
        && name.contains(&b'_')
        && [FOR, PROTO, HOST, PORT].iter().any(|own| {
            let own = own.as_str().as_bytes();
            let is_same = |(a, b): (&u8, &u8)| a == b || (*a, *b) == (b'_', b'-');
            name.len() == own.len() && name.iter().zip(own).all(is_same)
        })
}

/// An address as proxies write it, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let whole = text.parse().ok();
    let address = whole.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    address.or_else(bracketed).map(|address| address.to_canonical())
}

/// One more element at the end of a list, which then is on one line.
fn extend(headers: &mut HeaderMap, name: HeaderName, element: &HeaderValue) {
    if !headers.contains_key(&name) {
        headers.insert(name, element.clone());
        return;
    }
    let mut list = Vec::new();
    for line in headers.get_all(&name).iter().chain([element]) {
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(line.as_bytes());
    }
    headers.insert(name, HeaderValue::try_from(list).unwrap_or_else(|_| element.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{headers, lines};

    fn networks() -> Networks {
        ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()].into_iter().collect()
    }

    fn client(address: &str, https: bool) -> Client {
        let local = SocketAddr::from(([192, 0, 2, 1], if https { 8443 } else { 80 }));
        Client::new(SocketAddr::new(address.parse().unwrap(), 50000), local, https, &networks())
    }

    #[test]
    fn nobody_speaks_for_itself() {
        let mut request = headers(&[
            ("host", "a.test"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.test"),
            ("x-forwarded-port", "1"),
            ("forwarded", "for=1.1.1.1"),
        ]);
        client("203.0.113.9", false).announce(&mut request);
        let expected = [
            ("forwarded", "for=203.0.113.9;proto=http;host=a.test"),
            ("host", "a.test"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "a.test"),
            ("x-forwarded-port", "80"),
            ("x-forwarded-proto", "http"),
        ];
        assert_eq!(lines(&request), expected);
    }

    /// A server that makes variables of headers would not know whose word it has.
    #[test]
    fn nobody_says_it_in_another_spelling() {
        for address in ["203.0.113.9", "10.0.0.1"] {
            let mut request = headers(&[
                ("host", "a.test"),
                ("x_forwarded_for", "1.1.1.1"),
                ("x_forwarded_for", "2.2.2.2"),
                ("x-forwarded_proto", "https"),
                ("x_forwarded-host", "evil.test"),
                ("x_forwarded_port", "1"),
                ("x_forwarded_prefix", "3"),
                ("x_forwarded_fort", "2"),
                ("x-request_id", "1"),
            ]);
            let client = client(address, false);
            assert!(client.announced(&request).is_none());
            client.announce(&mut request);
            let all = lines(&request);
            let spelled: Vec<_> = all.into_iter().filter(|(name, _)| name.contains('_')).collect();
            let kept = [("x-request_id", "1"), ("x_forwarded_fort", "2"), ("x_forwarded_prefix", "3")];
            assert_eq!(spelled, kept, "{address}");
            assert_eq!(request[FOR], address);
        }
    }

    #[test]
    fn a_trusted_proxy_is_believed() {
        let mut request = headers(&[
            ("host", "a.test:8443"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("forwarded", "for=203.0.113.9"),
        ]);
        client("fd00::7", true).announce(&mut request);
        let expected = [
            ("forwarded", "for=203.0.113.9, for=\"[fd00::7]\";proto=https;host=\"a.test:8443\""),
            ("host", "a.test:8443"),
            ("x-forwarded-for", "203.0.113.9, 10.0.0.1, fd00::7"),
            ("x-forwarded-host", "a.test:8443"),
            ("x-forwarded-port", "8443"),
            ("x-forwarded-proto", "http"),
        ];
        assert_eq!(lines(&request), expected);
    }

    #[test]
    fn each_host_is_announced_as_itself() {
        let client = client("203.0.113.9", false);
        for (host, element) in [
            ("a.test", "for=203.0.113.9;proto=http;host=a.test"),
            ("a.test", "for=203.0.113.9;proto=http;host=a.test"),
            ("b.test", "for=203.0.113.9;proto=http;host=b.test"),
            ("a.test", "for=203.0.113.9;proto=http;host=a.test"),
        ] {
            let mut request = headers(&[("host", host)]);
            client.announce(&mut request);
            assert_eq!(
                (&request[header::FORWARDED], &request[HOST]),
                (&element.parse().unwrap(), &host.parse().unwrap())
            );
        }
        let mut none = HeaderMap::new();
        client.announce(&mut none);
        assert_eq!(none[header::FORWARDED], "for=203.0.113.9;proto=http");
    }

    #[test]
    fn a_request_without_a_host_has_none_to_announce() {
        let mut request = headers(&[("x-forwarded-host", "evil.test")]);
        client("::ffff:203.0.113.9", false).announce(&mut request);
        assert_eq!(request.get(HOST), None);
        assert_eq!(request[FOR], "203.0.113.9");
    }

    #[test]
    fn the_first_who_is_no_proxy_of_ours() {
        for (client_address, forwarded, expected) in [
            ("203.0.113.9", &["1.1.1.1"][..], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1", "203.0.113.9:1234", "10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["10.0.0.3", "10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["1.1.1.1, nonsense, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
        ] {
            let pairs: Vec<_> = forwarded.iter().map(|value| ("x-forwarded-for", *value)).collect();
            let origin = client(client_address, false).origin(&headers(&pairs), &networks());
            assert_eq!(origin, expected.parse::<IpAddr>().unwrap(), "{client_address} {forwarded:?}");
        }
    }
}
