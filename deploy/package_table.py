"""Writes the table of packages in CONTRIBUTING.md from their docstrings: `make schema`."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
LAYERS = ("schemas", "anonymizers", "transforms", "pipelines", "examination")
_BEGIN, _END = "<!-- packages -->\n", "<!-- /packages -->\n"


def package_table() -> str:
    """Returns the rows: each layer, and its packages and modules by name with what they contain."""
    rows = ["| package | contents |", "|---|---|"]
    for layer in LAYERS:
        rows.append(f"| **`{layer}/`** | {_summary(ROOT / layer / '__init__.py')} |")
        for path in sorted((ROOT / layer).iterdir()):
            if (path / "__init__.py").is_file():
                rows.append(f"| `{path.name}/` | {_summary(path / '__init__.py')} |")
            elif path.suffix == ".py" and path.stem != "__init__":
                rows.append(f"| `{path.name}` | {_summary(path)} |")
    return "\n".join(rows) + "\n"


def page_with_table(page: str) -> str:
    """Returns the page with the table of today between its marks."""
    before, _, rest = page.partition(_BEGIN)
    return before + _BEGIN + package_table() + _END + rest.partition(_END)[2]


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
