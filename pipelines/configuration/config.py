"""The configuration of a release: one YAML file or the same keys as flags."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import Field

from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.pipelines.configuration.flags import (
    between_commas,
    bytes_of,
    given_value,
    kinds_of,
    read_groups,
    read_vocabulary,
    warn_of_names,
    yaml_of,
)
from tracecloak.pipelines.configuration.shared_keys import (
    LIST_OR_TEXT,
    AccountConfig,
    ScheduleConfig,
    Section,
    or_kinds,
    with_starts,
)
from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.batch import DEFAULT_SHARDS
from tracecloak.transforms.formats.registry import (
    FILE_KEYS,
    FORMATS,
    SourceFormat,
    formats_of_releases,
)

# Modules that read data are loaded where a key's value is used, as flags, their help and their
# errors need the keys alone.
if TYPE_CHECKING:
    from tracecloak.anonymizers.contract.method import Params
    from tracecloak.schemas.events.columns import ColumnMapping
    from tracecloak.schemas.events.row_masks import RowFilter

DEFAULT_PARTS = 8
# What Python and its libraries take, and a little.
_LEAST_MEMORY_BYTES = 256 << 20
# With `run_id=`, a window's label and a digest, names of folders stay below the 255 bytes that file
# systems take.
MAX_RELEASE_ID = 200


def listed(value: Any) -> Any:
    """Returns the members of a list that is text, separated by commas."""
    return between_commas(value) if isinstance(value, str) else value


def _literals(value: Any) -> Any:
    if isinstance(value, str):
        # A comma within quotes is part of the value.
        parts = re.findall(r"""\s*(?:'[^']*'|"[^"]*")\s*(?=,|$)|[^,]+""", value)
        return [part.strip() for part in parts if part.strip()]
    return value if isinstance(value, list | tuple) else (value,)


def _literal(value: Any) -> Any:
    from tracecloak.schemas.events.source_column import text_of

    return text_of(value) if isinstance(value, int | float) else _written(value)


def _header(value: Any, others: pydantic.ValidationInfo) -> Any:
    """Splits the names of columns as the file would, if they have its delimiter."""
    delimiter = others.data.get("delimiter")
    if isinstance(value, str) and delimiter not in (None, "", ",") and delimiter in value:
        value = [name.strip() for name in value.split(delimiter)]
    return listed(value)


# A format that is a list of one, as the flag gives it, is the same configuration.
_ONE_OR_SEVERAL = pydantic.BeforeValidator(
    lambda value: value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
)
# A shell passes on what YAML reads as a tab.
_TAB = pydantic.BeforeValidator(lambda value: "\t" if value == r"\t" else value)
_MAPPED = pydantic.BeforeValidator(
    lambda value: given_value("rename", value, SourceConfig.model_fields["rename"])
)


def _as_size(value: Any, parse: Callable[[Any], int]) -> int:
    try:
        size = parse(value)
    except pydantic.ValidationError:
        size = 0
    if size < _LEAST_MEMORY_BYTES:
        raise ValueError("must be a size of 256MiB or more, such as 4GiB")
    return size


def _written(value: Any) -> Any:
    if isinstance(value, datetime.date):  # so is a time on a date
        return value.isoformat()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def one_of(names: Callable[[], Iterable[str]]) -> pydantic.GetPydanticSchema:
    """Annotates a text that must be a name of a table, to which other distributions may add.

    The table is looked at when a value is checked or a JSON Schema made, not before.

    Args:
        names: Returns or yields the names; none is asked for after the right one.
    """

    def check(value: str) -> str:
        if value not in names():
            raise ValueError(f"must be one of {', '.join(names())}")
        return value

    return pydantic.GetPydanticSchema(
        pydantic.AfterValidator(check).__get_pydantic_core_schema__,
        lambda schema, of: {**of(schema), "enum": list(names())},
    )


