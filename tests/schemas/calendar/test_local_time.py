"""The clock of a zone: every change of its offset, from whatever zone files there are."""

from __future__ import annotations

import pickle
import shutil
import struct
import subprocess
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tzdata
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.record_files import canonical
from tracecloak.schemas.calendar import local_time
from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US

PACKAGE = Path(tzdata.__file__).parent / "zoneinfo"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def second(year: int, month: int = 1, day: int = 1) -> int:
    return int((datetime(year, month, day, tzinfo=UTC) - EPOCH).total_seconds())


def offset_us(zone: zoneinfo.ZoneInfo, at: int) -> int:
    """What the standard library says, for a second since 1970."""
    offset = (EPOCH + timedelta(seconds=at)).astimezone(zone).utcoffset() or timedelta()
    return offset // timedelta(microseconds=1)


def explicit_changes(name: str, folder: Path) -> list[int]:
    """The seconds at which a compiled zone file (RFC 8536) has a transition, of its 64-bit part."""
    data = (folder / name).read_bytes()
    counts = struct.Struct(">4sc15x6l")
    _, version, *first = counts.unpack_from(data)
    assert version >= b"2"
    is_utc, is_std, leap, n_times, n_types, n_chars = first
    skipped = n_times * 5 + n_types * 6 + n_chars + leap * 8 + is_std + is_utc
    begin = counts.size + skipped
    n_times = counts.unpack_from(data, begin)[5]
    return list(struct.unpack_from(f">{n_times}q", data, begin + counts.size))


def agrees(name: str, folder: Path) -> None:
    """A zone's table has the changes of 1900 to 2200 that the standard library has, and no other.

    It is looked at on both sides of each change that the table or the zone's file has, four times a
    day in years of rules alone, and at random.
    """
    zone, clock = zoneinfo.ZoneInfo(name), LocalClock.of(name)
    changes = clock.since_us[1:] // 1_000_000
    assert (changes * 1_000_000 == clock.since_us[1:]).all()
    assert (np.diff(changes) > 0).all() and (np.diff(clock.offsets_us) != 0).all()
    ours = changes[(changes >= second(1900)) & (changes < second(2200))]
    theirs = [at for at in explicit_changes(name, folder) if second(1800) <= at < second(2200)]
    rules = [range(second(y), second(y + 2), 21_600) for y in (2038, 2098, 2196, 2499, 2503)]
    draw = np.random.default_rng(len(name)).integers(second(1), second(9999, 12, 30), 300)
    moments = [*ours, *(ours - 1), *theirs, *(at - 1 for at in theirs), *draw.tolist()]
    moments = np.array([*moments, *(at for some in rules for at in some)])
    expected = np.array([offset_us(zone, int(at)) for at in moments])
    shown = clock.local_us(moments * 1_000_000) - moments * 1_000_000
    assert (shown == expected).all(), name
    of_file = [at for at in theirs if offset_us(zone, at) != offset_us(zone, at - 1)]
    assert set(of_file) <= set(changes.tolist()), name


@pytest.fixture(params=["fat", "slim", "package"])
def zone_files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Zone files with all changes up to 2037, with rules alone, and none but the package's."""
    folder = PACKAGE
    if request.param != "package":
        zic = shutil.which("zic")
        if zic is None:
            pytest.skip("there is no zic, which compiles zone files")
        source = PACKAGE / "tzdata.zi"
        folder = tmp_path / request.param
        subprocess.run([zic, "-b", request.param, "-d", folder, source], check=True)
    with only_zone_files(() if request.param == "package" else (folder,)):
        yield folder


@contextmanager
def only_zone_files(folders: tuple[Path, ...]) -> Iterator[None]:
    """Lets `zoneinfo`, and what was made of it, see some folders and the package alone."""

    def see(paths: tuple[str, ...]) -> None:
        zoneinfo.reset_tzpath(paths)
        zoneinfo.ZoneInfo.clear_cache()
        local_time.LocalClock.of.cache_clear()

    before = zoneinfo.TZPATH
    see(tuple(map(str, folders)))
    try:
        yield
    finally:
        see(before)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_changes_of_all_zones_are_those_of_the_standard_library(zone_files):
    names = sorted(zoneinfo.available_timezones() - {"localtime"})
    assert len(names) > 400
    for name in names:
        agrees(name, zone_files)


# --- what a clock shows ---------------------------------------------------------------------------


def around(clock: LocalClock) -> st.SearchStrategy[int]:
    """Local times near a change of the offset, and any."""
    near = st.builds(
        lambda place, off: int(clock.since_us[place] + clock.offsets_us[place]) + off,
        st.integers(1, len(clock.since_us) - 1),
        st.integers(-2 * 3_600_000_000, 2 * 3_600_000_000),
    )
    return near | st.integers(MIN_TIME_US, MAX_TIME_US)


@settings(deadline=None)
@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "Pacific/Apia"])
@given(data=st.data())
def test_a_time_is_read_as_the_first_moment_that_shows_it_or_the_end_of_its_gap(name, data):
    clock = LocalClock.of(name)
    local = data.draw(around(clock))
    moments = [local - int(offset) for offset in np.unique(clock.offsets_us)]
    showing = [at for at in moments if clock.local_us(np.array([at])) == local]
    got = int(clock.first_us(np.array([local]))[0])
    assert clock.is_shown(np.array([local])) == (min(len(showing), 2) - 1)
    if showing:
        assert got == min(showing)
    else:
        assert clock.local_us(np.array([got - 1])) < local < clock.local_us(np.array([got]))


@pytest.mark.parametrize(
    "cut", [lambda clock: clock, partial(LocalClock.within, first_us=5, last_us=7)]
)
def test_a_clock_travels_in_few_bytes(cut):
    clock = cut(LocalClock.of("Europe/Berlin"))
    data = pickle.dumps(clock)
    again = pickle.loads(data)  # noqa: S301 - it is ours
    assert len(data) < 25_000
    assert again.time_zone == clock.time_zone
    assert (again.since_us == clock.since_us).all() and (again.offsets_us == clock.offsets_us).all()


def test_a_mapping_reads_alike_where_zone_files_are_others(tmp_path):
    """Workers of a cluster have the zone files of their image, or none."""
    columns = {"case_id": ["c"], "activity": ["A"], "timestamp": ["2050-07-01T12:00"]}

    def read(mapping: ColumnMapping) -> list[int]:
        return canonical(columns, mapping)[0].column("timestamp").to_pylist()

    sent = pickle.dumps(ColumnMapping(time_zone="Europe/Berlin"))
    expected = [second(2050, 7) * 1_000_000 + 10 * 3_600_000_000]
    (tmp_path / "Europe").mkdir()
    shutil.copy(PACKAGE / "Asia/Tokyo", tmp_path / "Europe/Berlin")
    with only_zone_files((tmp_path,)):
        assert read(ColumnMapping(time_zone="Europe/Berlin")) != expected
        assert read(pickle.loads(sent)) == expected  # noqa: S301 - it is ours
