"""Anonymises process-mining event logs with Apache Beam.

What another pipeline, a notebook or a service needs is here; each name is loaded when it is used.

A log in memory, as a frame of pandas, polars, Arrow or DuckDB or a log of pm4py: `release`, `plan`,
`evaluate` and `vocabulary`, and `session` for several questions. In a pipeline of one's own:
`ReadEventLog` or own rows, then `AnonymizeEventLog` or `WriteRelease` with a method of `METHODS`,
or `PublishDirectlyFollows`.
Releases of files: `load` a `ReleaseConfig`, `plan_lines`, `run_release`; `verify` one that was
received; streams likewise. The kernels alone: `source_of`, `group_into_traces`, `anonymise`. What a
method, a format or a command of one's own is made of is in `tracecloak.plugins`.
"""

import os
import sys

from tracecloak._names import offered

if not os.path.isdir(os.path.join(__path__[0], "schemas")):
    import tracecloak._folders as _folders

    # Before the finder of an editable install of another checkout, which would answer as well.
    sys.meta_path.insert(0, _folders.FolderFinder)

__getattr__, __dir__, __all__ = offered(
    globals(),
    {
        "anonymizers.contract.in_memory": "anonymise group_into_traces",
        "anonymizers.contract.method": "Anonymizer Params",
        "anonymizers.noise.randomness": "ReleaseKey",
        "anonymizers.registry": "METHODS PluginMethod",
        "examination.evaluation.evaluate": "evaluate",
        "pipelines.configuration.config": "ReleaseConfig",
        "pipelines.configuration.plan": "load source_of",
        "pipelines.embedded.anonymize": "AnonymizeEventLog WriteRelease",
        "pipelines.embedded.directly_follows": "PublishDirectlyFollows",
        "pipelines.embedded.read": "ReadEventLog",
        "pipelines.frames.functions": "plan release vocabulary Released",
        "pipelines.frames.session": "session Session",
        "pipelines.screen.release_text": "plan_lines",
        "pipelines.release.run": "run_release",
        "pipelines.stream.config": "StreamConfig",
        "pipelines.stream.plan": "load_stream",
        "pipelines.stream.run": "run_stream",
        "pipelines.verification.verify": "Verification verify",
        "schemas.errors": (
            "BudgetExhausted GuaranteeError InputSchemaError TracecloakError UsageError"
        ),
        "schemas.events.columns": "ColumnMapping",
        "schemas.published.manifest": "Guarantee ReleaseManifest",
        "transforms.keys.wrapping": "KeyReference",
        "version": "__version__",
    },
)
