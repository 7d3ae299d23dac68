"""Tidegate: a folder of manifests for each variant, with a file for each route, so that one more is one file more.

The 100,000 routes of `100k` come in files of a thousand: what counts there is how many names there are.
"""
import shutil

from traffic import BACKENDS, ECHO, MANY, NEW, PASSTHROUGH, TERMINATED, UDP, many_names

ROUTES_IN_A_FILE = {"10k": 1, "100k": 1000}

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
    - {name: udp, port: 8053, protocol: UDP}
    - {name: udp-one-answer, port: 8054, protocol: UDP}
"""


def write(place, files):
    write_base(place / "base", files)
    for variant in MANY:
        folder = place / variant
        write_base(folder, files)
        names = many_names(variant)
        size = ROUTES_IN_A_FILE[variant]
        for start in range(0, len(names), size):
            routes = [tls_route(name.split(".")[0], "passthrough", name, "echo", ECHO) for name in names[start:start + size]]
            (folder / f"{names[start].split('.')[0]}.yaml").write_text("---\n".join(routes))
    (place / "new.yaml").write_text(tls_route("new", "passthrough", NEW, "echo", ECHO))


def write_base(folder, files):
    # What an earlier version has written must not be served.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "gateway.yaml").write_text(LISTENERS)
    backends = [service(name, port, "TCP") for name, port in BACKENDS.items()] + [service("udp", UDP, "UDP")]
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
    for listener in ("udp", "udp-one-answer"):
        (folder / f"{listener}.yaml").write_text(route("UDPRoute", listener, listener, "", "udp", UDP))


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


def route(kind, name, listener, hostnames, backend, port):
    return f"""apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: bench, sectionName: {listener}}}]
{hostnames}  rules: [{{backendRefs: [{{name: {backend}, port: {port}}}]}}]
"""
