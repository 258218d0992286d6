"""A session for agents, as a server of the Model Context Protocol (MCP).

An agent gets released values, public texts and public numbers, and nothing else. Before a question
meets the log, it is checked by what is public: the vocabulary, the parameters and what an officer
approved; so an error of that says what is wrong with the question. Of what comes after, an error
says only whether the account has too little left, which public numbers decide: all others have one
text.
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import logging
import threading
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import SourceConfig, keys_of, load_log, read_yaml
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.configuration.shared_keys import Section
from tracecloak.pipelines.frames.session import QUESTIONS, Session
from tracecloak.pipelines.screen.release_text import remains_text
from tracecloak.schemas.errors import (
    BudgetExhausted,
    TracecloakError,
    UnusableRelease,
    UsageError,
    import_extra,
)
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.transforms.formats.registry import FILE_KEYS
from tracecloak.transforms.operator_log import operator_log

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_OPERATOR = logging.getLogger("tracecloak.operator")
_INSTRUCTIONS = """Questions about a private event log. Answers have noise, and come with intervals
that hold it. Each answer is paid from a budget that does not grow again: `about` has what is left,
`preview` is free, and the same question has the same answer, without a further payment."""
_UNANSWERED = "the question was not answered; the operator's folder says why"
# The tables of answers that have another name than their question.
_TABLES = {"map": "graph"}
# All others are for the officer: they say what is public, or name files.
_OF_AGENTS = (
    *("epsilon", "delta", "indicators", "first_date", "last_date", "l2_clip", "durations"),
)


class Approval(Section):
    """What an officer approves beside the caps of the account."""

    questions: tuple[dict[str, Any], ...] | None = None
    """The questions that are answered, each with its parameters; by default all that name public
    activities alone."""
    expires: datetime.date | None = None
    """The last day, in UTC, on which questions are answered; by default there is none."""


class Agent:
    """What an agent may do with a session; each public method is a tool."""

    def __init__(self, session: Session[pa.Table], params: Mapping[str, Any], of: Approval) -> None:
        """Reads the log.

        Args:
            session: What answers.
            params: Parameters that all questions of the session have in common.
            of: What is approved.

        Raises:
            TracecloakError: The log cannot be read, no vocabulary or no cap is declared, or what is
                approved is no question.
        """
        self._session, self._params, self._last_day = session, params, of.expires
        approved = of.model_dump(mode="json")["questions"]
        self._approved = approved and [*map(_as_asked, approved)]
        self._one_by_one = threading.Lock()
        self._names = session.plan("map", {"epsilon": 1}).bounds.vocabulary or ()
        if not self._names:
            raise UsageError(
                "vocabulary is missing in params: an agent is shown public names alone; "
                "`tracecloak vocabulary` lists those of a log, to be read and declared"
            )
        if (left := session.remaining) is None or not left.caps:
            raise UsageError(
                "the account has no cap, and an agent could ask for ever; declare one with "
                "`tracecloak ledger declare`"
            )
        for approved in self._approved or ():
            session.plan(approved["question"], approved["parameters"])
        session.read()

    def about(self) -> dict[str, Any]:
        """Returns the public activities, the questions that are answered, and what is left."""
        with self._one_by_one, _public_errors():
            return {
                "activities": [*self._names],
                "questions": self._free if self._approved is None else self._approved,
                "in_all_questions": {n: v for n, v in self._params.items() if n != "vocabulary"},
                "expires": self._last_day,
                "remaining": self._remaining,
            }

    def preview(self, question: str, parameters: dict[str, Any], goal: str = "") -> dict[str, Any]:
        """Returns what an answer would cost and how good it would be. It is free.

        Args:
            question: One of those that `about` lists.
            parameters: Its parameters.
            goal: How good it is to be, for the least epsilon: such as "graph within 10 %" or
                "figures".
        """
        with self._one_by_one, _public_errors():
            given = self._checked(question, parameters)
            plan = self._session.preview(question, goal=goal, **given)
            return {"price": _priced(plan.price), "says": "\n".join(plan.first)}

    def ask(self, question: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Answers a question, and pays for it unless it was answered before.

        Args:
            question: One of those that `about` lists.
            parameters: Its parameters.
        """
        with self._one_by_one, _public_errors():
            last = self._last_day
            if last is not None and datetime.datetime.now(datetime.UTC).date() > last:
                raise UsageError(f"questions were answered until {last}; ask for a new approval")
            given = self._checked(question, parameters)
            try:
                answer = self._session.ask(question, **given)
            except BudgetExhausted:
                left = self._remaining["says"]
                raise UsageError(f"too little is left for this answer: {left}") from None
            except UnusableRelease:
                raise
            except Exception as error:
                with operator_log(self._session.operator_folder):
                    _OPERATOR.error("%s", error)
                raise TracecloakError(_UNANSWERED) from None
            table = getattr(answer, _TABLES.get(question, question))
            return {
                "answer": answer.release_id,
                "was_answered_before": answer.was_released_before,
                "price": _priced(answer.price),
                "promise": answer.manifest["guarantee"]["sentence"],
                question: table.to_pylist(),
                "remaining": self._remaining,
            }

    def map(
        self, epsilon: float, delta: float | None = None, l2_clip: float | None = None
    ) -> dict[str, Any]:
        """Asks for the map: how often each activity directly follows another one.

        Args:
            epsilon: The price, and the larger it is, the less noise there is.
            delta: Of the price; by default as it is for all questions.
            l2_clip: How much of a case counts at most; by default it is chosen on the log.
        """
        return self.ask("map", {"epsilon": epsilon, "delta": delta, "l2_clip": l2_clip})

    def variants(self, epsilon: float, delta: float | None = None) -> dict[str, Any]:
        """Asks for the variants: which sequences of activities cases have, and how many cases.

        Args:
            epsilon: See `map`.
            delta: See `map`.
        """
        return self.ask("variants", {"epsilon": epsilon, "delta": delta})

    @property
    def _free(self) -> dict[str, dict[str, str]]:
        """By question the parameters that an agent chooses, and what each is."""
        known = {q: method_named(method).Params.model_fields for q, method in QUESTIONS.items()}
        free = [name for name in _OF_AGENTS if name not in self._params]
        return {q: {n: of[n].description or "" for n in free if n in of} for q, of in known.items()}

    def _checked(self, question: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the parameters of a question that is approved, or of what is public alone."""
        given = {name: value for name, value in parameters.items() if value is not None}
        if self._approved is not None:
            if {"question": question, "parameters": given} not in self._approved:
                raise UsageError("that is no question that `about` lists; ask one of them")
            return given
        if others := sorted(given.keys() - self._free.get(question, given).keys()):
            raise UsageError(
                f"{others[0]} is no parameter that an agent chooses; leave it out, or have the "
                "officer set it in params or list the question"
            )
        if not isinstance(given.get("indicators", []), list):
            raise UsageError("indicators must be a list")  # a text could name a file
        if self._session.plan(question, given).mapping.attributes:
            raise UsageError(
                "the question reads attributes of cases; have the officer list it in questions"
            )
        return given

    @property
    def _remaining(self) -> dict[str, Any]:
        """What the account has left, of public numbers."""
        balance = self._session.remaining
        assert balance is not None  # as it has caps
        left = {"caps": _numbers(balance.caps), "remaining": _numbers(balance.remaining)}
        return {**left, "says": remains_text(balance)}


def agent_server(path: str) -> tuple[MCPServer, Session[pa.Table]]:
    """Returns the server of a session file, which is to be run, and the session, to be closed.

    Args:
        path: YAML with the keys of a configuration, without a method, and those of `Approval`.

    Raises:
        TracecloakError: A key is wrong, the extra is not installed, or see `Agent`.
    """
    server = import_extra("mcp.server.mcpserver", "tracecloak serve", "mcp", "mcp")
    body = read_yaml(path)
    own = {name: body.pop(name) for name in Approval.model_fields if name in body}
    approval = keys_of(Approval, own, {})
    params = body.pop("params", None) or {}
    files = source_of(load_log({n: v for n, v in body.items() if n in SourceConfig.model_fields}))
    keys = {n: v for n, v in body.items() if n not in ("log", "input_format", *FILE_KEYS)}
    session: Session[pa.Table] = Session(files, params, {"output": "answers", **keys})
    agent = Agent(session, params, approval)
    made = server.MCPServer("tracecloak", instructions=_INSTRUCTIONS, version=TOOL_VERSION)
    for tool in (agent.about, agent.preview, agent.ask, agent.map, agent.variants):
        made.add_tool(tool, description=inspect.getdoc(tool))
    return made, session


def _as_asked(approved: dict[str, Any]) -> dict[str, Any]:
    """Returns an approved question as it is to be asked."""
    return {"question": approved.pop("question", ""), "parameters": approved}


def _priced(price: tuple[Fraction | None, Fraction | None]) -> dict[str, float]:
    parts = zip(("epsilon", "delta"), price, strict=True)
    return _numbers({name: part for name, part in parts if part is not None})


def _numbers(exact: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float(number) for name, number in exact.items()}


@contextlib.contextmanager
def _public_errors() -> Iterator[None]:
    """Gives an agent the text of our own errors, and one text for all others."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except TracecloakError as error:
        raise ToolError(str(error)) from None
    except Exception:
        raise ToolError(_UNANSWERED) from None
