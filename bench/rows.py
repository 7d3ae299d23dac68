"""The rows of the table: what is measured, how, and what Tidegate is to reach. run.py measures them, report.py judges.

Ports are those of configurations/traffic.py. A row is measured for the peers that have its capability.
"""
from dataclasses import dataclass
from typing import Callable, Optional

# `direct` asks the backends themselves; rows without a port there have no `direct`.
ECHO, SOURCE, SINK, TLS_ECDSA, HTTP, TLS_RSA, UDP, HTTP2 = 9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008


NAMES = {"envoy": "Envoy", "haproxy": "HAProxy", "nginx": "nginx"}


@dataclass(frozen=True)
class Goal:
    """What Tidegate's figure is divided by, and how much may come out."""

    most: float
    # `best`: the best peer of the row; `splice`: HAProxy with splice; `own`: Tidegate in another row; `absolute`: the
    # figure itself; `named`: each of the peers in `peers`, which stand with their own `most`.
    against: str = "best"
    row: Optional[str] = None
    peers: tuple = ()
    # What the other row is about, for `own`.
    other: str = "one name"

    def words(self):
        return {"best": f"≤ {self.most:g}",
                "splice": f"≤ {self.most:g} of HAProxy's splice",
                "own": f"≤ {self.most:g} of {self.other}",
                "named": ", ".join(f"≤ {most:g} of {NAMES[peer]}" for peer, most in self.peers),
                "absolute": f"≤ {self.most:g}"}[self.against]


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    unit: str
    figure: str
    mode: str
    options: tuple
    port: int
    needs: str
    direct: Optional[int] = None
    goal: Optional[Goal] = None
    # Of the configurations with few, 10,000 and 100,000 names, and with 10,000 HTTP routes.
    variant: str = "base"
    # Of `reload`: the variant that the change leads to.
    change: str = ""
    # Measured in a process of its own, so that nothing of other rows is left in it.
    alone: bool = False
    # Part of a run that does not name its rows.
    default: bool = True
    scale: float = 1.0
    # What must hold for a figure to count, and what to say where it does not.
    valid: Optional[Callable] = None


US, SECONDS_PER_GB = "µs", "s/GB"
CPU = "proxy_us_per_op"


def cpu(name, title, mode, options, port, needs, **rest):
    """Processor time of the proxy for each operation."""
    return Row(name, title, US, CPU, mode, options, port, needs, **rest)


def bulk(name, title, direction, connections, port, needs, tls=(), **rest):
    options = ("--dir", direction, "--conns", str(connections), *tls)
    return Row(name, title, SECONDS_PER_GB, CPU, "bulk", options, port, needs, scale=1e-6, **rest)


def none_resumed(result):
    return None if result["resumed"] == 0 else "some handshakes were resumed"


def nearly_all_resumed(result):
    return None if result["resumed"] >= 0.98 else f"only {result['resumed']:.0%} were resumed"


def all_open(result):
    missing = result["conns"] - result["ok"]
    return None if missing == 0 else f"{missing} connections did not open"


def nothing_lost(result):
    return None if result["loss_frac"] < 0.001 else f"{result['loss_frac']:.1%} of datagrams were lost"


def nothing_broken(result):
    lost = result["conns"] - result["live"] + result["broken"] + result["stuck"] + result["new_failed"]
    return None if lost == 0 else f"{lost} connections broken, stuck or refused"


ECDSA = ("--tls", "--certificate", "{certificates}/{owner}ecdsa.crt")
RSA = ("--tls", "--certificate", "{certificates}/{owner}rsa.crt")

HTTP_GOAL = Goal(1.0, "named", peers=(("nginx", 1.0), ("haproxy", 1.15)))
HTTP2_GOAL = Goal(0.9, "named", peers=(("envoy", 0.9), ("nginx", 0.9)))


def web(name, title, options, port, needs, **rest):
    """An HTTP/1.1 request on one of 50 connections that are kept alive, unless `options` say otherwise."""
    return cpu(name, title, "rr", ("--http", *options), port, needs, **rest)

