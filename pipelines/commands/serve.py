"""`tracecloak serve`: answers the questions of an agent, by the Model Context Protocol."""

from __future__ import annotations

import contextlib

from tracecloak.pipelines.commands.table import Given


def run(given: Given) -> int:
    """Serves on standard input and output, until the agent closes them."""
    from tracecloak.pipelines.frames.agent_server import agent_server

    server, session = agent_server(given.flags["session"])
    with contextlib.closing(session):
        server.run()
    return 0
