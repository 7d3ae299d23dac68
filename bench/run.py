#!/usr/bin/env python3
"""One run: measures rows for peers, writes a line of JSON for each measurement, and prints the table.

In each round every peer has its turn, and who begins changes from round to round: what disturbs the machine for a while
disturbs all alike. The proxy has one core and one worker, the load and the backends have another core.
"""
import argparse
import fnmatch
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import namespace
import report
from rows import ROWS

HERE = Path(__file__).resolve().parent
GENERATED = HERE / "generated"
LOGS = GENERATED / "logs"
LOADGEN = os.environ.get("LOADGEN", str(HERE / "target/release/loadgen"))
PROXY_CORE = os.environ.get("PROXY_CORE", "0")
LOAD_CORE = os.environ.get("LOAD_CORE", "1")

# A measurement that takes longer hangs.
PATIENCE = 180
WARM = 0.7
# 100,000 names are to be served within this.
START_PATIENCE = 90
# Two for each proxied connection, and some for everything else.
FILES_PER_CONNECTION, OTHER_FILES = 2, 1000


def main():
    options = arguments()
    if os.cpu_count() < 2:
        sys.exit("two cores are needed: one for the proxy, one for the load")
    namespace.enter()
    rows = [row for row in ROWS if wanted(row, options.rows)]
    peers = [Peer.named(name) for name in options.peers.split()] if options.peers else Peer.all()
    LOGS.mkdir(parents=True, exist_ok=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    with open(options.results, "w") as results:
        write(results, machine(peers, rows))
        for number in range(options.rounds):
            turn = number % len(peers)
            for peer in peers[turn:] + peers[:turn]:
                print(f"round {number + 1} of {options.rounds}: {peer.name}", file=sys.stderr, flush=True)
                Session(peer, rows, number + 1, options.seconds, results).run()
    report.show(options.results)


def arguments():
    parser = argparse.ArgumentParser(description="Measures rows for peers and prints the table.")
    parser.add_argument("--results", type=Path, default=HERE / "results/latest.jsonl")
    parser.add_argument("--peers", default="", help="names in peers/, and `direct` [default: all that are there]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="that count, for each measurement")
    parser.add_argument("--rows", default="", help="patterns; `*` is every row [default: those with a goal]")
    return parser.parse_args()


def wanted(row, patterns):
    if not patterns:
        return row.default
    return any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns.split())


def machine(peers, rows):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return {"metric": "machine", "cpu": cpu, "cores": os.cpu_count(), "kernel": os.uname().release,
            "date": time.strftime("%Y-%m-%d"), "rows": [row.name for row in rows],
            "versions": {peer.name: peer.version for peer in peers}}


def write(results, line):
    results.write(json.dumps(line) + "\n")
    results.flush()


@dataclass
class Peer:
    name: str
    capabilities: set = field(default_factory=set)
    version: str = ""

    @staticmethod
    def named(name):
        if name == "direct":
            return Peer("direct")
        peer = Peer(name)
        peer.capabilities = set(peer.ask("caps").split())
        peer.version = peer.ask("version")
        return peer

    @staticmethod
    def all():
        """Those whose program is there."""
        peers = [Peer("direct")]
        for name in sorted(script.stem for script in (HERE / "peers").glob("*.sh")):
            try:
                peers.append(Peer.named(name))
            except subprocess.CalledProcessError:
                print(f"{name} is not there and is left out", file=sys.stderr)
        return peers

    @property
    def script(self):
        return str(HERE / "peers" / f"{self.name}.sh")

    def ask(self, *words):
        asked = subprocess.run(["bash", self.script, *words], capture_output=True, text=True, check=True)
        return asked.stdout.strip()


class Session:
    """One peer in one round."""

    def __init__(self, peer, rows, number, seconds, results):
        self.peer, self.number, self.seconds, self.results = peer, number, seconds, results
        if peer.name == "direct":
            self.rows = [row for row in rows if row.direct]
        else:
            self.rows = [row for row in rows if row.needs in peer.capabilities]

    def run(self):
        if self.peer.name == "direct":
            with Backend(PROXY_CORE) as backend:
                for row in self.rows:
                    self.measure(row, backend.pid)
            return
        with Backend(LOAD_CORE):
            for row in self.rows:
                if row.alone:
                    self.serve(row.variant, [row])
            for variant in ("base", "web10k", "10k", "100k"):
                self.serve(variant, [row for row in self.rows if row.variant == variant and not row.alone])

    def serve(self, variant, rows):
        """Starts the proxy, measures the rows, and ends it."""
        if not rows:
            return
        with Proxy(self.peer, variant) as proxy:
            if self.wait_for_start(variant, proxy):
                for row in rows:
                    self.measure(row, proxy.pid)
            else:
                print(f"{self.peer.name} did not start with {variant}: {proxy.log}", file=sys.stderr)

    def wait_for_start(self, variant, proxy):
        answered = self.loadgen("probe", "--to", "8443", "--try-ms", "2000", "--timeout", str(START_PATIENCE))
        if answered:
            took = (time.monotonic() - proxy.started) * 1e3
            write(self.results, {"metric": f"start_{variant}", "tag": self.peer.name, "round": self.number, "ms": took})
        return answered is not None

    def measure(self, row, pid):
        direct = self.peer.name == "direct"
        words = {"generated": GENERATED, "certificates": GENERATED / "certificates",
                 "owner": "backend-" if direct else "", "idle": idle_connections(), "idle_tls": idle_connections() // 3}
        options = [option.format_map(words) for option in row.options]
        if row.mode not in ("idle", "mem", "reload"):
            options += ["--dur", str(self.seconds), "--warm", str(WARM)]
        if row.mode == "reload":
            options += self.change(row, pid)
        if row.mode != "mem":
            options += ["--to", str(row.direct if direct else row.port)]
        result = self.loadgen(row.mode, "--metric", row.name, "--proxy-pid", str(pid), *options)
        if result:
            write(self.results, result)

    def change(self, row, pid):
        variant = row.change or ("new" if row.variant == "base" else f"{row.variant}new")
        if row.needs.startswith("runtime"):
            return ["--reload-cmd", f"bash {self.peer.script} switch-runtime {variant} {pid}"]
        renamed = self.peer.ask("rename", variant)
        if renamed:
            return ["--rename", renamed]
        return ["--reload-cmd", f"bash {self.peer.script} switch {variant} {pid}"]

    def loadgen(self, mode, *options):
        command = ["taskset", "-c", LOAD_CORE, LOADGEN, mode, "--tag", self.peer.name, "--round", str(self.number)]
        try:
            ran = subprocess.run([*command, *options], capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            print(f"{self.peer.name}: {mode} {' '.join(options)} hangs", file=sys.stderr)
            return None
        if ran.stderr:
            print(f"{self.peer.name}: {mode} {' '.join(options)}: {ran.stderr.strip()}", file=sys.stderr)
        if ran.returncode != 0:
            return None
        return json.loads(ran.stdout)


class Process:
    """Pinned to a core, and ended with all that it started."""

    def __init__(self, core, command, log):
        self.log = log
        self.started = time.monotonic()
        with open(log, "w") as output:
            self.child = subprocess.Popen(["taskset", "-c", core, *command], stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT, start_new_session=True)
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(timeout=3)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        # Ports are free again when the kernel has closed what the process left behind.
        time.sleep(0.3)


class Backend(Process):
    def __init__(self, core):
        command = [LOADGEN, "backend", "--base", "9000", "--certs", str(GENERATED / "certificates")]
        super().__init__(core, command, LOGS / "backend.log")
        time.sleep(0.3)


class Proxy(Process):
    def __init__(self, peer, variant):
        super().__init__(PROXY_CORE, ["bash", peer.script, "start", variant], LOGS / f"{peer.name}.log")


def idle_connections():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(9000, (most - OTHER_FILES) // FILES_PER_CONNECTION)


if __name__ == "__main__":
    main()
