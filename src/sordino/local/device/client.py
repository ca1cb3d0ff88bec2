"""Repeated asking: one permanent answer per task and epoch, keyed by the device's secret, randomised again for each report.

It may not know collectors. A true answer is read once, turned into its permanent randomised form, and never kept.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.local.device.client_ledger import ClientCharge, ClientLedger
from sordino.local.device.delivery import deliver
from sordino.local.labels import Label, canonical
from sordino.local.protocols.catalog import device_protocols
from sordino.local.protocols.heavy_hitters import HeavyHitters
from sordino.local.protocols.memoization import Memoized
from sordino.local.protocols.randomizer import DeviceRandomizer
from sordino.local.task import Task

ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Client:
    """Answer tasks for one person: check, charge, then randomise. `ledger` holds the secret and refuses past its cap.

    A task with permanent answers is charged its lifetime epsilon once an epoch, at its first report; what the owner
    answers later in the epoch changes nothing, since a second permanent answer would show the change. A task whose
    answers may change is charged its epsilon for every report.
    """

    ledger: ClientLedger

    def report(self, task: Task, answer: Label, *, rng: Rng, now: datetime.datetime) -> bytes:
        """Return the body to post: the manifest's hash, a random report id, and one randomised report.

        Send the same bytes again where it is not known whether they arrived: a report is counted once. Raises
        BudgetExhausted where the cap would be passed, DeclarationError for an expired task or an answer that is none of
        its labels; nothing is charged then.
        """
        if task.has_expired(now):
            raise DeclarationError(f"the task {task.manifest.task!r} has expired; it takes no more reports")
        protocol = task.protocol
        charge = _charge(task)
        if isinstance(protocol, HeavyHitters):
            if answer is not None and not isinstance(answer, str):
                raise DeclarationError(
                    f"the answer to {task.manifest.task!r} must be text, or None where there is none"
                )
            self.ledger.charge(charge, limit=task.manifest.lifetime_epsilon)
            report = protocol.perturb_words(answer, _words(rng))
            return task.manifest.hash + rng.bytes(ID_BYTES) + report
        if isinstance(protocol, Memoized):
            number = _number(task, answer, missing=None in protocol.inputs())
            permanent = self.ledger.find_permanent(charge)
            if permanent is None:
                permanent = self.ledger.permanent(charge, permanent_answer(self.ledger.secret, task, number))
            report = protocol.report(permanent, _words(rng))
        elif isinstance(protocol, DeviceRandomizer) and protocol.on_device:
            number = _number(task, answer, missing=None in protocol.inputs())
            self.ledger.charge(charge, limit=task.manifest.lifetime_epsilon)
            report = protocol.perturb_words(number, _words(rng))
        else:
            raise DeclarationError(f"a device answers tasks of the protocols {', '.join(device_protocols())}")
        return task.manifest.hash + rng.bytes(ID_BYTES) + report

    def send(self, task: Task, body: bytes, *, token: str | None, attempts: int = 5, timeout: float = 30) -> bool:
        """Post the body that `report` made to the task's origin; True once it is stored, False where it was before.

        `token` is the respondent's, None for a collector that is open. Where the collector is busy or away the same
        bytes are sent again, up to `attempts` times in all; that is safe, since the report's id is counted once. Raises
        NotDelivered after the last attempt (keep the body, and send it later), and DeclarationError where the collector
        refuses the report or its token. Nothing is charged here: `report` charged.
        """
        return deliver(task, body, token=token, attempts=attempts, timeout=timeout)


def permanent_answer(secret: bytes, task: Task, number: int | None) -> bytes:
    """Return the first round's report of label number `number`: a function of secret, task, epoch and answer alone.

    Theorem: HMAC-SHA256 of the task and of the answer's number under the secret keys AES-256-CTR, whose words make the
    report; if both are pseudorandom functions, the permanent answers of different tasks, epochs or answers are
    computationally independent, and each is epsilon-differentially private with the first round's epsilon against anyone
    without the secret. So a device that answers once more after its file was put back reveals twice that epsilon, and no
    more: were the words those of the task alone, two answers randomised by the same coins would show both.
    """
    protocol = task.protocol
    if not isinstance(protocol, Memoized):
        raise DeclarationError("this task randomises every report afresh: it has no permanent answer")
    return protocol.permanent.perturb_words(number, _words(Rng(key=permanent_key(secret, task, number))))


def permanent_key(secret: bytes, task: Task, number: int | None) -> bytes:
    """Return the 32 bytes that key the words of label `number`'s permanent answer: the same in Python and in a browser."""
    manifest = task.manifest
    named = canonical([task.key, manifest.task, manifest.epoch, manifest.hash.hex(), number])
    return hmac.new(secret, b"sordino permanent 2" + named, hashlib.sha256).digest()


def _charge(task: Task) -> ClientCharge:
    manifest = task.manifest
    epsilon = manifest.lifetime_epsilon if task.permanent else manifest.epsilon
    return ClientCharge(task.key, manifest.task, manifest.epoch, manifest.hash, epsilon)


def _number(task: Task, answer: Label, *, missing: bool) -> int | None:
    """Return the number of a label; None stands for a missing answer, where that is an input of the protocol (`missing`)."""
    for number, label in enumerate(task.manifest.labels):
        if type(label) is type(answer) and label == answer:
            return number
    if answer is None and missing:
        return None
    raise DeclarationError(f"the answer is none of the {len(task.manifest.labels)} labels of {task.manifest.task!r}")


def _words(rng: Rng) -> Iterator[int]:
    """Return the 32-bit words of an Rng, little-endian, without end."""
    while True:
        yield int.from_bytes(rng.bytes(4), "little")
