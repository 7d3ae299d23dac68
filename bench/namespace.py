"""A network namespace of its own for a run: what it binds is in nobody's way, and what other programs of the machine do
with sockets does not show in it. Only loopback is there."""
import os
import resource
import subprocess
import sys

INSIDE = "BENCH_INSIDE_NAMESPACE"
SETTINGS = (
    # Sockets that wait after their end would be in the way of the next measurement.
    "net.ipv4.tcp_max_tw_buckets=4000",
    "net.ipv4.ip_local_port_range=10000 65000",
    "net.core.somaxconn=8192",
)


def enter():
    """Comes back in a namespace, as a new process, or not at all."""
    if INSIDE not in os.environ:
        command = unshare()
        os.environ[INSIDE] = "yes"
        os.execvp(command[0], [*command, sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["sysctl", "-qw", *SETTINGS], check=True)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def unshare():
    if os.geteuid() == 0:
        return ["unshare", "--net"]
    as_user = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*as_user, "true"], capture_output=True).returncode == 0:
        return as_user
    sys.exit("this machine lets only root have a network namespace: run `make bench` as root")
