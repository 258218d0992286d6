"""What each runner gives the promise of a stream, and what it does not, for the manifest."""

from __future__ import annotations

from tracecloak.pipelines.runners.names import FED, FLINK, LOCAL

# The message services that each reads.
READ_BY: dict[str, tuple[str, ...]] = {
    LOCAL: ("Kafka", "Pub/Sub"),
    FLINK: ("Kafka",),
    "DataflowRunner": ("Pub/Sub",),
}

_ELSEWHERE = (
    "What workers with keys of their own decide is noted in the ledger by the command that started "
    "them, once a minute: if what they keep of a step is lost with its files before that, the step "
    "could be drawn again."
)

RUNNERS: dict[str, tuple[str, ...]] = {
    LOCAL: (
        "It runs in one process and keeps open cases, closed ones, counts, sums and positions on "
        "the disk of its machine: it goes on with the same epoch however it ended, and spends "
        "nothing for that. Without that state the epoch cannot go on.",
        "Counts, and what a step releases, are durable before a byte of it is seen, and the ledger "
        "has noted the step by then. A step that is sent again is the same bytes, and is never "
        "computed again.",
        "Messages are acknowledged when they are on that disk, and steps wait for what is unread: "
        "of Kafka up to each partition's oldest unread message; of Pub/Sub, which does not say how "
        "old that is, until for as long as its deadline of acknowledgement nothing older came.",
    ),
    FED: (
        "It runs in one process and keeps everything in its memory: when the process ends, open "
        "cases, closed ones and counts are forgotten. A case that goes on afterwards could count "
        "twice, so once a step is published a restart needs another epoch, which is another spend.",
        "Its watermark is that of the messages that it is given: what they leave behind is late.",
        "Counts are not kept durably before noise is added (unsafe_barrier). What a step releases "
        "is, before it is shown, and the ledger has noted the step by then: a bundle that is tried "
        "again gives the same bytes, and a restart with other counts publishes again what was "
        "decided, and nothing new.",
    ),
    FLINK: (
        "Open cases, closed ones, counts, sums and positions are in Flink's checkpoints. A job "
        "that fails goes on from the last one and reads again what was read after it: the same "
        "cases close in the same steps. So it does where it is started from a checkpoint or "
        "savepoint that was kept, also with other parallelism.",
        "A step is decided when everything that was published before its release time is read, of "
        "each partition, and when its release time is over by the clock of the worker. What it "
        "releases is kept before it is shown: a step that is tried again is the same bytes, or it "
        "is not published again (unsafe_barrier).",
        "A job that is started without its state reads the topic again from its oldest message, "
        "and publishes nothing new unless the same cases close in the steps that are published: "
        "where messages are gone meanwhile, another epoch must begin, which is another spend.",
        "The ledger notes a step before it is shown if workers read the key store of whoever "
        "starts them. " + _ELSEWHERE,
    ),
    "DataflowRunner": (
        "State and counts are durable: a bundle that is tried again has the same input.",
        "Messages are acknowledged after they are processed, and the watermark waits for the "
        "oldest unread one.",
        "An update of the job keeps its state. A drain ends the watermark: with publish_on_drain "
        "all steps that are left are published at once, and the epoch is over; without it steps "
        "that are not over are not decided. A job that is cancelled loses its state: "
        "start another epoch, which is another spend.",
        _ELSEWHERE,
    ),
}
