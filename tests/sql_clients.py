"""What tests of SQL clients share: the port beside a served project, a certificate for it, psql, and raw frames."""

from __future__ import annotations

import datetime
import os
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from serving import Served, served
from sordino.serve.server.sql_wire.wire_server import Limits, WireServer, WireTls


def make_certificate(directory: Path) -> WireTls:
    """Write a certificate of localhost that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    signed = made.sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    files = WireTls(directory / "server.crt", directory / "server.key")
    files.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption_algorithm=plain)
    )
    return files


@dataclass
class SqlPort:
    """A port for SQL clients, the accounts behind it, and its certificate."""

    served: Served
    server: WireServer
    tls: WireTls

    @property
    def tokens(self) -> dict[str, str]:
        return self.served.tokens

    def options(self, who: str = "ana", **more: Any) -> dict[str, Any]:
        plain = {"host": "localhost", "port": self.server.port, "user": who, "dbname": "sordino", "connect_timeout": 20}
        trust = {"sslmode": "verify-full", "sslrootcert": str(self.tls.certificate), "channel_binding": "require"}
        return {**plain, **trust, "password": self.tokens[who], **more}

    def connect(self, who: str = "ana", **more: Any) -> psycopg.Connection[Any]:
        """Connect by psycopg: TLS with a checked certificate, and SCRAM bound to it."""
        autocommit = more.pop("autocommit", True)
        return psycopg.connect(**self.options(who, **more), autocommit=autocommit)

    def spent(self) -> Any:
        """Return what was spent of the whole budget."""
        return self.served.service.ledger("people").spent()

    @contextmanager
    def raw(self) -> Iterator[ssl.SSLSocket]:
        """Give a socket on which TLS is up, before the start of the protocol."""
        with socket.create_connection(("localhost", self.server.port), timeout=300) as plain:
            plain.sendall(struct.pack("!ii", 8, 80877103))
            assert plain.recv(1) == b"S"
            context = ssl.create_default_context(cafile=str(self.tls.certificate))
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                yield secure


def psql(port: SqlPort, text: str, who: str = "ana", **more: str) -> subprocess.CompletedProcess[str]:
    """Run Debian's psql on a text; skips the test where it is not installed."""
    found = shutil.which("psql")
    if found is None:
        pytest.skip("psql is not here: scripts/system-packages installs it (Debian's package postgresql)")
    options = port.options(who, **more)
    password = options.pop("password")
    target = " ".join(f"{key}='{value}'" for key, value in options.items())
    return subprocess.run(
        [found, "-X", "-v", "VERBOSITY=verbose", target],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PGPASSWORD": password, "LC_ALL": "C.UTF-8"},
    )


@contextmanager
def serve_sql(directory: Path, *, serve: str = "", limits: Limits | None = None) -> Iterator[SqlPort]:
    """Give a served project with its port for SQL clients, by TLS."""
    tls = make_certificate(directory)
    with (
        served(directory, serve=serve) as made,
        WireServer(made.service, tls=tls, limits=limits).serving(host="localhost", port=0) as server,
    ):
        yield SqlPort(made, server, tls)
