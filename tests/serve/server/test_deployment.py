"""The files of docs/deployment, run: the server behind nginx with TLS, and the unit of systemd."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import sordino as sd
from far import far_project
from places import ROOT
from ports import free_port, wait_for_port
from serving import COUNT
from sordino.errors import SignInNeeded
from sql_clients import make_certificate

FILES = ROOT / "docs" / "deployment"


@contextmanager
def nginx(directory: Path, upstream: str) -> Iterator[str]:
    """Run nginx as the file configures it, with a certificate of localhost, before a server; give its address."""
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        pytest.skip("nginx is not here: scripts/system-packages installs it (Debian's package nginx-light)")
    tls, port = make_certificate(directory), free_port()
    served = (FILES / "server-nginx.conf").read_text()
    served = served.replace("http://127.0.0.1:8000", upstream).replace("443 ssl", f"127.0.0.1:{port} ssl")
    served = re.sub(r"/etc/\S+/fullchain\.pem", str(tls.certificate), served)
    served = re.sub(r"/etc/\S+/privkey\.pem", str(tls.key), served).replace("curator.example", "localhost")
    temporary = "".join(
        f"{kind}_temp_path {directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    own = "user root;\n" if os.getuid() == 0 else ""
    config = directory / "nginx.conf"
    config.write_text(
        f"{own}daemon off;\npid {directory}/pid;\nerror_log {directory}/error.log;\nevents {{}}\n"
        f"http {{\n{temporary}access_log {directory}/access.log;\n{served}}}\n"
    )
    running = subprocess.Popen([program, "-p", str(directory), "-c", str(config)], stderr=subprocess.PIPE, text=True)
    url = f"https://localhost:{port}"
    try:
        wait_for_port(port, running)
        yield url
    finally:
        running.terminate()
        running.wait(10)


def test_behind_nginx_a_table_is_asked_over_tls_and_no_log_holds_a_token(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, upstream), nginx(tmp_path, upstream) as url:
        trusted, token = ssl.create_default_context(cafile=tmp_path / "server.crt"), server.tokens["ana"]
        with sd.connect(url, token=token, verify=trusted) as far:
            assert far.table().ask(sd.sql(COUNT), epsilon=1).value == pytest.approx(350, abs=30)
        with pytest.raises(SignInNeeded):
            sd.connect(url, token="sordino_nobody", verify=trusted)
        with httpx.Client(
            base_url=url, verify=trusted, headers={"authorization": f"Bearer {token}"}, timeout=300
        ) as client:
            assert client.post("/v1/ask", content=b"x" * (2 << 20)).status_code == 413
            assert client.get("/metrics").status_code == 200  # from this machine alone
        logs = (tmp_path / "access.log").read_text() + (tmp_path / "error.log").read_text()
        assert "POST /v1/ask" in logs
        assert token not in logs
        assert "epsilon" not in logs


def test_the_unit_is_one_that_systemd_accepts(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not here: apt-get install systemd")
    unit = (FILES / "sordino.service").read_text()
    assert not re.search(r"^[A-Z]\w+=.*[ \t]#", unit, re.M), (
        "systemd takes a comment at the end of a line for a part of it"
    )
    assert "\nLimitNOFILE=" in unit
    unit = unit.replace("/srv/sordino/.venv/bin/sordino", sys.executable).replace("User=sordino\n", "")
    path = tmp_path / "sordino.service"
    path.write_text(unit)
    done = subprocess.run([program, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "sordino.service" in line]
    assert not said, said
