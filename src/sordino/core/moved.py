"""Old paths of modules, from before the eight packages and of files that were merged: importing one gives the new module.

Older scripts and notebooks keep working. New code imports the names of `sordino` itself, or a module by its present path.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# The longest prefix counts.
_MOVED = {
    "accounting": "core.accounting",
    "ask.clipping.concave_fit": "ask.clipping.contribution_bounds",
    "ask.clipping.ends": "ask.clipping.search",
    "ask.curator.data_access": "ask.curator.plan",
    "ask.curator.key_selection": "ask.curator.possible_keys",
    "ask.curator.procedures": "ask.curator.plan",
    "ask.curator.statement_tables": "ask.curator.statement_procedure",
    "ask.engines.column_names": "ask.engines.outer",
    "ask.engines.loaded_files": "ask.engines.frames",
    "ask.engines.moment_cells": "ask.engines.cells",
    "ask.engines.readers.column": "ask.engines.readers.raw",
    "ask.engines.readers.physical_column": "ask.engines.table_layout",
    "ask.engines.replicates": "ask.engines.outer",
    "ask.project.codebook": "ask.project.proposal",
    "ask.project.parts": "ask.project.load",
    "ask.queries.adaptive.distance_to": "ask.queries.adaptive.marginal",
    "ask.queries.formulas": "ask.queries.post_processing",
    "ask.queries.planning_watch": "ask.queries.query",
    "ask.queries.public_matches": "ask.queries.joins",
    "ask.queries.sql.moments": "ask.queries.sql.time_functions",
    "ask.queries.sql.released_range": "ask.queries.sql.outside_select",
    "ask.queries.unit_values": "ask.queries.per_unit",
    "assistant": "serve.assistant",
    "audit": "lab.audit",
    "cell_grammar": "core.cell_grammar",
    "cli.shared.drawing": "cli.shared.atomic_file",
    "cli.shared.flags": "cli.shared.terminal",
    "cli.synth.stage_display": "cli.shared.terminal",
    "clipping": "ask.clipping",
    "codec": "core.codec",
    "collector": "local.collector",
    "core.accounting.advanced": "core.accounting.composition",
    "core.accounting.common_laws": "core.accounting.discretize",
    "core.estimates.computed": "core.estimates.replicates",
    "core.estimates.curve": "core.estimates.weighted_sum",
    "core.estimates.ranks": "core.estimates.choices",
    "core.estimates.selections": "core.estimates.choices",
    "core.estimates.series_cells": "core.estimates.weighted_sum",
    "core.estimates.shown_count": "core.estimates.selected",
    "core.field_words": "core.errors",
    "core.noise.sums": "core.noise.laws",
    "core.notebook_tables": "core.text_table",
    "core.release_tables": "core.release_exports",
    "curator": "ask.curator",
    "datasets": "ask.engines.readers",
    "datasets.adult": "lab.datasets.adult",
    "datasets.census": "lab.datasets.census",
    "datasets.dummy_table": "ask.curator.dummy_table",
    "datasets.exact_answers": "lab.datasets.exact_answers",
    "declared_times": "core.declared_times",
    "domain": "core.domain",
    "engines": "ask.engines",
    "estimates": "core.estimates",
    "lab.audit.telling_event": "lab.audit.sampled_audit",
    "lab.risk.likelihood_ratio": "lab.risk.odds",
    "lab.sensitivity.table_distance": "lab.sensitivity.moves",
    "ledger": "core.ledger",
    "local.collector.id_set": "local.collector.task_state",
    "local.collector.report_endpoint": "local.collector.app",
    "local.collector.routes": "local.collector.app",
    "local.protocols.number": "local.protocols.numeric",
    "local.texts": "local.labels",
    "loss": "core.loss",
    "mechanisms": "core.mechanisms",
    "neighbors": "core.neighbors",
    "noise": "core.noise",
    "notebook": "serve.notebook",
    "primitives": "core.primitives",
    "project": "ask.project",
    "queries": "ask.queries",
    "release": "core.release",
    "remote": "serve.remote",
    "reporting.attack_page": "reporting.attack_charts",
    "reporting.synth_page": "reporting.synth_evaluation",
    "reporting.text_table": "core.text_table",
    "risk": "lab.risk",
    "risk.belief": "core.accounting.belief",
    "risk.hypotheses": "core.accounting.hypotheses",
    "rounding": "core.rounding",
    "sensitivity": "lab.sensitivity",
    "serve.assistant.listening": "serve.assistant.tools",
    "serve.server.question_texts": "serve.server.question_request",
    "serve.server.request_ids": "serve.server.question_request",
    "serve.server.scram": "serve.server.accounts",
    "server": "serve.server",
    "source": "core.source",
    "time_zones": "core.time_zones",
    "workbench": "serve.workbench",
}


def find_moved_modules() -> None:
    """Let `import` find modules by their old paths."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder, Loader):
    """Finds a module that has moved, and loads it under its new path, so that both paths are one module."""

    def find_spec(self, fullname: str, *_: Sequence[str] | ModuleType | None) -> ModuleSpec | None:
        new = _new_path(fullname)
        # The faces, such as `sordino.risk`, are modules of their own.
        if new is None or fullname in _FACES or importlib.util.find_spec(new) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_new_path(spec.name) or spec.name)
        # The import system writes the spec that it was given into the module.
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


_FACES = frozenset(f"sordino.{name}" for name in ("accounting", "audit", "datasets", "errors", "risk", "sensitivity"))


def _new_path(name: str) -> str | None:
    package, _, rest = name.partition(".")
    if package != "sordino":
        return None
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        place = _MOVED.get(".".join(parts[:count]))
        if place is not None:
            return ".".join(["sordino", place, *parts[count:]])
    return None
