"""The manifest: what was released, by which method, with which promise; safe to publish.

It holds parameters, digests of released files, and versions. Nothing in it is counted on the input:
no numbers of cases, no input file names, no digest of the input, and no time but the day on which
the release was paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.yields import Yield

SCHEMA_VERSION = 1
MANIFEST_NAME = "manifest.json"
SIGNATURE_NAMES = (f"{MANIFEST_NAME}.sig", f"{MANIFEST_NAME}.pub")
"""The signature of the manifest's bytes, and the public key of its signer; both are optional."""

TOOL_VERSION = "0.2.0.dev0"
"""The version of tracecloak, which `setup.py` reads here: a checkout, an editable install, an sdist
and a wheel have the one of their sources, whatever metadata of a package lies about. Between two
versions it is the next one's with `.dev0`: whose words are others is not the version before."""


@dataclass(frozen=True)
class Operation:
    """One thing that a method does to a log, in the words of the XES privacy extension.

    Attributes:
        type: suppression, addition, substitution, condensation, swapping, generalization or
            cryptography.
        level: `case` or `event`.
        target: The attribute that it is done to, an XES key.
    """

    type: str
    level: Literal["case", "event"]
    target: str


CONDENSED = Operation("condensation", "event", "concept:name")
"""Numbers of activities are released, and no events."""
SUPPRESSED_TIMES = Operation("suppression", "event", "time:timestamp")
SUPPRESSED_STARTS = Operation("suppression", "case", "time:timestamp")
"""All cases begin at one public time, and times are since then."""

STAMPED = "0.1."
"""How versions begin that wrote seconds from 1970 on for what has no times."""


def has_times(operations: Iterable[Operation | Mapping[str, Any]]) -> bool:
    """Returns whether a release has times, by the operations of its manifest.

    The log of one without times has `event_index` in their place, and nothing that is shown,
    measured or computed of it may be of times.
    """
    return not any(o in (SUPPRESSED_TIMES, vars(SUPPRESSED_TIMES)) for o in operations)


def has_starts(operations: Iterable[Operation | Mapping[str, Any]]) -> bool:
    """Returns whether a release that has times contains when cases begin; see `has_times`."""
    return not any(o in (SUPPRESSED_STARTS, vars(SUPPRESSED_STARTS)) for o in operations)


@dataclass(frozen=True)
class OutputFile:
    """A released file.

    Attributes:
        path: Relative to the release's folder.
        sha256: Of its bytes, 64 hex digits.
        n_bytes: Its size.
    """

    path: str
    sha256: str
    n_bytes: int


