"""What whoever is on call for a stream is told: keys of a stream that change no released byte."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import pydantic
from pydantic import Field

from tracecloak.pipelines.configuration.config import listed
from tracecloak.pipelines.runners.names import LOCAL
from tracecloak.pipelines.stream.input_keys import LIST_OR_TEXT
from tracecloak.schemas.calendar.time_texts import Duration

_HERE = ("127.0.0.1", "localhost", "::1")


class OperatorConfig(pydantic.BaseModel):
    """Where the health and the metrics of a stream are, and when it ends by itself."""

    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)

    operator_port: int | None = Field(default=None, ge=1, le=65535)
    """Port that serves /healthz, /readyz and /metrics over HTTP; by default none."""
    operator_address: str = "127.0.0.1"
    """Address of that port. Probes from outside the machine or the pod need 0.0.0.0."""
    operator_names: Annotated[tuple[str, ...], pydantic.BeforeValidator(listed), LIST_OR_TEXT] = ()
    """Names of hosts by which programs reach that port, such as ward.monitoring.svc, separated by
    commas as a flag; by default none. Requests by other names than these and localhost are refused,
    so that no page of the web reads the port; IP addresses, as of probes, are always accepted."""
    health_file: str | None = None
    """File of JSON with the same health, written anew every 5 seconds; by default none."""
    metrics: str | None = None
    """File ending in .prom with the metrics, for the textfile collector of Prometheus's node
    exporter, written anew every 15 seconds; by default none."""
    metrics_for: Literal["public", "operator"] = "public"
    """public: metrics have no number of the data. operator: they also have lag, open cases, size of
    the state, messages and rejects, on 127.0.0.1 alone and in a file that only its owner reads."""
    stuck_after: Duration | None = None
    """How long a step may be due, with no more messages read on, before the stream ends with exit
    code 10, so that it is started again; after three starts stuck at one step it stays down. By
    default it waits for as long as it takes."""

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told anything."""
        named = (self.operator_port, self.health_file, self.metrics)
        return any(value is not None for value in (*named, self.stuck_after))

    @pydantic.model_validator(mode="after")
    def _check_operator(self) -> OperatorConfig:
        if not all(re.fullmatch(r"[\w.-]+", name, re.ASCII) for name in self.operator_names):
            raise ValueError(
                f"operator_names must be names of hosts without ports, such as "
                f"ward.monitoring.svc, got {', '.join(self.operator_names)!r}"
            )
        is_local = getattr(self, "runner", LOCAL) == LOCAL
        if not is_local and (self.stuck_after is not None or self.metrics_for == "operator"):
            raise ValueError(
                f"stuck_after and metrics_for operator are of runner {LOCAL}: what runs a job "
                "starts it again, and shows how much it reads; leave them out"
            )
        if (
            self.metrics_for == "operator"
            and self.operator_port is not None
            and self.operator_address not in _HERE
        ):
            raise ValueError(
                "metrics_for operator shows numbers of the data, and operator_address "
                f"{self.operator_address!r} shows them to other machines: leave it out, so that it "
                "is 127.0.0.1, or leave out metrics_for"
            )
        return self
