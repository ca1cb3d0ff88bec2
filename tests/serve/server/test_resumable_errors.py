"""What failed and may be resumed is said to be so at every door: asking again under the same request id charges nothing."""

from __future__ import annotations

import pytest

from sordino.errors import ChargedError, InDoubt
from sordino.serve.remote.transport import error_of
from sordino.serve.server.problems import problem_of
from sordino.serve.server.sql_wire.sqlstates import error_fields


@pytest.mark.parametrize("resumable", [True, False])
@pytest.mark.parametrize("kind", [ChargedError, InDoubt])
def test_a_far_error_is_as_resumable_as_the_one_of_the_server(kind: type[ChargedError], resumable: bool) -> None:
    far = error_of(problem_of(kind("it failed", charge="c1", resumable=resumable)))
    assert type(far) is kind
    assert isinstance(far, ChargedError)
    assert (far.charge, far.resumable) == ("c1", resumable)


def test_the_hint_of_a_resumable_failure_says_that_asking_again_charges_nothing() -> None:
    resumed = error_fields(ChargedError("no file could be opened", charge="c1", resumable=True))
    final = error_fields(ChargedError("the engine failed", charge="c1"))
    assert resumed["C"] == final["C"] == "SD003"
    assert "charges nothing" in resumed["H"]
    assert "charges again" in final["H"]
