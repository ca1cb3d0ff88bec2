"""Tasks: what a collector asks, signed, so that a device can check the protection that it claims before it answers.

It may not know devices' secrets or a collector's store. The signature is over the manifest's own bytes, canonical JSON;
epsilon is computed again from the integer thresholds, exactly, and a claim below it is refused.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sordino.core.errors import BudgetExhausted, DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.local.estimates.frequency import FrequencyEstimate
from sordino.local.labels import Label, canonical, check_labels
from sordino.local.protocols.catalog import from_parameters
from sordino.local.protocols.heavy_hitters import HeavyHitters
from sordino.local.protocols.memoization import Memoized
from sordino.local.protocols.randomizer import Randomizer
from sordino.local.protocols.response import GRR
from sordino.local.protocols.unary import Unary
from sordino.local.reports import Parameters, Reports, SupportCounts, Wire, parameters_hash

_SCHEMA = 1
_KEY_FILE = "signing key 1"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_EXPIRES = "%Y-%m-%dT%H:%M:%SZ"
_ORIGIN = re.compile(r"https?://[a-z0-9.\-\[\]:]{1,200}")
_FIELDS = frozenset(
    {"schema", "task", "question", "labels", "mechanism", "permanent", "epsilon"}
    | {"lifetime_epsilon", "epoch", "expires", "origin"}
)
# Characters of a manifest.
_LONGEST = 1 << 20


class Counting(Wire, Protocol):
    """What a collector must know of a protocol: to check, count and estimate reports."""

    def count(self, reports: Reports) -> SupportCounts: ...
    def estimate(self, counts: SupportCounts) -> FrequencyEstimate: ...


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """Hold the collector's Ed25519 key (RFC 8032). Whoever has it can ask in the collector's name: keep it off the server.

    >>> SigningKey.make(Rng.seeded(1)).public == SigningKey.make(Rng.seeded(1)).public
    True
    """

    secret: bytes

    @classmethod
    def make(cls, rng: Rng) -> SigningKey:
        """Return a new key."""
        return cls(rng.bytes(32))

    @classmethod
    def load(cls, path: Path | str) -> SigningKey:
        """Return the key that `save` wrote; raise DeclarationError where the file holds none."""
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"))
            key = cls(bytes.fromhex(plain["secret"]))
            sound = plain["sordino"] == _KEY_FILE and len(key.secret) == 32 and key.public == plain["public"]
        except (OSError, ValueError, KeyError, TypeError):
            sound = False
        if not sound:
            raise DeclarationError(f"{path} is not a signing key; `sordino local keygen -o FILE` makes one")
        return key

    def save(self, path: Path | str) -> None:
        """Write the key to a new file that its owner alone can read; raise DeclarationError where one is there."""
        text = json.dumps({"sordino": _KEY_FILE, "secret": self.secret.hex(), "public": self.public}) + "\n"
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise DeclarationError(f"{path} exists: a key is never overwritten; name another file") from None
        except OSError as error:
            raise DeclarationError(f"{path} cannot be written: {error.strerror}; name another place") from None

    @property
    def public(self) -> str:
        """The public key, in base64: 44 characters that a client is built with."""
        raw = self._private().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return base64.b64encode(raw).decode()

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes."""
        return self._private().sign(data)

    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    def __repr__(self) -> str:
        return f"<SigningKey {key_fingerprint(self.public)}, its secret withheld>"


@dataclass(frozen=True, slots=True)
class Manifest:
    """State what a task asks and promises; `text` is the canonical JSON that is signed.

    `epsilon` is the most that one report reveals. `lifetime_epsilon` is the most that all reports of one epoch reveal:
    that of the permanent answer where there is one, else a limit on the sum of the one-report epsilons.
    """

    task: str
    question: str
    labels: tuple[Label, ...]
    mechanism: Parameters
    permanent: Parameters | None
    epsilon: Fraction
    lifetime_epsilon: Fraction
    epoch: str
    expires: datetime.datetime
    origin: str

    @property
    def text(self) -> str:
        """The manifest as canonical JSON."""
        plain = {
            "schema": _SCHEMA,
            "task": self.task,
            "question": self.question,
            "labels": list(self.labels),
            "mechanism": self.mechanism,
            "permanent": self.permanent,
            "epsilon": format_number(self.epsilon),
            "lifetime_epsilon": format_number(self.lifetime_epsilon),
            "epoch": self.epoch,
            "expires": self.expires.strftime(_EXPIRES),
            "origin": self.origin,
        }
        return canonical(plain).decode()

    @property
    def hash(self) -> bytes:
        """The SHA-256 of the text: every report begins with it."""
        return hashlib.sha256(self.text.encode()).digest()


