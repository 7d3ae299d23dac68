"""Traefik: a file with its ports, and a file of routes for each variant in a folder that it watches."""
import json

from traffic import (BACKEND_OF_PORT, GRPC_HOST, HTTP, HTTP2, PASSTHROUGH, PATHS_HOST, TERMINATED, UDP, VARIANTS,
                     http_hosts, passthrough_names, route_hosts, route_paths)


def write(place, files):
    (place / "traefik.json").write_text(json.dumps(static(files), indent=1))
    for variant in VARIANTS:
        (place / f"{variant}.json").write_text(json.dumps(routes(variant, files)))


def static(files):
    ports = {"passthrough": "8443", "terminated": "8445", "web": "8080", "websecure": "8447",
             "hosts": "8081", "paths": "8082", "udp": "8053/udp"}
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
        "http": {"routers": http_routers(variant),
                 "services": {"http": {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{HTTP}"}]}},
                              "grpc": {"loadBalancer": {"servers": [{"url": f"h2c://127.0.0.1:{HTTP2}"}]}}}},
        "udp": {"routers": {"udp": {"entryPoints": ["udp"], "service": "udp"}},
                "services": {"udp": servers(f"127.0.0.1:{UDP}")}},
    }


def http_routers(variant):
    def router(entry_point, rule, service="http"):
        tls = {"tls": {}} if entry_point == "websecure" else {}
        return {"entryPoints": [entry_point], "rule": rule, "service": service} | tls
    routers = {"grpc": router("websecure", f"Host(`{GRPC_HOST}`)", "grpc")}
    for number, host in enumerate(http_hosts(variant)):
        for entry_point in ("web", "websecure"):
            routers[f"{entry_point}-{number}"] = router(entry_point, f"Host(`{host}`)")
    for number, host in enumerate(route_hosts(variant)):
        routers[f"host-{number}"] = router("hosts", f"Host(`{host}`)")
    for number, path in enumerate(route_paths(variant)):
        routers[f"path-{number}"] = router("paths", f"Host(`{PATHS_HOST}`) && PathPrefix(`{path}/`)")
    return routers


def by_name(entry_point, name, port, tls):
    return {"entryPoints": [entry_point], "rule": f"HostSNI(`{name}`)", "service": BACKEND_OF_PORT[port], "tls": tls}


def servers(address):
    return {"loadBalancer": {"servers": [{"address": address}]}}
