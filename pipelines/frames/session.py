"""A session: questions about one log in memory, whose answers are releases that its account pays.

The log is read and grouped into cases once. An answer is the release of a plan like any other: in
the session's folder of releases, an entry of the ledger, with its statement and its manifest. So
the same question finds its answer, in whatever process, and pays nothing. What a preview says
follows from public numbers and from earlier answers, and from nothing else of the log.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Self

from narwhals.typing import IntoFrameT

from tracecloak.anonymizers.accounting.account_caps import loss_of
from tracecloak.anonymizers.accounting.composition import exact_text, total
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.configuration.config import FRAME, ReleaseConfig, checked_config
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.frames.frame_source import AnyFrame, FrameSource
from tracecloak.pipelines.frames.functions import (
    Released,
    check_keys,
    plan_with,
    released,
    source_over,
)
from tracecloak.pipelines.ledger.balance import Balance
from tracecloak.pipelines.planning.plan import Plan, plan_of
from tracecloak.pipelines.planning.utility import LARGEST_TRIED
from tracecloak.pipelines.runners.failures import redact_foreign_errors
from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.pipelines.runners.in_memory import KeepingDriver
from tracecloak.pipelines.screen.release_text import planned
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.pages.page import from_template
from tracecloak.transforms.sources import EventSource

QUESTIONS: dict[str, str] = {
    "indicators": "private-indicators",
    "map": "private-dfg",
    "variants": "variant-histogram",
}
"""The method that answers each question; a further line is a further question.

