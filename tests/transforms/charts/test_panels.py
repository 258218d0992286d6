"""Which numbers are drawn together, and as what, by their groups alone."""

from tracecloak.schemas.published.figures import IndicatorRow
from tracecloak.transforms.pages.indicators_part import split


def rows(indicator: str, *groups: str | None, unit: str = "s") -> list[IndicatorRow]:
    return [IndicatorRow(indicator, group, 2.0, 1.0, 3.0, unit, "measured") for group in groups]


BINS = ("0 seconds to 6 days", "6 days to 12 days", "12 days to 18 days")


def test_groups_say_how_they_are_drawn() -> None:
    for groups, unit, shown in [
        (("2026-01", "2026-02"), "cases", [("time", "", ("2026-01", "2026-02"))]),
        (("2026-Q1", "2026-Q2"), "s", [("time", "", ("2026-Q1", "2026-Q2"))]),
        (("2025-W52", "2026-W01"), "s", [("time", "", ("2025-W52", "2026-W01"))]),
        # In no order of time.
        (("2026-02", "2026-01"), "s", [("rows", "", ("2026-02", "2026-01"))]),
        (("Admission", "CRP"), "s", [("rows", "", ("Admission", "CRP"))]),
        (("0.25", "0.5"), "s", [("quantiles", "", ("0.25", "0.5"))]),
        (
            ("2026-01, 0.25", "2026-01, 0.5", "2026-02, 0.25", "2026-02, 0.5"),
            "s",
            [("time", "0.25", ("2026-01", "2026-02")), ("time", "0.5", ("2026-01", "2026-02"))],
        ),
        (
            ("a, b, 0.5", "c, 0.5"),
            "",
            [("rows", "0.5", ("a, b", "c"))],
        ),
        (BINS, "cases", [("histogram", "", BINS)]),
        (("0 to 2.5", "2.5 to 5"), "cases", [("histogram", "", ("0 to 2.5", "2.5 to 5"))]),
        (
            tuple(f"{name}, {bin_}" for name in "AB" for bin_ in BINS),
            "cases",
            [("histogram", "A", BINS), ("histogram", "B", BINS)],
        ),
        # Names that only look like it: what follows does not begin where the one before ends.
        (("A to B", "C to D"), "cases", [("rows", "", ("A to B", "C to D"))]),
        (BINS[:1], "cases", [("rows", "", BINS[:1])]),
    ]:
        alone, panels = split(rows("figure", *groups, unit=unit))
        assert not alone
        assert [(panel.form, panel.of, panel.labels) for panel in panels] == shown


def test_figures_without_groups_stand_alone_and_nothing_is_lost() -> None:
    released = [
        *rows("cases", None, unit="cases"),
        *rows("by month", "2026-01", "2026-02"),
        *rows("rework", None, unit="share"),
        *rows("quantiles", "A, 0.5", "A, 0.9", "B, 0.5", "B, 0.9"),
    ]
    alone, panels = split(released)
    assert [row.indicator for row in alone] == ["cases", "rework"]
    drawn = [row for panel in panels for row in panel.rows]
    assert sorted(map(id, [*alone, *drawn])) == sorted(map(id, released))


def test_the_edges_of_a_histogram_are_short() -> None:
    groups = ("0 seconds to 2 days 9 hours 36 minutes", "2 days 9 hours 36 minutes to 1 minute")
    [panel] = split(rows("figure", *groups, unit="cases"))[1]
    assert panel.edges == ("0", "2 d 9 h", "1 min")
    days = "923 days 15 hours 2 minutes"
    [panel] = split(rows("figure", f"0 seconds to {days}", f"{days} to 10 seconds", unit="cases"))[
        1
    ]
    assert panel.edges == ("0", "923 d", "10 s")
    assert split(rows("figure", "A", "B"))[1][0].edges == ()
