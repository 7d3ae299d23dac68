//! What handshakes cost without sockets: the floor under every figure for terminated TLS. It counts the processor time
//! of this thread, so that it is right on a busy machine too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConfig, ServerConnection};

use crate::Result;
use crate::record::Record;
use crate::tls::{self, Cipher, ClientOptions, KeyExchange};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folder with backend-ecdsa and backend-rsa (.crt and .key)
    #[arg(long, default_value = "certs")]
    certs: String,
    /// Seconds for each kind
    #[arg(long, default_value_t = 2.0)]
    dur: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    for certificate in ["ecdsa", "rsa"] {
        for kx in [KeyExchange::X25519, KeyExchange::Pq] {
            for resume in [false, true] {
                let server = tls::server(&options.certs, &format!("backend-{certificate}"), kx)?;
                let client = ClientOptions { kx, cipher: Cipher::Aes128, resume, certificate: None };
                let spent = Spent::on_handshakes(&server, &tls::client(&client)?, options.dur)?;
                let record = Record::unlabelled("crypto").set("cert", certificate);
                let record = record.set("kx", format!("{kx:?}").to_lowercase()).set("resume", resume);
                spent.describe(record).print();
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct Spent {
    server: Duration,
    client: Duration,
    handshakes: u64,
    resumed: u64,
}

impl Spent {
    fn on_handshakes(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>, seconds: f64) -> Result<Self> {
        let mut spent = Self::default();
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < seconds {
            spent.shake_hands(server, client)?;
        }
        Ok(spent)
    }

    fn shake_hands(&mut self, server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> Result<()> {
        let name = ServerName::try_from("echo.test")?;
        let mut client = timed(&mut self.client, || ClientConnection::new(Arc::clone(client), name))?;
        let mut server = timed(&mut self.server, || ServerConnection::new(Arc::clone(server)))?;
        while client.wants_write() || server.wants_write() {
            let flight = timed(&mut self.client, || -> Result<Vec<u8>> {
                let mut flight = Vec::new();
                while client.wants_write() {
                    client.write_tls(&mut flight)?;
                }
                Ok(flight)
            })?;
            let answer = timed(&mut self.server, || -> Result<Vec<u8>> {
                let (mut rest, mut answer) = (&flight[..], Vec::new());
                while !rest.is_empty() {
                    server.read_tls(&mut rest)?;
                    server.process_new_packets()?;
                }
                while server.wants_write() {
                    server.write_tls(&mut answer)?;
                }
                Ok(answer)
            })?;
            timed(&mut self.client, || -> Result<()> {
                let mut rest = &answer[..];
                while !rest.is_empty() {
                    client.read_tls(&mut rest)?;
                    client.process_new_packets()?;
                }
                Ok(())
            })?;
        }
        if client.is_handshaking() || server.is_handshaking() {
            return Err("a handshake did not end".into());
        }
        self.handshakes += 1;
        self.resumed += u64::from(server.handshake_kind() == Some(HandshakeKind::Resumed));
        Ok(())
    }

    fn describe(&self, record: Record) -> Record {
        let count = self.handshakes as f64;
        record
            .number("server_us", self.server.as_secs_f64() * 1e6 / count, 1)
            .number("client_us", self.client.as_secs_f64() * 1e6 / count, 1)
            .number("server_hs_per_core", count / self.server.as_secs_f64(), 0)
            .number("resumed", self.resumed as f64 / count, 2)
    }
}

fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let before = thread_time();
    let result = work();
    *spent += thread_time().saturating_sub(before);
    result
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
