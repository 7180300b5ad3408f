"""Entropy and mutual information of finite distributions, exact up to floating point.

Nothing is estimated from samples and nothing is renormalised: every function takes a probability table, refuses what is
not one, and sums over it. Because of rounding, a quantity that is zero in theory may come out as plus or minus 1e-15.

Letters: K shortcut structures (rows), Z values of what is observed (columns).
"""

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from shortcut_guardrail.errors import ConfigError, DataError

Unit = Literal["bits", "nats"]
FloatArray = NDArray[np.float64]

SUM_TOLERANCE = 1e-9
"""How far a sum of probabilities may be from 1: what double precision leaves after adding some million terms."""


def one_bit(unit: Unit) -> float:
    """The entropy of a fair coin in `unit`: 1 bit, ln 2 nats. It is the constant in Fano's inequality.

    Raises:
        ConfigError: `unit` is neither 'bits' nor 'nats'.
    """
    if unit not in get_args(Unit):
        raise ConfigError(f"unit must be 'bits' or 'nats', but is {unit!r}.")
    return 1.0 if unit == "bits" else math.log(2)


def log_of(number: float, unit: Unit) -> float:
    """Logarithm of a positive number, base 2 for bits and base e for nats."""
    return math.log(number) / math.log(2) * one_bit(unit)


def check_distribution(probabilities: ArrayLike, *, name: str = "probabilities", ndim: int | None = None) -> FloatArray:
    """The table as float64, if it is a probability distribution over all its cells.

    Args:
        probabilities: Numbers in [0, 1] that sum to 1 within `SUM_TOLERANCE`, any shape with at least one cell.
        name: What the error message calls the table.
        ndim: The number of axes it must have; None for any.

    Raises:
        DataError: It is not a table of real numbers, has the wrong number of axes, is empty, holds NaN, infinite or
            negative values, or does not sum to 1.
    """
    table = _real_table(probabilities, name, ndim)
    if abs(total := float(table.sum())) == math.inf or abs(total - 1) > SUM_TOLERANCE:
        raise DataError(f"{name} must sum to 1, but the sum is {total:.12g}. Divide counts by their total first.")
    return table


def check_channel(channel: ArrayLike, *, name: str = "channel") -> FloatArray:
    """The table as float64, if every row is a distribution: row i is P(output | input i).

    Args:
        channel: Shape (inputs, outputs), every row a distribution.
        name: What the error message calls the table.

    Raises:
        DataError: As for `check_distribution`, for the first row that is not a distribution.
    """
    table = _real_table(channel, name, 2)
    sums = table.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if wrong.size:
        row = int(wrong[0])
        raise DataError(
            f"Every row of {name} must sum to 1, but row {row} sums to {sums[row]:.12g}"
            f" ({wrong.size} of {len(sums)} rows are wrong). Divide each row by its sum first."
        )
    return table


def entropy(probabilities: ArrayLike, *, unit: Unit = "bits") -> float:
    """Shannon entropy of a distribution; a joint table of any shape gives the joint entropy.

    Args:
        probabilities: A distribution over all cells of the table.
        unit: 'bits' (logarithm to base 2) or 'nats' (natural logarithm).

    Returns:
        H, in [0, log(number of cells)].

    Raises:
        DataError: `probabilities` is not a distribution.
        ConfigError: `unit` is unknown.

    Example:
        >>> entropy([0.25, 0.25, 0.25, 0.25])
        2.0
    """
    table = check_distribution(probabilities)
    return _in_unit(-float(xlogy(table, table).sum()), unit)


