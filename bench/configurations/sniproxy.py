"""sniproxy: a table of patterns for each variant, which it tries one after the other."""
from traffic import VARIANTS, passthrough_names


def write(place, files):
    for variant in VARIANTS:
        (place / f"{variant}.conf").write_text(configuration(variant, files))


def configuration(variant, files):
    table = "".join(f"  ^{name.replace('.', chr(92) + '.')}$ 127.0.0.1:{port}\n"
                    for name, port in passthrough_names(variant).items())
    return f"""user root
error_log {{ filename {files.running}/sniproxy.log }}
listener 127.0.0.1:8443 {{ protocol tls }}
table {{
{table}}}
"""
