"""The linear program of FedRPO: the direction that makes most progress, and goes against nobody by more than allowed.

Q (K, K) has the cosines of unit gradients ĝ_k = g_k / ‖g_k‖, so that each (Qα)_i is from -1 to 1 (A33).
"""

from __future__ import annotations

import importlib

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError, extra_command
from auricle_learning.aggregation.compute.distances import Float64Array


def relaxed_pareto(
    cosines: Float64Array, priority: Float64Array, labelled: NDArray[np.bool_], c: float
) -> Float64Array:
    """Find α (K,): max αᵀ Q w with (Qα)_i ≥ 0 for labelled i and ≥ c for the others, Σ α = 1, α ≥ 0 (A32, A33).

    By SciPy's HiGHS. Every c ≤ 0 is feasible: the point of the hull that is nearest to 0 goes against nobody, and is
    the answer where the solver fails (A34). Of several optima one is given, as a rule a vertex.

    Parameters
    ----------
    cosines
        Q (K, K).
    priority
        w (K,), which sums to 1.
    labelled
        (K,) whose (Qα)_i may not be negative.
    c
        Least (Qα)_i of the others, from -1 to 0.

    Raises
    ------
    AuricleError
        SciPy is not installed.
    """
    optimize = _scipy()
    count = priority.size
    least = np.where(labelled, 0.0, c)
    found = optimize.linprog(  # type: ignore[attr-defined]
        -(cosines @ priority), A_ub=-cosines, b_ub=-least, A_eq=np.ones((1, count)), b_eq=[1.0], method="highs"
    )
    alpha = np.maximum(0.0, found.x) if found.status == 0 else min_norm_alpha(cosines)
    return np.asarray(alpha / alpha.sum(), np.float64)


def min_norm_alpha(cosines: Float64Array) -> Float64Array:
    """Find α (K,) of the point of the hull that is nearest to 0, by non-negative least squares: min ‖A u‖² + (1 - Σu)².

    A is a root of Q, and α = u / Σ u.

    Parameters
    ----------
    cosines
        Q (K, K).

    Raises
    ------
    AuricleError
        SciPy is not installed.
    """
    values, vectors = np.linalg.eigh(cosines)
    root = np.sqrt(np.maximum(0.0, values))[:, None] * vectors.T
    system = np.vstack([root, np.ones(len(cosines))])
    solution, _ = _scipy().nnls(system, np.append(np.zeros(len(cosines)), 1.0))  # type: ignore[attr-defined]
    return np.asarray(solution / solution.sum(), np.float64)


def _scipy() -> object:
    try:
        return importlib.import_module("scipy.optimize")
    except ModuleNotFoundError as error:
        raise AuricleError(f"FedRPO needs SciPy, which is not installed: {extra_command('lp')}.") from error
