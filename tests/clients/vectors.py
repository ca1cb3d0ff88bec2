"""The test vectors that the browser client shares with Python: made here, kept in vectors.json, read by both.

Run `python tests/clients/vectors.py` after the wire format was changed on purpose.
"""

from __future__ import annotations

import base64
import datetime
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from sordino.core.loss import format_number
from sordino.core.noise.rng import Rng
from sordino.local.device.client import permanent_answer, permanent_key
from sordino.local.labels import canonical
from sordino.local.protocols.hashing import BLH, OLH
from sordino.local.protocols.memoization import Memoized, memoize
from sordino.local.protocols.response import GRR
from sordino.local.protocols.summed_histogram import SHE
from sordino.local.protocols.unary import OUE, SUE, Unary
from sordino.local.task import SigningKey, Task, create_task
from sordino.local.thresholds import log_up

PLACE = Path(__file__).with_name("vectors.json")
KEY = SigningKey.make(Rng.seeded(1))
ORIGIN = "http://127.0.0.1:8000"


def vectors() -> dict[str, Any]:
    """Return all vectors as JSON data."""
    return {
        "key": KEY.public,
        "origin": ORIGIN,
        "now": "2029-06-01T00:00:00Z",
        "tasks": [_report_vectors(task) for task in _tasks()],
        "refused": _refusals(),
        "reveals": _reveals(),
    }


def _protocols() -> list[GRR | Unary]:
    """Return protocols that also make permanent answers."""
    few, many = ["tea", "Grüße", "日本", 'a"b\\c'], [f"label {i}" for i in range(300)]
    return [
        GRR(few, epsilon=1),
        GRR(few[:2], epsilon="1/3"),
        GRR(many, epsilon=2),
        SUE(few, epsilon="0.1"),
        OUE(many[:33], epsilon=1),
        Unary(few, p="0.75", q="0.25"),
        GRR([None, 1, True, "x"], epsilon=3),
    ]


def _others() -> list[OLH | SHE]:
    """Return protocols of one report: hashes onto one bit, and noisy numbers of one byte and of two."""
    few, many = ["tea", "Grüße", "日本"], [f"label {i}" for i in range(300)]
    return [
        BLH(few[:2], epsilon=1),
        BLH(few, epsilon=1),
        BLH(many, epsilon=2),
        SHE(few, epsilon=1),
        SHE(many[:9], epsilon="0.1"),  # 2 bytes a number
        SHE(few, epsilon=4),
    ]


def _task(protocol: Any, name: str) -> Task:
    return create_task(
        KEY,
        protocol,
        task=name,
        question="Which – one?",
        lifetime_epsilon=None if isinstance(protocol, Memoized) else 10,
        epoch="2029",
        expires=datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC),
        origin=ORIGIN,
    )


def _tasks() -> list[Task]:
    plain: list[Any] = _protocols()
    twice = [memoize(p, epsilon=p.claim / 2) for p in _protocols()]
    return [_task(p, f"task-{i}") for i, p in enumerate([*plain, *twice, *_others()])]


