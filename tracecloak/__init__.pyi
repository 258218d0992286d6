# Of the parameters of all methods and the keys of configurations; `make schema` writes it.

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, overload

from narwhals.typing import IntoFrame, IntoFrameT

from tracecloak import _keywords
from tracecloak._keywords import Columns
from tracecloak.anonymizers.contract.in_memory import anonymise as anonymise
from tracecloak.anonymizers.contract.in_memory import group_into_traces as group_into_traces
from tracecloak.anonymizers.contract.method import Anonymizer as Anonymizer
from tracecloak.anonymizers.contract.method import Params as Params
from tracecloak.anonymizers.noise.randomness import ReleaseKey as ReleaseKey
from tracecloak.anonymizers.registry import METHODS as METHODS
from tracecloak.anonymizers.registry import PluginMethod as PluginMethod
from tracecloak.examination.evaluation.evaluate import Evaluation
from tracecloak.pipelines.configuration.config import ReleaseConfig as ReleaseConfig
from tracecloak.pipelines.configuration.plan import load as load
from tracecloak.pipelines.configuration.plan import source_of as source_of
from tracecloak.pipelines.embedded.anonymize import AnonymizeEventLog as _AnonymizeEventLog
from tracecloak.pipelines.embedded.anonymize import Output
from tracecloak.pipelines.embedded.anonymize import WriteRelease as _WriteRelease
from tracecloak.pipelines.embedded.directly_follows import (
    PublishDirectlyFollows as _PublishDirectlyFollows,
)
from tracecloak.pipelines.embedded.read import ReadEventLog as _ReadEventLog
from tracecloak.pipelines.frames.functions import Released as Released
from tracecloak.pipelines.frames.session import Session as Session
from tracecloak.pipelines.planning.plan import Plan
from tracecloak.pipelines.release.run import run_release as run_release
from tracecloak.pipelines.screen.release_text import plan_lines as plan_lines
from tracecloak.pipelines.stream.config import StreamConfig as StreamConfig
from tracecloak.pipelines.stream.plan import load_stream as load_stream
from tracecloak.pipelines.stream.run import run_stream as run_stream
from tracecloak.pipelines.verification.verify import Verification as Verification
from tracecloak.pipelines.verification.verify import verify as verify
from tracecloak.schemas.errors import BudgetExhausted as BudgetExhausted
from tracecloak.schemas.errors import GuaranteeError as GuaranteeError
from tracecloak.schemas.errors import InputSchemaError as InputSchemaError
from tracecloak.schemas.errors import TracecloakError as TracecloakError
from tracecloak.schemas.errors import UsageError as UsageError
from tracecloak.schemas.events.columns import ColumnMapping as ColumnMapping
from tracecloak.schemas.published.manifest import Guarantee as Guarantee
from tracecloak.schemas.published.manifest import ReleaseManifest as ReleaseManifest
from tracecloak.transforms.keys.wrapping import KeyReference as KeyReference
from tracecloak.version import __version__ as __version__

