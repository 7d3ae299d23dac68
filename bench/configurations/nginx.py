"""nginx: one configuration, and for each variant a map of server names and a file of web sites."""
from traffic import (BACKEND_OF_PORT, BACKENDS, GRPC_HOST, HTTP2, PATHS_HOST, TERMINATED, UDP, VARIANTS_WITH_100K,
                     http_hosts, passthrough_names, route_hosts, route_paths)


def write(place, files):
    for variant in VARIANTS_WITH_100K:
        (place / f"{variant}.map").write_text(name_map(passthrough_names(variant)))
        (place / f"{variant}.web").write_text(websites(variant))
    (place / "nginx.conf").write_text(configuration(files))


def name_map(names):
    return "".join(f"{name} {BACKEND_OF_PORT[port]};\n" for name, port in names.items())


def configuration(files):
    upstreams = "\n".join(f"  upstream {name} {{ server 127.0.0.1:{port}; }}"
                          for name, port in BACKENDS.items() if name != "http")
    return f"""load_module @MODULE@;
user root;
worker_processes 1;
worker_rlimit_nofile @FILES@;
pid {files.running}/nginx.pid;
error_log {files.running}/nginx.log crit;
events {{ worker_connections @FILES@; }}
stream {{
  map_hash_max_size 1048576;
  map_hash_bucket_size 128;
  map $ssl_preread_server_name $passthrough {{ include {files.running}/nginx.map; }}
  map $ssl_server_name $terminated {{
{name_map(TERMINATED)}  }}
{upstreams}
  proxy_timeout 1h;
  ssl_protocols TLSv1.2 TLSv1.3;
  server {{ listen 127.0.0.1:8443 backlog=4096; ssl_preread on; proxy_pass $passthrough; }}
{terminated(8445, "ecdsa", files)}{terminated(8446, "rsa", files)}\
  server {{ listen 127.0.0.1:8053 udp; proxy_timeout 5s; proxy_pass 127.0.0.1:{UDP}; }}
  server {{ listen 127.0.0.1:8054 udp; proxy_timeout 5s; proxy_responses 1; proxy_pass 127.0.0.1:{UDP}; }}
}}
http {{
  access_log off;
  keepalive_requests 100000000;
  keepalive_timeout 1h;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $host;
  proxy_request_buffering off;
  client_max_body_size 0;
  server_names_hash_max_size 1048576;
  server_names_hash_bucket_size 128;
  ssl_certificate {files.certificate("ecdsa")};
  ssl_certificate_key {files.key("ecdsa")};
  ssl_protocols TLSv1.2 TLSv1.3;
{pool("web", BACKENDS["http"])}{pool("grpc", HTTP2)}  include {files.running}/nginx.web;
}}
"""


def terminated(port, kind, files):
    return f"""  server {{
    listen 127.0.0.1:{port} ssl backlog=4096;
    ssl_certificate {files.certificate(kind)};
    ssl_certificate_key {files.key(kind)};
    proxy_pass $terminated;
  }}
"""


def pool(name, port):
    return f"""  upstream {name} {{
    server 127.0.0.1:{port};
    keepalive 600;
    keepalive_requests 100000000;
  }}
"""


def websites(variant):
    sites, backlog = [], " backlog=4096"
    for host in http_hosts(variant):
        sites.append(f"""server {{
  listen 127.0.0.1:8080{backlog};
  listen 127.0.0.1:8447 ssl http2{backlog};
  server_name {host};
  location / {{ proxy_pass http://web; }}
}}
""")
        backlog = ""
    sites.append(f"""server {{
  listen 127.0.0.1:8447 ssl http2;
  server_name {GRPC_HOST};
  location / {{ grpc_pass grpc://grpc; }}
}}
server {{
  listen 127.0.0.1:8080 default_server;
  return 404;
}}
""")
    for host in route_hosts(variant):
        sites.append(f"server {{ listen 127.0.0.1:8081; server_name {host};"
                     " location / { proxy_pass http://web; } }\n")
    locations = "".join(f"  location {path}/ {{ proxy_pass http://web; }}\n" for path in route_paths(variant))
    sites.append(f"server {{\n  listen 127.0.0.1:8082;\n  server_name {PATHS_HOST};\n{locations}}}\n")
    return "".join(sites)