@dataclass(frozen=True, slots=True)
class Task:
    """Hold a manifest whose signature and claims were checked, the key that signed it, and its protocol."""

    manifest: Manifest
    key: str
    signature: str
    protocol: Counting | HeavyHitters

    @property
    def permanent(self) -> bool:
        """Whether a respondent's answer is fixed for the epoch by its first value."""
        return self.manifest.permanent is not None

    @property
    def parameters_hash(self) -> bytes:
        """The hash that counts of this task carry."""
        return parameters_hash(self.protocol.parameters())

    @property
    def envelope(self) -> str:
        """The signed manifest as JSON text: what `read_task` reads, and clients fetch."""
        plain = {"key": self.key, "manifest": self.manifest.text, "signature": self.signature}
        return canonical(plain).decode()

    @property
    def summary(self) -> dict[str, str]:
        """What the task asks and reveals, by heading."""
        manifest = self.manifest
        searched = self.protocol
        once = format_number(manifest.epsilon)
        most = format_number(manifest.lifetime_epsilon)
        if self.permanent:
            reveals = (
                f"epsilon {once} by one report, {most} by all of an epoch: each answer is fixed by its first value"
            )
        else:
            reveals = f"epsilon {once} by each report, up to {most} in sum over an epoch: answers may change"
        labels = ", ".join("no answer" if one is None else str(one) for one in manifest.labels[:12])
        more = f" and {len(manifest.labels) - 12} more" if len(manifest.labels) > 12 else ""
        if isinstance(searched, HeavyHitters):
            labels = f"any text of up to {searched.length} characters, of: {''.join(map(str, manifest.labels))}"
            more = ""
        return {
            "task": f"{manifest.task}, epoch {manifest.epoch}",
            "question": manifest.question,
            "labels": labels + more,
            "reveals": reveals,
            "expires": manifest.expires.strftime("%Y-%m-%d %H:%M:%S UTC"),
            "origin": manifest.origin,
            "signed by": f"{self.key} ({key_fingerprint(self.key)})",
        }

    def has_expired(self, now: datetime.datetime) -> bool:
        """Return whether the task takes no more reports at this moment."""
        return now >= self.manifest.expires

    def refuse_above(self, cap: Number) -> None:
        """Raise BudgetExhausted where all reports of an epoch may reveal more than a person's cap."""
        most = to_fraction(cap, name="cap")
        lifetime = self.manifest.lifetime_epsilon
        if lifetime > most:
            rule = f"the task asks for a lifetime epsilon of {format_number(lifetime)}, above your cap of {format_number(most)}"
            raise BudgetExhausted(
                f"{rule}; answer no, or raise the cap", asked=format_number(lifetime), left=format_number(most)
            )


def create_task(
    key: SigningKey,
    protocol: Randomizer | Memoized | HeavyHitters,
    *,
    task: str,
    question: str,
    lifetime_epsilon: Number | None,
    epoch: str,
    expires: datetime.datetime,
    origin: str,
) -> Task:
    """Sign a task: a `Memoized` protocol for permanent answers, a plain one where every report is randomised afresh.

    `lifetime_epsilon` limits the sum of fresh reports' epsilons; for permanent answers it is the permanent epsilon, and
    must be None. Raises DeclarationError for a name, epoch, expiry or origin that breaks a rule.

    >>> from sordino.local.protocols.unary import SUE
    >>> until = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    >>> task = create_task(SigningKey.make(Rng.seeded(1)), SUE(["tea", "coffee"], epsilon=1), task="drinks",
    ...     question="Tea or coffee?", lifetime_epsilon=1, epoch="2029", expires=until, origin="https://tea.example")
    >>> read_task(task.envelope, key=task.key).manifest.epsilon
    Fraction(1, 1)
    """
    if isinstance(protocol, Memoized):
        if lifetime_epsilon is not None:
            raise DeclarationError(
                "lifetime_epsilon must not be given for permanent answers: theirs is the permanent one"
            )
        first = protocol.permanent.parameters()
        second = protocol.instant.parameters()
        most = protocol.permanent.claim
    else:
        if lifetime_epsilon is None:
            raise DeclarationError(
                "lifetime_epsilon must be given: the most that the reports of one epoch may sum up to"
            )
        first = None
        second = protocol.parameters()
        most = to_fraction(lifetime_epsilon, name="lifetime_epsilon")
    manifest = Manifest(
        task=task,
        question=question,
        labels=protocol.labels,
        mechanism=second,
        permanent=first,
        epsilon=protocol.claim,
        lifetime_epsilon=most,
        epoch=epoch,
        expires=_moment(expires),
        origin=origin,
    )
    text = manifest.text
    signature = base64.b64encode(key.sign(text.encode())).decode()
    plain = {"key": key.public, "manifest": text, "signature": signature}
    return read_task(canonical(plain).decode(), key=key.public)


