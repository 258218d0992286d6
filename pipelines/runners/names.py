"""What is known of runners by their names, without Beam."""

from __future__ import annotations

IN_MEMORY = "InMemory"


def is_durable(runner: str) -> bool:
    """Returns whether a runner keeps the barrier before the noise across retries."""
    return runner == "DataflowRunner"


_LOCAL = (IN_MEMORY, "FnApiRunner", "DirectRunner", "BundleBasedDirectRunner")


def is_local(runner: str) -> bool:
    """Returns whether a run has ended with this process: nothing goes on elsewhere."""
    return runner in _LOCAL
