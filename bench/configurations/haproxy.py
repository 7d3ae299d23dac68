"""HAProxy: one configuration, and maps of server names, hosts and paths for each variant."""
from traffic import (BACKEND_OF_PORT, BACKENDS, GRPC_HOST, HTTP2, TERMINATED, VARIANTS_WITH_100K, http_hosts,
                     passthrough_names, route_hosts, route_paths)


def write(place, files):
    for variant in VARIANTS_WITH_100K:
        (place / f"{variant}.map").write_text(name_map(passthrough_names(variant)))
        hosts = "".join(f"{host} be_http\n" for host in http_hosts(variant)) + f"{GRPC_HOST} be_http2\n"
        (place / f"{variant}.http.map").write_text(hosts)
        for kind, keys in (("hosts", route_hosts(variant)), ("paths", route_paths(variant))):
            (place / f"{variant}.{kind}.map").write_text("".join(f"{key} be_http\n" for key in keys))
    (place / "terminated.map").write_text(name_map(TERMINATED))
    (place / "haproxy.cfg").write_text(configuration(place, files))


def name_map(names):
    return "".join(f"{name} be_{BACKEND_OF_PORT[port]}\n" for name, port in names.items())


def configuration(place, files):
    return f"""global
  nbthread 1
  maxconn 9600
  maxpipes 128
  stats socket ipv4@127.0.0.1:9998 level admin
  ssl-default-bind-options ssl-min-ver TLSv1.2
  tune.ssl.default-dh-param 2048
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend passthrough
  bind 127.0.0.1:8443
  tcp-request inspect-delay 5s
  tcp-request content accept if {{ req.ssl_hello_type 1 }}
  use_backend %[req.ssl_sni,lower,map_str({files.running}/haproxy.map)]
frontend passthrough-splice
  option splice-auto
  bind 127.0.0.1:8448
  tcp-request inspect-delay 5s
  tcp-request content accept if {{ req.ssl_hello_type 1 }}
  use_backend %[req.ssl_sni,lower,map_str({place}/terminated.map)]
frontend terminated-ecdsa
  bind 127.0.0.1:8445 ssl crt {files.certificate_and_key("ecdsa")}
  use_backend %[ssl_fc_sni,lower,map_str({place}/terminated.map)]
frontend terminated-rsa
  bind 127.0.0.1:8446 ssl crt {files.certificate_and_key("rsa")}
  use_backend %[ssl_fc_sni,lower,map_str({place}/terminated.map)]
frontend web
  mode http
  timeout http-keep-alive 1h
  bind 127.0.0.1:8080
  bind 127.0.0.1:8447 ssl crt {files.certificate_and_key("ecdsa")} alpn h2,http/1.1
  use_backend %[req.hdr(host),lower,map_str({files.running}/haproxy.http.map)]
frontend hosts
  mode http
  timeout http-keep-alive 1h
  bind 127.0.0.1:8081
  use_backend %[req.hdr(host),lower,map_str({files.running}/haproxy.hosts.map)]
frontend paths
  mode http
  timeout http-keep-alive 1h
  bind 127.0.0.1:8082
  use_backend %[path,map_beg({files.running}/haproxy.paths.map)]
backend be_http2
  mode http
  http-reuse always
  server s 127.0.0.1:{HTTP2} proto h2
{"".join(backend(name, port) for name, port in BACKENDS.items())}"""


def backend(name, port):
    http = "  mode http\n  http-reuse always\n" if name == "http" else ""
    return f"backend be_{name}\n{http}  server s 127.0.0.1:{port}\n"
