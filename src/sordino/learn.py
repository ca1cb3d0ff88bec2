"""The bare mechanisms of the textbooks, to hold in the hand: NOT PRIVATE where they are fed real values.

They take plain numbers, draw in floats and keep no account. On a table, `table.ask` draws exactly and counts the cost. Every
name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.lab.learn.bare_noise import NoiseShape as NoiseShape
    from sordino.lab.learn.float_attack import attack_floats as attack_floats
    from sordino.lab.learn.mechanisms import BareNumber as BareNumber
    from sordino.lab.learn.mechanisms import above_threshold as above_threshold
    from sordino.lab.learn.mechanisms import discrete_gaussian_mech as discrete_gaussian_mech
    from sordino.lab.learn.mechanisms import discrete_laplace_mech as discrete_laplace_mech
    from sordino.lab.learn.mechanisms import exponential_mech as exponential_mech
    from sordino.lab.learn.mechanisms import exponential_probabilities as exponential_probabilities
    from sordino.lab.learn.mechanisms import gaussian_mech as gaussian_mech
    from sordino.lab.learn.mechanisms import gaussian_mech_vec as gaussian_mech_vec
    from sordino.lab.learn.mechanisms import gaussian_mech_zcdp as gaussian_mech_zcdp
    from sordino.lab.learn.mechanisms import gaussian_noise as gaussian_noise
    from sordino.lab.learn.mechanisms import gaussian_noise_zcdp as gaussian_noise_zcdp
    from sordino.lab.learn.mechanisms import laplace_mech as laplace_mech
    from sordino.lab.learn.mechanisms import laplace_mech_vec as laplace_mech_vec
    from sordino.lab.learn.mechanisms import laplace_noise as laplace_noise
    from sordino.lab.learn.mechanisms import randomized_response as randomized_response
    from sordino.lab.learn.mechanisms import report_noisy_max as report_noisy_max
    from sordino.lab.learn.mechanisms import sparse_vector as sparse_vector

_MEANT = {
    **dict.fromkeys(
        ("laplace", "Laplace", "lap_mech", "laplace_mechanism"), "write laplace_mech(value, sensitivity, epsilon)"
    ),
    **dict.fromkeys(
        ("gaussian", "Gaussian", "gauss_mech", "gaussian_mechanism"),
        "write gaussian_mech(value, sensitivity, epsilon, delta)",
    ),
    **dict.fromkeys(
        ("exponential", "Exponential", "exponential_mechanism"), "write exponential_mech(scores, sensitivity, epsilon)"
    ),
    **dict.fromkeys(("noisy_max", "report_noisy_maximum"), "write report_noisy_max(scores, sensitivity, epsilon)"),
    **dict.fromkeys(
        ("rand_resp", "rand_resp_sales", "randomised_response"), "write randomized_response(answer, epsilon)"
    ),
    **dict.fromkeys(("AboveThreshold", "svt"), "write above_threshold(answers, threshold, sensitivity, epsilon)"),
    **dict.fromkeys(("sparse",), "write sparse_vector(answers, threshold, crossings, sensitivity, epsilon)"),
    **dict.fromkeys(("gaussian_mech_zCDP",), "write gaussian_mech_zcdp(value, sensitivity, rho)"),
}

__getattr__, __dir__, __all__ = export_lazily(__name__, meant=_MEANT)
