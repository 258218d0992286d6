"""The file of metrics is one that Prometheus reads, is whole at any moment, and has no count."""

from __future__ import annotations

import dataclasses
import logging
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tracecloak.pipelines.outcomes.metrics import (
    METRICS,
    Readings,
    check_metrics,
    metrics_text,
    note_metrics,
)
from tracecloak.schemas.errors import UsageError

ALL_WELL = Readings(
    "ward.yaml",
    "hospital",
    "ward",
    {
        "release_last_attempt_timestamp_seconds": 1_795_400_000.25,
        "release_last_exit_code": 0,
        "release_last_duration_seconds": 12.5,
        "release_last_success_timestamp_seconds": 1_795_400_000.25,
        "windows_released": 12,
        "windows_due": 2,
        "windows_late": 1,
        "windows_remaining": 3,
        "account_epsilon_spent": Fraction(1),
        "account_delta_spent": Fraction(1, 10**6),
        "account_epsilon_remaining": Fraction(9),
        "account_delta_remaining": Fraction(9, 10**6),
    },
)


# Whoever adds one says here what it is; a count of cases or records has no place.
PUBLIC = {
    *("release_last_attempt_timestamp_seconds", "release_last_exit_code"),
    "release_last_success_timestamp_seconds",
    *("windows_released", "windows_due", "windows_late", "windows_remaining"),
    *("steps_released", "steps_due", "steps_remaining", "steps_next_timestamp_seconds"),
    *("stream_alive", "stream_ready", "stream_clock_offset_seconds"),
    *("account_epsilon_spent", "account_delta_spent"),
    *("account_epsilon_remaining", "account_delta_remaining"),
}


def read(text: bytes) -> dict[str, tuple[dict[str, str], float]]:
    """Labels and value of every metric, by Prometheus's own parser."""
    found: dict[str, tuple[dict[str, str], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        (sample,) = family.samples
        assert (family.type, family.documentation[-1:]) == ("gauge", ".")
        found[sample.name] = (sample.labels, sample.value)
    return found


def test_prometheus_reads_every_metric() -> None:
    found = read(metrics_text(ALL_WELL))
    assert set(found) == {f"tracecloak_{name}" for name in PUBLIC & {*ALL_WELL.values}}
    of_config, of_account = {"config": "ward.yaml", "dataset": "hospital"}, {"account": "ward"}
    assert found["tracecloak_release_last_attempt_timestamp_seconds"] == (
        of_config, 1_795_400_000.25,
    )  # fmt: skip
    assert found["tracecloak_release_last_exit_code"] == (of_config, 0)
    assert "tracecloak_release_last_duration_seconds" not in found  # it follows the data
    whole = read(metrics_text(ALL_WELL, "operator"))
    assert whole["tracecloak_release_last_duration_seconds"] == (of_config, 12.5)
    assert [found[f"tracecloak_windows_{n}"][1] for n in ("released", "due", "late")] == [12, 2, 1]
    assert found["tracecloak_account_epsilon_remaining"] == (of_account, 9)
    assert found["tracecloak_account_delta_spent"] == (of_account, 1e-6)
    odd = 'C:\\logs\\"ward"\n{x="y"} 1'  # names may hold what the format needs
    values = {"release_last_exit_code": 2, "windows_due": None}
    found = read(metrics_text(dataclasses.replace(ALL_WELL, config=odd, values=values)))
    assert {name: labels["config"] for name, (labels, _) in found.items()} == {
        "tracecloak_release_last_exit_code": odd
    }


def test_no_public_metric_is_a_number_of_the_data() -> None:
    assert {metric.name for metric in METRICS if metric.audience == "public"} == PUBLIC


def test_a_failure_keeps_the_time_of_the_last_success(tmp_path: Path) -> None:
    path = tmp_path / "ward.prom"
    for at_s, code, last in ((10, 4, None), (20, 0, 20), (30, 75, 20), (40, 3, 20), (50, 0, 50)):
        values: dict[str, Any] = {
            "release_last_attempt_timestamp_seconds": at_s,
            "release_last_exit_code": code,
        }
        if code == 0:
            values["release_last_success_timestamp_seconds"] = at_s
        metrics = dataclasses.replace(ALL_WELL, values=values)
        note_metrics(str(path), metrics)
        found = read(path.read_bytes())
        assert found["tracecloak_release_last_attempt_timestamp_seconds"][1] == at_s
        assert found["tracecloak_release_last_exit_code"][1] == code
        success = found.get("tracecloak_release_last_success_timestamp_seconds")
        assert (success and success[1]) == last


def test_the_file_is_replaced_whole_and_others_can_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ward.prom"
    note_metrics(str(path), ALL_WELL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    note_metrics(str(path), ALL_WELL, "operator")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    note_metrics(str(path), ALL_WELL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    whole = path.read_text()

    def full(*_: Any) -> None:
        assert path.read_text() == whole
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    note_metrics(str(path), dataclasses.replace(ALL_WELL, account="other"))
    assert path.read_text() == whole
    assert [found.name for found in tmp_path.iterdir()] == ["ward.prom"]
    assert "could not be written (OSError)" in caplog.text


def test_a_file_of_another_configuration_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ward.prom"
    note_metrics(str(path), ALL_WELL)
    with caplog.at_level(logging.WARNING, "tracecloak"):
        note_metrics(str(path), dataclasses.replace(ALL_WELL, config="other.yaml"))
    assert "holds those of another configuration" in caplog.text
    assert "other.yaml" not in path.read_text()


def test_a_place_that_will_not_do_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    check_metrics(str(tmp_path / "ward.prom"))
    with pytest.raises(UsageError, match=r"ward\.txt' must end in \.prom"):
        check_metrics(str(tmp_path / "ward.txt"))
    with pytest.raises(UsageError, match=r"the folder of .* is not there"):
        check_metrics(str(tmp_path / "none" / "ward.prom"))
