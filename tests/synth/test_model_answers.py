"""A model's answer reads as a release does: the same columns, intervals and rendering, and it says that it is free."""

from __future__ import annotations

import sordino as sd
from sordino import synth
from sordino.cli.ask.render_release import arrow_table, table_lines
from sordino.queries.build import Selection
from sordino.synth.evaluation.figures import Evaluation
from synth.support import Source, small

DOMAIN, KEYS = small()


def fitted() -> synth.Model:
    source = Source(DOMAIN, KEYS, sd.Rng.seeded(1), sd.Neighbors("add_remove", None))
    return synth.fit(source, epsilon=5, delta="1e-9", rng=sd.Rng.seeded(2))


def test_a_model_answer_is_rendered_as_a_release() -> None:
    answer = fitted().answer(Selection().group_by("job").agg(sd.count(), sd.mean("age")))
    assert answer.columns == ("job", *answer.names)
    ends = answer.interval(0.9)
    for output in answer.outputs:
        assert output.estimate.intervals(0.9) == ends[output.name]
        assert output.estimate.errors(0.9) == answer.error(0.9)[output.name]
    lines = table_lines(answer, confidence=0.9)
    assert len(lines) == 1 + 4
    assert lines[0].count("90% interval") == 2
    table = arrow_table(answer, {}, confidence=0.9)
    count = answer.names[0]
    assert table.column_names[:4] == ["job", count, f"{count}_lower", f"{count}_upper"]
    assert list(zip(*(table[f"{count}_{e}"].to_pylist() for e in ("lower", "upper")), strict=True)) == ends[count]


def test_answers_and_evaluations_print_and_show_as_tables() -> None:
    model = fitted()
    answer = model.answer(Selection().group_by("job").agg(sd.count()))
    text, page = str(answer), answer._repr_html_()
    for word in ("job", "95% interval", "desk", "free"):
        assert word in text
        assert word in page
    assert page.count("<tr>") == 1 + 4
    assert answer.to_dict()["rows"][0].keys() == {"job", answer.names[0]}
    single = model.answer(Selection().agg(sd.count()))
    assert "95% interval" in str(single)
    source = Source(DOMAIN, KEYS, sd.Rng.seeded(3), sd.Neighbors("add_remove", None))
    made = synth.evaluate(model, against=source, epsilon=1, rng=sd.Rng.seeded(4))
    assert isinstance(made, Evaluation)
    for word in ("distance over", "2 columns", "floor", "epsilon 1"):
        assert word in str(made)
        assert word in made._repr_html_()
