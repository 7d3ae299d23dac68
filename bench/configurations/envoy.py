"""Envoy: clusters that stay, and for each variant a file of listeners and files of HTTP routes in a folder that it watches."""
import json

from traffic import (BACKEND_OF_PORT, BACKENDS, GRPC_HOST, HTTP2, PATHS_HOST, TERMINATED, UDP, VARIANTS, http_hosts,
                     passthrough_names, route_hosts, route_paths)

TYPES = "type.googleapis.com/envoy"
UNBOUNDED = 1_000_000
OVER_HTTP2 = {"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
    "@type": f"{TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions",
    "explicit_http_config": {"http2_protocol_options": {}}}}}


def write(place, files):
    (place / "bootstrap.json").write_text(json.dumps(bootstrap(files), indent=1))
    for variant in VARIANTS:
        content = {"version_info": variant, "resources": listeners(variant, files)}
        (place / f"{variant}.json").write_text(json.dumps(content))
        # It takes one set of routes from a file.
        for routes in (web, hosts, paths):
            content = {"version_info": variant, "resources": [routes(variant)]}
            (place / f"{variant}.{routes.__name__}.json").write_text(json.dumps(content))


def bootstrap(files):
    watched = {"path": f"{files.running}/envoy/listeners.json", "watched_directory": {"path": f"{files.running}/envoy"}}
    clusters = [cluster(name, port, "TCP") for name, port in BACKENDS.items()]
    clusters += [cluster("udp", UDP, "UDP"), cluster("http2", HTTP2, "TCP") | OVER_HTTP2]
    return {
        "node": {"id": "bench", "cluster": "bench"},
        "admin": {"address": address(9901)},
        "dynamic_resources": {"lds_config": {"resource_api_version": "V3", "path_config_source": watched}},
        "static_resources": {"clusters": clusters},
    }


def listeners(variant, files):
    passthrough = [chain(name, port) for name, port in passthrough_names(variant).items()]
    def terminated(kind):
        return [chain(name, port, tls(kind, files)) for name, port in TERMINATED.items()]
    return [
        listener("passthrough", 8443, passthrough),
        listener("terminated-ecdsa", 8445, terminated("ecdsa")),
        listener("terminated-rsa", 8446, terminated("rsa")),
        listener("web", 8080, [{"filters": [http("web", files)]}], inspect=False),
        listener("hosts", 8081, [{"filters": [http("hosts", files)]}], inspect=False),
        listener("paths", 8082, [{"filters": [http("paths", files)]}], inspect=False),
        listener("websecure", 8447, [{"filters": [http("web", files)],
                                      "transport_socket": tls("ecdsa", files, ["h2", "http/1.1"])}], inspect=False),
        datagrams("udp", 8053, "5s"),
        datagrams("udp-one-answer", 8054, "1s"),
    ]


def address(port, protocol="TCP"):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port, "protocol": protocol}}


def typed(name, kind, **fields):
    return {"name": name, "typed_config": {"@type": f"{TYPES}.{kind}", **fields}}


def cluster(name, port, protocol):
    endpoint = {"endpoint": {"address": address(port, protocol)}}
    bounds = {"max_connections": UNBOUNDED, "max_pending_requests": UNBOUNDED, "max_requests": UNBOUNDED}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [bounds]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def listener(name, port, chains, inspect=True):
    inspector = typed("inspector", "extensions.filters.listener.tls_inspector.v3.TlsInspector")
    return {
        "@type": f"{TYPES}.config.listener.v3.Listener",
        "name": name,
        "address": address(port),
        "listener_filters": [inspector] if inspect else [],
        "filter_chains": chains,
    }


def chain(name, port, transport_socket=None):
    relay = typed("relay", "extensions.filters.network.tcp_proxy.v3.TcpProxy",
                  stat_prefix="tcp", cluster=BACKEND_OF_PORT[port], idle_timeout="3600s")
    found = {"name": name, "filter_chain_match": {"server_names": [name]}, "filters": [relay]}
    return found | ({"transport_socket": transport_socket} if transport_socket else {})


def tls(kind, files, protocols=()):
    pair = {"certificate_chain": {"filename": str(files.certificate(kind))},
            "private_key": {"filename": str(files.key(kind))}}
    return typed("tls", "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                 common_tls_context={"tls_certificates": [pair], "alpn_protocols": list(protocols)})


def http(routes, files):
    watched = {"path": f"{files.running}/envoy/{routes}.json", "watched_directory": {"path": f"{files.running}/envoy"}}
    source = {"resource_api_version": "V3", "path_config_source": watched}
    router = typed("router", "extensions.filters.http.router.v3.Router")
    return typed("http", "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                 stat_prefix="http", codec_type="AUTO", http_filters=[router],
                 rds={"route_config_name": routes, "config_source": source})


def route_configuration(name, virtual_hosts):
    return {"@type": f"{TYPES}.config.route.v3.RouteConfiguration", "name": name, "virtual_hosts": virtual_hosts}


def virtual_host(host, prefixes=("/",), cluster="http"):
    routes = [{"match": {"prefix": prefix}, "route": {"cluster": cluster}} for prefix in prefixes]
    return {"name": host, "domains": [host], "routes": routes}


def web(variant):
    grpc = virtual_host(GRPC_HOST, cluster="http2")
    return route_configuration("web", [virtual_host(host) for host in http_hosts(variant)] + [grpc])


def hosts(variant):
    return route_configuration("hosts", [virtual_host(host) for host in route_hosts(variant)])


def paths(variant):
    return route_configuration("paths", [virtual_host(PATHS_HOST, [f"{path}/" for path in route_paths(variant)])])


def datagrams(name, port, idle):
    route = typed("route", "extensions.filters.udp.udp_proxy.v3.Route", cluster="udp")
    relay = typed("relay", "extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
                  stat_prefix="udp", idle_timeout=idle, matcher={"on_no_match": {"action": route}})
    return {
        "@type": f"{TYPES}.config.listener.v3.Listener",
        "name": name,
        "address": address(port, "UDP"),
        "listener_filters": [relay],
    }
