"""What can be compared at the same true epsilon, on the same public facts, and released in memory.

A contender releases variants, a log with times, or a graph. Most are methods of the registry;
peers, methods of others, are compared and not offered for releases.

`travas` is partition selection with truncated geometric noise (Rafiei, Wangelik and van der Aalst,
"TraVaS: Differentially Private Trace Variant Selection for Process Mining", 2022; Desfontaines,
Voss, Gipson and Mandayam 2022 for the noise): variants, each with the noise that no count outgrows.
It is what `variant-histogram` does with truncated noise.

`private-pgm` is Private-PGM (McKenna, Sheldon and Miklau, "Graphical-model based estimation and
inference for differential privacy", ICML 2019) on cases as records of positions: the marginals of
every two positions that follow each other, with Gaussian noise that is accounted jointly. Its
library, mbi, is not ours and no extra: it is imported when the peer is asked for.

`palsyn` is PALSYN (Kuhn, Grüger and Bergmann, "PALSYN: a method for synthetic multi-perspective
event log generation with differential private guarantees", Process Science 2, 2025). Its code needs
versions of TensorFlow and pandas that cannot be beside ours, and is on no registry, so its figures
are recorded (`examination.comparison.report`).
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
import pydantic

from tracecloak.anonymizers.accounting.joint import block_scale, joint_deviation
from tracecloak.anonymizers.contract.in_memory import MethodRun, execute
from tracecloak.anonymizers.contract.method import Anonymizer
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey, cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, draw_gaussian
from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.examination.attack.releases import Releases, fresh_keys
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.measure.intervals import noise_half_width, variants_of_records
from tracecloak.schemas.arrays.merging import ranges, sum_groups
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedTree
from tracecloak.schemas.statistics.variants import VariantHistogram

TRAVAS, PRIVATE_PGM, PALSYN = "travas", "private-pgm", "palsyn"

# Of mirror descent. On a chain of marginals the loss is flat long before.
_ROUNDS = 1000


def require_mbi() -> Any:
    """Imports mbi.

    Raises:
        UsageError: It is not installed.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of its floats and caches
            return importlib.import_module("mbi")
    except ImportError:
        raise UsageError(
            f"the peer {PRIVATE_PGM} needs mbi, the library of its authors, which is not "
            "installed and is no extra of tracecloak: run pip install mbi, or leave the peer out"
        ) from None


@dataclass(frozen=True, eq=False)
class PrivatePgm:
    """Private-PGM on one log at one epsilon.

    Attributes:
        cut: The variants of cases that were cut at `max_length`.
        n_names: Codes are below it.
        max_length: Positions of a record.
        epsilon: As text.
        delta: As text, above 0.
    """

    cut: VariantHistogram
    n_names: int
    max_length: int
    epsilon: str
    delta: str

    @property
    def marginals(self) -> tuple[tuple[int, ...], ...]:
        """Positions of each marginal."""
        return tuple((i, i + 1) for i in range(self.max_length - 1)) or ((0,),)

    @property
    def scale(self) -> tuple[int, int]:
        """Parameter of the discrete Gaussian noise of each cell.

        One case is in one cell of each marginal: as many blocks of sensitivity 1 with equal shares.

        Raises:
            UsageError: Epsilon or delta is out of range.
        """
        deviation = joint_deviation(Fraction(self.epsilon), Fraction(self.delta))
        return block_scale(deviation, Fraction(1, len(self.marginals)), 1)

    def measured(self, randomness: Randomness) -> list[np.ndarray]:
        """Returns int64[n_cells] with noise, of each marginal."""
        records, width = self._records(), self.n_names + 1
        noisy_counts = []
        for number, positions in enumerate(self.marginals):
            cells = np.zeros(len(records), np.int64)
            for position in positions:
                cells = cells * width + records[:, position]
            counts = sum_groups(cells, self.cut.counts, width ** len(positions))
            stream = CellStream(randomness, f"pgm {number}", cell_numbers(np.arange(len(counts))))
            noisy_counts.append(counts + draw_gaussian(stream, *self.scale))
        return noisy_counts

    def release(self, randomness: Randomness) -> VariantHistogram:
        """Returns the variants of one release.

        Raises:
            UsageError: mbi is not installed.
        """
        mbi = require_mbi()
        names = [f"p{i}" for i in range(self.max_length)]
        noisy = self.measured(randomness)
        deviation = self.scale[0] / self.scale[1]
        cliques = [tuple(names[i] for i in positions) for positions in self.marginals]
        # The mean of the marginals' sums is the best estimate of the number of cases.
        n_cases = max(round(float(np.mean([cells.sum() for cells in noisy]))), 1)
        domain = mbi.Domain(names, [self.n_names + 1] * self.max_length)
        with warnings.catch_warnings(action="ignore"):
            measured = [
                mbi.LinearMeasurement(cells.astype(np.float64), clique, deviation)
                for cells, clique in zip(noisy, cliques, strict=True)
            ]
            estimator = mbi.estimation.MirrorDescent()
            model = estimator.estimate(domain, measured, known_total=float(n_cases), iters=_ROUNDS)
            columns = model.synthetic_data(rows=n_cases).to_dict()
        return variants_of_records(np.stack([columns[name] for name in names], axis=1),
                                   self.n_names)  # fmt: skip

    def _records(self) -> np.ndarray:
        """int64[n_variants, max_length], the activities, and n_names after the last."""
        lengths = np.diff(self.cut.offsets)
        records = np.full((len(lengths), self.max_length), self.n_names, np.int64)
        row = np.repeat(np.arange(len(lengths)), lengths)
        records[row, ranges(0, lengths)] = self.cut.codes
        return records


