"""The image of deploy/Dockerfile, built without a registry, and releases in its containers.

They run as the user of the image, have no capabilities, and write only to what the composition of
deploy/compose mounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.engines.conftest import database, ledger  # noqa: F401  # PostgreSQL, for its tests
from tests.engines.containers import Image, tracecloak_image
from tests.engines.fetching import or_skip
from tests.support.releasing import ROOT, digests, fix_key, tracecloak
from tracecloak.examination.demo.hospital import write_sample

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1_800)]

COMPOSE = ROOT / "deploy" / "compose"
CLIENT = ROOT / "tests" / "engines" / "client.py"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with or_skip(tracecloak_image(tmp_path_factory.mktemp("image"))) as built:
        yield built


@pytest.fixture
def mounts(tmp_path: Path) -> dict[Path, str]:
    """What the composition mounts for a release, of this machine, and a client with a fixed key."""
    (tmp_path / "input").mkdir()
    write_sample(300, str(tmp_path / "input" / "log.csv"))
    (tmp_path / "state").mkdir()
    (tmp_path / "release.yaml").write_text(configuration())
    service = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]["release"]
    places = {
        "state": (tmp_path / "state", ":U"),  # podman gives it to the user of the container
        "INPUT_FOLDER": (tmp_path / "input", ""),
    }
    found = {tmp_path / "release.yaml": f"{service['configs'][0]['target']}:ro"}
    found[CLIENT] = "/opt/client.py:ro"
    for volume in service["volumes"]:
        name, target = re.fullmatch(r"(?:\$\{)?(\w+)[^}]*?\}?:(/.*)", volume).groups()  # type: ignore[union-attr]
        source, option = places[name]
        found[source] = f"{target}{option}"
    return found


def configuration() -> str:
    """The configuration of the composition, with its values filled in."""
    text = (COMPOSE / "release.yaml").read_text()
    values = {
        "CHANGE_ME_LOG": "log", "CHANGE_ME_CASE_COLUMN": "case_id",
        "CHANGE_ME_ACTIVITY_COLUMN": "activity", "CHANGE_ME_TIME_COLUMN": "timestamp",
        "CHANGE_ME_OTHER_ACTIVITY": "Discharge home", "CHANGE_ME_ACTIVITY": "Triage",
        "CHANGE_ME_ACCOUNT": "hospital",
    }  # fmt: skip
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


@pytest.fixture
def on_this_machine(tmp_path: Path, mounts: dict[Path, str]) -> dict[str, str]:
    """Digests of the release without a container, under the key of the client."""
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        code = tracecloak(
            "release", tmp_path / "release.yaml", "--release_id", "r", "--quiet",
            "--log", tmp_path / "input" / "log.csv", "--output", tmp_path / "here",
            "--key_store", tmp_path / "keys", "--ledger", f"sqlite:///{tmp_path / 'ledger.db'}",
        )  # fmt: skip
    assert code == 0
    return digests(tmp_path / "here" / "run_id=r")


def test_a_release_in_a_container_has_the_bytes_of_one_on_this_machine(
    tmp_path: Path, image: Image, mounts: dict[Path, str], on_this_machine: dict[str, str]
) -> None:
    """Of the Python and the libraries of the image, without a network."""
    made = image.run(
        "/opt/client.py", "release", "/etc/tracecloak/release.yaml", "--release_id=r",
        "--ledger=sqlite:////var/lib/tracecloak/ledger.db", "--new_ledger",
        entrypoint="python", mounts=mounts,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    released = tmp_path / "state" / "releases" / "run_id=r"
    assert digests(released) == on_this_machine
    assert {path.stat().st_uid for path in released.rglob("*")} == {10_001}
    checked = image.run("verify", "/var/lib/tracecloak/releases/run_id=r", mounts=mounts)
    assert checked.returncode == 0, checked.stderr
