"""Exponentials, logarithms, powers and products of arrays with the same bits on every machine.

A release is a function of its input, configuration and key: a task that is tried again on another
machine must write the same bytes. numpy's `exp`, `log`, `expm1`, `log1p` and `power` choose their
code by what the processor has (with AVX-512 a vector library, else the C library, which chooses
again by FMA), and the results differ in the last bit. Python's `math` asks the C library, too, so
it serves where a whole number follows. Whatever else reaches what is released takes these functions
from here; np.log and its like stay for what only the operator sees, and where an exact decision
follows (`anonymizers/noise/samplers.py`).

numpy's sums (`sum`, `cumsum`, `bincount`), quantiles and interpolation need nothing of the kind:
they add in an order that follows from the shapes, whatever the width of a vector. So do products of
scipy's sparse matrices. A dense product, `@`, asks BLAS, which has other code for each processor.

Only operations are used whose result IEEE 754 fixes to the last bit: the four of arithmetic,
rounding to whole numbers, comparisons, and shifts of the bits themselves. Each is a call of its
own, so no compiler can fuse two of them.

The method is that of fdlibm (Sun Microsystems 1993; K. C. Ng), on arrays. The argument is brought
near 0 or 1 with a power of 2, by ln 2 in two parts of which the first has so few digits that its
multiples are exact. There a polynomial is used, which is off by less than a tenth of the last
place.

Errors, in units of the last place of the result, away from subnormal results: `exp` and `log` less
than 1, `expm1` and `log1p` less than 3, `power` less than 2 + 2 |exponent ln base|. Of 0,
infinities and NaN, and beyond the range of floats, the results are numpy's, but nothing warns.
Results of numbers are numbers of numpy, those of arrays new arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

# ln 2 to 33 bits, whose multiples up to 2^20 are exact, and the rest of it.
_LN_2_HEAD = float.fromhex("0x1.62e42fefp-1")
_LN_2_REST = float.fromhex("0x1.473de6af278edp-34")
_PER_LN_2 = float.fromhex("0x1.71547652b82fep+0")
# Below the first number e^x rounds to 0, and above the second it is too large for a float.
_LOWEST, _HIGHEST = -746.0, 710.0
# fdlibm's coefficients, of polynomials in x^2 and s^2: x coth(x / 2) - 2 over x^2, which e^x is
# made of, and ln((1 + s) / (1 - s)) / s - 2 over s^2. Off by less than 2^-58 of the functions.
_OF_EXP = tuple(
    float.fromhex(digits)
    for digits in (
        *("0x1.555555555553ep-3", "-0x1.6c16c16bebd93p-9", "0x1.1566aaf25de2cp-14"),
        *("-0x1.bbd41c5d26bf1p-20", "0x1.6376972bea4d0p-25"),
    )
)
_OF_LOG = tuple(
    float.fromhex(digits)
    for digits in (
        *("0x1.5555555555593p-1", "0x1.999999997fa04p-2", "0x1.2492494229359p-2"),
        *("0x1.c71c51d8e78afp-3", "0x1.7466496cb03dep-3", "0x1.39a09d078c69fp-3"),
        "0x1.2f112df3e5244p-3",
    )
)
_FRACTION_BITS, _BIAS = 52, 1023
_ROOT_OF_HALF = 0x3FE6A09E667F3BCD  # its bits
_LEAST_NORMAL, _LIFT = 2.0**-1022, 54
# To a number of 2 to this power or more, adding 1 changes nothing that a float can hold.
_ONE_IS_LOST = 60
# What is worked on at once, so that it stays in the processor's cache.
_BLOCK = 1 << 13


def exp(x: npt.ArrayLike) -> np.ndarray:
    """Returns float64, e^x."""
    return _blockwise(_exp, x)


def expm1(x: npt.ArrayLike) -> np.ndarray:
    """Returns float64, e^x - 1, with all its digits where x is small."""
    return _blockwise(_expm1, x)


def log(x: npt.ArrayLike) -> np.ndarray:
    """Returns float64, the natural logarithm; -inf of 0, NaN of what is negative."""
    return _blockwise(_log, x)


def log1p(x: npt.ArrayLike) -> np.ndarray:
    """Returns float64, the natural logarithm of 1 + x, with all its digits where x is small."""
    return _blockwise(_log1p, x)


def power(base: npt.ArrayLike, exponent: npt.ArrayLike) -> np.ndarray:
    """Returns float64, base^exponent.

    Args:
        base: Positive and finite; anything else is NaN.
        exponent: Finite; broadcast with the base.
    """
    base = np.asarray(base, np.float64)
    is_usable = (base > 0) & (base < np.inf)
    logs = log(np.where(is_usable, base, np.nan))
    return exp(np.asarray(exponent, np.float64) * logs)


def geometric_steps(first: float, last: float, n: int) -> np.ndarray:
    """Returns float64[n], from the first number to the last, evenly spaced in their logarithm.

    Both ends are exact.

    Args:
        first: Positive.
        last: Positive.
        n: At least 2.
    """
    steps = first * power(last / first, np.arange(n) / (n - 1))
    steps[0], steps[-1] = first, last
    return steps


def product(vector: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Returns float64[n], the product `vector @ matrix`, summed row by row.

    That of a linear algebra library depends on the processor and on the number of its threads.

    Args:
        vector: float64[m].
        matrix: float64[m, n].
    """
    return (vector[:, np.newaxis] * matrix).sum(axis=0)


