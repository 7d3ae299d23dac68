//! `tidegate status` and `tidegate refused`: what a running Tidegate tells on its admin address, or the data planes of
//! a Gateway in a cluster on theirs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::{CheckFormat, Refused, Status, TextFormat};
use crate::cluster::{Said, ask_all};
use crate::output::{Error, Outcome, STRONG, Terminal, styled};
use crate::run::admin::WELL;

const TIME: Duration = Duration::from_secs(30);
/// Asked for in any case: the terminal takes it out again where it is not wanted.
const COLOUR: &str = "color=always";

pub(crate) fn status(options: &Status, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let output = match options.output {
        CheckFormat::Table => "table",
        CheckFormat::Json => "json",
        CheckFormat::Yaml => "yaml",
    };
    let (well, body) = ask(options.admin, &format!("/status?output={output}&{COLOUR}"))?;
    terminal.print(&body)?;
    Ok(Outcome::good_if(well))
}

pub(crate) fn refused(options: &Refused, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let output = match options.output {
        TextFormat::Text => "text",
        TextFormat::Json => "json",
    };
    let path = format!("/refused?output={output}&last={}&{COLOUR}", options.last);
    let Some(gateway) = &options.cluster.gateway else {
        let (_, body) = ask(options.admin, &path)?;
        terminal.print(&body)?;
        return Ok(Outcome::Good);
    };
    let said = ask_all(gateway, &options.cluster, &path, terminal)?;
    match options.output {
        TextFormat::Text => {
            let parts = said.iter().map(|Said { pod, body }| format!("{}\n{body}", styled(STRONG, pod)));
            terminal.print(&parts.collect::<Vec<_>>().join("\n"))?;
        }
        TextFormat::Json => terminal.print_json(&said.iter().map(with_pod).collect::<Vec<_>>())?,
    }
    Ok(Outcome::Good)
}

fn with_pod(said: &Said) -> Value {
    json!({"pod": said.pod, "answer": serde_json::from_str(&said.body).unwrap_or(Value::Null)})
}

/// The body of the answer, and whether all is said to be well. The server closes the connection behind each, so that there is no more
/// to HTTP than this.
fn ask(admin: SocketAddr, path: &str) -> Result<(bool, String), Error> {
    let failed = |error: std::io::Error| {
        Error::Start(format!(
            "nobody answers at {admin}: {error} (is `tidegate run` running, and with which --admin?)"
        ))
    };
    let mut stream = TcpStream::connect_timeout(&admin, TIME).map_err(failed)?;
    stream.set_read_timeout(Some(TIME)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    parse(&String::from_utf8_lossy(&answer))
        .ok_or_else(|| Error::Start(format!("what answers at {admin} is no Tidegate")))
}

pub(crate) fn parse(answer: &str) -> Option<(bool, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.strip_prefix("HTTP/1.1 200 ")?;
    let header = |wanted: &str| {
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    // Less than was announced is what a connection leaves that broke off.
    let complete = header("content-length").is_none_or(|length| length.parse() == Ok(body.len()));
    complete.then(|| (header(WELL) != Some("false"), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        let answer = |head: &str, body: &str| parse(&format!("{head}\r\n\r\n{body}"));
        assert_eq!(answer("HTTP/1.1 200 OK\r\nContent-Length: 3", "yes"), Some((true, "yes".to_owned())));
        assert_eq!(answer("HTTP/1.1 200 OK\r\nTidegate-Well: false", ""), Some((false, String::new())));
        assert_eq!(answer("HTTP/1.1 200 OK\r\ncontent-length: 4", "yes"), None);
        assert_eq!(answer("HTTP/1.1 404 Not Found\r\ncontent-length: 0", ""), None);
        assert_eq!(answer("SSH-2.0-x", "yes"), None);
    }
}
