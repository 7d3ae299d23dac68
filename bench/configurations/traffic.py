"""What a proxy has to carry, whichever proxy it is: ports, names and backends.

Ports of the proxy, all on 127.0.0.1:
  8443 TLS passthrough by server name       8448 the same with splice, where that is a choice
  8445 TLS terminated, ECDSA certificate    8446 the same with RSA
  8080 HTTP, by host                        8447 HTTPS with HTTP/2, by host; grpc.test is gRPC
  8081 HTTP, many routes by host            8082 HTTP, many routes by path
  8053 UDP                                  8054 UDP where a flow has one answer

Variants: `base` has a handful of names, `10k` and `100k` so many more; with `new` at the end also new.test. `web10k` is
`base` with 10,000 routes instead of 10 at 8081 and at 8082, and `webnew` is `base` with the host new.test at 8080.
"""
from dataclasses import dataclass
from pathlib import Path

ECHO, SOURCE, SINK, TLS, HTTP, UDP, HTTP2 = 9001, 9002, 9003, 9004, 9005, 9007, 9008
BACKENDS = {"echo": ECHO, "source": SOURCE, "sink": SINK, "tls": TLS, "http": HTTP}
BACKEND_OF_PORT = {port: name for name, port in BACKENDS.items()}

PASSTHROUGH = {"echo.test": ECHO, "source.test": SOURCE, "sink.test": SINK, "tls.test": TLS}
TERMINATED = {"echo.test": ECHO, "source.test": SOURCE, "sink.test": SINK}
HTTP_HOSTS = ("echo.test", "other.test")
GRPC_HOST = "grpc.test"
NEW = "new.test"

MANY = {"10k": 10_000, "100k": 100_000}
VARIANTS = ("base", "new", "10k", "10knew", "web10k", "webnew")
# Routes at 8081 and 8082.
FEW_ROUTES, MANY_ROUTES = 10, 10_000
PATHS_HOST = "paths.test"
# For proxies that find a name among 100,000 without looking at all of them, and start within seconds.
VARIANTS_WITH_100K = VARIANTS + ("100k",)


def many_names(variant):
    return [f"h{number:06}.test" for number in range(MANY[variant])]


def passthrough_names(variant):
    """Server name to backend port."""
    names = dict(PASSTHROUGH)
    size = variant.removesuffix("new")
    if size in MANY:
        names.update((name, ECHO) for name in many_names(size))
    if variant.endswith("new"):
        names[NEW] = ECHO
    return names


def http_hosts(variant):
    """At 8080 and 8447."""
    return HTTP_HOSTS + ((NEW,) if variant == "webnew" else ())


def routes(variant):
    return MANY_ROUTES if variant == "web10k" else FEW_ROUTES


def route_hosts(variant):
    return [f"r{number:05}.test" for number in range(routes(variant))]


def route_paths(variant):
    return [f"/r{number:05}" for number in range(routes(variant))]


def write_targets(folder):
    """What the load side asks for at 8081 and 8082: as many requests for few routes as for many."""
    for variant, name in (("base", "few"), ("web10k", "many")):
        times = MANY_ROUTES // routes(variant)
        hosts = [f"{host} /\n" for host in route_hosts(variant)]
        paths = [f"{PATHS_HOST} {path}/index.html\n" for path in route_paths(variant)]
        (folder / f"hosts-{name}.txt").write_text("".join(hosts * times))
        (folder / f"paths-{name}.txt").write_text("".join(paths * times))


def write_name_lists(folder):
    """The names that the load side asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    for variant in MANY:
        (folder / f"names-{variant}.txt").write_text("\n".join(many_names(variant)) + "\n")
    # One name, and as much memory that the load side goes through: what is left between the two is the proxy's.
    (folder / "names-few.txt").write_text("echo.test\n" * max(MANY.values()))


@dataclass
class Files:
    """Where things are that configurations name."""

    folder: Path

    def certificate(self, kind):
        return self.folder / "certificates" / f"{kind}.crt"

    def key(self, kind):
        return self.folder / "certificates" / f"{kind}.key"

    def certificate_and_key(self, kind):
        return self.folder / "certificates" / f"{kind}.pem"

    @property
    def running(self):
        """What a running proxy reads; the peer's script puts a variant there."""
        return self.folder / "running"
