"""What images and containers of deploy/ start, without containers: on other ports, elsewhere."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.engines import fetching
from tests.engines.processes import Process, answers, free_port, running

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_image_of_the_job_server_has_what_was_tried() -> None:
    """The tests of engines run on these very libraries."""

    def needs(path: Path) -> list[tuple[str, ...]]:
        text = re.sub(r' xmlns="[^"]+"', "", path.read_text())
        return [tuple(str(part.text) for part in one) for one in ET.fromstring(text).iter(
            "dependency"
        )]  # fmt: skip

    assert needs(DEPLOY / "flink" / "pom.xml") == needs(fetching.POMS / "flink.xml")


@pytest.mark.engines
def test_the_job_server_starts_by_the_command_of_its_image(tmp_path: Path) -> None:
    """Ports, folder and class path are this machine's, and the cluster is one in its process."""
    try:
        class_path = fetching.class_path("flink")
    except fetching.UnavailableError as reason:
        pytest.skip(str(reason))
    text = (DEPLOY / "flink" / "Dockerfile").read_text().split("ENTRYPOINT ")[1]
    command = json.loads(text.replace("\\\n", ""))
    ports = {str(port): str(free_port()) for port in (8097, 8098, 8099)}
    here = {"/opt/job-server/*": class_path, "--artifacts-dir=/artifacts": ""} | {
        f"--{name}-port={port}": f"--{name}-port={ports[port]}"
        for name, port in (("expansion", "8097"), ("artifact", "8098"), ("job", "8099"))
    }
    assert set(here) <= set(command)
    words = [here.get(word, word) for word in command]
    words += [f"--artifacts-dir={tmp_path / 'artifacts'}", "--flink-master=[local]"]
    words, port = [word for word in words if word], int(ports["8099"])
    server = Process("job-server", words, tmp_path, lambda: answers(port))
    with running(server):
        assert server.is_alive() and answers(int(ports["8098"]))
