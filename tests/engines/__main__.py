"""Brings an engine up for somebody at a terminal, or only fetches what it needs.

    python -m tests.engines up flink|flink-cluster|prism|kafka|postgresql ... [--folder FOLDER]
    python -m tests.engines fetch [flink|flink-cluster|prism|kafka|airflow ...]

`up` prints what to give to tracecloak, and serves until it is interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.engines import fetching
from tests.engines.flink import flink_job_server, prism, whole_cluster
from tests.engines.kafka import kafka_broker
from tests.engines.postgresql import postgresql

NAMES = ("flink", "flink-cluster", "prism", "kafka", "postgresql")


def up(name: str, folder: Path, stack: ExitStack) -> Iterable[str]:
    """Brings an engine up for as long as the stack lasts, and yields what to give to tracecloak."""
    if name == "flink":
        yield " ".join(stack.enter_context(flink_job_server(folder)).flags(2))
    elif name == "flink-cluster":
        cluster, pool, server = stack.enter_context(whole_cluster(folder))
        yield " ".join(server.flags(2, pool))
        yield f"# its pages: http://{cluster.address}"
    elif name == "prism":
        yield " ".join(stack.enter_context(prism(folder)))
    elif name == "kafka":
        yield f"# bootstrap servers: {stack.enter_context(kafka_broker(folder)).servers}"
    else:
        yield f"--ledger {stack.enter_context(postgresql(folder)).new_database()} --new_ledger"


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    of_up = actions.add_parser("up")
    of_up.add_argument("names", nargs="+", choices=NAMES)
    of_up.add_argument("--folder", type=Path, help="for logs and data; without it a new one")
    of_fetch = actions.add_parser("fetch")
    of_fetch.add_argument("names", nargs="*", help=f"some of {', '.join(fetching.FETCHES)}; or all")
    given = parser.parse_args()
    if given.action == "fetch":
        return 1 if fetching.main(given.names) else 0
    folder = given.folder or Path(tempfile.mkdtemp(prefix="engines-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ExitStack() as stack:
        try:
            for name in given.names:
                for line in up(name, folder / name, stack):
                    sys.stdout.write(f"{line}\n")
        except fetching.UnavailableError as reason:
            sys.stderr.write(f"{reason}\n")
            return 1
        sys.stdout.write(f"# logs in {folder}; interrupt this to end it\n")
        sys.stdout.flush()
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
