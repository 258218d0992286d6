"""What is known of runners by their names, without Beam."""

from __future__ import annotations

# Drivers of our own: of a release in memory, and of a stream with its state on this machine's disk.
IN_MEMORY = "InMemory"
LOCAL = "Local"
# Beam's runner of a release in this process.
FN_API = "FnApiRunner"
# Beam's runner for streams whose messages the caller gives.
FED = "BundleBasedDirectRunner"
FLINK = "FlinkRunner"


def is_durable(runner: str) -> bool:
    """Returns whether a runner keeps the barrier before the noise across retries."""
    return runner in ("DataflowRunner", LOCAL)


_LOCAL = (IN_MEMORY, LOCAL, FN_API, "DirectRunner", FED)


def is_local(runner: str) -> bool:
    """Returns whether a run has ended with this process: nothing goes on elsewhere."""
    return runner in _LOCAL
