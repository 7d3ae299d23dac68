//! HTTP/1.1 requests read to the letter of RFC 9112, with nothing of what it allows a lenient reader.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names as they came, with their values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) enum Read {
    /// With the bytes that it took.
    Whole(Request, usize),
    Part,
}

impl Request {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }
}

/// The first request of these bytes, or why they cannot be the beginning of one.
pub(crate) fn read(bytes: &[u8]) -> Result<Read, String> {
    let mut rest = bytes;
    let Some(line) = line(&mut rest)? else { return Ok(Read::Part) };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!("request line {line:?}"));
    };
    let is_target = target.starts_with('/') || target == "*";
    if !is_token(method)
        || !is_target
        || version != "HTTP/1.1"
        || !target.bytes().all(|b| b.is_ascii_graphic())
    {
        return Err(format!("request line {line:?}"));
    }
    let Some(headers) = fields(&mut rest)? else { return Ok(Read::Part) };
    let mut request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body: Vec::new(),
        trailers: Vec::new(),
    };
    if request.all("host").len() != 1 {
        return Err(format!("{} Hosts", request.all("host").len()));
    }
    let whole = match (&request.all("content-length")[..], &request.all("transfer-encoding")[..]) {
        ([], []) => true,
        ([length], []) => {
            let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            let length: usize =
                length.parse().ok().filter(|_| is_number).ok_or(format!("length {length:?}"))?;
            let whole = rest.len() >= length;
            request.body = rest[..length.min(rest.len())].to_vec();
            rest = &rest[length.min(rest.len())..];
            whole
        }
        ([], ["chunked"]) => chunks(&mut rest, &mut request)?,
        (lengths, encodings) => return Err(format!("lengths {lengths:?}, encodings {encodings:?}")),
    };
    Ok(if whole { Read::Whole(request, bytes.len() - rest.len()) } else { Read::Part })
}

/// Whether all of them are there.
fn chunks(rest: &mut &[u8], request: &mut Request) -> Result<bool, String> {
    loop {
        let Some(size) = line(rest)? else { return Ok(false) };
        let is_number =
            !size.is_empty() && size.len() < 9 && size.bytes().all(|byte| byte.is_ascii_hexdigit());
        let length = usize::from_str_radix(size, 16).ok().filter(|_| is_number);
        let length = length.ok_or(format!("chunk size {size:?}"))?;
        if length == 0 {
            let Some(trailers) = fields(rest)? else { return Ok(false) };
            request.trailers = trailers;
            return Ok(true);
        }
        if rest.len() < length + 2 {
            return Ok(false);
        }
        request.body.extend_from_slice(&rest[..length]);
        if &rest[length..length + 2] != b"\r\n" {
            return Err("a chunk that does not end where it says".to_owned());
        }
        *rest = &rest[length + 2..];
    }
}

/// Header lines to the empty line after them.
fn fields(rest: &mut &[u8]) -> Result<Option<Vec<(String, String)>>, String> {
    let mut all = Vec::new();
    loop {
        let Some(line) = line(rest)? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(all));
        }
        let (name, value) = line.split_once(':').ok_or(format!("header line {line:?}"))?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || value.chars().any(|c| c.is_ascii_control() && c != '\t') {
            return Err(format!("header line {line:?}"));
        }
        all.push((name.to_owned(), value.to_owned()));
    }
}

/// A line that ends with CR and LF and has neither inside.
fn line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a str>, String> {
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        let inside = rest.strip_suffix(b"\r").unwrap_or(rest);
        return if inside.contains(&b'\r') { Err("a bare CR".to_owned()) } else { Ok(None) };
    };
    let line = rest[..end].strip_suffix(b"\r").ok_or("a bare LF")?;
    if line.contains(&b'\r') {
        return Err("a bare CR".to_owned());
    }
    *rest = &rest[end + 1..];
    std::str::from_utf8(line).map(Some).map_err(|_| "not UTF-8".to_owned())
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[test]
fn it_believes_nothing() {
    for good in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nx: y\r\n\r\n",
    ] {
        let Ok(Read::Whole(_, length)) = read(format!("{good}GET").as_bytes()) else { panic!("{good:?}") };
        assert_eq!(length, good.len());
        for part in 0..good.len() {
            assert!(matches!(read(&good.as_bytes()[..part]), Ok(Read::Part)), "{:?}", &good[..part]);
        }
    }
    for bad in [
        "GET / HTTP/1.0\r\n",
        "GET  / HTTP/1.1\r\n",
        "GET / HTTP/1.1\n",
        "GET /\r / HTTP/1.1",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    ] {
        assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
