"""Anonymises process-mining event logs with Apache Beam.

What another pipeline, a notebook or a service needs is here; each name is loaded when it is used.

Events in a pipeline of one's own: `ReadEventLog` or own events made canonical with `ColumnMapping`,
then `AnonymizeEventLog` with a method of `METHODS` and a `KeyReference`. Whole releases: `load` a
`ReleaseConfig`, `plan_lines`, `run_release`; streams likewise. Without Beam: `source_of`,
`group_into_traces`, `anonymise`. A method of one's own follows `Anonymizer` (CONTRIBUTING.md).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
