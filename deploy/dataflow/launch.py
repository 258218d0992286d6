"""What a Flex Template of Dataflow runs to start a stream.

The launcher gives the parameters of the template and Beam's flags. The configuration of the stream
is a file in a bucket, and the password of the ledger is in Secret Manager: parameters of a job are
shown to whoever may look at jobs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


def main(arguments: Sequence[str], read_secret: Callable[[str], str] | None = None) -> int:
    """Pays for an epoch and hands the stream to Dataflow; returns the command's exit code.

    Args:
        arguments: Parameters of the template and flags of Beam.
        read_secret: Returns what a version of a secret holds, by its full name; by default it asks
            Secret Manager.
    """
    from tracecloak.pipelines.commands.main import main as command
    from tracecloak.transforms.files import open_raw

    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--ledger_password_secret", required=True)
    parser.add_argument("--new_epoch", required=True)
    given, others = parser.parse_known_args(list(arguments))
    os.environ["PGPASSWORD"] = (read_secret or _of_secret_manager)(given.ledger_password_secret)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "stream.yaml"
        with open_raw(given.configuration) as stream:
            local.write_bytes(stream.read())
        # The key store goes with the machine of the launcher. So an epoch that was begun before is
        # refused, by the ledger, or with --update by the command, and nothing is charged.
        keys = Path(folder) / "keys"
        return command(
            ["stream", str(local), f"--epoch={given.new_epoch}", f"--key_store={keys}", *others]
        )


def _of_secret_manager(name: str) -> str:
    from google.cloud import secretmanager

    answer = secretmanager.SecretManagerServiceClient().access_secret_version(name=name)
    return str(answer.payload.data.decode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
