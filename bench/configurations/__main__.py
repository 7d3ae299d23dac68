"""Writes what every peer needs to carry the same traffic: `python3 configurations FOLDER`.

Each peer's file of this folder knows one proxy's way to write it; what is to be carried stands in traffic.py.
"""
import sys
from pathlib import Path

import envoy
import haproxy
import nginx
import sniproxy
import tidegate
import traefik
import traffic


def main():
    folder = Path(sys.argv[1]).resolve()
    traffic.write_name_lists(folder)
    traffic.write_targets(folder)
    for peer in (envoy, haproxy, nginx, sniproxy, tidegate, traefik):
        place = folder / peer.__name__
        place.mkdir(parents=True, exist_ok=True)
        peer.write(place, traffic.Files(folder))


main()