Each measures what it releases, so each number has an interval. `auto-variants` often comes closer
to the log, but its counts are fitted to several noisy sums or walked through a tree, and no
interval of theirs is proven; it can be had with `release`.
"""

PAGE_NAME = "session.md"
"""The page of an exported session."""

_OF_ONE_RELEASE = ("method", "params", "release_id")
# As many as a configuration may declare.
_MOST_CASES = 1_000_000


def session(
    frame: IntoFrameT,
    *,
    output: str | os.PathLike[str] = "answers",
    params: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Session[IntoFrameT]:
    """Returns a session of a log that is in memory; nothing is read or paid yet.

    Args:
        frame: See `release`; it must not change as long as the session lasts.
        output: Folder of the answers, each of which is a release.
        params: Parameters that all questions have in common, such as `vocabulary`; a question
            whose method lacks one does without it.
        **keys: Keys of a configuration, such as `case_id`, `account`, `ledger` or `key_store`.

    Returns:
        The session.

    Raises:
        TracecloakError: A key or a parameter is wrong, or this is no frame.
    """
    with redact_foreign_errors():
        return Session(AnyFrame.of(frame), params or {}, {"output": output, **keys})


class Session(Generic[IntoFrameT]):
    """Questions about one log, which it keeps in memory until it is closed; see `session`."""

    def __init__(
        self, log: AnyFrame | EventSource, params: Mapping[str, Any], keys: dict[str, Any]
    ) -> None:
        """Reads nothing yet.

        Args:
            log: A frame, or files and how they are read.
            params: Parameters that all questions have in common.
            keys: Of a configuration.

        Raises:
            UsageError: A key or a parameter is wrong.
        """
        for name in _OF_ONE_RELEASE:
            if name in keys:
                raise UsageError(f"{name} is of one release; leave it out, as each answer has one")
        check_keys(keys)
        methods = [*map(method_named, QUESTIONS.values())]
        known = {name for method in methods for name in method.Params.model_fields}
        if strange := sorted(params.keys() - known):
            raise UsageError(f"{strange[0]} in params is a parameter of no question; correct it")
        keys["output"] = os.fspath(keys["output"])
        of_any = {"log": FRAME, "runner": IN_MEMORY, "method": methods[0].name}
        self._config: ReleaseConfig = checked_config(None, {**of_any, **keys})
        self._log, self._params, self._keys = log, dict(params), keys
        self._driver = KeepingDriver()
        self._sources: dict[ColumnMapping, FrameSource] = {}
        self._answers: dict[str, Released[IntoFrameT]] = {}  # by the digest of their plan

    @property
    def answers(self) -> list[Released[IntoFrameT]]:
        """The answers so far, each once, in the order of their questions."""
        return [*self._answers.values()]

    @property
    def remaining(self) -> Balance | None:
        """What the account has spent and has left; None: it has neither a cap nor a charge yet.

        Raises:
            TracecloakError: The ledger cannot be read, or there is none and none is to be begun.
        """
        with redact_foreign_errors():
            ledger = open_ledger(self._config, open_store(self._config))
            with contextlib.suppress(UsageError):
                return ledger.balance(self._config.account)
            return None

    @property
    def operator_folder(self) -> str:
        """Where what only its operator may read of questions that failed lies."""
        config = self._config
        return config.dead_letter or open_store(config).operator_folder(config.output, "session")

    def preview(self, question: str, *, goal: str = "", **params: Any) -> Plan:
        """Returns what an answer would cost, and how far off it is expected to be; it is free.

        It follows from public numbers and earlier answers alone: where no `expected_cases` were
        given to the session, the number of cases is about that of the dearest answer that has one.
        It is of 100,000 cases at most: with more, an answer errs less than it says.

        Args:
            question: See `ask`.
            goal: How good the answer is to be, see `plan`.
            **params: See `ask`.

        Returns:
            The plan; `ask` would pay its `price`, unless another process has the answer already.

        Raises:
            TracecloakError: The question or a parameter is wrong.
        """
        with redact_foreign_errors():
            made = self.plan(question, params)
            if (n_cases := made.keys.expected_cases) and n_cases > LARGEST_TRIED:
                made = made.with_keys(expected_cases=LARGEST_TRIED)
            log = self._log
            is_unordered = log.is_lazy if isinstance(log, AnyFrame) else log.is_unordered
            unseen = EventSource((), SourceFormat(), made.mapping, is_unordered=is_unordered)
            if made.digest not in self._answers:
                return planned(made, unseen, goal)
            again = plan_of(made, unseen, "Costs nothing, as it was answered before.", goal)
            return replace(again, price=(Fraction(0), Fraction(0)))

    def plan(self, question: str, given: Mapping[str, Any]) -> ReleasePlan:
        """Returns what a question asks for; it follows from what a preview follows from.

        Args:
            question: See `ask`.
            given: Parameters, see `ask`.

        Raises:
            UsageError: The question or a parameter is wrong.
        """
        if question not in QUESTIONS:
            names = ", ".join(QUESTIONS)
            raise UsageError(f"question is {question!r}, and must be one of {names}")
        method = QUESTIONS[question]
        known = method_named(method).Params.model_fields
        if strange := sorted(given.keys() - known.keys()):
            raise UsageError(
                f"{strange[0]} is no parameter of {method}; correct it, or give a key of a "
                "configuration to `tracecloak.session`"
            )
        common = {name: value for name, value in self._params.items() if name in known}
        made = plan_with(method, {**common, **given}, dict(self._keys))
        n_cases = self._n_cases if made.keys.expected_cases is None else None
        # What is released already may refuse an answer that nobody could use, before it is paid.
        return made.with_keys(expected_cases=n_cases) if n_cases else made

    def ask(self, question: str, **params: Any) -> Released[IntoFrameT]:
        """Answers a question, and charges the account for it, unless it was answered before.

        Args:
            question: One of QUESTIONS: `indicators`, `map` or `variants`.
            **params: Parameters of its method, such as `epsilon`; they go before those that the
                session was given.

        Returns:
            The release that is the answer: its `indicators`, its `graph` or its `variants` are a
            frame with intervals, `low` and `high`.

        Raises:
            BudgetExhausted: The account has too little left; nothing was drawn.
            TracecloakError: Nothing was released, for the reason that the error's class and text
                give.
        """
        with redact_foreign_errors():
            made = self.plan(question, params)
            answer = released(made, self._source(made), self._keys, self._driver)
            self._answers[made.digest] = answer
            return answer

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Copies all answers into a folder of releases, beside a page of what they cost together.

        Args:
            folder: It is made if it is not there; answers that are there stay.

        Returns:
            The page, which follows from the manifests alone.
        """
        with redact_foreign_errors():
            page = Path(folder) / PAGE_NAME
            page.parent.mkdir(parents=True, exist_ok=True)
            for answer in self.answers:
                answer.export(folder)
            spends = [answer.spends for answer in self.answers]
            both = total(chain(*spends)) if all(spends) else None
            lines = from_template(
                __package__,
                "session.md.j2",
                rows=[(a.manifest, *map(exact_text, a.price)) for a in self.answers],
                total=both and [*map(exact_text, both)],
                composed=both
                and f"{min(loss_of(chain(*spends)).epsilon(both[1]), float(both[0])):.4g}",
                units=sorted({answer.manifest["guarantee"]["unit"] for answer in self.answers}),
            )
            page.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return page

    def read(self) -> None:
        """Reads the log, if it is not read yet, so that no answer has to.

        Raises:
            TracecloakError: It cannot be read.
        """
        with redact_foreign_errors():
            self._source(self.plan("map", {"epsilon": 1}))

    def close(self) -> None:
        """Removes what was kept of the log; the answers stay."""
        self._driver.close()
        self._sources.clear()

    def __enter__(self) -> Self:
        """Returns the session, which is closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the session."""
        self.close()

    def _source(self, plan: ReleasePlan) -> FrameSource:
        """Returns the events that a plan reads, which are read once."""
        mapping, log = plan.mapping, self._log
        if mapping not in self._sources:
            if isinstance(log, AnyFrame):
                source = source_over(log, plan)
            else:
                source = FrameSource.of_files(replace(log, mapping=mapping))
            self._sources[mapping] = source.with_digest()
        return self._sources[mapping]

    @property
    def _n_cases(self) -> int | None:
        """About the number of cases of the dearest answer that has one.

        To two digits, as a synthetic log of another size takes seconds to make.
        """
        noisy = [
            (a.price[0] or Fraction(0), a.manifest["came_out"]["n_cases"]) for a in self.answers
        ]
        found = max((one for one in noisy if one[1]), default=(0, None))[1]
        return found and min(int(float(f"{found:.1e}")), _MOST_CASES)