_T = TypeVar("_T")
Listed = Annotated[tuple[_T, ...], pydantic.BeforeValidator(listed), LIST_OR_TEXT]
"""A list that as text is separated by commas, like the flag."""
_Header = Annotated[tuple[str, ...], pydantic.BeforeValidator(_header), LIST_OR_TEXT]
_Several = str | tuple[str, ...] | None
_ColumnsOfTime = Annotated[
    _Several,
    pydantic.BeforeValidator(lambda value: listed(value) if "," in str(value) else value),
]


class Columns(Section):
    """Which source columns play which part."""

    case_id: str | None = None
    """Source column (or XES key) of the case id; by default case_id or case:concept:name."""
    activity: str | None = None
    """Source column of the activity; by default activity or concept:name."""
    timestamp: _ColumnsOfTime = None
    """Source column of the time, or several whose texts are joined by a blank, such as a date and a
    time of day; separated by commas as a flag, and a name with a comma is a list of one. By default
    timestamp or time:timestamp."""
    individual_id: str | None = None
    """Source column of the individual behind the case, if one person can have several
    cases; by default there is none, and cases are protected one by one."""
    resource: str | None = None
    """Source column of the resource; by default it is not read."""
    lifecycle: str | None = None
    """Source column of the lifecycle transition, whose values start and complete are the two ends
    of an event, unless where says which of them are read; by default it is not read. STARTED and
    BEGIN, COMPLETED, END and ENDED mean the same, and case does not count."""
    order: str | None = None
    """Source column by which events of a case with equal timestamps are ordered: numbers before
    texts, and what is missing last. Of a query the word rows means the order of the result's rows;
    a column of that name is renamed with AS. By default the place in the source orders them: the
    row of a frame in memory, or the path and the place in the file; and where there is none, as in
    a table or the result of a query, the name of the activity."""
    start_transitions: Listed[str] = ()
    """Further transitions that are starts, in any case; separated by commas as a flag. By default
    none are."""
    complete_transitions: Listed[str] = ()
    """Further transitions that are completions, in any case; separated by commas as a flag. By
    default none are."""
    start_timestamp: _ColumnsOfTime = None
    """Source column of the time at which an event began, where it has one, or several like those of
    the time, separated by commas as a flag. A record with either time is an event. By default a
    record has one time."""
    time_zone: str = "UTC"
    """IANA time zone of stamps without an offset."""
    timestamp_format: Annotated[_Several, _ONE_OR_SEVERAL] = None
    """strptime format of stamps that are not ISO 8601, or several, of which each stamp is read by
    the first that fits it; may be repeated as a flag. By default stamps are ISO 8601."""
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None = None
    """Unit of numeric stamps since 1970; by default stamps are no numbers."""
    whole_numbers: Listed[str] = ()
    """Columns, such as case_id, in which text like 5.0 is read as the whole number 5, as programs
    write tables with empty cells so; separated by commas as a flag. By default 5.0 is not 5."""


_BOUNDS = {"at_least": ">=", "above": ">", "at_most": "<=", "below": "<"}

# YAML takes 2026-11-01 for a date and 7 for a number; a bound is what stands there.
_Bound = Annotated[str, pydantic.BeforeValidator(_written), or_kinds("number")]
_Literal = Annotated[str, pydantic.BeforeValidator(_literal), or_kinds("number")]
_Literals = Annotated[
    tuple[_Literal, ...], pydantic.BeforeValidator(_literals), or_kinds("string", "number")
]


