//! What is asked in an exchange: bytes that come back, or an HTTP/1.1 request. Requests are made before the load begins;
//! of many, each has its turn.

use std::fs;

use clap::Args;

use crate::Result;

#[derive(Clone, Debug, Args)]
pub(crate) struct RequestOptions {
    /// Bytes of an exchange that is echoed
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Ask in HTTP/1.1
    #[arg(long)]
    http: bool,
    #[arg(long, default_value = "/")]
    path: String,
    /// Whom to ask for in HTTP [default: echo.test]
    #[arg(long)]
    host: Option<String>,
    /// A file with lines of host and path, which are asked for in turn
    #[arg(long, value_name = "FILE", requires = "http")]
    targets: Option<String>,
    /// Bytes of a body that each request sends
    #[arg(long, default_value_t = 0, requires = "http")]
    body: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Echo(&'static [u8]),
    Http(&'static [u8]),
}

impl RequestOptions {
    /// The first request of a connection, where the protocol has requests.
    pub(crate) fn first(&self, host: &str) -> Option<Request> {
        self.http.then(|| self.request(self.host.as_deref().unwrap_or(host), &self.path))
    }

    /// For a host that is not the usual one.
    pub(crate) fn first_for(&self, host: &str) -> Option<Request> {
        self.http.then(|| self.request(host, &self.path))
    }

    fn request(&self, host: &str, path: &str) -> Request {
        let method = if self.body > 0 { "POST" } else { "GET" };
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: loadgen\r\nAccept: */*\r\n");
        if self.body > 0 {
            head += &format!("Content-Length: {}\r\n", self.body);
        }
        head += "\r\n";
        Request::Http(
            head.into_bytes()
                .into_iter()
                .chain(std::iter::repeat_n(b'u', self.body))
                .collect::<Vec<u8>>()
                .leak(),
        )
    }
}

/// Requests in turn.
#[derive(Debug)]
pub(crate) struct Requests {
    all: Vec<Request>,
    next: usize,
}

/// From one request to the next in a long list, so that neighbours in a configuration do not follow each other.
const STRIDE: usize = 7919;

impl Requests {
    pub(crate) fn new(options: &RequestOptions) -> Result<Self> {
        let all = match (&options.targets, options.first("echo.test")) {
            (Some(file), _) => {
                let text = fs::read_to_string(file)?;
                let targets = text.lines().filter_map(|line| line.split_once(' '));
                targets.map(|(host, path)| options.request(host, path)).collect()
            }
            (None, Some(request)) => vec![request],
            (None, None) => vec![Request::Echo(vec![b'q'; options.size].leak())],
        };
        if all.is_empty() { Err("no targets".into()) } else { Ok(Self { all, next: 0 }) }
    }

    pub(crate) fn next(&mut self) -> Request {
        if self.all.len() == 1 {
            return self.all[0];
        }
        self.next = (self.next + STRIDE) % self.all.len();
        self.all[self.next]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_turn() {
        let all = (0..10_000_u32).map(|number| Request::Echo(number.to_be_bytes().to_vec().leak())).collect();
        let mut requests = Requests { all, next: 0 };
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            if let Request::Echo(bytes) = requests.next() {
                seen.insert(bytes);
            }
        }
        assert_eq!(seen.len(), 10_000);
    }
}
