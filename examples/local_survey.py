"""A whole collection on this machine: a signed task, a collector, devices that randomise, estimates, the end.

python examples/local_survey.py          (needs pip install 'sordino[serve]')

The people here are made up, so their true shares are known; in a real collection nobody knows them.
"""

from __future__ import annotations

import datetime
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from sordino import local
from sordino.core.noise.rng import Rng

LABELS = ["apple", "pear", "plum"]
TRUTH = {"apple": 36, "pear": 18, "plum": 6}
SORDINO = (sys.executable, "-m", "sordino", "local")
CAP = 3  # the most that each of these people lets all their answers reveal, ever


def main() -> None:
    """Collect one answer of each of 60 people, and a second report of one of them."""
    with tempfile.TemporaryDirectory() as place:
        directory, port, rng = Path(place), free_port(), Rng.secure()
        task = signed_task(f"http://127.0.0.1:{port}", rng)
        (directory / "fruit.json").write_text(task.envelope, encoding="utf-8")
        store = str(directory / "reports.db")
        respondent, admin = (
            sordino("token", "--store", store, "--role", role).strip() for role in ("respondent", "admin")
        )
        limits = ("--per-minute", "100000", "--burst", "1000")
        command = (
            *SORDINO,
            "serve",
            str(directory / "fruit.json"),
            "--store",
            store,
            "--port",
            str(port),
            *limits,
            "-q",
        )
        with subprocess.Popen(command) as service:
            try:
                wait_for(f"{task.manifest.origin}/v1/health", service)
                answer_all(directory, task, respondent, rng)
                told(task, admin)
                print("closed:", sordino("close", "--store", store, "-q") or "no more reports are taken")
            finally:
                service.terminate()
        sordino("export", "--store", store, "-o", str(directory / "fruit.reports"), "-q")
        batch = local.Reports.from_bytes((directory / "fruit.reports").read_bytes(), task.protocol)
        print(f"exported: {batch}")


def signed_task(origin: str, rng: Rng) -> local.Task:
    """Sign a task: permanent answers of epsilon 2, of which each report shows epsilon 1 at most."""
    key = local.SigningKey.make(rng)  # kept on another machine than the collector
    rounds = local.memoize(local.SUE(LABELS, epsilon=2), epsilon=1)
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    made = local.create_task(
        key,
        rounds,
        task="fruit",
        question="Which fruit do you like best?",
        lifetime_epsilon=None,
        epoch="2026",
        expires=until,
        origin=origin,
    )
    print(f"signed by {key.public}: epsilon {rounds.epsilon:g} a report, {rounds.permanent_epsilon:g} for ever")
    return made


def answer_all(directory: Path, task: local.Task, token: str, rng: Rng) -> None:
    """Let every person's device check the task, randomise and post."""
    people = [label for label, count in TRUTH.items() for _ in range(count)]
    now = datetime.datetime.now(datetime.UTC)
    checked = local.read_task(task.envelope, key=task.key)  # refuses what does not hold
    bodies = []
    for number, answer in enumerate(people):
        place = directory / f"device-{number}"
        lifetime = local.ClientLedger.open(place, cap=CAP, rng=rng, mark=place.with_suffix(".mark"))
        device = local.Client(lifetime)
        bodies.append(device.report(checked, answer, rng=rng, now=now))
        if number == 0:
            again = device.report(checked, "plum", rng=rng, now=now)  # changes nothing, and costs nothing
            print(f"the first device has revealed at most epsilon {lifetime.spent()} of its cap of {lifetime.cap}")
            assert again[32:] != bodies[0][32:]
        lifetime.close()
    assert len({len(body) for body in bodies}) == 1
    statuses = [post(task, body, token) for body in bodies]
    statuses.append(post(task, bodies[0], token))  # a resend: acknowledged, never counted twice
    print(
        f"posted {len(bodies)} reports of {len(bodies[0])} bytes: {statuses.count(200)} stored, {statuses.count(409)} again"
    )


def told(task: local.Task, admin: str) -> None:
    """Print the estimates as an administrator sees them."""
    request = urllib.request.Request(f"{task.manifest.origin}/v1/tasks/fruit/estimate")
    request.add_header("Authorization", f"Bearer {admin}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        found = json.load(answer)
    print(f"{found['reports']} reports; true shares of made-up people: NOT PRIVATE")
    for one in found["labels"]:
        print(
            f"{one['label']:<6} {one['frequency']:6.1%}, 95% {one['lower']:.1%} to {one['upper']:.1%}, with 1% malicious "
            f"{one['adversarial_lower']:.1%} to {one['adversarial_upper']:.1%}; true {TRUTH[one['label']] / found['reports']:.1%}"
        )


def post(task: local.Task, body: bytes, token: str) -> int:
    """Post a body and return the status: 200 is on disk, 409 was so before."""
    request = urllib.request.Request(f"{task.manifest.origin}/v1/tasks/fruit/reports", data=body)
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def sordino(*arguments: str) -> str:
    """Run a command of `sordino local` and return what it says."""
    return subprocess.run([*SORDINO, *arguments], check=True, capture_output=True, text=True).stdout


def wait_for(url: str, service: subprocess.Popen[bytes]) -> None:
    """Return when the collector answers."""
    for _ in range(2400):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if service.poll() is not None:
                break
            time.sleep(0.05)
    raise SystemExit("the collector did not start")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main()
