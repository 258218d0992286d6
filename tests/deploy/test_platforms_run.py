"""What images and containers of deploy/ start, without containers: on other ports, elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

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
        class_path = fetching.flink_class_path()
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


@pytest.mark.engines
def test_kafka_starts_with_the_settings_of_the_composition(tmp_path: Path) -> None:
    """Its image makes properties of the variables: KAFKA_LOG_DIRS is log.dirs."""
    try:
        class_path = fetching.kafka_class_path()
    except fetching.UnavailableError as reason:
        pytest.skip(str(reason))
    body = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    given = body["services"]["kafka"]["environment"]
    port, controller = free_port(), free_port()
    lines = [f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={value}"
             for name, value in given.items()]  # fmt: skip
    text = "\n".join(lines).replace("kafka:", "localhost:")
    text = text.replace(":9092", f":{port}").replace(":9093", f":{controller}")
    properties = tmp_path / "server.properties"
    properties.write_text(text.replace("/var/lib/kafka/data", str(tmp_path / "data")))
    java = ["java", "-Xmx512m", "-cp", class_path]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "--cluster-id=4L6g3nShT-eMCtK--X86sw",
         f"--config={properties}"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    command = [*java, "kafka.Kafka", properties]
    broker = Process("kafka", command, tmp_path, lambda: answers(port))
    with running(broker):
        assert "LogAppendTime" in broker.log.read_text()
