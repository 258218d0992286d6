"""One window of a schedule: which cases of a log it counts; without Beam."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.windows import Schedule, Window, members
from tracecloak.transforms.files import join, names_in, open_raw, write_new
from tracecloak.transforms.keys.wrapping import KeyReference

# A release of a window reads its input twice. First it writes down the units of the window's
# cases, which are then claimed in the book of counted units. Then the release is made of the
# cases whose units were claimed, as the frozen set has them, and of no others.


_ENDING = ".units"


@dataclass(frozen=True)
class WindowPart:
    """Which cases of a log are those of one window; it pickles.

    Attributes:
        schedule: The windows.
        window: One of them.
        book_key: Where workers find the key under which units are written down.
        by_individual: Whether the unit of privacy is the individual.
        found: Folder for the units that a first run over the log finds.
        frozen: File of the units that the release may count, once they are claimed.
    """

    schedule: Schedule
    window: Window
    book_key: KeyReference
    by_individual: bool
    found: str
    frozen: str

    def units(self, traces: TraceBatch) -> CountedUnits:
        """Returns the units of the cases of a batch that belong to the window."""
        belonging = members(traces, self.schedule, self.window)
        return CountedUnits.from_traces(belonging, self._key, self.by_individual)

    def counted(self, traces: TraceBatch) -> TraceBatch:
        """Returns the cases of a batch that belong to the window and may count.

        Its vocabulary has the names of their events alone.
        """
        belonging = members(traces, self.schedule, self.window)
        return self._frozen.kept(belonging, self._key).with_used_names()

    def write_units(self, traces: TraceBatch) -> None:
        """Writes down the units of a batch; the same units are the same file, however often."""
        data = self.units(traces).to_bytes()
        name = hashlib.sha256(data).hexdigest() + _ENDING
        write_new(join(self.found, name), data)

    def found_units(self) -> CountedUnits:
        """Returns all units that were found."""
        names = sorted(name for name in names_in(self.found) if name.endswith(_ENDING))
        paths = [join(self.found, name) for name in names]
        return CountedUnits.merge([CountedUnits.from_bytes(_read(path)) for path in paths])

    @cached_property
    def _key(self) -> Any:
        return self.book_key.resolve()

    @cached_property
    def _frozen(self) -> CountedUnits:
        return CountedUnits.from_bytes(_read(self.frozen))

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what each worker reads for itself, such as the key."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _read(path: str) -> bytes:
    with open_raw(path) as stream:
        return stream.read()