@dataclass(frozen=True)
class ReleaseManifest:
    """Everything about a release but its files.

    Attributes:
        release_id: Its name.
        method: Name of the method.
        method_version: Its version, by which it is made again and checked.
        params: The method's parameters, defaults included.
        guarantee: What it promises.
        operations: What the method does to the log.
        spends: The parts of epsilon and delta, as JSON values; none without a finite epsilon.
        config_digest: Digest of all that determines the released bytes beside input, key, version,
            and the filters, whose values can be of the data.
        key_fingerprint: Tells release keys apart.
        exact_noise: Whether the noise came from exact samplers.
        unsafe_barrier: Whether the runner may count again after noise was drawn, as local runners
            may; with keyed noise a repetition gives the same bytes.
        beam_version: Of Apache Beam, or None for a release made without it.
        came_out: What the release holds, by its own numbers; None before it is known.
        about: What whoever made it declares: title, data_subjects, data_period, controller, contact
            and purpose, those that there are.
        released_on: The day, in UTC, on which its budget was reserved, which a repetition keeps,
            such as 2026-11-23; None where nobody noted it.
        window: Which window of a schedule it is of, as `schemas.windows` tells it, and what all
            windows together cost; None: it is of none.
        time_caveats: What a reader of its times must know that they do not show, in sentences.
        noted: What else is said of it, by who says it; see `pipelines.release.concerns`.
        inner_versions: Versions above 1 of what the parameters name, by which it is made again.
        given: Those of the parameters that are others than by default; None: nobody knows which.
    """

    release_id: str
    method: str
    method_version: int
    params: dict[str, Any]
    guarantee: Guarantee
    operations: tuple[Operation, ...]
    spends: tuple[dict[str, Any], ...]
    config_digest: str
    key_fingerprint: str
    exact_noise: bool
    unsafe_barrier: bool
    beam_version: str | None
    came_out: Yield | None = None
    about: dict[str, str] = field(default_factory=dict)
    released_on: str | None = None
    window: dict[str, Any] | None = None
    time_caveats: tuple[str, ...] = ()
    noted: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] | None = None
    inner_versions: dict[str, int] = field(default_factory=dict)

    def to_json(
        self, outputs: Sequence[OutputFile] | None = None, verified: bool = False
    ) -> dict[str, Any]:
        """Returns the manifest as JSON values.

        Args:
            outputs: The released files; None leaves them out, and with them what tells of the
                tool, of the runner and of the occasion: as in the metadata that the files carry,
                which are the same for all of these; and the parameters that are as by default, of
                which a later version may have more.
            verified: Whether the promise was checked on the released files.
        """
        body: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "release_id": self.release_id,
            "method": self.method,
            "method_version": self.method_version,
            "params": self.params if outputs is not None or self.given is None else self.given,
            "guarantee": self.guarantee.to_json(),
            "operations": [asdict(operation) for operation in self.operations],
            "spends": list(self.spends),
            "randomness": {
                "keyed": True,
                "exact": self.exact_noise,
                "key_fingerprint": self.key_fingerprint,
            },
            "config_digest": self.config_digest,
        }
        if self.inner_versions:
            body["inner_versions"] = dict(self.inner_versions)
        if self.window is not None:
            body["window"] = dict(self.window)
        if outputs is not None:
            body["tool"] = {
                "name": "tracecloak",
                "version": TOOL_VERSION,
                "beam": self.beam_version,
            }
            body["about"] = dict(self.about)
            body["released_on"] = self.released_on
            body["verified"] = verified
            if self.time_caveats:
                body["time_caveats"] = list(self.time_caveats)
            if self.noted:
                body["noted"] = dict(self.noted)
            came_out = self.came_out or Yield()
            body["came_out"] = came_out.to_json()
            body["usability"] = came_out.usability
            body["randomness"]["unsafe_barrier"] = self.unsafe_barrier
            body["outputs"] = [asdict(o) for o in sorted(outputs, key=lambda o: o.path)]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ReleaseManifest:
        """Returns the manifest that `to_json` wrote with its outputs, which are not kept.

        Args:
            body: Valid by the JSON Schema of manifests.
        """
        stated = {"population": "input", **body["guarantee"]}
        given = {name: stated[name] for name in (f.name for f in fields(Guarantee))}
        return cls(
            release_id=body["release_id"],
            method=body["method"],
            method_version=body["method_version"],
            params=body["params"],
            guarantee=Guarantee(**{**given, "not_covered": tuple(given["not_covered"])}),
            operations=tuple(Operation(**operation) for operation in body["operations"]),
            spends=tuple(body["spends"]),
            config_digest=body["config_digest"],
            key_fingerprint=body["randomness"]["key_fingerprint"],
            exact_noise=body["randomness"]["exact"],
            unsafe_barrier=body["randomness"]["unsafe_barrier"],
            beam_version=body["tool"]["beam"],
            came_out=Yield(**body["came_out"]),
            about=dict(body.get("about", {})),
            released_on=body.get("released_on"),
            window=body.get("window"),
            time_caveats=tuple(body.get("time_caveats", ())),
            noted=dict(body.get("noted", {})),
            inner_versions=dict(body.get("inner_versions", {})),
        )