def read_task(envelope: str, *, key: str | None) -> Task:
    """Return the task of a signed manifest, everything in it checked.

    `key` is the public key that must have signed it; None trusts the key in the envelope, which shows only that nothing
    was altered since. Theorem: with the thresholds as they stand, one report is `epsilon`-differentially private, and
    all reports from one permanent answer are `lifetime_epsilon`-differentially private (exact logarithms, rounded up,
    are compared with the claims).

    Raises DeclarationError for a bad signature, another key, or a claim or field that does not hold.
    """
    plain = _object(envelope, "a signed manifest")
    if set(plain) != {"key", "manifest", "signature"} or not all(isinstance(v, str) for v in plain.values()):
        raise DeclarationError("a signed manifest has a key, a manifest and a signature, each of them text")
    if key is not None and plain["key"] != key:
        raise DeclarationError(
            f"the manifest is signed by another key, {key_fingerprint(plain['key'])}; do not answer it"
        )
    text = plain["manifest"]
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(plain["key"], validate=True))
        public.verify(base64.b64decode(plain["signature"], validate=True), text.encode())
    except (InvalidSignature, ValueError):
        raise DeclarationError(
            "the manifest's signature is bad: it was altered, or never signed; do not answer it"
        ) from None
    manifest = _manifest(_object(text, "a manifest"))
    if manifest.text != text:
        raise DeclarationError(
            "the manifest is not canonical JSON (sorted keys, no blanks): sign it with `local task create`"
        )
    return Task(manifest, plain["key"], plain["signature"], _protocol(manifest))


def key_fingerprint(public: str) -> str:
    """Return 16 hexadecimal digits by which people compare public keys."""
    return hashlib.sha256(public.encode()).hexdigest()[:16]


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        plain = (
            json.loads(text, parse_constant=_refuse_constant, parse_float=_finite) if len(text) <= _LONGEST else None
        )
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict):
        raise DeclarationError(f"this is not {what}: it must be a JSON object")
    return plain


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(digits)
    return number


def _manifest(plain: Mapping[str, Any]) -> Manifest:
    if plain.get("schema") != _SCHEMA:
        raise DeclarationError(f"the manifest has schema {plain.get('schema')!r}; this program reads {_SCHEMA}")
    if set(plain) != _FIELDS:
        wrong = ", ".join(sorted(set(plain) ^ _FIELDS))
        raise DeclarationError(f"the manifest's fields must be {', '.join(sorted(_FIELDS))}; see: {wrong}")
    for name in ("task", "epoch"):
        if not isinstance(plain[name], str) or not _NAME.fullmatch(plain[name]):
            raise DeclarationError(f"{name} must be 1 to 64 of a-z, 0-9, '.', '_' and '-', such as 'fruit-2026'")
    if not isinstance(plain["question"], str) or not 0 < len(plain["question"]) <= 500:
        raise DeclarationError("question must be a text of 1 to 500 characters")
    if not isinstance(plain["origin"], str) or not _ORIGIN.fullmatch(plain["origin"]):
        raise DeclarationError("origin must be a scheme and a host such as https://survey.example, without a path")
    if not isinstance(plain["labels"], list) or not isinstance(plain["mechanism"], dict):
        raise DeclarationError("labels must be a list and mechanism an object")
    if plain["permanent"] is not None and not isinstance(plain["permanent"], dict):
        raise DeclarationError("permanent must be an object, or null where every report is randomised afresh")
    claims = [to_fraction(str(plain[name]), name=name) for name in ("epsilon", "lifetime_epsilon")]
    return Manifest(
        task=plain["task"],
        question=plain["question"],
        labels=check_labels(plain["labels"]),
        mechanism=plain["mechanism"],
        permanent=plain["permanent"],
        epsilon=claims[0],
        lifetime_epsilon=claims[1],
        epoch=plain["epoch"],
        expires=_expiry(plain["expires"]),
        origin=plain["origin"],
    )


def _protocol(manifest: Manifest) -> Counting | HeavyHitters:
    """Return the protocol of a manifest; raise DeclarationError where a claim is below what the thresholds reveal."""
    once = from_parameters(manifest.mechanism, manifest.labels)
    if manifest.permanent is None:
        if once.claim > manifest.epsilon:
            raise DeclarationError("the manifest's epsilon is below what its thresholds reveal; do not answer it")
        if manifest.lifetime_epsilon < manifest.epsilon:
            raise DeclarationError("lifetime_epsilon must be at least epsilon: it has room for one report")
        return once
    permanent = from_parameters(manifest.permanent, manifest.labels)
    if not isinstance(once, GRR | Unary) or not isinstance(permanent, GRR | Unary):
        raise DeclarationError("permanent answers are made by the protocols grr and unary")
    if permanent.claim > manifest.lifetime_epsilon:
        raise DeclarationError("the manifest's lifetime_epsilon is below what its thresholds reveal; do not answer it")
    return Memoized(permanent, once, manifest.epsilon)


def _expiry(text: object) -> datetime.datetime:
    try:
        return datetime.datetime.strptime(str(text), _EXPIRES).replace(tzinfo=datetime.UTC)
    except ValueError:
        raise DeclarationError("expires must be a moment in UTC such as 2026-12-31T23:59:59Z") from None


def _moment(expires: datetime.datetime) -> datetime.datetime:
    if expires.tzinfo is None:
        raise DeclarationError("expires must say its time zone, such as datetime(2026, 12, 31, tzinfo=datetime.UTC)")
    return expires.astimezone(datetime.UTC).replace(microsecond=0)
