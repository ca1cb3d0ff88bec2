"""Signed tasks: what was altered, understated or is above a person's cap is refused; what is honest comes back whole."""

from __future__ import annotations

import base64
import datetime
import json
from fractions import Fraction
from typing import Any

import pytest

from sordino.core.noise.rng import Rng
from sordino.errors import BudgetExhausted, DeclarationError
from sordino.local.labels import canonical
from sordino.local.protocols.hashing import OLH
from sordino.local.protocols.memoization import memoize
from sordino.local.protocols.response import GRR
from sordino.local.protocols.unary import OUE, SUE
from sordino.local.task import SigningKey, Task, create_task, key_fingerprint, read_task

LABELS = ["apple", "pear", "Zwetschge", "açaí"]
UNTIL = datetime.datetime(2030, 6, 1, 12, tzinfo=datetime.UTC)
KEY = SigningKey.make(Rng.seeded(1))


def made(protocol: Any = None, *, key: SigningKey = KEY, **changed: Any) -> Task:
    plain: dict[str, Any] = {
        "task": "fruit-2030",
        "question": "Which fruit?",
        "lifetime_epsilon": 3,
        "epoch": "2030",
        "expires": UNTIL,
        "origin": "https://fruit.example",
    }
    return create_task(key, protocol or GRR(LABELS, epsilon=1), **(plain | changed))


def resigned(honest: Task, **changed: Any) -> str:
    """Return the task's envelope with fields of its manifest changed, and a good signature over that."""
    plain = json.loads(honest.manifest.text) | changed
    text = canonical(plain).decode()
    signature = base64.b64encode(KEY.sign(text.encode())).decode()
    return canonical({"key": KEY.public, "manifest": text, "signature": signature}).decode()


@pytest.mark.parametrize("protocol", [GRR(LABELS, epsilon=1), SUE(LABELS, epsilon=1), OUE(LABELS, epsilon="1/3")])
def test_a_task_comes_back_whole(protocol: Any) -> None:
    task = made(protocol)
    again = read_task(task.envelope, key=KEY.public)
    assert again == task
    assert again.protocol == protocol
    assert again.manifest.epsilon == protocol.claim
    assert again.manifest.hash == task.manifest.hash
    assert not again.permanent


def test_permanent_answers_come_back_with_both_epsilons() -> None:
    rounds = memoize(GRR(LABELS, epsilon=2), epsilon=1)
    task = read_task(made(rounds, lifetime_epsilon=None).envelope, key=KEY.public)
    assert task.permanent
    assert task.protocol == rounds
    assert [task.manifest.epsilon, task.manifest.lifetime_epsilon] == [1, 2]


def test_other_protocols_can_be_asked_for_afresh() -> None:
    olh = OLH(LABELS, epsilon=1)
    assert read_task(made(olh).envelope, key=None).protocol == olh


@pytest.mark.parametrize("flipped", range(0, 64, 7))
def test_a_bad_signature_is_refused(flipped: int) -> None:
    envelope = json.loads(made().envelope)
    raw = bytearray(base64.b64decode(envelope["signature"]))
    raw[flipped] ^= 1
    envelope["signature"] = base64.b64encode(raw).decode()
    with pytest.raises(DeclarationError, match="signature is bad"):
        read_task(json.dumps(envelope), key=KEY.public)


def test_an_altered_manifest_is_refused() -> None:
    envelope = json.loads(made().envelope)
    envelope["manifest"] = envelope["manifest"].replace("Which fruit?", "Which party?")
    with pytest.raises(DeclarationError, match="signature is bad"):
        read_task(json.dumps(envelope), key=KEY.public)


def test_another_signer_is_refused() -> None:
    other = SigningKey.make(Rng.seeded(2))
    with pytest.raises(DeclarationError, match=f"another key, {key_fingerprint(other.public)}"):
        read_task(made(key=other).envelope, key=KEY.public)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"epsilon": "0.99"}, "below what its thresholds reveal"),
        ({"lifetime_epsilon": "0.5"}, "at least epsilon"),
        ({"labels": LABELS[::-1]}, "labels"),
        ({"labels": [*LABELS[:3], "apple"]}, "repeat"),
        ({"labels": ["apple"]}, "at least 2"),
        ({"expires": "2030-06-01"}, "moment in UTC"),
        ({"origin": "fruit.example/path"}, "origin"),
        ({"task": "Fruit 2030"}, "task must be"),
        ({"epoch": ""}, "epoch must be"),
        ({"question": ""}, "question"),
        ({"schema": 2}, "schema"),
        ({"more": 1}, "fields"),
        ({"mechanism": {"kind": "plain"}}, "is not a protocol"),
    ],
)
def test_a_manifest_that_does_not_hold_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        read_task(resigned(made(), **changed), key=KEY.public)


def test_thresholds_above_the_claim_are_refused() -> None:
    plain = json.loads(made().manifest.text)["mechanism"]
    with pytest.raises(DeclarationError, match="epsilon above"):
        read_task(resigned(made(), mechanism=plain | {"p": plain["p"] + 2}), key=KEY.public)
    with pytest.raises(DeclarationError, match="p must be above q"):
        read_task(resigned(made(), mechanism=plain | {"p": 1}), key=KEY.public)


@pytest.mark.parametrize("claims", [{"epsilon": "0.99"}, {"lifetime_epsilon": "1.99"}])
def test_understated_permanent_epsilons_are_refused(claims: dict[str, str]) -> None:
    task = made(memoize(SUE(LABELS, epsilon=2), epsilon=1), lifetime_epsilon=None)
    with pytest.raises(DeclarationError, match=r"below what|above the stated"):
        read_task(resigned(task, **claims), key=KEY.public)


def test_text_that_is_not_canonical_is_refused() -> None:
    text = json.dumps(json.loads(made().manifest.text), indent=1)
    signature = base64.b64encode(KEY.sign(text.encode())).decode()
    with pytest.raises(DeclarationError, match="canonical"):
        read_task(json.dumps({"key": KEY.public, "manifest": text, "signature": signature}), key=KEY.public)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": 1, "manifest": 2, "signature": 3}', "[" * 100_000])
def test_what_is_no_envelope_is_refused(text: str) -> None:
    with pytest.raises(DeclarationError):
        read_task(text, key=None)


def test_a_task_above_the_cap_is_refused() -> None:
    task = made()
    task.refuse_above(3)
    with pytest.raises(BudgetExhausted, match=r"lifetime epsilon of 3, above your cap of 2\.9"):
        task.refuse_above(Fraction(29, 10))


def test_a_task_expires_at_its_moment() -> None:
    task = made()
    assert not task.has_expired(UNTIL - datetime.timedelta(seconds=1))
    assert task.has_expired(UNTIL)


def test_lifetime_epsilon_is_stated_where_answers_may_change_and_only_there() -> None:
    with pytest.raises(DeclarationError, match="must be given"):
        made(lifetime_epsilon=None)
    with pytest.raises(DeclarationError, match="must not be given"):
        made(memoize(GRR(LABELS, epsilon=2), epsilon=1), lifetime_epsilon=2)


def test_a_key_does_not_show_its_secret() -> None:
    assert KEY.secret.hex() not in repr(KEY)
    assert "withheld" in repr(KEY)
