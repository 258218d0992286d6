"""Words of a release's key, and published noise that is drawn from them."""

from __future__ import annotations

import copy
import hashlib
import hmac
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness, release_key
from tests.support.silence import MeasureRecorder
from tracecloak.anonymizers.amun.params import laplace_by_inversion
from tracecloak.anonymizers.noise import published
from tracecloak.anonymizers.noise.randomness import (
    KeyedBlocks,
    Randomness,
    ReleaseKey,
    below,
    cell_numbers,
    text_digest,
    uniform,
)
from tracecloak.anonymizers.noise.samplers import CellStream, discrete_laplace
from tracecloak.anonymizers.noise.sums import SumNoise, backed_off, noisy_counts
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.clipped_flows import CaseCells, ClippedCells

TOP = 2**64 - 1
CELLS = np.array([[0, 0], [1, 0], [0, 1], [TOP, TOP], [3, 1 << 40]], np.uint64)

texts = st.lists(st.text(max_size=40), max_size=12)
words_64 = st.integers(0, TOP)
cells = st.lists(st.tuples(words_64, words_64), max_size=20).map(
    lambda rows: np.array(rows, np.uint64).reshape(-1, 2)
)


def column(names: list[str]) -> pa.Array:
    return pa.array(names, pa.string())


def one_block(key: bytes, block: bytes) -> bytes:
    """AES-256 of one block, by the `cryptography` package alone."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def naive_cbc_mac(key: bytes, text: str) -> bytes:
    """First the length, then the bytes in words of 8, the last one padded with zeros."""
    raw = text.encode()
    state = one_block(key, bytes(8) + len(raw).to_bytes(8, "little"))
    if len(raw) > 4096:
        raw = hashlib.sha256(raw).digest()
    for start in range(0, len(raw), 8):
        word = raw[start : start + 8].ljust(8, b"\0")
        mixed = bytes(a ^ b for a, b in zip(state[:8], word, strict=True)) + state[8:]
        state = one_block(key, mixed)
    return state


def test_a_key_of_another_length_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError, match="32 bytes, got 31"):
        ReleaseKey(b"x" * 31)


@pytest.mark.parametrize("value", [release_key(), randomness()], ids=["key", "randomness"])
@pytest.mark.parametrize(
    "travels",
    [pickle.dumps, copy.copy, copy.deepcopy, lambda value: pickle.dumps([value], protocol=2)],
    ids=["pickle", "copy", "deepcopy", "protocol 2"],
)
def test_what_holds_the_secret_does_not_pickle(
    value: Any, travels: Callable[[Any], object]
) -> None:
    with pytest.raises(TypeError, match="does not pickle"):
        travels(value)


@pytest.mark.parametrize(
    "other",
    [
        (1, "r", "i", "c"),
        (0, "s", "i", "c"),
        (0, "r", "j", "c"),
        (0, "r", "i", "d"),
        # The same letters, parted elsewhere.
        (0, "ri", "", "c"),
        (0, "r", "ic", ""),
    ],
)
def test_key_release_input_and_configuration_each_change_every_word(
    other: tuple[int, str, str, str],
) -> None:
    ours, theirs = randomness(0, "r", "i", "c"), randomness(*other)
    assert (ours.words("purpose", CELLS) != theirs.words("purpose", CELLS)).all()
    names = column(["a", "b", ""])
    assert (ours.identify("case", names) != theirs.identify("case", names)).all()


def test_purpose_cell_and_counter_each_change_the_words() -> None:
    keyed = randomness()
    results = [
        tuple(keyed.words(purpose, np.array([cell], np.uint64), counter)[0].tolist())
        for purpose in ("a", "b", "")
        for cell in ((0, 0), (1, 0), (5, 0))
        for counter in (0, 1, 2, 1 << 32, 1 << 62)
    ]
    assert len(set(results)) == len(results)


@given(cells, st.randoms(use_true_random=False), st.integers(0, 2**63 - 1))
def test_words_do_not_depend_on_batches_or_their_order(
    all_cells: np.ndarray, order: Any, counter: int
) -> None:
    whole = randomness().words("p", all_cells, counter)
    places = list(range(len(all_cells)))
    order.shuffle(places)
    np.testing.assert_array_equal(
        randomness().words("p", all_cells[places], counter), whole[places]
    )
    cut = order.randint(0, len(all_cells))
    keyed = randomness()
    parts = [keyed.words("p", part, counter) for part in (all_cells[:cut], all_cells[cut:])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_the_derivation_is_the_documented_one() -> None:
    """Pins the format: a change of it changes every release that is repeated under its key."""
    key = release_key(2)
    parts = (b"release 7", b"input", "Zürich".encode())
    info = b"tracecloak/1/release/" + b"".join(len(p).to_bytes(8, "big") + p for p in parts)
    root = HKDF(SHA256(), 32, salt=None, info=info).derive(bytes.fromhex(key.hex()))
    keyed = Randomness(key, "release 7", "input", "Zürich")

    secret = hmac.digest(root, b"amun/time", hashlib.sha256)
    block = (11).to_bytes(8, "little") + (13 ^ 6).to_bytes(8, "little")
    word = keyed.words("amun/time", np.array([[11, 13]], np.uint64), 6)
    assert word.astype("<u8").tobytes() == one_block(secret, block)

    secret = hmac.digest(root, b"identity/case", hashlib.sha256)
    identity = keyed.identify("case", column(["case 1"]))
    assert identity.astype("<u8").tobytes() == naive_cbc_mac(secret, "case 1")


@given(texts)
def test_texts_go_through_a_cbc_mac_with_their_length_in_front(names: list[str]) -> None:
    key = bytes(range(32))
    out = KeyedBlocks(key).text_blocks(column(names))
    assert out.tobytes() == b"".join(naive_cbc_mac(key, name) for name in names)


def test_uniform_is_never_0_or_1() -> None:
    extremes = [0, 1, 2**11, 2**12, 2**63, TOP - 2**12, TOP - 2**11, TOP - 1, TOP]
    numbers = uniform(np.array(extremes, np.uint64))
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    assert numbers[0] == 2.0**-53
    assert numbers[-1] == 1 - 2.0**-53


@given(words_64, st.integers(1, 2**63 - 1))
def test_below_stays_below_its_bound(word: int, bound: int) -> None:
    number = below(np.array([word], np.uint64), np.array([bound]))
    assert number.dtype == np.int64
    assert number[0] == word % bound


def test_a_text_digest_is_sha_256_of_lengths_and_texts() -> None:
    raw = (2).to_bytes(8, "big") + b"ab" + (2).to_bytes(8, "big") + b"17"
    assert text_digest("ab", 17) == hashlib.sha256(raw).hexdigest()


def test_a_key_does_not_print() -> None:
    assert str([release_key(1)]) == f"[{release_key(1)}]" == "[ReleaseKey(…)]"


# --- Published noise ------------------------------------------------------------------------------


def cells_of(n: int) -> np.ndarray:
    return cell_numbers(np.arange(n))


def truncated_law(a: float, largest: int) -> dict[int, float]:
    """The law of a Laplace variable without its decimals, by its distribution function."""

    def below(x: float) -> float:
        return a**-x / 2 if x < 0 else 1 - a**x / 2

    return {j: below(j + (j >= 0)) - below(j - (j <= 0)) for j in range(-largest, largest + 1)}


def p_of(sample: np.ndarray, law: dict[int, float]) -> float:
    largest = max(law)
    observed = np.bincount(np.clip(sample, -largest, largest) + largest, minlength=2 * largest + 1)
    chances = np.array([law[j] for j in range(-largest, largest + 1)])
    chances[[0, -1]] += (1 - chances.sum()) / 2
    return p_value(observed, chances * len(sample))


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (10, 1), (1, 2)])
def test_truncated_noise_is_a_laplace_variable_without_its_decimals(
    numerator: int, denominator: int
) -> None:
    """With n = 200,000; control: discrete Laplace noise, and the law of a tenth more scale."""
    stream = CellStream(randomness(), "t", cells_of(200_000))
    sample = published.truncated_laplace(stream, numerator, denominator)
    law = truncated_law(math.exp(-denominator / numerator), 300)
    assert p_of(sample, law) > ALPHA
    wrong = discrete_laplace(
        CellStream(randomness(), "u", cells_of(200_000)), numerator, denominator
    )
    assert p_of(wrong, law) < ALPHA
    assert p_of(sample, truncated_law(math.exp(-denominator / numerator / 1.1), 300)) < ALPHA


def positive_law(count: int, a: float, largest: int) -> np.ndarray:
    """float64[largest], the law of a count with discrete Laplace noise that is positive, from 1."""
    weights = a ** np.abs(np.arange(1, largest + 1) - count)
    return weights / weights.sum()


@pytest.mark.parametrize("count", [0, 1, 2, 4])
@pytest.mark.parametrize("scale", [1, 5])
def test_positive_noise_has_the_conditional_law(count: int, scale: int) -> None:
    """With n = 100,000; control: counts that are just raised to 1."""
    n, a = 100_000, math.exp(-1 / scale)
    counts = np.full(n, count)
    sample = published.positive_laplace(randomness(), "p", cells_of(n), counts, (scale, 1))
    assert sample.min() >= 1
    expected = positive_law(count, a, 400) * n
    observed = np.bincount(np.minimum(sample, 400), minlength=401)[1:]
    assert p_value(observed, expected) > ALPHA

    noise = discrete_laplace(CellStream(randomness(), "c", cells_of(n)), scale, 1)
    clipped = np.bincount(np.clip(counts + noise, 1, 400), minlength=401)[1:]
    assert p_value(clipped, expected) < ALPHA


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
def test_what_a_positive_count_costs(epsilon: float) -> None:
    """The largest ratio of the laws of two counts, over all values, is what is stated."""
    a, largest = math.exp(-epsilon), 6000
    laws = [positive_law(count, a, largest) for count in range(12)]
    ratios = np.abs([np.log(laws[c][:40] / laws[c + 1][:40]) for c in range(11)])
    assert ratios.max() == pytest.approx(epsilon + published.positive_excess(epsilon), abs=1e-6)
    # A count of 0 is as one of 1.
    assert ratios[0].max() == pytest.approx(0, abs=1e-9)


TOP = 2**64 - 1
MINUS, PLUS = 0, 2**63  # the second word: its highest bit is the sign

words = st.integers(0, TOP)
scales = st.floats(0, 1e12, allow_nan=False)


def noise(size: int, sign: int, scale: float) -> int:
    drawn = laplace_by_inversion(np.array([[size, sign]], np.uint64), scale)
    assert drawn.dtype == np.int64
    return int(drawn[0])


@given(words, words, scales)
def test_noise_is_the_inverse_distribution_function_rounded_to_the_nearest_integer(
    size: int, sign: int, scale: float
) -> None:
    exact = -math.log(float(uniform(np.array([size], np.uint64))[0])) * scale
    nearest = round(exact)  # ties to even, as numpy's
    assert noise(size, sign, scale) == pytest.approx(
        nearest if sign >= PLUS else -nearest, abs=1e-9 * nearest + (exact % 1 == 0.5)
    )


@pytest.mark.by_day(6)
@pytest.mark.parametrize("scale", [1e18, 1e30, 1e300, math.inf])
@pytest.mark.parametrize("size", [0, 1, 2**63, TOP - 2**12])
def test_huge_scales_stay_where_two_of_them_add_up(size: int, scale: float) -> None:
    up, down = noise(size, PLUS, scale), noise(size, MINUS, scale)
    assert up == -down
    assert 0 <= up <= 2**61
    assert np.array([up]) + np.array([up]) > 0  # no wrap


WIDE = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


def sums_cells_of(counts: np.ndarray, units: int) -> ClippedCells:
    """One case an occurrence, so nothing is clipped."""
    keys = np.repeat(np.arange(len(counts)), counts)
    cells = CaseCells.of(np.arange(len(keys)), keys, len(keys), len(counts))
    return ClippedCells.from_cases(cells, units, units)


@pytest.mark.parametrize("units", [1, 1024])
def test_whole_counts_are_brought_onto_the_lattice_of_the_noise(units: int) -> None:
    counts = np.array([3, 0, 7, 0, 1])
    noise = SumNoise((5 * units, 1), units, False)
    noting = MeasureRecorder()
    keyed = randomness().with_noise(noting)
    found = noisy_counts(sums_cells_of(counts, 1), 5, noise, "cells", keyed, is_whole=True)
    [(purpose, sums, told)] = noting.told
    assert (purpose, sums.tolist(), told) == ("cells", (counts * units).tolist(), noise)
    assert found.tolist() == counts.tolist()


@given(
    st.lists(st.lists(WIDE, min_size=3, max_size=3), max_size=6),
    st.floats(0, 1e6),
    st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
)
def test_rows_become_shares(rows: list[list[float]], variance: float, prior: list[int]) -> None:
    shares = np.array(prior) / sum(prior)
    made = backed_off(np.array(rows, np.float64).reshape(-1, 3), variance, shares)
    assert made.shape == (len(rows), 3)
    assert (made >= 0).all()
    assert np.allclose(made.sum(axis=1), 1)
    for row, own in zip(rows, made, strict=True):
        if sum(row) <= 0:
            assert np.allclose(own, shares)
