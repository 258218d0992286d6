"""How much memory and how many cores a run in memory takes: what was asked for, or a public rule.

Neither depends on the records of the log, and neither changes a byte of what is released.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

# What Python, its libraries and the readers of files take, whatever is read.
_PROGRAM_BYTES = 224 << 20
# A batch is looked at by a kernel as a whole, which takes about so many times its bytes.
_KERNEL_BYTES = 16
_SMALLEST_BATCH_BYTES, _LARGEST_BATCH_BYTES = 1 << 18, 1 << 24
# Smaller inputs have one worker: threads would cost more than they give.
_SMALL_INPUT_BYTES = 4 << 20

# Where Linux says in which control groups this process is, and what these are limited to.
_OF_PROCESS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Limits:
    """What a run may take.

    A third of its memory holds events or cases. Once more as much can be lost where these are made
    of those: what is freed lies in pieces between what is still held, and Arrow and numpy take over
    what the other one frees only in the command (`runners.memory.keep_freed_memory`). A quarter is
    for the steps that are at work. The rest is for what was counted, which nobody can know before.

    Attributes:
        memory_bytes: Of the whole process.
        n_workers: Threads.
    """

    memory_bytes: int
    n_workers: int

    @classmethod
    def of(cls, memory_bytes: int | None, n_workers: int | None, input_bytes: int) -> Limits:
        """Returns the limits that were asked for, or those by the rule.

        Args:
            memory_bytes: None: half of what this process may have.
            n_workers: None: as many as it may use cores, and one of a small input.
            input_bytes: Size of all files.
        """
        if n_workers is None:
            n_workers = usable_cores() if input_bytes > _SMALL_INPUT_BYTES else 1
        return cls(memory_bytes or available_bytes() // 2, n_workers)

    @property
    def _data_bytes(self) -> int:
        return max(self.memory_bytes - _PROGRAM_BYTES, self.memory_bytes // 8)

    @property
    def held_bytes(self) -> int:
        """How many bytes of events and cases are held in memory; the others go to the disk."""
        return self._data_bytes // 3

    @property
    def step_bytes(self) -> int:
        """How much one worker may take beside them for what is at work."""
        return self._data_bytes // 4 // self.n_workers

    @property
    def batch_bytes(self) -> int:
        """About how many bytes a batch of cases has that is looked at as a whole."""
        fitting = self.step_bytes // _KERNEL_BYTES
        return min(max(fitting, _SMALLEST_BATCH_BYTES), _LARGEST_BATCH_BYTES)


def usable_cores() -> int:
    """Returns how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_bytes() -> int:
    """Returns how much memory this process may have at most, whatever others take of it.

    That is the memory of the machine, or less if its control group or a limit of the process's
    resources says so.
    """
    bounds = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(limit)[0]
        bounds += [soft] if soft != resource.RLIM_INFINITY else []
    return min([*bounds, *_of_control_group()])


def _of_control_group() -> list[int]:
    """Returns the limits of this process's group and of those above it, of either version."""
    try:
        lines = _OF_PROCESS.read_text().splitlines()
    except OSError:  # another system than Linux
        return []
    files: list[Path] = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the group of this process can be the root of what is seen.
        path = root / group.strip("/")
        files += [folder / name for folder in (path, *path.parents) if folder.is_relative_to(root)]
    texts = [file.read_text().strip() for file in files if file.is_file()]
    return [int(text) for text in texts if text.isdigit()]
