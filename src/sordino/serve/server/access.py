"""Who may do what: one table of action and role, and the visitor whom it is looked up for. Every way in asks here.

It knows roles and owners, no storage and no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from sordino.core.errors import DeclarationError, NotAllowed, UnknownName

Role = Literal["analyst", "officer", "auditor", "owner"]
# Of which objects an act is allowed: all, one's own, none.
Reach = Literal["any", "own", "none"]
# The roles of accounts: the owner has none.
ROLES: tuple[Role, ...] = get_args(Role)[:3]

# The reach of an analyst, an officer and an auditor.
_Row = tuple[Reach, Reach, Reach]
_READERS: _Row = ("own", "any", "any")
_OFFICER: _Row = ("none", "any", "none")
_ANALYST: _Row = ("own", "none", "none")
_EVERYONE: _Row = ("any", "any", "any")
_OWN: _Row = ("own", "own", "own")
_TABLE: dict[str, _Row] = {
    "table.read": _EVERYONE,
    "question.plan": _EVERYONE,
    "question.practise": _EVERYONE,
    "question.ask": _ANALYST,
    "release.read": _READERS,
    "budget.read": _READERS,
    "share.change": _OFFICER,
    "model.fit": _ANALYST,
    "model.evaluate": _ANALYST,
    "model.read": _READERS,
    "series.open": _ANALYST,
    "series.release": _ANALYST,
    "series.read": _READERS,
    "job.read": _READERS,
    "approval.read": _READERS,
    "approval.decide": _OFFICER,
    "account.read": _READERS,
    "account.change": _OFFICER,
    "password.change": ("own", "any", "own"),
    "token.read": ("own", "any", "own"),
    "token.make": _OWN,
    "token.revoke": ("own", "any", "own"),
    "collection.read": _EVERYONE,
    "collection.close": _OFFICER,
    "audit.read": ("none", "any", "any"),
}
ACCESS: Mapping[str, Mapping[Role, Reach]] = MappingProxyType(
    {
        action: MappingProxyType({**dict(zip(ROLES, reaches, strict=True)), "owner": "any"})
        for action, reaches in _TABLE.items()
    }
)


class NotThere(UnknownName):
    """Say that something is not there, or another's: in one sentence, so that nobody learns what others have."""

    def __init__(self) -> None:
        super().__init__("there is no such thing here, or it is not yours")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Say who asks: an account, its role, whose share it spends, and how it came in (token, session, wire, mcp, local)."""

    account: int
    name: str
    role: Role
    spender: str
    via: str


# Whoever holds the project file, at its own machine; the owner has no share.
OWNER = Visitor(0, "owner", "owner", "", "local")


def check_role(role: str) -> Role:
    """Return a role; raise DeclarationError for any other word."""
    for allowed in ROLES:
        if role == allowed:
            return allowed
    raise DeclarationError(f"must be analyst, officer or auditor, not {role[:40]!r}", key="role")


def sees_all(visitor: Visitor, action: str) -> bool:
    """Return whether the objects of all accounts are open to a visitor, not its own alone."""
    return ACCESS[action][visitor.role] == "any"


def check_access(visitor: Visitor, action: str, *, owner: int | None = None) -> None:
    """Raise NotAllowed where the role never does this; NotThere where the object, of account `owner`, is another's."""
    reach = ACCESS[action][visitor.role]
    if reach == "none":
        what = action.replace(".", ": ")
        raise NotAllowed(f"your role, {visitor.role}, does not include this ({what}); ask an account that has it")
    if reach == "own" and owner is not None and owner != visitor.account:
        raise NotThere
