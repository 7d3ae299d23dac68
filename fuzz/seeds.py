#!/usr/bin/env python3
"""Gives the fuzz targets what the tests have: their manifests, and the messages in their sources.

Writes into fuzz/corpus/TARGET, where cargo-fuzz keeps what it finds. Two begin with nothing: the tests of `hello` take
their hellos from real clients, and those of `written` make up their messages."""

import ast
import hashlib
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANIFESTS = ["crates/api/tests/corpus", "crates/translate/tests/golden", "crates/tidegate/tests/cases", "examples"]
MESSAGES = {"head": "crates/http/tests/head/main.rs", "request": "crates/http/tests/request/main.rs"}


def manifests():
    for folder in MANIFESTS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".yaml", ".json") and path.is_file():
                yield path.read_bytes()


def messages(source):
    """The strings of the first array of strings in a Rust source."""
    text = (ROOT / source).read_text()
    array = re.search(r"^const \w+: \[&str; \d+\] = \[\n(.*?)^\];", text, re.S | re.M).group(1)
    # Rust and Python write these escapes alike.
    return [ast.literal_eval(line.strip().rstrip(",")).encode() for line in array.splitlines()]


def main():
    seeds = {"manifests": list(manifests())}
    seeds.update((target, messages(source)) for target, source in MESSAGES.items())
    for target, contents in seeds.items():
        folder = ROOT / "fuzz/corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for content in contents:
            (folder / hashlib.sha1(content).hexdigest()).write_bytes(content)
        print(f"{target}: {len(contents)} seeds")


main()