class Where(Section):
    """A row filter: the records whose column passes are read, the others are not there."""

    column: str
    """A canonical name (activity, lifecycle, …) or a column of the source; also one that folders
    such as day=2026-11-01 give."""
    equals: _Literals | None = None
    """The values that pass. 5 and 1.5 are compared as numbers and 2026-11-01T13:00Z as a time; all
    else, such as 05 or 5.0, and what is in quotes, such as '5', is compared by its text."""
    begins_with: str | None = None
    """The prefix that passes."""
    at_least: _Bound | None = None
    """The smallest value that passes: numbers compare as numbers, times as times, other values by
    their characters."""
    above: _Bound | None = None
    """What values that pass are larger than."""
    at_most: _Bound | None = None
    """The largest value that passes."""
    below: _Bound | None = None
    """What values that pass are smaller than."""

    @property
    def row_filter(self) -> RowFilter:
        """What it does to records."""
        from tracecloak.schemas.events.row_masks import RowFilter

        return RowFilter(**self.model_dump())

    @property
    def sentence_part(self) -> str:
        """What it asks of the column, for the template of a plan: `is one of A, B`."""
        if self.equals is not None:
            return f"is one of {', '.join(self.equals)}"
        if self.begins_with is not None:
            return f"begins with {self.begins_with}"
        bounds = {sign: getattr(self, name) for name, sign in _BOUNDS.items()}
        return "is " + " and ".join(f"{s} {bound}" for s, bound in bounds.items() if bound)


class About(Section):
    """What a release says of itself beside its numbers; its readers see all of it."""

    title: Annotated[str, Field(max_length=200)] | None = None
    """What is released, in a few words, as its readers will see it; by default the release's name
    stands there."""
    data_subjects: Annotated[str, Field(max_length=200)] | None = None
    """Whose data it is, such as patients of a hospital; by default nothing is said."""
    data_period: Annotated[str, Field(max_length=200)] | None = None
    """Which time the log covers, as it is known without looking at it; by default nothing is
    said."""
    controller: Annotated[str, Field(max_length=200)] | None = None
    """Who is responsible for the data and its release; by default nothing is said."""
    contact: Annotated[str, Field(max_length=200)] | None = None
    """Where questions about the release go; by default nothing is said."""
    purpose: Annotated[str, Field(max_length=500)] | None = None
    """What the release is for; by default nothing is said."""


class MappedConfig(Section):
    """Which parts of a record are read, of files as of messages."""

    columns: Columns = Columns()
    """Which columns, or fields of a JSON object, play which part; undeclared ones are dropped."""
    where: tuple[Where, ...] = ()
    """Filters; a record that does not pass all of them is not there."""


class SourceConfig(MappedConfig):
    """Which files hold an event log, and how they are read."""

    log: Listed[str] = Field(min_length=1)
    """Paths or globs of the input files, on any Beam file system; separated by commas as a flag.
    delta:PATH@VERSION and iceberg:CATALOG.TABLE@SNAPSHOT are tables; without @ the version is the
    last one."""
    input_format: Annotated[str, one_of(lambda: FORMATS)] | None = None
    """Format of the inputs; by default told by the ending of each name, without that of what
    compresses it: .gz, .bz2, .zst, .lz4 or .br."""
    delimiter: Annotated[str | None, _TAB] = None
    """Delimiter of CSV; by default that of a first line such as sep=;, or else a comma, or a tab
    for .tsv."""
    encoding: str = "utf-8"
    """Encoding of CSV."""
    header: _Header | None = None
    """Names of a CSV's columns, separated by commas as a flag, or as in the file by its declared
    delimiter; by default those of line 1."""
    quote_char: str = '"'
    """Character around fields of CSV; with `none` quotes are characters like any other."""
    escape_char: str | None = None
    """Character of CSV before quotes, delimiters and line breaks that are text, and before itself,
    such as \\ of Spark and MySQL; a field \\N is empty then. By default there is none, and quotes
    within quotes are doubled."""
    skip_lines: int = Field(default=0, ge=0)
    """How many lines of CSV are above the header line, or above the first record."""
    comment: str | None = None
    """What lines of CSV begin with that are no records, such as #; by default there are none."""
    unnamed_traces: Literal["digest"] | None = None
    """digest: the case id of an XES trace without one is a digest of all that is in it; by default
    its events are malformed records."""
    int96_timestamps: Literal["instant", "local"] = "instant"
    """What times of the type INT96 in Parquet are: instants, as Spark writes them, or local times,
    as Impala does."""

    rename: Annotated[dict[str, str], _MAPPED] = Field(default_factory=dict)
    """Activities that are read by another name, such as {"aufnahme": "Aufnahme"}: as JSON, or
    @FILE, a file of YAML or JSON. The new name must be in the vocabulary, where one is declared. By
    default names stay."""
    drop_duplicates: bool = False
    """Count events of a case once that are equal in their time, their activity and all attributes
    that are carried. By default each counts."""

    @property
    def mapping(self) -> ColumnMapping:
        """The column mapping with its filters and new names."""
        from tracecloak.schemas.events.columns import ColumnMapping

        filters = tuple(where.row_filter for where in self.where)
        renames = tuple(self.rename.items())
        columns = self.columns.model_dump()
        if getattr(self, "query", None) is not None and self.columns.order == "rows":
            columns["order"] = None  # the rows of the result of a query are in their order
        return ColumnMapping(**columns, filters=filters, renames=renames)

    @property
    def tables(self) -> tuple[str, ...]:
        """Those of the inputs that are tables of a lake, see `transforms.lakes.tables`."""
        named = tuple(text for text in self.log if ":" in text)
        if not named:
            return ()
        from tracecloak.transforms.lakes.tables import is_address

        return tuple(text for text in named if is_address(text))

    @property
    def source_format(self) -> SourceFormat:
        """How the bytes of the inputs are read.

        Raises:
            UsageError: Traces are to get case ids, which are not of traces.
        """
        file_keys = {key: getattr(self, key) for key in FILE_KEYS if key != "unnamed_traces"}
        how = SourceFormat(self.input_format, **file_keys)
        case_id = self.columns.case_id or "case:concept:name"
        if self.unnamed_traces and not case_id.startswith("case:"):
            raise UsageError(
                f"unnamed_traces names traces, and case_id {case_id!r} is a key of events; drop one"
            )
        return replace(how, unnamed_traces=case_id) if self.unnamed_traces else how


