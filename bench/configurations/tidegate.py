"""Tidegate: a folder of manifests for each variant, with a file for each route, so that one more is one file more.

The 100,000 routes of `100k` and the 20,000 of `web10k` come in files of a thousand: what counts there is how many
there are.
"""
import shutil

from traffic import (BACKENDS, ECHO, GRPC_HOST, HTTP, HTTP2, HTTP_HOSTS, MANY, NEW, PASSTHROUGH, PATHS_HOST, TERMINATED,
                     UDP, many_names, route_hosts, route_paths)

ROUTES_IN_A_FILE = {"10k": 1, "100k": 1000}
WEB_ROUTES_IN_A_FILE = 1000

LISTENERS = """apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bench}
spec:
  gatewayClassName: tidegate
  addresses: [{value: 127.0.0.1}]
  listeners:
    - {name: passthrough, port: 8443, protocol: TLS, tls: {mode: Passthrough}}
    - {name: ecdsa, port: 8445, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: ecdsa}]}}
    - {name: rsa, port: 8446, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: rsa}]}}
    - {name: web, port: 8080, protocol: HTTP}
    - {name: websecure, port: 8447, protocol: HTTPS, tls: {certificateRefs: [{name: ecdsa}]}}
    - {name: hosts, port: 8081, protocol: HTTP}
    - {name: paths, port: 8082, protocol: HTTP}
    - {name: udp, port: 8053, protocol: UDP}
    - {name: udp-one-answer, port: 8054, protocol: UDP}
"""


def write(place, files):
    for variant in ("base", "web10k"):
        write_base(place / variant, files)
        write_web_routes(place / variant, variant)
    for variant in MANY:
        folder = place / variant
        write_base(folder, files)
        names = many_names(variant)
        size = ROUTES_IN_A_FILE[variant]
        for start in range(0, len(names), size):
            routes = [tls_route(name.split(".")[0], "passthrough", name, "echo", ECHO) for name in names[start:start + size]]
            (folder / f"{names[start].split('.')[0]}.yaml").write_text("---\n".join(routes))
    (place / "new.yaml").write_text(tls_route("new", "passthrough", NEW, "echo", ECHO))
    (place / "webnew.yaml").write_text(web_route("new", "web", NEW))


def write_base(folder, files):
    # What an earlier version has written must not be served.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "gateway.yaml").write_text(LISTENERS)
    backends = [service(name, port, "TCP") for name, port in BACKENDS.items()]
    backends += [service("udp", UDP, "UDP"), service("http2", HTTP2, "TCP")]
    (folder / "services.yaml").write_text("---\n".join(backends))
    for kind in ("ecdsa", "rsa"):
        (folder / f"secret-{kind}.yaml").write_text(secret(kind))
        # Files that a Secret takes its content from lie in the folder itself.
        for file in (files.certificate(kind), files.key(kind)):
            shutil.copy(file, folder / file.name)
    for listener, names in (("passthrough", PASSTHROUGH), ("ecdsa", TERMINATED), ("rsa", TERMINATED)):
        for name, port in names.items():
            backend = name.removesuffix(".test")
            manifest = tls_route(f"{listener}-{backend}", listener, name, backend, port)
            (folder / f"{listener}-{backend}.yaml").write_text(manifest)
    for listener in ("web", "websecure"):
        for host in HTTP_HOSTS:
            name = f"{listener}-{host.removesuffix('.test')}"
            (folder / f"{name}.yaml").write_text(web_route(name, listener, host))
    grpc = route("GRPCRoute", "grpc", "websecure", f"  hostnames: [{GRPC_HOST}]\n", "http2", HTTP2)
    (folder / "grpc.yaml").write_text(grpc)
    for listener in ("udp", "udp-one-answer"):
        (folder / f"{listener}.yaml").write_text(route("UDPRoute", listener, listener, "", "udp", UDP))


def write_web_routes(folder, variant):
    by_host = [web_route(host.removesuffix(".test"), "hosts", host) for host in route_hosts(variant)]
    by_path = [web_route(f"path-{path.removeprefix('/')}", "paths", PATHS_HOST, path) for path in route_paths(variant)]
    for name, routes in (("hosts", by_host), ("paths", by_path)):
        for start in range(0, len(routes), WEB_ROUTES_IN_A_FILE):
            text = "---\n".join(routes[start:start + WEB_ROUTES_IN_A_FILE])
            (folder / f"{name}-{start}.yaml").write_text(text)


def service(name, port, protocol):
    return f"""apiVersion: v1
kind: Service
metadata:
  name: {name}
  annotations: {{gateway.tidegate.io/endpoints: "127.0.0.1:{port}"}}
spec: {{ports: [{{port: {port}, protocol: {protocol}}}]}}
"""


def secret(kind):
    return f"""apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: {kind}
  annotations: {{gateway.tidegate.io/files: "tls.crt={kind}.crt, tls.key={kind}.key"}}
"""


def tls_route(name, listener, hostname, backend, port):
    return route("TLSRoute", name, listener, f"  hostnames: [{hostname}]\n", backend, port)


def web_route(name, listener, hostname, path="/"):
    match = f"matches: [{{path: {{value: {path}}}}}], "
    return route("HTTPRoute", name, listener, f"  hostnames: [{hostname}]\n", "http", HTTP, match)


def route(kind, name, listener, hostnames, backend, port, match=""):
    return f"""apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: bench, sectionName: {listener}}}]
{hostnames}  rules: [{{{match}backendRefs: [{{name: {backend}, port: {port}}}]}}]
"""
