"""What each runner gives the promise of a stream, and what it does not, for the manifest."""

from __future__ import annotations

from tracecloak.pipelines.stream.config import STREAMING_RUNNER

# The message services that each reads.
READ_BY: dict[str, tuple[str, ...]] = {
    STREAMING_RUNNER: ("Pub/Sub",),
    "FlinkRunner": ("Kafka",),
    "DataflowRunner": ("Pub/Sub",),
}

RUNNERS: dict[str, tuple[str, ...]] = {
    STREAMING_RUNNER: (
        "It runs in one process and keeps everything in its memory: when the process ends, open "
        "cases, closed ones and counts are forgotten. A case that goes on afterwards could count "
        "twice, so once a step is published a restart needs another epoch, which is another spend.",
        "Messages are acknowledged before they are processed: those under way when the process "
        "ends are lost.",
        "Its watermark is the clock on the wall, not the age of unread messages: a backlog older "
        "than release_delay is late, and cases of steps that are over are not counted.",
        "Counts are not kept durably before noise is added (unsafe_barrier). What a step releases "
        "is, before it is shown: a bundle that is tried again gives the same bytes, and a restart "
        "with other counts publishes again what was decided, and nothing new.",
    ),
    "FlinkRunner": ("State and counts are durable.",),
    "DataflowRunner": (
        "State and counts are durable: a bundle that is tried again has the same input.",
        "Messages are acknowledged after they are processed, and the watermark waits for the "
        "oldest unread one.",
        "An update of the job keeps its state. A drain ends the watermark: all steps that are left "
        "are published at once, and the epoch is over. A job that is cancelled loses its state: "
        "start another epoch, which is another spend.",
    ),
}
