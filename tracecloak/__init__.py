"""Anonymises process-mining event logs with Apache Beam.

What another pipeline, a notebook or a service needs is here; each name is loaded when it is used.

A log in memory, as a frame of pandas, polars, Arrow or DuckDB or a log of pm4py: `release`, `plan`,
`evaluate` and `vocabulary`. In a pipeline of one's own: `ReadEventLog` or own rows, then
`AnonymizeEventLog` or `WriteRelease` with a method of `METHODS`, or `PublishDirectlyFollows`.
Releases of files: `load` a `ReleaseConfig`, `plan_lines`, `run_release`; `verify` one that was
received; streams likewise. The kernels alone: `source_of`, `group_into_traces`, `anonymise`. What a
method, a format or a command of one's own is made of is in `tracecloak.plugins`.
"""

import os
import sys
from typing import TYPE_CHECKING

from tracecloak._names import offered

if not os.path.isdir(os.path.join(__path__[0], "schemas")):
    import tracecloak._folders as _folders

    # Before the finder of an editable install of another checkout, which would answer as well.
    sys.meta_path.insert(0, _folders.FolderFinder)

if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.in_memory import anonymise as anonymise
    from tracecloak.anonymizers.contract.in_memory import group_into_traces as group_into_traces
    from tracecloak.anonymizers.contract.method import Anonymizer as Anonymizer
    from tracecloak.anonymizers.contract.method import Params as Params
    from tracecloak.anonymizers.noise.release_key import ReleaseKey as ReleaseKey
    from tracecloak.anonymizers.registry import METHODS as METHODS
    from tracecloak.examination.evaluation.of_frames import evaluate as evaluate
    from tracecloak.pipelines.configuration.config import ReleaseConfig as ReleaseConfig
    from tracecloak.pipelines.configuration.config import load as load
    from tracecloak.pipelines.configuration.source import source_of as source_of
    from tracecloak.pipelines.embedded.anonymize import AnonymizeEventLog as AnonymizeEventLog
    from tracecloak.pipelines.embedded.directly_follows import (
        PublishDirectlyFollows as PublishDirectlyFollows,
    )
    from tracecloak.pipelines.embedded.read import ReadEventLog as ReadEventLog
    from tracecloak.pipelines.embedded.write import WriteRelease as WriteRelease
    from tracecloak.pipelines.frames.doors import plan as plan
    from tracecloak.pipelines.frames.doors import release as release
    from tracecloak.pipelines.frames.doors import vocabulary as vocabulary
    from tracecloak.pipelines.frames.released import Released as Released
    from tracecloak.pipelines.release.run import run_release as run_release
    from tracecloak.pipelines.screen.plan_text import plan_lines as plan_lines
    from tracecloak.pipelines.stream.config import StreamConfig as StreamConfig
    from tracecloak.pipelines.stream.config import load_stream as load_stream
    from tracecloak.pipelines.stream.run import run_stream as run_stream
    from tracecloak.pipelines.verification.verify import Verification as Verification
    from tracecloak.pipelines.verification.verify import verify as verify
    from tracecloak.schemas.errors import BudgetExhausted as BudgetExhausted
    from tracecloak.schemas.errors import GuaranteeError as GuaranteeError
    from tracecloak.schemas.errors import InputSchemaError as InputSchemaError
    from tracecloak.schemas.errors import TracecloakError as TracecloakError
    from tracecloak.schemas.errors import UsageError as UsageError
    from tracecloak.schemas.events.columns import ColumnMapping as ColumnMapping
    from tracecloak.schemas.published.guarantee import Guarantee as Guarantee
    from tracecloak.schemas.published.manifest import ReleaseManifest as ReleaseManifest
    from tracecloak.transforms.keys.reference import KeyReference as KeyReference
    from tracecloak.version import __version__ as __version__
else:
    __getattr__, __dir__, __all__ = offered(
        globals(),
        {
            "anonymizers.contract.in_memory": "anonymise group_into_traces",
            "anonymizers.contract.method": "Anonymizer Params",
            "anonymizers.noise.release_key": "ReleaseKey",
            "anonymizers.registry": "METHODS",
            "examination.evaluation.of_frames": "evaluate",
            "pipelines.configuration.config": "ReleaseConfig load",
            "pipelines.embedded.anonymize": "AnonymizeEventLog",
            "pipelines.embedded.directly_follows": "PublishDirectlyFollows",
            "pipelines.embedded.read": "ReadEventLog",
            "pipelines.embedded.write": "WriteRelease",
            "pipelines.frames.doors": "plan release vocabulary",
            "pipelines.frames.released": "Released",
            "pipelines.screen.plan_text": "plan_lines",
            "pipelines.release.run": "run_release",
            "pipelines.configuration.source": "source_of",
            "pipelines.stream.config": "StreamConfig load_stream",
            "pipelines.stream.run": "run_stream",
            "pipelines.verification.verify": "Verification verify",
            "schemas.errors": (
                "BudgetExhausted GuaranteeError InputSchemaError TracecloakError UsageError"
            ),
            "schemas.events.columns": "ColumnMapping",
            "schemas.published.guarantee": "Guarantee",
            "schemas.published.manifest": "ReleaseManifest",
            "transforms.keys.reference": "KeyReference",
            "version": "__version__",
        },
    )
