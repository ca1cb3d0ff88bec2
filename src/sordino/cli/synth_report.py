"""`sordino synth report`: how far a synthetic table lies from its original. Draft."""

from __future__ import annotations

from sordino.cli.synth_words import ModelFile

__all__ = ["synth_report"]


def synth_report(model: ModelFile) -> None:
    """Draft."""
    del model