class AnonymizeEventLog(_AnonymizeEventLog):
    @overload
    def __init__(
        self,
        method: Literal["amun"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.AmunRowKeys],
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            method: Name of a method.
            params: Its parameters; each can be a keyword as well.
            columns: Which column plays which part; the keys can be keywords as well.
            product: Name of the product to return in place of the log; a method without a log
                needs it.
            output: `rows`, or `batches` of Arrow.
            with_rejects: Whether to return a dict of `released` and `rejects`: a row with the
                reason of each malformed record, which is exact and for the operator alone.
            unaccounted: Whether no ledger is asked: then `key` says where the key of the release
                is, which must be used for one input and one configuration, and nothing is noted.
            key: Where that key is.
            keys: Keys of a configuration: `release_id`, those of `columns`, `where`,
                `max_error_ratio`, `expected_cases`, `shards`, and who pays (`ledger`, `account`,
                `dataset`, `key_store`, …), or parameters of the method.

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """
    @overload
    def __init__(
        self,
        method: Literal["amun"],
        params: _keywords.AmunParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-dfg"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PrivateDfgRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-dfg"],
        params: _keywords.PrivateDfgParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pappi"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PappiRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pappi"],
        params: _keywords.PappiParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-indicators"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.IndicatorRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-indicators"],
        params: _keywords.IndicatorParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["process-tree"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.ProcessTreeRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["process-tree"],
        params: _keywords.ProcessTreeParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["dpim"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.DpimRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["dpim"],
        params: _keywords.DpimParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["variant-histogram"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.VariantHistogramRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["variant-histogram"],
        params: _keywords.VariantHistogramParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PureVariantLogRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
        params: _keywords.PureVariantLogParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["markov-log", "auto-variants"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.VariantLogRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["markov-log", "auto-variants"],
        params: _keywords.VariantLogParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["joint-variants"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.JointVariantsRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["joint-variants"],
        params: _keywords.JointVariantsParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-log"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PrivateLogRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-log"],
        params: _keywords.PrivateLogParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["amun-rigorous"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.AmunRigorousRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["amun-rigorous"],
        params: _keywords.AmunRigorousParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-variants"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.LaplaceVariantsRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-variants"],
        params: _keywords.LaplaceVariantsParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sacofa"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.SacofaRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sacofa"],
        params: _keywords.SacofaParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-dfg"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PairQueryRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-dfg"],
        params: _keywords.PairQueryParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sapa"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.SapaRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sapa"],
        params: _keywords.SapaParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PripelRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel"],
        params: _keywords.PripelParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel-rigorous"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PripelRigorousRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel-rigorous"],
        params: _keywords.PripelRigorousParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.KAnonymousRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
        params: _keywords.KAnonymousParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["tlkc"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.TlkcRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["tlkc"],
        params: _keywords.TlkcParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PretsaRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa"],
        params: _keywords.PretsaParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa-case"],
        params: None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.PretsaCaseRowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa-case"],
        params: _keywords.PretsaCaseParams,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: Unpack[_keywords.RowKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: PluginMethod,
        params: Mapping[str, object] | None = None,
        *,
        columns: ColumnMapping | Columns | None = None,
        product: str | None = None,
        output: Output = "rows",
        with_rejects: bool = False,
        unaccounted: bool = False,
        key: KeyReference | str | None = None,
        **keys: object,
    ) -> None: ...
    @overload
    def __init__(
        self, method: Sequence[_keywords.MethodWithTheseArguments], **keys: object
    ) -> None: ...

class PublishDirectlyFollows(_PublishDirectlyFollows):
    def __init__(
        self,
        *,
        columns: ColumnMapping | Columns | None = None,
        output_steps: Literal["rows", "steps"] = "rows",
        **keys: Unpack[_keywords.StreamKeys],
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            columns: Which field plays which part; the keys can be keywords as well.
            output_steps: `rows`, or `steps`: the releases themselves, each with its JSON.
            keys: Keys of the configuration of a stream, such as `output`, `release_id`, `epoch`,
                `epsilon`, `vocabulary`, `period`, `horizon`, `start`, `gap`, `max_lifetime`, and
                who pays.

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """

class ReadEventLog(_ReadEventLog):
    def __init__(
        self,
        log: str | Sequence[str],
        *,
        columns: ColumnMapping | Columns | None = None,
        attributes: Sequence[str] | Mapping[str, str] = (),
        output: Literal["batches", "rows"] = "batches",
        **keys: Unpack[_keywords.ReadKeys],
    ) -> None:
        """Checks what is asked for; the files are looked for when the pipeline is built.

        Args:
            log: Paths or globs, on any Beam file system.
            columns: Which column plays which part; the keys can be keywords as well.
            attributes: Columns that are read as attributes, for a method that releases them; a
                mapping has their columns by their names.
            output: `batches` of Arrow, or `rows`.
            keys: Keys of a configuration: those of `columns`, `where`, `input_format`, and those
                of CSV, such as `delimiter`.

        Raises:
            UsageError: A key is unknown or wrong.
        """

class WriteRelease(_WriteRelease):
    @overload
    def __init__(
        self,
        method: Literal["amun"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.AmunFileKeys],
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            method: Name of a method.
            params: Its parameters; each can be a keyword as well.
            output: Folder of all releases, on any Beam file system.
            columns: Which column plays which part; the keys can be keywords as well.
            keys: As of `AnonymizeEventLog`, and `formats`, `parts`, `sign` and what the release
                says of itself (`title`, `controller`, …).

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """
    @overload
    def __init__(
        self,
        method: Literal["amun"],
        params: _keywords.AmunParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-dfg"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PrivateDfgFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-dfg"],
        params: _keywords.PrivateDfgParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pappi"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PappiFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pappi"],
        params: _keywords.PappiParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-indicators"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.IndicatorFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-indicators"],
        params: _keywords.IndicatorParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["process-tree"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.ProcessTreeFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["process-tree"],
        params: _keywords.ProcessTreeParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["dpim"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.DpimFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["dpim"],
        params: _keywords.DpimParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["variant-histogram"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.VariantHistogramFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["variant-histogram"],
        params: _keywords.VariantHistogramParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PureVariantLogFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
        params: _keywords.PureVariantLogParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["markov-log", "auto-variants"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.VariantLogFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["markov-log", "auto-variants"],
        params: _keywords.VariantLogParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["joint-variants"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.JointVariantsFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["joint-variants"],
        params: _keywords.JointVariantsParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-log"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PrivateLogFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["private-log"],
        params: _keywords.PrivateLogParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["amun-rigorous"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.AmunRigorousFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["amun-rigorous"],
        params: _keywords.AmunRigorousParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-variants"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.LaplaceVariantsFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-variants"],
        params: _keywords.LaplaceVariantsParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sacofa"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.SacofaFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sacofa"],
        params: _keywords.SacofaParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-dfg"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PairQueryFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["laplace-dfg"],
        params: _keywords.PairQueryParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sapa"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.SapaFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["sapa"],
        params: _keywords.SapaParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PripelFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel"],
        params: _keywords.PripelParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel-rigorous"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PripelRigorousFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pripel-rigorous"],
        params: _keywords.PripelRigorousParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.KAnonymousFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
        params: _keywords.KAnonymousParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["tlkc"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.TlkcFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["tlkc"],
        params: _keywords.TlkcParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PretsaFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa"],
        params: _keywords.PretsaParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa-case"],
        params: None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.PretsaCaseFileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: Literal["pretsa-case"],
        params: _keywords.PretsaCaseParams,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: Unpack[_keywords.FileKeys],
    ) -> None: ...
    @overload
    def __init__(
        self,
        method: PluginMethod,
        params: Mapping[str, object] | None = None,
        *,
        output: str,
        columns: ColumnMapping | Columns | None = None,
        **keys: object,
    ) -> None: ...
    @overload
    def __init__(
        self, method: Sequence[_keywords.MethodWithTheseArguments], **keys: object
    ) -> None: ...

def evaluate(
    frame: IntoFrame,
    released: Released[Any] | str | os.PathLike[str],
    **keys: Unpack[_keywords.EvaluationKeys],
) -> Evaluation:
    """Compares a release with the log that it was made of.

    Args:
        frame: The log; see `tracecloak.release`.
        released: What `tracecloak.release` returned, whose keys hold here as well; or the folder of
            a release, or of releases whose latest is meant.
        **keys: Keys that say how the log is read, and `key_store` and `ledger`, which can tell that
            the release is of another log.

    Raises:
        UsageError: It is of another log, or the extra measures is not installed, which a release
            with a log needs.
        InputSchemaError: The frame lacks a column, or there is no release, or not as it was made.
    """

@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["amun"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.AmunFrameKeys],
) -> Plan:
    """Returns what `release` would do with the same arguments, and what it would be worth.

    Nothing is paid, and of the rows only the first are looked at, but for methods without an
    epsilon that foretell something of a whole log.

    Args:
        frame: See `release`.
        method: See `release`.
        params: See `release`.
        output: See `release`.
        release_id: See `release`.
        goal: How good it is to be, such as "graph within 10 %", "variants of 60 %" or "figures",
            for which the plan says the least epsilon.
        **keys: See `release`.

    Returns:
        The plan, which prints as what matters most; its `details` have the rest.

    Raises:
        TracecloakError: A parameter is wrong, or the frame lacks a column.
    """

@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["amun"],
    params: _keywords.AmunParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["private-dfg"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PrivateDfgFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["private-dfg"],
    params: _keywords.PrivateDfgParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pappi"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PappiFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pappi"],
    params: _keywords.PappiParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["private-indicators"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.IndicatorFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["private-indicators"],
    params: _keywords.IndicatorParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["process-tree"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.ProcessTreeFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["process-tree"],
    params: _keywords.ProcessTreeParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["dpim"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.DpimFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["dpim"],
    params: _keywords.DpimParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["variant-histogram"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.VariantHistogramFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["variant-histogram"],
    params: _keywords.VariantHistogramParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PureVariantLogFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
    params: _keywords.PureVariantLogParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["markov-log", "auto-variants"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.VariantLogFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["markov-log", "auto-variants"],
    params: _keywords.VariantLogParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["joint-variants"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.JointVariantsFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["joint-variants"],
    params: _keywords.JointVariantsParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["private-log"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PrivateLogFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["private-log"],
    params: _keywords.PrivateLogParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["amun-rigorous"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.AmunRigorousFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["amun-rigorous"],
    params: _keywords.AmunRigorousParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["laplace-variants"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.LaplaceVariantsFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["laplace-variants"],
    params: _keywords.LaplaceVariantsParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["sacofa"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.SacofaFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["sacofa"],
    params: _keywords.SacofaParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["laplace-dfg"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PairQueryFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["laplace-dfg"],
    params: _keywords.PairQueryParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["sapa"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.SapaFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["sapa"],
    params: _keywords.SapaParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pripel"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PripelFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pripel"],
    params: _keywords.PripelParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pripel-rigorous"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PripelRigorousFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pripel-rigorous"],
    params: _keywords.PripelRigorousParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.KAnonymousFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
    params: _keywords.KAnonymousParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["tlkc"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.TlkcFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["tlkc"],
    params: _keywords.TlkcParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pretsa"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PretsaFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pretsa"],
    params: _keywords.PretsaParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pretsa-case"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.PretsaCaseFrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: Literal["pretsa-case"],
    params: _keywords.PretsaCaseParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: Unpack[_keywords.FrameKeys],
) -> Plan: ...
@overload
def plan(
    frame: IntoFrame,
    *,
    method: PluginMethod,
    params: Mapping[str, object] | None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    goal: str = "",
    **keys: object,
) -> Plan: ...
@overload
def plan(
    frame: object, *, method: Sequence[_keywords.MethodWithTheseArguments], **keys: object
) -> Plan: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["amun"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.AmunFrameKeys],
) -> Released[IntoFrameT]:
    """Releases a log that is in memory, and returns the release.

    The second call with the same events and parameters returns the finished release and pays
    nothing. Any other call is another release, and the log says what it takes and what is left
    before it is paid. Events of a case with equal stamps are in the order of the column `order`, if
    it is given, and then of the rows; those of a lazy frame, whose rows have no order, in that of
    the names of activities.

    Args:
        frame: A frame of pandas, polars, Arrow or DuckDB, or a log of pm4py; a row is an event.
        method: Name of the method; for type checkers one of another distribution is a
            `tracecloak.PluginMethod`.
        params: Parameters of the method, each of which can be a keyword instead.
        output: Folder of all releases.
        release_id: The release's name; None: a new one, or that of the same release.
        **keys: Parameters of the method, such as `epsilon`, and keys of a configuration, such as
            `case_id`, `timestamp_format`, `where`, `key_store`, `ledger` or `account`.

    Returns:
        The release.

    Raises:
        TracecloakError: Nothing was released, for the reason that the error's class and text give.
    """

@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["amun"],
    params: _keywords.AmunParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["private-dfg"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PrivateDfgFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["private-dfg"],
    params: _keywords.PrivateDfgParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pappi"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PappiFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pappi"],
    params: _keywords.PappiParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["private-indicators"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.IndicatorFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["private-indicators"],
    params: _keywords.IndicatorParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["process-tree"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.ProcessTreeFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["process-tree"],
    params: _keywords.ProcessTreeParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["dpim"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.DpimFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["dpim"],
    params: _keywords.DpimParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["variant-histogram"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.VariantHistogramFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["variant-histogram"],
    params: _keywords.VariantHistogramParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PureVariantLogFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["sparse-histogram", "privtree", "markov-log-pure", "laplace-levels"],
    params: _keywords.PureVariantLogParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["markov-log", "auto-variants"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.VariantLogFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["markov-log", "auto-variants"],
    params: _keywords.VariantLogParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["joint-variants"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.JointVariantsFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["joint-variants"],
    params: _keywords.JointVariantsParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["private-log"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PrivateLogFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["private-log"],
    params: _keywords.PrivateLogParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["amun-rigorous"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.AmunRigorousFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["amun-rigorous"],
    params: _keywords.AmunRigorousParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["laplace-variants"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.LaplaceVariantsFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["laplace-variants"],
    params: _keywords.LaplaceVariantsParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["sacofa"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.SacofaFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["sacofa"],
    params: _keywords.SacofaParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["laplace-dfg"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PairQueryFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["laplace-dfg"],
    params: _keywords.PairQueryParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["sapa"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.SapaFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["sapa"],
    params: _keywords.SapaParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pripel"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PripelFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pripel"],
    params: _keywords.PripelParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pripel-rigorous"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PripelRigorousFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pripel-rigorous"],
    params: _keywords.PripelRigorousParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.KAnonymousFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["k-anonymous-variants", "k-anonymous-subtraces"],
    params: _keywords.KAnonymousParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["tlkc"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.TlkcFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["tlkc"],
    params: _keywords.TlkcParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pretsa"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PretsaFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pretsa"],
    params: _keywords.PretsaParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pretsa-case"],
    params: None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.PretsaCaseFrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: Literal["pretsa-case"],
    params: _keywords.PretsaCaseParams,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: IntoFrameT,
    *,
    method: PluginMethod,
    params: Mapping[str, object] | None = None,
    output: str | os.PathLike[str] = "releases",
    release_id: str | None = None,
    **keys: object,
) -> Released[IntoFrameT]: ...
@overload
def release(
    frame: object, *, method: Sequence[_keywords.MethodWithTheseArguments], **keys: object
) -> Released[Any]: ...
def session(
    frame: IntoFrameT,
    *,
    output: str | os.PathLike[str] = "answers",
    params: Mapping[str, Any] | None = None,
    **keys: Unpack[_keywords.FrameKeys],
) -> Session[IntoFrameT]:
    """Returns a session of a log that is in memory; nothing is read or paid yet.

    Args:
        frame: See `release`; it must not change as long as the session lasts.
        output: Folder of the answers, each of which is a release.
        params: Parameters that all questions have in common, such as `vocabulary`; a question
            whose method lacks one does without it.
        **keys: Keys of a configuration, such as `case_id`, `account`, `ledger` or `key_store`.

    Returns:
        The session.

    Raises:
        TracecloakError: A key or a parameter is wrong, or this is no frame.
    """

def vocabulary(frame: IntoFrame, **keys: Unpack[_keywords.LogKeys]) -> list[str]:
    """Returns the names of a log's activities, sorted, for its operator to read and strike out.

    They are data until somebody answers for them: no epsilon covers a name that is declared.

    Args:
        frame: See `release`.
        **keys: Keys of a configuration that say how a log is read, such as `activity` or `where`.

    Raises:
        TracecloakError: A key is wrong, or the frame lacks a column.
    """
