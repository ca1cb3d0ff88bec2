"""The textbook of synthetic data, item by item, with its numbers on the census extract (32,561 rows); errata included."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.datasets import adult_domain, load_adult
from sordino.errors import QuestionRefused
from sordino.neighbors import Neighbors
from sordino.synth.encoding import keys_of_table
from sordino.synth.columns import keyed_columns
from sordino.synth.evaluation import table_distance
from sordino.synth.projection import project
from synth.support import Source

NAMES = ("age", "occupation", "education_num", "sex", "income", "marital_status")


@lru_cache(maxsize=1)
def extract() -> tuple[sd.Domain, Mapping[str, Any]]:
    """Return the extract's declared columns and the key of each row, or skip where it is absent."""
    path = Path(__file__).parents[2] / ".." / "shared" / "data" / "adult.data"
    if not path.is_file():
        pytest.skip(f"the data is not here: {path.name}")
    declared = adult_domain()
    domain = sd.Domain({n: declared[n] for n in NAMES})
    columns = tuple(keyed_columns(domain, None, Neighbors("add_remove", None)))
    return domain, dict(zip(NAMES, keys_of_table(load_adult(path), columns, domain), strict=True))


def adult(seed: int = 1, relation: Any = "add_remove") -> Source:
    domain, keys = extract()
    return Source(domain, dict(keys), sd.Rng.seeded(seed), Neighbors(relation, None))


def ages() -> Any:
    domain, keys = extract()
    return keys["age"] + domain["age"].lower  # type: ignore[union-attr,operator]
