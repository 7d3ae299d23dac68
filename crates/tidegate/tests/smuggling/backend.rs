//! A backend that believes nothing: what it reads must be HTTP/1.1 to the letter, and it keeps what it saw.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crate::loopback::traffic::{patient, serve};
use crate::strict::{Read as Outcome, Request, read};

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    requests: Vec<Request>,
    strange: Vec<String>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let record = Arc::new(Mutex::default());
        let shared = Arc::clone(&record);
        Self { address: serve(move |stream| converse(patient(stream), &shared)), record }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.record.lock().unwrap().requests.clone()
    }

    /// What was seen since the last time.
    pub(crate) fn take(&self) -> (Vec<Request>, Vec<String>) {
        let mut record = self.record.lock().unwrap();
        (std::mem::take(&mut record.requests), std::mem::take(&mut record.strange))
    }
}

/// Answers requests until the other side ends, or says what is no request.
fn converse(mut stream: TcpStream, record: &Mutex<Record>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match read(&bytes) {
            Ok(Outcome::Whole(request, length)) => {
                bytes.drain(..length);
                let answer: &[u8] = if request.method == "HEAD" {
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
                } else {
                    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                };
                record.lock().unwrap().requests.push(request);
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
            // A client that is cut off in its body leaves a part of a request behind, which nobody answers.
            Ok(Outcome::Part) => {
                let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
                bytes.extend_from_slice(&buffer[..count]);
            }
            Err(why) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                record.lock().unwrap().strange.push(format!("{why} in {text:?}"));
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