# --- The functions on one block -------------------------------------------------------------------


def _blockwise(function: Callable[[np.ndarray], np.ndarray], x: npt.ArrayLike) -> np.ndarray:
    values = np.asarray(x, np.float64)
    flat = values.ravel()
    results = np.empty_like(flat)
    with np.errstate(all="ignore"):
        for begin in range(0, len(flat), _BLOCK):
            results[begin : begin + _BLOCK] = function(flat[begin : begin + _BLOCK])
    return results.reshape(values.shape)[()]


def _exp(x: np.ndarray) -> np.ndarray:
    powers, grown = _reduced(x)
    grown += 1
    return np.where(x == x, _scaled(grown, powers), x)  # NaN


def _expm1(x: np.ndarray) -> np.ndarray:
    powers, grown = _reduced(x)
    # 2^n (1 + grown) - 1 with both of its large parts first: their difference is exact.
    few = np.minimum(powers, _ONE_IS_LOST)
    result = grown * _power_of_2(few) + (_power_of_2(few) - 1)
    result = np.where(powers == 0, grown, result)
    result = np.where(powers > _ONE_IS_LOST, _scaled(1 + grown, powers), result)
    return np.where((x != 0) & (x == x), result, x)  # -0 stays -0


def _log(x: np.ndarray) -> np.ndarray:
    is_usual = (x >= _LEAST_NORMAL) & (x < np.inf)
    if is_usual.all():
        return _log_of_usual(x)
    is_small = (x > 0) & (x < _LEAST_NORMAL)
    usual = np.where(is_small, x * 2.0**_LIFT, np.where(is_usual, x, 1.0))
    result = _log_of_usual(usual, np.where(is_small, _LIFT, 0))
    result = np.where(x < 0, np.nan, np.where(x == 0, -np.inf, result))
    return np.where((x == np.inf) | (x != x), x, result)


def _log_of_usual(x: np.ndarray, lift: np.ndarray | int = 0) -> np.ndarray:
    """ln(x / 2^lift), of x = 2^n (1 + f) with 1 + f between the root of a half and that of 2."""
    bits = x.view(np.int64)
    powers = (bits - _ROOT_OF_HALF) >> _FRACTION_BITS
    f = (bits - (powers << _FRACTION_BITS)).view(np.float64)
    f -= 1
    n = (powers - lift).astype(np.float64)
    # With s = f / (2 + f): ln(1 + f) = ln((1 + s) / (1 - s)) = f - f^2 / 2 + s (f^2 / 2 + rest(s)).
    s = f + 2
    np.divide(f, s, out=s)
    square = s * s
    rest = _polynomial(_OF_LOG, square)
    rest *= square
    half = np.multiply(f, f, out=square)
    half *= 0.5
    rest += half
    rest *= s
    rest += np.multiply(n, _LN_2_REST, out=s)
    half -= rest
    half -= f
    n *= _LN_2_HEAD
    n -= half
    return n


def _log1p(x: np.ndarray) -> np.ndarray:
    # Kahan's correction: rounding 1 + x to u moves log(u) and u - 1 by the same proportion, so the
    # quotient x / (u - 1) takes the error of the logarithm back.
    u = 1 + x
    result = _log(u) * (x / (u - 1))
    return np.where((u == 1) | (x == np.inf), x, result)


def _reduced(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64[n] and float64[n]: whole powers of 2 and e^rest - 1, of x = power ln 2 + rest."""
    x = np.fmax(x, _LOWEST)  # also of NaN
    np.minimum(x, _HIGHEST, out=x)
    n = x * _PER_LN_2
    np.rint(n, out=n)
    powers = n.astype(np.int64)
    x -= np.multiply(n, _LN_2_HEAD)
    n *= _LN_2_REST
    r = x - n
    x -= r
    x -= n  # what the difference lost
    # With c = 2 - r coth(r / 2) + r, e^r - 1 is r + r c / (2 - c).
    square = np.multiply(r, r, out=n)
    c = _polynomial(_OF_EXP, square)
    c *= square
    np.subtract(r, c, out=c)
    grown = np.multiply(r, c, out=square)
    np.subtract(2, c, out=c)
    grown /= c
    grown += x
    grown += r
    return powers, grown


def _polynomial(coefficients: Sequence[float], x: np.ndarray) -> np.ndarray:
    """The sum of coefficients x^k, k from 0 on (Horner), of two or more."""
    result = x * coefficients[-1]
    result += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result *= x
        result += coefficient
    return result


def _power_of_2(powers: np.ndarray) -> np.ndarray:
    """2^n; 0 instead of what is subnormal."""
    bits = powers + _BIAS
    np.maximum(bits, 0, out=bits)
    bits <<= _FRACTION_BITS
    return bits.view(np.float64)


def _scaled(values: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Values times 2^n, in two steps of which only the last can round: below the normal floats."""
    half = powers >> 1
    result = values * _power_of_2(half)
    result *= _power_of_2(powers - half)
    return result
