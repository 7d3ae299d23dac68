"""Traefik: a file with its ports, and a file of routes for each variant in a folder that it watches."""
import json

from traffic import BACKEND_OF_PORT, HTTP, PASSTHROUGH, TERMINATED, UDP, VARIANTS, passthrough_names


def write(place, files):
    (place / "traefik.json").write_text(json.dumps(static(files), indent=1))
    for variant in VARIANTS:
        (place / f"{variant}.json").write_text(json.dumps(routes(variant, files)))


def static(files):
    ports = {"passthrough": "8443", "terminated": "8445", "web": "8080", "websecure": "8447", "udp": "8053/udp"}
    return {
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "log": {"level": "ERROR"},
        "entryPoints": {name: {"address": f"127.0.0.1:{port}"} for name, port in ports.items()},
        "providers": {"file": {"directory": f"{files.running}/traefik", "watch": True}},
    }


def routes(variant, files):
    routers = {}
    for name, port in passthrough_names(variant).items():
        routers[f"p-{name.replace('.', '-')}"] = by_name("passthrough", name, port, {"passthrough": True})
    for name, port in TERMINATED.items():
        routers[f"t-{name.replace('.', '-')}"] = by_name("terminated", name, port, {})
    certificate = {"certFile": str(files.certificate("ecdsa")), "keyFile": str(files.key("ecdsa"))}
    return {
        "tls": {"stores": {"default": {"defaultCertificate": certificate}}},
        "tcp": {"routers": routers,
                "services": {BACKEND_OF_PORT[port]: servers(f"127.0.0.1:{port}") for port in PASSTHROUGH.values()}},
        "http": {"routers": {
                     "plain": {"entryPoints": ["web"], "rule": "Host(`echo.test`)", "service": "http"},
                     "secure": {"entryPoints": ["websecure"], "rule": "Host(`echo.test`)", "service": "http", "tls": {}},
                     "other": {"entryPoints": ["web"], "rule": "Host(`other.test`)", "service": "http"}},
                 "services": {"http": {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{HTTP}"}]}}}},
        "udp": {"routers": {"udp": {"entryPoints": ["udp"], "service": "udp"}},
                "services": {"udp": servers(f"127.0.0.1:{UDP}")}},
    }


def by_name(entry_point, name, port, tls):
    return {"entryPoints": [entry_point], "rule": f"HostSNI(`{name}`)", "service": BACKEND_OF_PORT[port], "tls": tls}


def servers(address):
    return {"loadBalancer": {"servers": [{"address": address}]}}
