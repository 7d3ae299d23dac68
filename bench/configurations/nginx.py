"""nginx: one configuration, and a map of server names for each variant."""
from traffic import BACKEND_OF_PORT, BACKENDS, TERMINATED, UDP, VARIANTS_WITH_100K, passthrough_names


def write(place, files):
    for variant in VARIANTS_WITH_100K:
        (place / f"{variant}.map").write_text(name_map(passthrough_names(variant)))
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
  ssl_certificate {files.certificate("ecdsa")};
  ssl_certificate_key {files.key("ecdsa")};
  ssl_protocols TLSv1.2 TLSv1.3;
{website("other.test", "h2", " backlog=4096")}{website("echo.test", "h", "")}}}
"""


def terminated(port, kind, files):
    return f"""  server {{
    listen 127.0.0.1:{port} ssl backlog=4096;
    ssl_certificate {files.certificate(kind)};
    ssl_certificate_key {files.key(kind)};
    proxy_pass $terminated;
  }}
"""


def website(host, upstream, backlog):
    return f"""  upstream {upstream} {{
    server 127.0.0.1:{BACKENDS["http"]};
    keepalive 600;
    keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:8080{backlog};
    listen 127.0.0.1:8447 ssl{backlog};
    server_name {host};
    location / {{ proxy_pass http://{upstream}; }}
  }}
"""