SECTIONS: dict[str, type[pydantic.BaseModel]] = {"columns": Columns, "about": About}
"""Keys with keys of their own, each of which is a flag."""

IN_DIGEST = (
    *("query", "input_format", *FILE_KEYS, "columns", "where"),
    *("rename", "drop_duplicates", "page"),
    *("method", "params", "formats", "parts", "about", "max_error_ratio", "schedule", "window"),
)
"""Keys that change a released byte. Others say where files are, who pays, and what runs."""

_C = TypeVar("_C", bound=Section)
FRAME = "frame://events"
"""Where a frame is, for receipts and for people."""


class ReleaseConfig(AccountConfig, SourceConfig):
    """Everything that a release depends on, and where it goes."""

    log: Listed[str] = ()
    """Paths or globs of the input files, on any Beam file system; separated by commas as a flag.
    delta:PATH@VERSION and iceberg:CATALOG.TABLE@SNAPSHOT are tables; without @ the version is the
    last one. By default a query is asked instead."""
    query: str | None = Field(default=None, min_length=1)
    """SQL whose result is the log, or @ and the file that has it; by default files are. The
    promise is for units of the result, and it is asked for once."""
    database: str | None = Field(default=None, min_length=1)
    """The database that is asked: a URI without a password, such as sqlite:///visits.db, or
    env:NAME, file:PATH or command:WORDS, which lead to one; by default none is."""
    method: str
    """Name of the method; `tracecloak catalogue` lists them."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the method."""
    formats: Listed[Annotated[str, one_of(formats_of_releases)]] = ("parquet", "xes")
    """Forms of the released log; separated by commas as a flag. spreadsheet is csv with an
    apostrophe in front of names that a spreadsheet would compute."""
    about: About = About()
    """What the release says of itself: whose data it is, who is responsible, and why."""
    schedule: ScheduleConfig | None = None
    """Windows of time in which the input is released, one after the other; by default all of it is
    one release."""
    release_id: str | None = Field(default=None, max_length=MAX_RELEASE_ID)
    """Name of the release, of at most 200 characters. A rigorous one needs it; of others it is by
    default a keyed digest of input and configuration, which tells whether the log changed."""
    expected_cases: int | None = Field(default=None, ge=1, le=1_000_000)
    """How many cases the release has, about, known without looking at it: of one window, if there
    are any, and up to a million. If nobody could use a release of so many cases with the declared
    activities, `plan` says so and ends with exit code 9, and `release` makes and pays nothing. By
    default `plan` judges logs of 100, 1,000 and 10,000 cases, and nothing is refused."""
    expected_variants: int | None = Field(default=None, ge=1, le=1_000_000)
    """How many variants these cases have, about, known without looking at them: of 1,000 cases, 50
    are few, 160 are usual, and 700 are many. It narrows what `plan` expects. By default any number
    is possible."""
    even_if_unusable: bool = False
    """Release even what public numbers say that nobody could use."""
    max_error_ratio: float | None = Field(default=None, ge=0, le=1)
    """Largest share of malformed records with which the run goes on; by default 0.01, and of a
    rigorous release any: whether it ends would tell something of the log."""
    deployment_key: str | None = None
    """Key of the sketches by which the ledger recognises the same cases under another account:
    file:PATH, env:NAME or command:WORDS with 64 hex digits, the same for all jobs that share a
    ledger. By default TRACECLOAK_DEPLOYMENT_KEY, or a key in the key store, which does for runs on
    this machine."""
    window: str | None = None
    """Window of the schedule that is released, such as 2026-11, or several: 2026-01..2026-10, or
    `due` for all that can be released and are not. A schedule needs it; by default there is
    none."""
    book: str | None = None
    """Folder in which 0.1.0 kept what windows counted, for `tracecloak ledger migrate`; by default
    that in the key store. What windows count is in the ledger's database since."""
    book_key: str | None = None
    """Key of the counted units: file:PATH, env:NAME or command:WORDS with 64 hex digits, which is
    never changed. By default TRACECLOAK_BOOK_KEY, or a key in the key store, which does for runs on
    this machine."""
    jobs: int = Field(default=1, ge=1, le=64)
    """Windows of a schedule that are released side by side, each in a process of its own; by
    default one after the other."""
    cases_kept_days: int = Field(default=1095, ge=0, le=36500)
    """Days for which the ledger keeps the sketch of this release's cases; with 0 none is made."""
    sign: str | None = None
    """Private key of ed25519 in PEM that signs the manifest, whose recipients can check it: a file,
    or env:NAME or command:WORDS, which prints it. Workers elsewhere ask there too, as one of them
    commits. By default nobody signs."""
    runner: str = IN_MEMORY
    """InMemory, which is this process without Beam, or a runner of Beam; by default InMemory, and
    FnApiRunner if flags of Beam are given."""
    shards: int = Field(default=DEFAULT_SHARDS, ge=1, le=1 << 16)
    """Shards of cases; more need less memory each, and change no result."""
    memory: Annotated[pydantic.ByteSize, pydantic.WrapValidator(_as_size)] | None = None
    """How much memory the runner InMemory takes, such as 4GiB; what does not fit is on the disk
    until it ends, in the staging area. By default half of what this process may have."""
    workers: int | None = Field(default=None, ge=1, le=256)
    """Threads of the runner InMemory; by default as many as this process may use cores, and one for
    an input of less than 4 MiB."""
    parts: int = Field(default=DEFAULT_PARTS, ge=1, le=1 << 16)
    """Parts of the released log."""
    page: Literal["whole", "shared"] = "whole"
    """Whether report.html is one whole file, or shares its scripts with the pages of other
    releases: then they lie once, in the folder _static beside the releases."""

    @property
    def method_params(self) -> Params:
        """The checked parameters of the method.

        Raises:
            UsageError: One is unknown or out of range.
        """
        params, columns = self.params, self.columns
        if columns.start_timestamp or columns.lifecycle or "service_times" in params:
            params = with_starts(self.method, params, self.mapping)
        try:
            checked = method_named(self.method).Params(**params)
            return checked.expecting(self.expected_cases) if self.expected_cases else checked
        except pydantic.ValidationError as error:
            from tracecloak.anonymizers.contract.wrong_values import usage_error

            known = method_named(self.method).Params.model_fields
            raise usage_error(error, self.method, known) from None


