"""The sensitivity of functions of one number: the reference's four, soundness against samples, exactness, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from mistyping import mistype
from sordino.errors import DeclarationError, QuestionRefused
from sordino.lab.sensitivity.function import function_sensitivity
from trying import examples

WORDS = {"abs": abs, "min": min, "max": max, "clip": lambda e, a, b: min(max(e, a), b)}


@pytest.mark.parametrize(("text", "value"), [("x", 1), ("x + x", 2), ("5*x", 5), ("x*x", math.inf)])
def test_reference_section_1_functions_of_a_number(text: str, value: float) -> None:
    made = function_sensitivity(text, lower=None, upper=None)
    assert made.value == value
    assert made.exact
    assert made.because


def test_the_reason_of_an_unbounded_square_names_it_and_the_fix() -> None:
    because = function_sensitivity("x*x", lower=None, upper=None).because
    assert "x * x" in because
    assert "no bound" in because
    assert "clip" in because


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("text", "lower", "upper", "value"),
    [
        ("7", None, None, 0),
        ("-x", None, None, 1),
        ("x - x", None, None, 0),
        ("x*x - x*x + 2*x", None, None, 2),
        ("0.1*x + 0.2*x", None, None, 0.30000000000000004),  # 3/10, rounded up to a float
        ("3*(x - 4) - (x + 1)", None, None, 2),
        ("5*x", 0, 0.5, 2.5),
        ("x", 3, 3, 0),
        ("x*x", 0, 10, 19),
        ("x*x", -10, 0, 19),
        ("x*x", -3, 2, 5),
        ("x*x*x", 0, 10, 271),
        ("2 - x*x", 0, 10, 19),
        ("x*x", 0, "1/2", 0.25),
        ("abs(x)", None, None, 1),
        ("abs(x)", 2, None, 1),
        ("abs(x) * abs(x)", 0, 10, 19),
        ("clip(x, 0, 1)", None, None, 1),
        ("clip(5*x, 0, 3)", None, None, 3),
        ("5*clip(x, 0, 0.5)", None, None, 2.5),
        ("max(x, 0)", None, None, 1),
        ("min(2*x, 10)", None, None, 2),
        ("min(x, -3)", -2, None, 0),
        ("clip(x, 0, 10)*2", 20, 30, 0),
        ("+x", None, 4, 1),
        ("x/2", None, None, 0.5),
        ("x^2", 0, 10, 19),
        ("2x", None, None, 2),
        ("x**3", 0, 10, 271),
        ("(1/4)*x + x/4", None, None, 0.5),
        ("1/x", 1, 10, 0.5),
        ("1/x", 1, None, 0.5),
        ("1/x", None, -1, 0.5),
        ("x**-2", 1, None, 0.75),
        ("sqrt(x)", 0, 100, 1),
        ("sqrt(x)", 0, None, 1),
        ("x**0.5", 4, 4.25, math.sqrt(4.25) - 2),
        ("exp(x)", 0, 2, math.e**2 - math.e),
        ("exp(-x)", 0, None, 1 - 1 / math.e),
        ("exp(x)", None, 0, 1 - 1 / math.e),
        ("log(x)", 1, None, math.log(2)),
        ("log(x)", 1, 100, math.log(2)),
    ],
)
def test_exact_figures(text: str, lower: float | None, upper: float | None, value: float) -> None:
    made = function_sensitivity(text, lower=lower, upper=upper)
    assert made.exact
    assert made.value == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["x*x", "x*x*x - x", "abs(x)*x", "x*x*abs(x)", "x * clip(x, 0, 1)"])
@pytest.mark.parametrize(("lower", "upper"), [(None, None), (0, None), (None, 5)])
def test_without_a_bound_on_both_sides_a_slope_that_grows_is_unbounded(
    text: str, lower: int | None, upper: int | None
) -> None:
    made = function_sensitivity(text, lower=lower, upper=upper)
    assert made.value == math.inf or "clip(x, 0, 1)" in text


def test_clipping_makes_any_of_them_bounded() -> None:
    for text in ("x", "x + x", "5*x", "x*x", "x*x*x - x"):
        made = function_sensitivity(f"clip({text}, 0, 10)", lower=None, upper=None)
        assert made.value <= 10
        inside = text.replace("x", "clip(x, -2, 2)")
        assert function_sensitivity(inside, lower=None, upper=None).value < math.inf


expressions = st.recursive(
    st.sampled_from(["x", "x", "0", "1", "2.5", "0.5"]),
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from("+-*"), e).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        e.map(lambda t: f"abs({t})"),
        e.map(lambda t: f"-({t})"),
        e.map(lambda t: f"clip({t}, -1, 1.5)"),
        e.map(lambda t: f"min({t}, 2)"),
        e.map(lambda t: f"max({t}, -0.5)"),
    ),
    max_leaves=6,
)


FUNCTIONS: dict[str, Any] = {
    "x**2": lambda x: x**2,
    "3*x - 1": lambda x: 3 * x - 1,
    "1/(x + 2)": lambda x: 1 / (x + 2),
    "sqrt(x) + log(x + 1)": lambda x: np.sqrt(x) + np.log(x + 1),
    "exp(-x)": lambda x: np.exp(-x),
    "abs(x - 3)": lambda x: abs(x - 3),
    "clip(2*x, 0, 5)": lambda x: np.clip(2 * x, 0, 5),
    "max(x, 1.5)": lambda x: np.maximum(1.5, x),
    "min(x, 2)": lambda x: np.minimum(x, 2),
    "x/3": lambda x: x / Fraction(3),
    "7": lambda _: 7,
    "x": lambda x: +x,
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_a_python_function_is_read_as_its_text(text: str) -> None:
    written = function_sensitivity(text, lower=0, upper=10)
    assert function_sensitivity(FUNCTIONS[text], lower=0, upper=10).value == written.value


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: min(x, 3), "decides by the value of x"),
        (lambda x: 1 if x > 2 else 0, "decides by the value of x"),
        (lambda x: __import__("math").sqrt(x), "use that of numpy"),
        (np.sin, "numpy.sin is not understood"),
        (lambda x: x * np.array([1, 2]), "not with ndarray"),
        (lambda: 1, "cannot be read"),
    ],
)
def test_a_function_that_is_no_expression_is_refused(function: Any, words: str) -> None:
    with pytest.raises(QuestionRefused, match=words):
        function_sensitivity(function, lower=0, upper=9)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (math.sqrt, "sqrt(x)"),
        (math.exp, "exp(x)"),
        (math.log, "log(x)"),
        (lambda x: math.sqrt(x) + 2 * math.exp(x), "sqrt(x) + 2 * exp(x)"),
        (lambda x: math.log(x) / 2, "ln(x) / 2"),
        (lambda x: math.fabs(x - 5), "abs(x - 5)"),
    ],
)
def test_functions_of_math_are_read_as_numpys(function: Any, text: str) -> None:
    given = function_sensitivity(function, lower=1, upper=10)
    assert given.value == function_sensitivity(text, lower=1, upper=10).value
    # its own math is left as it was
    assert math.sqrt(4) == 2


def test_small_and_large_numbers_keep_their_digits() -> None:
    assert function_sensitivity("1e-200*x", lower=None, upper=None).value == pytest.approx(1e-200)
    assert "3.5e+300" in function_sensitivity("3.5e300*x", lower=None, upper=None).because.lower()
    with pytest.raises(DeclarationError, match="1e-400"):
        function_sensitivity("1e-400*x", lower=None, upper=None)


curved = st.recursive(
    st.sampled_from(["x", "x", "1", "2.5", "0.5"]),
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from("+-*"), e).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        e.map(lambda t: f"sqrt(abs({t}))"),
        e.map(lambda t: f"exp(clip({t}, -3, 3))"),
        e.map(lambda t: f"log(1 + ({t})**2)"),
        e.map(lambda t: f"1 / (1 + ({t})**2)"),
        e.map(lambda t: f"({t})**3 / 4"),
        e.map(lambda t: f"(abs({t}) + 1)**-2"),
    ),
    max_leaves=4,
)


@examples(6, 30, text=curved, lower=st.integers(-4, 3), width=st.sampled_from([0.25, 1, 2, 5]))
def test_no_two_points_beat_the_bound_of_curves(text: str, lower: int, width: float) -> None:
    result = function_sensitivity(text, lower=lower, upper=lower + width)
    code = compile(text, "f", "eval")
    words = {**WORDS, "sqrt": math.sqrt, "exp": math.exp, "log": math.log}
    points = [lower + width * i / 40 for i in range(41)]
    values = np.array([float(eval(code, {"__builtins__": {}}, {**words, "x": x})) for x in points])
    near = np.abs(np.subtract.outer(points, points)) <= 1
    largest = float(np.abs(np.subtract.outer(values, values))[near].max())
    assert result.value >= largest * (1 - 1e-9) - 1e-9
    if result.exact:
        assert result.value == pytest.approx(largest, rel=1e-6, abs=1e-9)


@examples(24, 120, text=expressions, lower=st.integers(-5, 3), width=st.sampled_from([0, 0.25, 0.5, 1, 2.5, 6]))
def test_no_two_points_beat_the_bound(text: str, lower: int, width: float) -> None:
    made = function_sensitivity(text, lower=lower, upper=lower + width)
    code = compile(text, "f", "eval")
    points = [lower + width * i / 48 for i in range(49)]
    values = [eval(code, {"__builtins__": {}}, {**WORDS, "x": x}) for x in points]
    largest = max(
        abs(a - b)
        for x, a in zip(points, values, strict=True)
        for y, b in zip(points, values, strict=True)
        if abs(x - y) <= 1
    )
    assert made.value >= largest * (1 - 1e-12) - 1e-12
    assert made.value < math.inf
    if made.exact and width != 2.5:  # else the steps of 1 are no steps of the points
        assert made.value == pytest.approx(largest, rel=1e-9, abs=1e-9)


@examples(10, 50, text=expressions)
def test_bounds_on_x_only_help(text: str) -> None:
    wide, narrow = (function_sensitivity(text, lower=a, upper=b).value for a, b in ((-8, 8), (-1, 2)))
    assert narrow <= wide <= function_sensitivity(text, lower=None, upper=None).value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "y", "x +", "x ** x", "2 ** x", "x ** 65", "x ** 0.3", "x / 0", "1 / x", "sqrt(x - 1)",
            "log(x)", "exp(x + 1e9)", "sin(x)", "sqrt(x, 2)", "x // 2", "x if x else 1", "lambda: x", "x.real", "x[0]", "f(x)",
        "__import__('os')", "abs(x, x)", "abs(e=x)", "clip(x, 0)", "clip(x, 1, 0)", "clip(x, x, 1)", "min(x)", "max(1, x)",
        "min(x, x*x)", "True", "'a'", "1j", "1e999", "x < 1", "not x", "~x", "(x, x)", "[x]", "x := 1", "min(*x)",
        "abs", "x()", "f'{x}'", "None", "...",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises((QuestionRefused, DeclarationError)):
        function_sensitivity(text, lower=0, upper=1)


def test_long_and_deep_expressions_are_refused_or_answered() -> None:
    with pytest.raises(QuestionRefused, match="characters"):
        function_sensitivity("x + " * 1000 + "x", lower=0, upper=1)
    with pytest.raises(QuestionRefused, match=r"deep|not an expression"):
        function_sensitivity("(" * 400 + "x" + ")" * 400 + "+" * 100 + "x", lower=0, upper=1)
    assert function_sensitivity("*".join("x" * 40), lower=0, upper=2).value < math.inf
    assert function_sensitivity("*".join(["1e300*x"] * 20), lower=0, upper=2).value == math.inf


def test_bad_bounds_are_named() -> None:
    with pytest.raises(DeclarationError, match="lower"):
        function_sensitivity("x", lower=2, upper=1)
    with pytest.raises(DeclarationError, match="upper"):
        function_sensitivity("x", lower=2, upper=math.nan)
    with pytest.raises(QuestionRefused, match="text"):
        function_sensitivity(mistype(5), lower=2, upper=3)
