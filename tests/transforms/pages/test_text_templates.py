"""Texts of templates: a value says nothing of the lines around it, whatever it holds."""

from pathlib import Path

import pytest

from tracecloak.transforms.pages.page import from_template


def test_an_end_of_line_within_a_value_makes_no_further_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room_of_a_test"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "a.j2").write_text("{% for name in names %}\n- {{ name }}\n{% endfor %}\n\nend\n")
    monkeypatch.syspath_prepend(tmp_path)
    lines = from_template(room.name, "a.j2", names=["<a>", "b\n# c", None])
    assert lines == ["- <a>", "- b\n# c", "- None", "", "end"]