def _report_vectors(task: Task) -> dict[str, Any]:
    """Return a task with, for some answers and words, the reports that must come of them."""
    rng, k = Rng.seeded(len(task.envelope)), len(task.manifest.labels)
    mechanism = task.manifest.mechanism
    edge = int(str(mechanism["ratio" if mechanism["kind"] == "histogram" else "p"]))
    need = {"grr": 8, "unary": k, "olh": 12, "histogram": 4 * k}[str(mechanism["kind"])]
    ends = [edge] * 2 * k if mechanism["kind"] == "histogram" else []  # each noise stops at the edge, at the latest
    words = [[], [2**32 - 1] * need, [edge - 1, edge] * (need // 2)]
    words += [[int.from_bytes(rng.bytes(4), "little") for _ in range(need)] for _ in range(3)]
    words = [[*some, *ends] for some in words]
    protocol: Any = task.protocol
    instant = protocol.instant if task.permanent else protocol
    told: dict[str, Any] = {
        "envelope": json.loads(task.envelope),
        "hash": task.manifest.hash.hex(),
        "reports": [_report(instant, v, w) for v in (0, k // 2, k - 1) for w in words],
    }
    if isinstance(instant, Unary | OLH | SHE):
        told["reports"].append(_report(instant, None, words[-1]))
    if task.permanent:
        secret = rng.bytes(32)
        told["secret"] = secret.hex()
        told["permanent"] = [[v, permanent_answer(secret, task, v).hex()] for v in range(min(k, 20))]
        told["again"] = [
            [p, w, protocol.report(bytes.fromhex(p), iter(w)).hex()]
            for _, p in told["permanent"][:3]
            for w in words[3:]
        ]
        assert len(permanent_key(secret, task, 0)) == 32
    return told


def _report(protocol: Any, value: int | None, words: list[int]) -> list[Any]:
    return [value, words, protocol.perturb_words(value, _without_end(words)).hex()]


def _without_end(words: list[int]) -> Any:
    """Return the words, then zeros: a rejected word needs one more."""
    yield from words
    while True:
        yield 0


def _refusals() -> list[dict[str, Any]]:
    """Return envelopes that every client must refuse; all but the first two are signed properly."""
    honest, twice = (
        _task(GRR(["a", "b", "c"], epsilon=1), "a"),
        _task(memoize(SUE(["a", "b"], epsilon=2), epsilon=1), "b"),
    )
    hashed, noisy = _task(BLH(["a", "b", "c"], epsilon=1), "c"), _task(SHE(["a", "b", "c"], epsilon=1), "d")
    wider = _task(OLH(["a", "b", "c"], epsilon=1), "e")
    plain, bit, numbers = (json.loads(t.manifest.text)["mechanism"] for t in (honest, hashed, noisy))
    altered = json.loads(honest.envelope)
    altered["manifest"] = altered["manifest"].replace("Which", "What?")
    stranger = SigningKey.make(Rng.seeded(2))
    other = json.loads(honest.envelope) | {
        "key": stranger.public,
        "signature": base64.b64encode(stranger.sign(honest.manifest.text.encode())).decode(),
    }
    changes: list[tuple[Task, dict[str, Any]]] = [
        (honest, {"epsilon": "0.999"}),
        (honest, {"mechanism": plain | {"p": plain["p"] + 2}}),
        (honest, {"mechanism": plain | {"p": 1}}),
        (honest, {"mechanism": plain | {"p": 2**32}}),
        (honest, {"mechanism": plain | {"kind": "plain"}}),
        (honest, {"mechanism": plain | {"k": 2}}),
        (honest, {"expires": "2029-05-31T23:59:59Z"}),
        (honest, {"origin": "http://127.0.0.1:9000"}),
        (honest, {"schema": 2}),
        (honest, {"epsilon": "none"}),
        (twice, {"epsilon": "0.999"}),
        (twice, {"lifetime_epsilon": "1.999"}),
        (hashed, {"epsilon": "0.999"}),
        (hashed, {"mechanism": bit | {"p": bit["p"] + 2}}),
        (hashed, {"mechanism": plain | {"g": 2}}),
        (noisy, {"epsilon": "0.999"}),
        (noisy, {"mechanism": numbers | {"ratio": numbers["ratio"] - 2}}),
        (noisy, {"mechanism": numbers | {"ratio": 2**32}}),
        (noisy, {"mechanism": plain | {"ratio": numbers["ratio"]}}),
    ]
    again = [_sign_again(task, change) for task, change in changes]
    return [altered, other, *again, json.loads(wider.envelope)]  # browsers hash onto one bit alone


def _sign_again(task: Task, changed: dict[str, Any]) -> dict[str, Any]:
    text = canonical(json.loads(task.manifest.text) | changed).decode()
    return {"key": KEY.public, "manifest": text, "signature": base64.b64encode(KEY.sign(text.encode())).decode()}


def _reveals() -> list[list[Any]]:
    """Return ratios, claims and whether the ratio's logarithm is above the claim: near the edge on both sides."""
    cases: list[list[Any]] = []
    tiny = Fraction(1, 10**27)
    for ratio in (Fraction(9), Fraction(3), Fraction(10**9 + 1, 10**9), Fraction(2**40 + 1, 3), Fraction(1)):
        near, n, m = log_up(ratio, digits=30), str(ratio.numerator), str(ratio.denominator)
        claims = (near, near + tiny, max(near - tiny, Fraction(0)), Fraction(1, 3), Fraction(90))
        cases += [[n, m, _text(claim), log_up(ratio, digits=40) > claim] for claim in claims]
    return cases


def _text(claim: Fraction) -> str:
    text = format_number(claim)
    return text if len(text) < 90 else f"{claim.numerator}/{claim.denominator}"


if __name__ == "__main__":
    PLACE.write_text(json.dumps(vectors(), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {PLACE}\n")
