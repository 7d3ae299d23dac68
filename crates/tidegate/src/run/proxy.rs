//! The data plane as this command sees it: sockets that are opened as a plan asks for them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tidegate_plan::{EndpointsId, FragmentId, ListenerId, Plan, Step, Transport};
use tidegate_proxy::{Ending, Settings};
use tokio::sync::watch;

use crate::arguments::{AccessLog, LogFormat};

pub(crate) struct Proxy {
    settings: Settings,
    sockets: Mutex<BTreeMap<Wanted, Result<Vec<Open>, String>>>,
    changes: watch::Sender<u64>,
}

type Wanted = (Option<IpAddr>, u16, Transport);

struct Open {
    address: SocketAddr,
    _socket: Socket,
}

enum Socket {
    Tcp { _listener: TcpListener },
    Udp { _socket: UdpSocket },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketState {
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) state: Result<Vec<SocketAddr>, String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refused {
    #[serde(serialize_with = "time")]
    pub(crate) at: SystemTime,
    pub(crate) client: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) sni: Option<String>,
    pub(crate) listener: Option<ListenerId>,
    #[serde(rename = "reason", serialize_with = "name")]
    pub(crate) ending: Ending,
    pub(crate) detail: Option<String>,
    pub(crate) steps: Vec<Step>,
}

fn time<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

fn name<S: serde::Serializer>(ending: &Ending, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(ending.as_str())
}

impl Proxy {
    pub(crate) fn start(settings: Settings, _: &AccessLog, _: LogFormat) -> io::Result<Self> {
        Ok(Self { settings, sockets: Mutex::default(), changes: watch::Sender::new(0) })
    }

    pub(crate) fn apply(&self, plan: &Plan, fragments: &BTreeSet<FragmentId>, _: &BTreeSet<EndpointsId>) {
        if !fragments.iter().any(|id| matches!(id, FragmentId::Listener(_))) {
            return;
        }
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted: BTreeSet<Wanted> = BTreeSet::new();
        for listener in plan.listeners() {
            let transport = listener.handling.transport();
            if listener.addresses.is_empty() {
                wanted.insert((None, listener.port, transport));
            }
            wanted.extend(listener.addresses.iter().map(|ip| (Some(*ip), listener.port, transport)));
        }
        sockets.retain(|socket, _| wanted.contains(socket));
        for socket in wanted {
            sockets.entry(socket).or_insert_with(|| self.open(socket));
        }
        self.changes.send_modify(|count| *count += 1);
    }

    fn open(&self, (address, port, transport): Wanted) -> Result<Vec<Open>, String> {
        let port =
            port.checked_add(self.settings.port_offset).ok_or("the port with the offset is above 65535")?;
        let addresses = address.map_or_else(|| self.settings.bind.clone(), |address| vec![address]);
        let open = |ip: IpAddr| -> io::Result<Open> {
            let address = SocketAddr::new(ip, port);
            let socket = match transport {
                Transport::Tcp => Socket::Tcp { _listener: TcpListener::bind(address)? },
                Transport::Udp => Socket::Udp { _socket: UdpSocket::bind(address)? },
            };
            Ok(Open { address, _socket: socket })
        };
        addresses.into_iter().map(open).collect::<io::Result<_>>().map_err(|error| error.to_string())
    }

    pub(crate) fn sockets(&self) -> Vec<SocketState> {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |state: &Result<Vec<Open>, String>| match state {
            Ok(open) => Ok(open.iter().map(|open| open.address).collect()),
            Err(error) => Err(error.clone()),
        };
        sockets
            .iter()
            .map(|(&(address, port, transport), found)| SocketState {
                address,
                port,
                transport,
                state: state(found),
            })
            .collect()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn metrics(&self) -> String {
        String::new()
    }

    pub(crate) fn refused(&self) -> Vec<Refused> {
        Vec::new()
    }

    pub(crate) fn connections(&self) -> usize {
        0
    }

    pub(crate) fn drain_time(&self) -> Duration {
        self.settings.bounds.drain_time
    }

    pub(crate) fn reopen_log(&self) {}

    pub(crate) async fn drain(&self, _: Duration) -> usize {
        0
    }
}

/// Who has a port.
pub(crate) fn owner(_: SocketAddr) -> Option<String> {
    None
}