_D = TypeVar("_D", bound=pydantic.BaseModel)


def without_filters(config: _D) -> _D:
    """Returns a configuration without filters and renames, whose values can be of the data.

    The published digest is of this, as whoever has a digest could try such values out, such as ids.
    """
    left_out: dict[str, Any] = {"where": (), "rename": {}}
    if inputs := getattr(config, "inputs", ()):  # of a stream, each with filters of its own
        left_out["inputs"] = tuple(map(without_filters, inputs))
    known = type(config).model_fields
    return config.model_copy(update={n: value for n, value in left_out.items() if n in known})


def merge_params(params: Mapping[str, Any] | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a method and the keywords beside them, without those that are None.

    Raises:
        UsageError: One is in both.
    """
    given, keywords = (
        {name: value for name, value in some.items() if value is not None}
        for some in (params or {}, keys)
    )
    if twice := sorted(given.keys() & keywords.keys()):
        raise UsageError(f"{twice[0]} is given twice: in params and beside them; leave one out")
    return given | keywords


def checked_config(path: str | None, flags: Mapping[str, object]) -> ReleaseConfig:
    """Returns the configuration of a YAML file with flags in place of its keys.

    Public files that parameters name are read. See `plan.read_plan`, which resolves it.
    """
    body = {} if path is None else read_yaml(path)
    method: Any = flags.get("method", body.get("method"))
    fields = {} if method is None else method_named(method).Params.model_fields
    params = {n: given_value(n, value, fields[n]) for n, value in flags.items() if n in fields}
    if params:
        body["params"] = {**(body.get("params") or {}), **params}
    others = {name: value for name, value in flags.items() if name not in fields}
    return _with_public_inputs(keys_of(ReleaseConfig, body, others))


def _with_public_inputs(config: ReleaseConfig) -> ReleaseConfig:
    """Returns the method's parameters with the values that other keys and files give.

    Raises:
        UsageError: The file of the vocabulary, the model or the groups cannot be read, or
            individuals are to be bounded and no column says who they are.
    """
    known = method_named(config.method).Params.model_fields
    params = dict(config.params)
    vocabulary = params.get("vocabulary")
    if "vocabulary" in known and isinstance(vocabulary, str):
        remedy = '; name a file of activities, one a line, or give their names as JSON: ["A", "B"]'
        params["vocabulary"] = read_vocabulary(bytes_of("vocabulary", vocabulary, None, remedy))
    if "model" in known and isinstance(params.get("model"), str):
        from tracecloak.pipelines.configuration.model_file import read_model_rules

        params["model"] = read_model_rules(params["model"]).model_dump(mode="json")
    if "groups" in known and isinstance(params.get("groups"), str):
        params["groups"] = read_groups(params["groups"])
        warn_of_names(params["groups"], params.get("vocabulary"))
    if "max_cases_per_individual" in known:
        if config.columns.individual_id is not None:
            params.setdefault("max_cases_per_individual", 1)
        elif params.get("max_cases_per_individual") is not None:
            raise UsageError(
                "max_cases_per_individual needs to know the individuals: give individual_id"
            )
    return config.model_copy(update={"params": params})


def load_log(flags: Mapping[str, object]) -> SourceConfig:
    """Returns how a log is to be read, from flags in place of a configuration's keys.

    Args:
        flags: Given flags by name. `config` names the configuration of a release, from which only
            the keys are taken that say how its log is read.

    Raises:
        UsageError: The file is no YAML mapping, or a flag is unknown, missing or wrong.
    """
    given = dict(flags)
    path = given.pop("config", None)
    body = {} if path is None else read_yaml(str(path))
    _refuse_misplaced_keys(ReleaseConfig, body)
    log_keys = {name: value for name, value in body.items() if name in SourceConfig.model_fields}
    return keys_of(SourceConfig, log_keys, given)


def keys_of(kind: type[_C], body: dict[str, Any], flags: Mapping[str, object]) -> _C:
    """Returns a configuration with flags in place of its keys, and of those of its sections.

    Args:
        kind: The configuration.
        body: The keys of its file.
        flags: Given flags by name, as a file would have them.

    Raises:
        UsageError: A key is unknown, missing or wrong.
    """
    parted: set[str] = set()
    for section, part in SECTIONS.items():
        values = {name: value for name, value in flags.items() if name in part.model_fields}
        if values and section in kind.model_fields:
            body[section] = {**(body.get(section) or {}), **values}
            parted |= values.keys()
    for name, value in flags.items():
        if name not in parted:
            body[name] = given_filters(value) if name == "where" else value
    _refuse_misplaced_keys(kind, body)
    try:
        return kind(**body)
    except pydantic.ValidationError as error:
        from tracecloak.anonymizers.contract.wrong_values import usage_error

        known = [field.alias or name for name, field in kind.model_fields.items()]
        raise usage_error(error, known=known) from None


def _refuse_misplaced_keys(kind: type[Section], body: Mapping[str, Any]) -> None:
    fields = kind.model_fields.keys()
    for section, part in SECTIONS.items():
        misplaced = body.keys() & part.model_fields.keys() - fields
        for name in sorted(misplaced) if section in fields else ():
            raise UsageError(f"{name} is a key below {section}: write {section}: {{{name}: …}}")


def read_yaml(path: str) -> dict[str, Any]:
    """Returns a configuration file's keys.

    Raises:
        UsageError: It cannot be read, or is no mapping with each key once.
    """
    body = yaml_of("configuration", path)
    if not isinstance(body, dict) or not all(isinstance(key, str) for key in body):
        raise UsageError(f"configuration {path!r} must be a mapping of keys to values")
    return body


_SIGNS = {"=": "equals", "^=": "begins_with", **{sign: name for name, sign in _BOUNDS.items()}}
_SIGN = re.compile(r"\^=|>=|<=|!=|==|=|>|<")


def given_filters(given: Any) -> list[dict[str, Any]]:
    """Returns the filters of `where`, texts or one text; raises a UsageError if one is none."""
    texts = [given] if isinstance(given, str) else given or ()
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise UsageError("where takes texts, such as 'step = Check' or ['day >= 2026-11-01']")
    return [parse_where(one) for one in texts]


def parse_where(text: str) -> dict[str, Any]:
    """Returns the filter of `column = value, value`, `column ^= prefix` or `column >= bound`.

    Raises:
        UsageError: The text is none of these.
    """
    whole = text.strip()
    sign = _SIGN.search(whole, 1)  # a column has at least one character
    column, value = "", ""
    if sign is not None:
        column, value = whole[: sign.start()].rstrip(), whole[sign.end() :].lstrip()
    if sign is None or sign[0] not in _SIGNS or "\n" in column or "\n" in value:
        raise UsageError(
            "where must be 'column = value', 'column ^= prefix', or 'column >= bound' or the same "
            f"with >, <= or <, got {whole[:80]!r}"
        )
    return {"column": column, _SIGNS[sign[0]]: value}


# Parts of a JSON Schema that do not depend on the type of the value.
_OF_ANY_KIND = ("title", "description", "default")


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the configuration file, with the parameters of every method."""
    schema = ReleaseConfig.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    branches = []
    for name, method in sorted(METHODS.items()):
        params = method.Params.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(params.pop("$defs", {}))
        definitions[params["title"]] = params
        for key, field in method.Params.model_fields.items():
            if kinds_of(field.annotation):  # as text: a file, JSON, or a list between commas
                part = params["properties"][key]
                if "anyOf" not in part:
                    whole = {k: part.pop(k) for k in list(part) if k not in _OF_ANY_KIND}
                    part["anyOf"] = [whole]
                part["anyOf"].append({"type": "string"})
        then = {"properties": {"params": {"$ref": f"#/$defs/{params['title']}"}}}
        branches.append({"if": {"properties": {"method": {"const": name}}}, "then": then})
    schema["properties"]["method"]["enum"] = sorted(METHODS)
    schema["allOf"] = branches
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