def chosen_peers(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of peers that can run here, or are recorded.

    Raises:
        UsageError: One is none, is there twice, or its library is not installed.
    """
    for name in names:
        if name not in PEERS:
            raise UsageError(f"peers must be of {', '.join(PEERS)}, got {name!r}")
        if names.count(name) > 1:
            raise UsageError(f"peers {name!r} is there twice: leave one out")
    if PRIVATE_PGM in names:
        require_mbi()
    return tuple(names)


Kind = Literal["variants", "log", "graph"]
KINDS: tuple[Kind, ...] = ("variants", "log", "graph")

_PUBLIC = {"epsilon", "delta", "vocabulary", "max_trace_length"}
_DATES = {"first_date", "last_date"}
_COMPARABLE = (
    "what is compared takes epsilon, delta, vocabulary and max_trace_length, spends all of "
    "epsilon, and publishes variants that its one round `variants` decides, a dfg, or a log"
)


@dataclass(frozen=True)
class Released:
    """One release in memory.

    Attributes:
        variants: In the codes of the original's vocabulary; none of a graph, and of a tree.
        traces: A log with times, in these codes, or None.
        seconds: What the release took, from cases in memory on.
        graph: A directly-follows graph, or None.
        half_width: Half the 95 % interval of the noise of the graph; None: there is no graph, or it
            is not known.
        tree: A process tree, or None.
    """

    variants: VariantHistogram = field(default_factory=lambda: VariantHistogram.merge(()))
    traces: TraceBatch | None = None
    seconds: float = 0.0
    graph: ReleasedGraph | None = None
    half_width: float | None = None
    tree: ReleasedTree | None = None


# Makes one release, under a key of its own.
Release = Callable[[], Released]


def released_in_memory(
    original: Original,
    method: Anonymizer,
    params: Any,
    needs_log: bool,
    many: Releases | None = None,
) -> Released:
    """Makes one release of a log, under a fresh key, and verifies it where that is due.

    Args:
        original: The log.
        method: The method.
        params: Its parameters.
        needs_log: Whether the released log is wanted, where the method has another product.
        many: The releases that it is one of, which count once; None: it is one by itself.

    Raises:
        UsageError: The method refuses the log with its parameters.
        GuaranteeError: It cannot keep its promise on this log, or has not.
    """
    begun = time.perf_counter()
    if many is None:
        run = MethodRun(method, params, ReleaseKey.generate(), "comparison", "")
        cases, found, _ = execute(run, [original.traces])
    else:
        cases, found, _ = many.release("comparison")
    if not needs_log and {"variants", "tree", "dfg"} & {*method.writes(params)}:
        products: Mapping[str, Any] = found.by_name
        seconds = time.perf_counter() - begun
        if "variants" in products:
            return Released(products["variants"].counted(original.vocabulary), seconds=seconds)
        spends = [spend.to_json() for spend in method.spends(params)]
        width = noise_half_width({"params": params.resolved(), "spends": spends})
        graph, tree = products.get("dfg"), products.get("tree")
        return Released(seconds=seconds, graph=graph, half_width=width, tree=tree)
    made = list(cases)
    seconds = time.perf_counter() - begun
    if method.verifies:
        method.verify(made, params)
    traces = TraceBatch.concat([batch.recode(original.vocabulary) for batch in made])
    return Released(VariantHistogram.from_traces(traces), traces, seconds)


@dataclass(frozen=True)
class Registered:
    """A method of the registry.

    Attributes:
        method: The method.
        kind: What it releases.
        given: Parameters beside the budget and the public facts.
    """

    method: Anonymizer
    kind: Kind
    given: Mapping[str, Any] = field(default_factory=dict)

    def parameters(
        self,
        epsilon: str,
        delta: str,
        names: Sequence[str],
        max_length: int,
        dates: tuple[str, str] = ("2000-01-01", "2000-12-31"),
    ) -> Any:
        """Returns the method's parameters on public facts.

        Raises:
            UsageError: Epsilon or delta is out of range, or the method has to be told more.
        """
        given: dict[str, Any] = {
            **self.given,
            "epsilon": epsilon,
            "delta": self.delta(delta),
            "vocabulary": tuple(names),
            "max_trace_length": max_length,
        }
        if self.kind == "log":
            given["first_date"], given["last_date"] = dates
        try:
            return self.method.Params(**given)
        except pydantic.ValidationError as error:
            raise usage_error(error) from None

    def delta(self, delta: str) -> str:
        """Returns the delta; 0 of a method whose example needs none."""
        return "0" if self.method.examples[0].get("delta") == "0" else delta

    def check(self, epsilon: str, delta: str) -> None:
        """Makes sure that a budget can be asked for."""
        self.parameters(epsilon, delta, ("A",), 1)

    def cell(self, original: Original, epsilon: str, delta: str) -> Release:
        """Returns what releases a log: counted once if one round of counts is all.

        Raises:
            UsageError: The method refuses the budget, or needs what is not there.
        """
        params = self.parameters(
            epsilon, delta, original.names, original.max_length, original.dates
        )
        self.method.spends(params)  # or is refused before anything is counted
        many = None
        if self.kind == "variants":
            many = Releases(original.traces, self.method, params, fresh_keys())
        is_log = self.kind == "log"
        return partial(released_in_memory, original, self.method, params, is_log, many)


class Pgm:
    """The peer Private-PGM."""

    kind: Kind = "variants"

    def delta(self, delta: str) -> str:
        """Returns the delta: its noise is Gaussian."""
        return delta

    def check(self, epsilon: str, delta: str) -> None:
        """Makes sure that a budget can be asked for."""
        empty = VariantHistogram.merge(())
        _ = PrivatePgm(empty, 1, 1, epsilon, delta).scale

    def cell(self, original: Original, epsilon: str, delta: str) -> Release:
        """Returns what releases a log."""
        facts = len(original.vocabulary), original.max_length, epsilon, delta
        pgm = PrivatePgm(original.cut, *facts)

        def release() -> Released:
            begun = time.perf_counter()
            variants = pgm.release(Randomness(ReleaseKey.generate(), "comparison", "", ""))
            return Released(variants, seconds=time.perf_counter() - begun)

        return release


# Something that is compared.
Contender = Registered | Pgm


# What makes each peer; None: it cannot run in this process, and its figures are recorded.
PEERS: Mapping[str, Callable[[], Contender] | None] = {
    TRAVAS: lambda: Registered(
        method_named("variant-histogram"), "variants", {"noise": "truncated"}
    ),
    PRIVATE_PGM: Pgm,
    PALSYN: None,
}


def candidates() -> dict[str, Contender]:
    """Returns the methods that can be compared, by name.

    They promise a finite epsilon and spend all of it on what is compared if the activities, a
    length and, of a log with times, its dates are public: the epsilon of variants on the variants.
    `laplace-levels`, the published query that pays for its levels, is among them.
    """
    by_name: dict[str, Contender] = {}
    for name, method in sorted(METHODS.items()):
        contender = next(
            (one for kind in KINDS if _is_comparable(one := Registered(method, kind))), None
        )
        if contender is not None:
            by_name[name] = contender
    return by_name


def _is_comparable(contender: Registered) -> bool:
    method, kind = contender.method, contender.kind
    fields = set(method.Params.model_fields)
    if not fields >= _PUBLIC or (kind == "log") != (fields >= _DATES):
        return False
    try:
        params = contender.parameters("1", "1e-6", ("A",), 1)
        if method.guarantee(params).epsilon != 1:
            return False
    except UsageError:  # it needs to be told something else
        return False
    writes = method.writes(params)
    if kind == "variants":
        return method.rounds(params) == ("variants",) and "variants" in writes
    return method.log == "none" and "dfg" in writes if kind == "graph" else method.log != "none"


def chosen_methods(names: Sequence[str] | None, peers: Sequence[str] = ()) -> dict[str, Contender]:
    """Returns the methods of these names, or all, and the peers that run here.

    Raises:
        UsageError: One cannot be compared, or a peer cannot run here and is not recorded.
    """
    known = candidates()
    for name in names or ():
        if name not in known:
            hint = f"; {name} is one of the peers" if name in PEERS else ""
            if name in METHODS.removed:
                raise UsageError(METHODS.why_not(name))
            if name in METHODS:
                hint = f"; {name} is another kind of method: {_COMPARABLE}"
            raise UsageError(f"methods must be of {', '.join(known)}, got {name!r}{hint}")
    chosen = known if names is None else {name: known[name] for name in names}
    made = {name: make() for name in chosen_peers(peers) if (make := PEERS[name]) is not None}
    return {**chosen, **made}
