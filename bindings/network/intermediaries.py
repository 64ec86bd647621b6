"""Real proxies in front of a service: nginx, HAProxy and Squid as processes on free loopback ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import trustme

# The program of each proxy, and the Debian package that provides it.
PACKAGES = {"nginx": "nginx-light", "haproxy": "haproxy", "squid": "squid"}

NAMES = ("nginx-http1", "nginx-http2", "nginx-client-cert", "haproxy", "squid")

# A host name that only Squid resolves, because calls to loopback addresses bypass the proxy.
PROXIED_HOST = "deals.invalid"

PASSWORD = ("ada", "p@ss word")


class Certificates:
    """A CA, a certificate of the service and one of its client, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.service = folder / "service.pem"
        self.client = folder / "client.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        service = authority.issue_cert("localhost", PROXIED_HOST)
        service.private_key_and_cert_chain_pem.write_to_path(str(self.service))
        client = authority.issue_cert("client")
        client.private_key_and_cert_chain_pem.write_to_path(str(self.client))


def missing_packages() -> list[str]:
    """Returns the Debian packages whose programs are not installed."""
    return [package for program, package in PACKAGES.items() if find_program(program) is None]


def find_program(name: str) -> str | None:
    # Debian installs these programs outside users' PATH.
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


NGINX = """
daemon off;
{user}
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/pid;
# With too few it closes idle connections at once, on which a create may be going out.
worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    upstream sandbox {{ server 127.0.0.1:{upstream}; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port} ssl{http2};
        ssl_certificate {certificates.service};
        ssl_certificate_key {certificates.service};
        {clients}
        location / {{
            proxy_pass http://sandbox;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""

HAPROXY = """
global
    maxconn 2048
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend service
    bind 127.0.0.1:{port} ssl crt {certificates.service} alpn h2,http/1.1
    default_backend sandbox
backend sandbox
    server sandbox 127.0.0.1:{upstream}
"""

SQUID = """
http_port 127.0.0.1:{port}
pid_filename none
hosts_file {folder}/hosts
auth_param basic program {helper} {folder}/passwords
auth_param basic children 2 startup=1
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
cache deny all
access_log none
cache_log {folder}/cache.log
cache_store_log none
coredump_dir {folder}
shutdown_lifetime 0 seconds
pinger_enable off
netdb_filename none
"""


class ProxyProcess:
    """A proxy's process, with its own folder, listening on ``port``."""

    def __init__(self, folder: Path, port: int, *command: str) -> None:
        self.port = port
        self._shown = folder / "shown"
        with self._shown.open("wb") as shown:
            self._process = subprocess.Popen(
                [find_program(command[0]) or command[0], *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=shown,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                code = self._process.poll()
                if code is not None or time.monotonic() > end:
                    self.stop()
                    logs = "".join(path.read_text() for path in (self._shown, *folder.glob("*.log")))
                    raise RuntimeError(f"{command[0]} does not listen (exit code {code}):\n{logs}") from None
                time.sleep(0.01)

    def reload(self) -> None:
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_nginx(
    folder: Path, upstream: int, certificates: Certificates, *, http2: bool, client_cert: bool
) -> ProxyProcess:
    port = free_port()
    clients = f"ssl_client_certificate {certificates.ca_file}; ssl_verify_client on;" if client_cert else ""
    file = folder / "nginx.conf"
    file.write_text(
        NGINX.format(
            folder=folder,
            port=port,
            upstream=upstream,
            certificates=certificates,
            http2=" http2" if http2 else "",
            clients=clients,
            # nginx's workers would otherwise switch to a user without write access to the folder.
            user="user root;" if os.geteuid() == 0 else "",
        )
    )
    return ProxyProcess(folder, port, "nginx", "-e", f"{folder}/error.log", "-p", str(folder), "-c", str(file))


def start_haproxy(folder: Path, upstream: int, certificates: Certificates) -> ProxyProcess:
    port = free_port()
    file = folder / "haproxy.cfg"
    file.write_text(HAPROXY.format(port=port, upstream=upstream, certificates=certificates))
    return ProxyProcess(folder, port, "haproxy", "-db", "-f", str(file))


def start_squid(folder: Path) -> ProxyProcess:
    port = free_port()
    helper = next((str(path) for path in Path("/usr").glob("lib*/squid/basic_ncsa_auth")), "basic_ncsa_auth")
    (folder / "hosts").write_text(f"127.0.0.1 {PROXIED_HOST}\n")
    hashed = subprocess.run(["openssl", "passwd", "-apr1", PASSWORD[1]], capture_output=True, text=True, check=True)
    (folder / "passwords").write_text(f"{PASSWORD[0]}:{hashed.stdout}")
    file = folder / "squid.conf"
    file.write_text(SQUID.format(folder=folder, port=port, helper=helper))
    if os.geteuid() == 0:
        # Squid switches to this user, who must be able to write to the folder.
        shutil.chown(folder, "proxy")
    return ProxyProcess(folder, port, "squid", "-N", "-f", str(file))


class Intermediary(NamedTuple):
    """The client options and variables for using the proxy."""

    url: str
    ca_file: Path
    client_cert: Path | None
    proxy: str | None


class Intermediaries:
    """Starts and stops proxies of one kind."""

    def __init__(self, name: str) -> None:
        if name not in NAMES:
            raise ValueError(f"there is no {name}: choose one of {', '.join(NAMES)}")
        self._name = name
        self._folder = tempfile.TemporaryDirectory(prefix="dealkit-network-")
        # Squid drops root privileges, and must still have access.
        Path(self._folder.name).chmod(0o755)
        self._running: list[ProxyProcess] = []
        self._folders = 0
        self.certificates = Certificates(Path(self._folder.name))
        # All services share one Squid.
        self._squid = self._wait_until_listening(start_squid(self._new_folder())) if name == "squid" else None

    def start(self, upstream: int) -> tuple[Intermediary, ProxyProcess]:
        """Starts a proxy in front of the service on this port."""
        folder, certificates, name = self._new_folder(), self.certificates, self._name
        if name == "haproxy":
            process = start_haproxy(folder, upstream, certificates)
        else:
            # Squid only opens a tunnel, so the service behind it needs TLS: nginx provides it.
            process = start_nginx(
                folder,
                upstream,
                certificates,
                http2=name in ("nginx-http2", "squid"),
                client_cert=name == "nginx-client-cert",
            )
        self._wait_until_listening(process)
        client_cert = certificates.client if name == "nginx-client-cert" else None
        host, proxy = "localhost", None
        if self._squid is not None:
            host = PROXIED_HOST
            proxy = f"http://{PASSWORD[0]}:{PASSWORD[1].replace('@', '%40').replace(' ', '%20')}@127.0.0.1:{self._squid.port}"
        url = f"https://{host}:{process.port}"
        return Intermediary(url, certificates.ca_file, client_cert, proxy), process

    def close(self) -> None:
        for process in self._running:
            process.stop()
        self._folder.cleanup()

    def _new_folder(self) -> Path:
        self._folders += 1
        folder = Path(self._folder.name) / str(self._folders)
        folder.mkdir()
        return folder

    def _wait_until_listening(self, process: ProxyProcess) -> ProxyProcess:
        self._running.append(process)
        return process