def conditional_entropy(joint: ArrayLike, *, unit: Unit = "bits") -> float:
    """Entropy of the row variable that is left once the column variable is known, H(row | column).

    Args:
        joint: Joint distribution, shape (K, Z).
        unit: 'bits' or 'nats'.

    Returns:
        A number in [0, H(row)]; 0 when the column determines the row.

    Raises:
        DataError: `joint` is not a two-way distribution.
        ConfigError: `unit` is unknown.

    Example:
        >>> conditional_entropy([[0.5, 0.0], [0.25, 0.25]])  # the first column leaves H(2/3), the second nothing
        0.6887218755408672
    """
    table = check_distribution(joint, name="joint", ndim=2)
    return _in_unit(-_sum_p_log_ratio(table, table.sum(axis=0, keepdims=True)), unit)


def mutual_information(joint: ArrayLike, *, unit: Unit = "bits") -> float:
    """Information that rows and columns of a joint distribution share, I(row; column).

    Args:
        joint: Joint distribution, shape (K, Z).
        unit: 'bits' or 'nats'.

    Returns:
        A number in [0, min(H(row), H(column))]; 0 when they are independent.

    Raises:
        DataError: `joint` is not a two-way distribution.
        ConfigError: `unit` is unknown.

    Example:
        >>> mutual_information([[0.5, 0.0], [0.0, 0.5]])
        1.0
    """
    table = check_distribution(joint, name="joint", ndim=2)
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    return _in_unit(_sum_p_log_ratio(table, independent), unit)


def conditional_mutual_information(joint: ArrayLike, *, unit: Unit = "bits") -> float:
    """Information that the first and the last variable share beyond the middle one, I(X; Z | Y).

    X -> Y -> Z is a Markov chain exactly when this is zero, so it measures by how much a chain is broken.

    Args:
        joint: Joint distribution of (X, Y, Z), three axes in this order.
        unit: 'bits' or 'nats'.

    Returns:
        A number in [0, min(H(X), H(Z))].

    Raises:
        DataError: `joint` is not a three-way distribution.
        ConfigError: `unit` is unknown.

    Example:
        >>> xor = np.zeros((2, 2, 2))
        >>> for x in (0, 1):
        ...     for y in (0, 1):
        ...         xor[x, y, x ^ y] = 0.25
        >>> round(conditional_mutual_information(xor), 9)  # z alone says nothing about x, but with y it says all
        1.0
    """
    table = check_distribution(joint, name="joint", ndim=3)
    middle = table.sum(axis=(0, 2), keepdims=True)
    pairs = table.sum(axis=2, keepdims=True) * table.sum(axis=0, keepdims=True)
    # p * log(p * p(y) / (p(x,y) p(y,z))), written as a ratio whose denominator is positive wherever p is.
    expected = np.divide(pairs, middle, out=np.zeros_like(table), where=middle > 0)
    return _in_unit(_sum_p_log_ratio(table, expected), unit)


def joint_distribution(prior: ArrayLike, channel: ArrayLike) -> FloatArray:
    """P(row) times P(column | row).

    Args:
        prior: Distribution of the row variable, shape (K,).
        channel: Row-stochastic table, shape (K, Z).

    Returns:
        The joint distribution, shape (K, Z).

    Raises:
        DataError: One of them is not a distribution, or their sizes differ.
    """
    start = check_distribution(prior, name="prior", ndim=1)
    step = check_channel(channel)
    if len(start) != len(step):
        raise DataError(f"prior has {len(start)} entries, but channel has {len(step)} rows; they must be as many.")
    return start[:, None] * step


def compose(first: ArrayLike, *following: ArrayLike) -> FloatArray:
    """One channel that does what a Markov chain of channels does: P(last | first input).

    Args:
        first: Row-stochastic table, shape (A, B).
        following: The next steps, each with as many rows as the one before has columns.

    Returns:
        Row-stochastic table from the first input to the last output.

    Raises:
        DataError: A table is not row-stochastic, or neighbouring sizes do not fit.

    Example:
        >>> noisy = [[0.9, 0.1], [0.1, 0.9]]
        >>> compose(noisy, noisy).round(2).tolist()
        [[0.82, 0.18], [0.18, 0.82]]
    """
    total = check_channel(first, name="channel 1")
    for number, channel in enumerate(following, start=2):
        step = check_channel(channel, name=f"channel {number}")
        if total.shape[1] != len(step):
            raise DataError(
                f"channel {number} must have {total.shape[1]} rows, as many as channel {number - 1} has columns,"
                f" but has {len(step)}."
            )
        total = total @ step
    return total