ROWS = (
    cpu("conn", "new passthrough connection", "conn", (), 8443, "passthrough", direct=ECHO, goal=Goal(0.95)),
    cpu("conn_pq", "the same, post-quantum ClientHello", "conn", ("--kx", "pq"), 8443, "passthrough", direct=ECHO,
        goal=Goal(0.95)),
    cpu("conn_few", "the same, from 100,000 recorded ClientHellos with one name", "conn",
        ("--sni-file", "{generated}/names-few.txt"), 8443, "passthrough"),
    cpu("conn_10k", "the same, 10,000 names", "conn", ("--sni-file", "{generated}/names-10k.txt"), 8443, "10k",
        variant="10k", goal=Goal(1.05, "own", "conn_few")),
    cpu("conn_100k", "the same, 100,000 names", "conn", ("--sni-file", "{generated}/names-100k.txt"), 8443, "100k",
        variant="100k", goal=Goal(1.05, "own", "conn_few")),
    cpu("conn_tls", "full TLS handshake passed through", "conn",
        ("--tls", "--sni", "tls.test", "--certificate", "{certificates}/backend-ecdsa.crt"), 8443, "passthrough",
        direct=TLS_ECDSA, default=False),
    bulk("bulk_down", "passthrough bulk down, 16 connections", "down", 16, 8443, "passthrough", direct=SOURCE,
         goal=Goal(0.9, "splice", "bulk_down_splice")),
    bulk("bulk_up", "passthrough bulk up, 16 connections", "up", 16, 8443, "passthrough", direct=SINK,
         goal=Goal(0.9, "splice", "bulk_up_splice")),
    bulk("bulk_down_splice", "bulk down by splice", "down", 16, 8448, "splice"),
    bulk("bulk_up_splice", "bulk up by splice", "up", 16, 8448, "splice"),
    bulk("bulk_down1", "passthrough bulk down, 1 connection", "down", 1, 8443, "passthrough", direct=SOURCE,
         default=False),
    bulk("bulk_down64", "passthrough bulk down, 64 connections", "down", 64, 8443, "passthrough", direct=SOURCE,
         default=False),
    cpu("rr", "ping-pong of 64 bytes, 50 connections", "rr", (), 8443, "passthrough", direct=ECHO, goal=Goal(0.95)),
    cpu("rr1", "the same, 1 connection", "rr", ("--conns", "1"), 8443, "passthrough", direct=ECHO, default=False),
    cpu("rr500", "the same, 500 connections", "rr", ("--conns", "500"), 8443, "passthrough", direct=ECHO,
        default=False),
    cpu("rr_paced", "the same, 5,000 a second on 50 connections", "rr", ("--rate", "5000"), 8443, "passthrough",
        direct=ECHO, default=False),
    cpu("tls_ecdsa", "TLS 1.3 terminated, ECDSA P-256, full", "conn", ECDSA, 8445, "ecdsa", direct=TLS_ECDSA,
        goal=Goal(0.75), valid=none_resumed),
    cpu("tls_resumed", "the same, resumed", "conn", ECDSA + ("--resume",), 8445, "ecdsa", direct=TLS_ECDSA,
        goal=Goal(0.75), valid=nearly_all_resumed),
    cpu("tls_rsa", "the same, RSA-2048, full", "conn", RSA, 8446, "rsa", direct=TLS_RSA, goal=Goal(0.9),
        valid=none_resumed),
    bulk("tls_down", "terminated bulk down, 16 connections", "down", 16, 8445, "ecdsa", ECDSA, goal=Goal(1.0)),
    bulk("tls_up", "terminated bulk up, 16 connections", "up", 16, 8445, "ecdsa", ECDSA, goal=Goal(1.0),
         default=False),
    cpu("tls_rr", "terminated ping-pong, 50 connections", "rr", ECDSA, 8445, "ecdsa", direct=TLS_ECDSA,
        goal=Goal(0.95)),
    cpu("udp", "UDP datagram, 32 flows", "udp", (), 8053, "udp", direct=UDP, goal=Goal(0.7), valid=nothing_lost),
    cpu("udp_window", "the same, 8 under way on each", "udp", ("--win", "8"), 8053, "udp", direct=UDP, default=False,
        valid=nothing_lost),
    cpu("udp_new", "UDP, a new flow for each datagram", "udp", ("--fresh",), 8054, "udp-one-answer", direct=UDP,
        goal=Goal(0.7), valid=nothing_lost, alone=True),
    web("http", "HTTP/1.1 request, 50 connections", ("--plain",), 8080, "http", direct=HTTP, goal=HTTP_GOAL),
    web("https", "HTTPS request, 50 connections", ECDSA, 8447, "https", goal=HTTP_GOAL),
    web("http_down", "HTTP answer of 1 MB, 8 connections", ("--plain", "--conns", "8", "--path", "/large"), 8080, "http",
        direct=HTTP),
    web("http_up", "HTTP request of 1 MB, 8 connections", ("--plain", "--conns", "8", "--body", "1048576"), 8080, "http",
        direct=HTTP),
    web("https_down", "HTTPS answer of 1 MB, 8 connections", (*ECDSA, "--conns", "8", "--path", "/large"), 8447, "https",
        default=False),
    cpu("h2", "HTTP/2 request over TLS, 10 connections with 10 each", "h2", ECDSA, 8447, "h2", goal=HTTP2_GOAL),
    cpu("grpc", "gRPC call over TLS, the same", "h2", (*ECDSA, "--host", "grpc.test", "--grpc", "64"), 8447, "grpc",
        goal=HTTP2_GOAL),
    cpu("h2c", "HTTP/2 request in plain text", "h2", ("--plain",), 8080, "h2c", direct=HTTP2, default=False),
    web("hosts_few", "HTTP request, 10 routes by host", ("--plain", "--targets", "{generated}/hosts-few.txt"), 8081,
        "routes"),
    web("hosts_10k", "the same, 10,000 routes", ("--plain", "--targets", "{generated}/hosts-many.txt"), 8081, "routes",
        variant="web10k", goal=Goal(1.5, "own", "hosts_few", other="10 routes")),
    web("paths_few", "HTTP request, 10 routes by path", ("--plain", "--targets", "{generated}/paths-few.txt"), 8082,
        "routes"),
    web("paths_10k", "the same, 10,000 routes", ("--plain", "--targets", "{generated}/paths-many.txt"), 8082, "routes",
        variant="web10k", goal=Goal(1.5, "own", "paths_few", other="10 routes")),
    Row("idle", "memory of an idle passthrough connection", "KB", "kb_per_conn", "idle", ("--conns", "{idle}"), 8443,
        "passthrough", goal=Goal(3.0, "absolute"), valid=all_open, alone=True),
    Row("idle_tls", "memory of an idle terminated connection", "KB", "kb_per_conn", "idle",
        ("--conns", "{idle_tls}", *ECDSA), 8445, "ecdsa", goal=Goal(16.0, "absolute"), valid=all_open, alone=True),
    Row("idle_http", "memory of an idle HTTP connection", "KB", "kb_per_conn", "idle",
        ("--conns", "{idle_tls}", "--http", "--plain"), 8080, "http", valid=all_open, alone=True),
    Row("idle_https", "the same with TLS", "KB", "kb_per_conn", "idle", ("--conns", "{idle_tls}", "--http", *ECDSA), 8447,
        "https", valid=all_open, alone=True),
    Row("reload", "route added, 1,000 live connections", "ms", "route_ms", "reload", ("--after", "2"), 8443, "reload",
        goal=Goal(10.0, "absolute"), valid=nothing_broken, alone=True),
    Row("reload_runtime", "the same by a runtime API", "ms", "route_ms", "reload", ("--after", "1"), 8443, "runtime",
        valid=nothing_broken, alone=True),
    Row("reload_10k", "route added to 10,000", "ms", "route_ms", "reload", ("--after", "2"), 8443, "10k",
        variant="10k", goal=Goal(10.0, "absolute"), valid=nothing_broken),
    Row("reload_http", "HTTP route added, 1,000 live connections", "ms", "route_ms", "reload",
        ("--after", "2", "--http", "--plain"), 8080, "reload-http", change="webnew", goal=Goal(10.0, "absolute"),
        valid=nothing_broken, alone=True),
    Row("reload_http_runtime", "the same by a runtime API", "ms", "route_ms", "reload",
        ("--after", "1", "--http", "--plain"), 8080, "runtime-http", change="webnew", valid=nothing_broken, alone=True),
    Row("mem", "memory at start", "MB", "pss_kb", "mem", (), 8443, "passthrough", scale=1 / 1024, default=False,
        alone=True),
    Row("mem_10k", "memory with 10,000 routes", "MB", "pss_kb", "mem", (), 8443, "10k", variant="10k",
        scale=1 / 1024, default=False, alone=True),
)

# Another row's figure counts for a peer as well, where it has a faster way to do the same.
OTHER_WAYS = {"bulk_down": "bulk_down_splice", "bulk_up": "bulk_up_splice", "reload": "reload_runtime",
              "reload_http": "reload_http_runtime"}

BY_NAME = {row.name: row for row in ROWS}
