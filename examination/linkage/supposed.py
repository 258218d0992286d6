"""What an attacker takes for granted of two releases of a growing log: how they were made.

Take a release in which events of activity X occur, made by a method that suppresses an activity in
the whole log or nowhere. Then no X is missing from it, so a case without X had none. Two such
releases show the same of a case in all elements that both have, and the later one shows perhaps
more, as the case went on. So a case of the earlier release can only be one of the later release
that *begins with the same common elements*, with the same times between them if both have these to
the same accuracy, and with the same sensitive values.

How far that goes depends on the method:

* `tlkc` with sets or sequences suppresses elements in the whole log: `elements`.
* `tlkc` with multisets can suppress second and later ones alone, so first ones are compared:
  `repetitions`.
* `k-anonymous-variants` leaves whole cases out, and the others as they are: `cases`.
* Where times are known, `tlkc` suppresses an element at certain times since the first event left,
  which the suppression itself moves; `k-anonymous-subtraces` shortens each variant in its own way,
  and `pretsa` gives cases other variants. Of these, events that were released exclude nothing for
  certain; sensitive values do: `anything`.

What is excluded by this is certain as long as it holds, a case only gets later events, and its
sensitive values stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tracecloak.examination.linkage.logs import is_release
from tracecloak.examination.measure.perspectives import RESOURCE
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.background_knowledge import Perspective, TimeUnit

Suppressed = Literal["elements", "repetitions", "cases", "anything"]
SUPPRESSED: tuple[str, ...] = get_args(Suppressed)
# Where nothing says which k was promised, a case is asked to have one other beside it.
DEFAULT_K = 2

_TLKC: dict[str, Suppressed] = {
    "set": "elements",
    "sequence": "elements",
    "multiset": "repetitions",
    "relative": "anything",
}


@dataclass(frozen=True)
class Making:
    """How one release was made, as everybody can read in its manifest.

    Attributes:
        suppressed: What was left out; see the module.
        perspective: What an element is that was suppressed.
        time_unit: Accuracy of its times since the first event; None: not known.
        resources: The declaration of its resources, as JSON; empty: none.
        sensitive: Its sensitive attributes with their declarations as JSON; of files all that are
            asked for, undeclared.
        k: How many cases the release promises to be alike; None: it says none.
    """

    suppressed: Suppressed = "elements"
    perspective: Perspective = "activity"
    time_unit: TimeUnit | None = None
    resources: str = ""
    sensitive: Mapping[str, str] = field(default_factory=dict)
    k: int | None = None


def making_of(path: str, files: Making) -> Making:
    """Reads how a release was made.

    Args:
        path: A release's folder, the folder of releases whose latest is meant, or files.
        files: What is supposed of files.

    Raises:
        UsageError: The release is of a method that promises no syntactic property.
    """
    if not is_release(path):
        return files
    manifest = Received.at(path).body
    if manifest["guarantee"]["kind"] != "syntactic":
        raise UsageError(
            f"released {path!r} is of {manifest['method']}, which draws noise: attacks across "
            "releases are on syntactic methods. What several noisy releases tell together is what "
            "the ledger adds up; leave out --growing"
        )
    return _making(manifest["method"], manifest["params"])


def _making(method: str, params: Mapping[str, Any]) -> Making:
    sensitive = {name: json.dumps(of) for name, of in params.get("sensitive", {}).items()}
    resources, perspective = params.get("resources") or {}, params.get("perspective", "activity")
    k, unit = params.get("k"), params.get("time_unit")
    suppressed: Suppressed = "anything"
    if method == "tlkc":
        suppressed = _TLKC[params["knowledge_kind"]]
    elif method == "k-anonymous-variants":
        suppressed = "cases"
    if perspective != "activity" and RESOURCE not in resources:
        suppressed, perspective = "anything", "activity"
    return Making(suppressed, perspective, unit, json.dumps(resources), sensitive, k)


@dataclass(frozen=True)
class Supposed:
    """What is taken for granted of an earlier and a later release.

    Attributes:
        earlier: How the earlier one was made.
        later: How the later one was made.
        grows: Whether a case can go on after the earlier release.
    """

    earlier: Making
    later: Making
    grows: bool = True

    @property
    def is_traced(self) -> bool:
        """Whether released events exclude anything."""
        both = (self.earlier, self.later)
        alike = self.earlier.perspective == self.later.perspective and (
            self.earlier.perspective == "activity" or self.earlier.resources == self.later.resources
        )
        return alike and all(making.suppressed != "anything" for making in both)

    @property
    def perspective(self) -> Perspective:
        """What an element is."""
        return self.earlier.perspective if self.is_traced else "activity"

    @property
    def first_only(self) -> bool:
        """Whether only the first of equal elements of a case is compared."""
        return "repetitions" in (self.earlier.suppressed, self.later.suppressed)

    @property
    def time_unit(self) -> TimeUnit | None:
        """To which times between events are compared; None: not at all."""
        same = self.earlier.time_unit == self.later.time_unit
        return self.earlier.time_unit if self.is_traced and same else None

    @property
    def vanishing(self) -> Literal["any", "empty"]:
        """Which cases of the earlier release can be missing from the later one."""
        return "empty" if self.is_traced and self.later.suppressed != "cases" else "any"

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Attributes of the case that both released alike."""
        return tuple(
            name
            for name, declared in self.earlier.sensitive.items()
            if self.later.sensitive.get(name) == declared
        )

    def sentences(self) -> Iterator[str]:
        """Yields what is taken for granted, for a reader."""
        if self.is_traced:
            what = "first of equal elements" if self.first_only else "elements"
            how = "begins with" if self.grows else "has exactly"
            times = f", with the same {self.time_unit} between them" if self.time_unit else ""
            yield (
                "A case of the earlier release can only be one of the later release that "
                f"{how} the same {what} that both releases show{times}."
            )
        else:
            yield (
                "The events of a released case exclude nothing for certain, as these releases "
                "shorten or change each case in its own way."
            )
        if self.sensitive:
            yield f"The same case has the same {', '.join(self.sensitive)} in both."
        if self.vanishing == "any":
            yield "A case of the earlier release may be missing from the later one."
        else:
            yield (
                "Every case of the earlier release is in the later one, but for those with no "
                "element that the later one shows."
            )