def push_forward(joint: ArrayLike, image: ArrayLike) -> FloatArray:
    """The joint distribution after a deterministic step: columns with the same image are added up.

    Args:
        joint: Joint distribution, shape (K, Z).
        image: For every column the index of what it becomes, integers in [0, number of images), shape (Z,).

    Returns:
        Joint distribution of the row variable and the image, shape (K, largest image + 1).

    Raises:
        DataError: `joint` is not a distribution, or `image` is not one non-negative integer per column.
    """
    table = check_distribution(joint, name="joint", ndim=2)
    target = np.asarray(image)
    if target.shape != (table.shape[1],) or target.dtype.kind not in "iu" or target.min() < 0:
        raise DataError(
            f"image must hold one non-negative integer for each of the {table.shape[1]} columns of joint,"
            f" but has shape {target.shape} and type {target.dtype}."
        )
    size = int(target.max()) + 1
    return np.stack([np.bincount(target, weights=row, minlength=size) for row in table])


def bayes_error(joint: ArrayLike) -> float:
    """Smallest probability of naming the wrong row from the column: what no estimator can beat.

    Args:
        joint: Joint distribution of the structure (rows) and what is observed (columns), shape (K, Z).

    Returns:
        1 minus the expected posterior of the most probable row, in [0, 1 - 1/K]; lower is better.

    Raises:
        DataError: `joint` is not a two-way distribution.

    Example:
        >>> bayes_error([[0.5, 0.0], [0.25, 0.25]])
        0.25
    """
    table = check_distribution(joint, name="joint", ndim=2)
    # The mass of all rows but the best one: unlike 1 - max, it is exactly 0 where the column decides.
    return float((np.sort(table, axis=0)[:-1]).sum())


def _real_table(values: ArrayLike, name: str, ndim: int | None) -> FloatArray:
    try:
        raw = np.asarray(values)
    except ValueError as error:  # numpy's word for rows of different lengths
        raise DataError(f"{name} must be a table of probabilities with rows of equal length.") from error
    if raw.dtype.kind not in "fiu":
        raise DataError(f"{name} must hold real numbers, but holds values of type {raw.dtype}.")
    table = raw.astype(np.float64)
    if ndim is not None and table.ndim != ndim:
        raise DataError(f"{name} must have {ndim} axes, but has {table.ndim} (shape {table.shape}).")
    if table.size == 0:
        raise DataError(f"{name} is empty (shape {table.shape}); a distribution needs at least one outcome.")
    if not np.isfinite(table).all():
        raise DataError(f"{name} must hold finite numbers, but {int((~np.isfinite(table)).sum())} are NaN or infinite.")
    if table.min() < 0:
        raise DataError(f"{name} must not be negative anywhere, but its smallest value is {table.min():.6g}.")
    return table


def _sum_p_log_ratio(p: FloatArray, q: FloatArray) -> float:
    """Sum of p log(p / q) in nats; a cell with p = 0 adds nothing."""
    log_p = np.log(p, out=np.zeros_like(p), where=p > 0)
    everywhere_q = np.broadcast_to(q, p.shape)
    # Where q underflows to 0, p is below 1e-150 and its term below anything a double can show.
    log_q = np.log(everywhere_q, out=np.zeros_like(p), where=(p > 0) & (everywhere_q > 0))
    return float((p * (log_p - log_q)).sum())


def _in_unit(nats: float, unit: Unit) -> float:
    return nats / math.log(2) * one_bit(unit) + 0.0  # + 0.0 turns -0.0 into 0.0
