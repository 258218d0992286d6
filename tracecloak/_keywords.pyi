# Of the parameters of all methods and the keys of configurations; `make schema` writes it.

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Required, TypedDict

# In the error of a call whose arguments no method takes.
class MethodWithTheseArguments: ...

class Columns(TypedDict, total=False):
    case_id: str | None
    activity: str | None
    timestamp: str | Sequence[str] | None
    individual_id: str | None
    resource: str | None
    lifecycle: str | None
    order: str | None
    start_transitions: Sequence[str] | str
    complete_transitions: Sequence[str] | str
    start_timestamp: str | Sequence[str] | None
    time_zone: str
    timestamp_format: str | Sequence[str] | None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None
    whole_numbers: Sequence[str] | str

class LogKeys(TypedDict, total=False):
    where: str | Sequence[str]
    rename: str | Mapping[str, str]
    drop_duplicates: bool
    case_id: str | None
    activity: str | None
    timestamp: str | Sequence[str] | None
    individual_id: str | None
    resource: str | None
    lifecycle: str | None
    order: str | None
    start_transitions: Sequence[str] | str
    complete_transitions: Sequence[str] | str
    start_timestamp: str | Sequence[str] | None
    time_zone: str
    timestamp_format: str | Sequence[str] | None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None
    whole_numbers: Sequence[str] | str

class EvaluationKeys(LogKeys, total=False):
    key_store: str | None
    ledger: str | None

class FrameKeys(LogKeys, total=False):
    staging_area: str | None
    dead_letter: str | None
    key_store: str | None
    worker_keys: str | None
    key_encryption_key: str | None
    ledger: str | None
    new_ledger: bool
    account: str
    accounts: str | None
    dataset: str | None
    formats: Sequence[str] | str
    expected_cases: int | None
    expected_variants: int | None
    even_if_unusable: bool
    max_error_ratio: float | None
    deployment_key: str | None
    cases_kept_days: int
    sign: str | None
    shards: int
    memory: str | int | None
    workers: int | None
    parts: int
    page: Literal["whole", "shared"]
    title: str | None
    data_subjects: str | None
    data_period: str | None
    controller: str | None
    contact: str | None
    purpose: str | None

class RowKeys(TypedDict, total=False):
    where: str | Sequence[str]
    rename: str | Mapping[str, str]
    drop_duplicates: bool
    staging_area: str | None
    key_store: str | None
    worker_keys: str | None
    key_encryption_key: str | None
    ledger: str | None
    new_ledger: bool
    account: str
    accounts: str | None
    dataset: str | None
    release_id: Required[str]
    expected_cases: int | None
    expected_variants: int | None
    even_if_unusable: bool
    max_error_ratio: float | None
    deployment_key: str | None
    cases_kept_days: int
    shards: int
    case_id: str | None
    activity: str | None
    timestamp: str | Sequence[str] | None
    individual_id: str | None
    resource: str | None
    lifecycle: str | None
    order: str | None
    start_transitions: Sequence[str] | str
    complete_transitions: Sequence[str] | str
    start_timestamp: str | Sequence[str] | None
    time_zone: str
    timestamp_format: str | Sequence[str] | None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None
    whole_numbers: Sequence[str] | str

class FileKeys(RowKeys, total=False):
    formats: Sequence[str] | str
    sign: str | None
    parts: int
    title: str | None
    data_subjects: str | None
    data_period: str | None
    controller: str | None
    contact: str | None
    purpose: str | None

class ReadKeys(TypedDict, total=False):
    where: str | Sequence[str]
    input_format: str | None
    delimiter: str | None
    encoding: str
    header: Sequence[str] | str | None
    quote_char: str
    escape_char: str | None
    skip_lines: int
    comment: str | None
    unnamed_traces: Literal["digest"] | None
    int96_timestamps: Literal["instant", "local"]
    case_id: str | None
    activity: str | None
    timestamp: str | Sequence[str] | None
    individual_id: str | None
    resource: str | None
    lifecycle: str | None
    order: str | None
    start_transitions: Sequence[str] | str
    complete_transitions: Sequence[str] | str
    start_timestamp: str | Sequence[str] | None
    time_zone: str
    timestamp_format: str | Sequence[str] | None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None
    whole_numbers: Sequence[str] | str

class StreamKeys(TypedDict, total=False):
    where: str | Sequence[str]
    input_topic: str | None
    event_id: str
    operation: str | None
    operation_events: Sequence[str] | str
    output: Required[str]
    staging_area: str | None
    dead_letter: str | None
    key_store: str | None
    worker_keys: str | None
    key_encryption_key: str | None
    ledger: str | None
    new_ledger: bool
    account: str
    accounts: str | None
    dataset: str | None
    operator_port: int | None
    operator_address: str
    operator_names: Sequence[str] | str
    health_file: str | None
    metrics: str | None
    metrics_for: Literal["public", "operator"]
    stuck_after: str | None
    release_id: Required[str]
    epoch: Required[str]
    kafka_properties: str | None
    kafka_token: str | None
    clock_topic: str
    schema_registry: str | None
    schema_registry_properties: str | None
    clock: Literal["event", "publishing"]
    view: Literal["window", "total", "sliding"]
    sliding_steps: int | None
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    vocabulary: Required[Sequence[str] | str]
    closed_vocabulary: bool
    max_trace_length: int
    l2_clip: Decimal | float | str | None
    guarantee: Literal["case", "w_event"]
    w_event_steps: int | None
    max_cases_per_individual: int | None
    period: Required[str]
    horizon: Required[int]
    start: Required[datetime | str]
    gap: Required[str]
    max_lifetime: Required[str]
    max_disorder: str
    end_activity: Sequence[str] | str
    tombstone: str | None
    release_delay: str
    publish_on_drain: bool
    formats: Sequence[str] | str | None
    output_table: str | None
    shards: int | None
    case_id: str | None
    activity: str | None
    timestamp: str | Sequence[str] | None
    individual_id: str | None
    resource: str | None
    lifecycle: str | None
    order: str | None
    start_transitions: Sequence[str] | str
    complete_transitions: Sequence[str] | str
    start_timestamp: str | Sequence[str] | None
    time_zone: str
    timestamp_format: str | Sequence[str] | None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None
    whole_numbers: Sequence[str] | str

class AmunParams(TypedDict, total=False):
    guessing_advantage: float
    mode: Literal["sampling", "filtering", "oversampling"]
    profile: Literal["paper", "reference", "tables"]
    oversampling_epsilon: Literal["epsilon_d", "proposition_a6"] | None
    max_growth: float | None
    prior: Literal["equation_1", "clamped"] | None
    time_precision_us: int | None
    time_unit_us: int | None
    start_precision_days: float | Literal["authors"] | None
    saturated_epsilon: float | Literal["epsilon_d"] | None
    zero_prior_epsilon: float
    compression: Literal["starts", "equation_4", "noise", "shifts", "none"] | None
    moves: Literal["algorithm_1", "authors"] | None
    negative_steps: Literal["zero", "mirrored"] | None
    divided_epsilons: Literal["all", "steps"] | None
    correlated_times: bool
    log_start: datetime | str | None
    log_end: datetime | str | None

class PrivateDfgParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    l2_clip: Decimal | float | str | None
    durations: bool
    n_duration_bins: int

class PappiParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    indicators: Required[
        Sequence[
            str
            | Cases
            | Throughput
            | Within
            | Rework
            | Frequency
            | Rule
            | Waiting
            | Working
            | Amount
            | Workload
        ]
        | str
    ]
    mechanism: Literal["laplace", "interval"]

class Cases(TypedDict, total=False):
    indicator: Required[Literal["cases"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None

class Filter(TypedDict, total=False):
    occurs: str | None
    attribute: str | None
    equals: str | None

class Throughput(TypedDict, total=False):
    indicator: Required[Literal["throughput"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    of: Literal["mean", "sum", "median", "histogram"] | Sequence[Decimal | float | str]
    n_bins: int
    at_most: str | None

class Within(TypedDict, total=False):
    indicator: Required[Literal["within"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    limit: Required[str]

class Rework(TypedDict, total=False):
    indicator: Required[Literal["rework"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    activity: str | None

class Frequency(TypedDict, total=False):
    indicator: Required[Literal["frequency"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    activity: str | None
    at_most: int

class Rule(TypedDict, total=False):
    indicator: Required[Literal["rule"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    template: Required[str]
    activity: Required[str]
    then: str | None
    n: int
    within: str | None

class Waiting(TypedDict, total=False):
    indicator: Required[Literal["waiting"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    of: Literal["mean", "sum", "median", "histogram"] | Sequence[Decimal | float | str]
    n_bins: int
    at_most: str | None
    activity: str | None
    then: str | None

class Working(TypedDict, total=False):
    indicator: Required[Literal["working"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    of: Literal["mean", "sum", "median", "histogram"] | Sequence[Decimal | float | str]
    n_bins: int
    at_most: str | None
    activity: str | None

class Amount(TypedDict, total=False):
    indicator: Required[Literal["amount"]]
    name: str | None
    where: Filter | None
    by: str | None
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    of: Literal["mean", "sum", "median", "histogram"] | Sequence[Decimal | float | str]
    n_bins: int
    attribute: Required[str]
    bounds: Required[Sequence[Decimal | float | str]]

class Workload(TypedDict, total=False):
    indicator: Required[Literal["workload"]]
    name: str | None
    where: Filter | None
    by: str
    groups: Sequence[str | Sequence[str]] | None
    n_groups: int
    priority: Decimal | float | str
    wanted_error: Decimal | float | str | None
    at_most: int

class IndicatorParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    indicators: Required[
        Sequence[
            str
            | Cases
            | Throughput
            | Within
            | Rework
            | Frequency
            | Rule
            | Waiting
            | Working
            | Amount
            | Workload
        ]
        | str
    ]
    first_date: date | str | None
    last_date: date | str | None
    calendar_time_zone: str
    max_activities: int
    attribute_columns: Mapping[str, str] | str
    service_times: bool

class ProcessTreeParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    max_pairs: int | None
    min_size: Decimal | float | str
    max_size: Decimal | float | str
    n_sizes: int
    selection_share: Decimal | float | str
    ends_share: Decimal | float | str

class DpimParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    epsilon_0: Decimal | float | str
    stop_probability: Decimal | float | str
    fitness_threshold: Decimal | float | str
    fitness_measure: Literal["share", "tokens"]
    pairs_share: Decimal | float | str
    ends_share: Decimal | float | str
    fitness_share: Decimal | float | str
    size_bounds: Sequence[int] | str | None
    bounds_from_log: bool

class VariantHistogramParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    noise: Literal["laplace", "truncated"]

class PureVariantLogParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    length_quantile: Decimal | float | str

class VariantLogParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int

class JointVariantsParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    groups: Mapping[str, str] | str | None
    group_separator: str | None
    group_depth: int | None

class PrivateLogParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    groups: Mapping[str, str] | str | None
    group_separator: str | None
    group_depth: int | None
    products: Literal["log", "variants"]
    variants: str
    length_quantile: Decimal | float | str
    first_date: date | str | None
    last_date: date | str | None
    calendar_time_zone: str
    working_days: Sequence[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | str | None
    working_hours: str | None
    holidays: Sequence[str] | str
    granularity: Literal["microsecond", "millisecond", "second", "minute", "hour", "day"] | None
    service_times: bool
    n_duration_bins: int | None
    times_by: Literal["auto", "activity", "case"]
    l2_clip: Decimal | float | str | None
    attributes: Mapping[str, HandoverDeclaration] | str
    budget_split: Mapping[str, Decimal | float | str] | str

class HandoverDeclaration(TypedDict, total=False):
    values: Sequence[str] | None
    bounds: Sequence[int | float] | None
    n_bins: int
    whole: bool
    column: str | None
    handovers: bool

class AmunRigorousParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    groups: Mapping[str, str] | str | None
    group_separator: str | None
    group_depth: int | None
    products: Literal["log", "variants"]
    variants: str
    length_quantile: Decimal | float | str
    first_date: date | str | None
    last_date: date | str | None
    calendar_time_zone: str
    working_days: Sequence[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | str | None
    working_hours: str | None
    holidays: Sequence[str] | str
    granularity: Literal["microsecond", "millisecond", "second", "minute", "hour", "day"] | None
    service_times: bool
    n_duration_bins: int | None
    times_by: Literal["auto", "activity", "case"]
    l2_clip: Decimal | float | str | None
    attributes: Mapping[str, HandoverDeclaration] | str
    budget_split: Mapping[str, Decimal | float | str] | str
    guessing_advantage: Required[Decimal | float | str]

class LaplaceVariantsParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    max_prefix_length: Required[int]
    profile: Literal["paper", "reference"]
    budget: Literal["published", "honest"]
    max_cases_per_individual: int | None
    p_harmful: Required[int]

class SacofaParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    max_prefix_length: Required[int]
    profile: Literal["paper", "reference"]
    budget: Literal["published", "honest"]
    max_cases_per_individual: int | None
    p_harmful: Required[int | Literal["inf"]]
    p_harmless: int | None
    harmful_from: int
    score: Literal["binary", "continuous"]
    max_violations: int | None
    rules: Literal["log", "model", "bought"]
    model: NamedRules | str | None
    rules_share: Decimal | float | str

class NamedRules(TypedDict, total=False):
    activities: Required[Sequence[str]]
    begins: Required[Sequence[str]]
    never: Sequence[Sequence[str]]
    always_follows: Sequence[Sequence[str]]
    always_precedes: Sequence[Sequence[str]]

class PairQueryParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    budget: Literal["published", "honest"]
    profile: Literal["paper", "reference"]
    max_trace_length: int | None
    max_cases_per_individual: int | None

class SapaParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    budget: Literal["published", "honest"]
    profile: Literal["paper", "reference"]
    max_trace_length: int | None
    max_cases_per_individual: int | None
    query: Literal["exponential", "laplace"]
    k_follows: int

class PripelParams(TypedDict, total=False):
    epsilon: Required[Decimal | float | str]
    max_prefix_length: Required[int]
    p_harmful: Required[int]
    query: Literal["laplace", "sacofa"]
    p_harmless: int | None
    duration_bounds: Literal["pair", "log"]
    attributes: Mapping[str, Declaration] | str

class Declaration(TypedDict, total=False):
    values: Sequence[str] | None
    bounds: Sequence[int | float] | None
    n_bins: int
    whole: bool
    column: str | None

class PripelRigorousParams(TypedDict, total=False):
    vocabulary: Sequence[str] | str | None
    closed_vocabulary: bool
    epsilon: Required[Decimal | float | str]
    delta: Decimal | float | str
    allow_large_delta: bool
    max_cases: int | None
    max_cases_per_individual: int | None
    max_trace_length: int | None
    buy_vocabulary: bool
    max_activities: int
    groups: Mapping[str, str] | str | None
    group_separator: str | None
    group_depth: int | None
    products: Literal["log", "variants"]
    variants: str
    length_quantile: Decimal | float | str
    first_date: date | str | None
    last_date: date | str | None
    calendar_time_zone: str
    working_days: Sequence[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | str | None
    working_hours: str | None
    holidays: Sequence[str] | str
    granularity: Literal["microsecond", "millisecond", "second", "minute", "hour", "day"] | None
    service_times: bool
    n_duration_bins: int | None
    times_by: Literal["auto", "activity", "case"]
    l2_clip: Decimal | float | str | None
    attributes: Mapping[str, HandoverDeclaration] | str
    budget_split: Mapping[str, Decimal | float | str] | str
    max_prefix_length: Required[int]
    p_harmful: int

class KAnonymousParams(TypedDict, total=False):
    k: int
    perspective: Literal["activity", "resource", "activity_resource"]
    time_unit: Literal["seconds", "minutes", "hours", "days"]
    resources: Mapping[str, Declaration] | str
    initial_time: datetime | str
    knowledge_kind: Literal["sequence", "relative"]

class TlkcParams(TypedDict, total=False):
    k: int
    perspective: Literal["activity", "resource", "activity_resource"]
    time_unit: Literal["seconds", "minutes", "hours", "days"]
    resources: Mapping[str, Declaration] | str
    initial_time: datetime | str
    length: int
    confidence: float
    knowledge_kind: Literal["set", "multiset", "sequence", "relative"]
    sensitive: Mapping[str, Declaration] | str
    algorithm: Literal["n_score", "frequent_traces"]
    profile: Literal["sparing", "paper"]
    alpha: float
    theta: float

class PretsaParams(TypedDict, total=False):
    k: int
    distance: Literal["levenshtein", "embedding"]
    protect_ends: bool
    penalty_direction: Literal["text", "paper_formula", "authors_code"]
    rho_addition: float
    rho_removal: float
    epochs: int | None
    starts: Literal["dropped", "kept"]
    duration: Mapping[str, Declaration] | str
    t: float
    closeness: Literal["released", "input"]

class PretsaCaseParams(TypedDict, total=False):
    k: int
    distance: Literal["levenshtein", "embedding"]
    protect_ends: bool
    penalty_direction: Literal["text", "paper_formula", "authors_code"]
    rho_addition: float
    rho_removal: float
    epochs: int | None
    starts: Literal["dropped", "kept"]
    duration: Mapping[str, Declaration] | str

class AmunRowKeys(AmunParams, RowKeys): ...
class PrivateDfgRowKeys(PrivateDfgParams, RowKeys): ...
class PappiRowKeys(PappiParams, RowKeys): ...
class IndicatorRowKeys(IndicatorParams, RowKeys): ...
class ProcessTreeRowKeys(ProcessTreeParams, RowKeys): ...
class DpimRowKeys(DpimParams, RowKeys): ...
class VariantHistogramRowKeys(VariantHistogramParams, RowKeys): ...
class PureVariantLogRowKeys(PureVariantLogParams, RowKeys): ...
class VariantLogRowKeys(VariantLogParams, RowKeys): ...
class JointVariantsRowKeys(JointVariantsParams, RowKeys): ...
class PrivateLogRowKeys(PrivateLogParams, RowKeys): ...
class AmunRigorousRowKeys(AmunRigorousParams, RowKeys): ...
class LaplaceVariantsRowKeys(LaplaceVariantsParams, RowKeys): ...
class SacofaRowKeys(SacofaParams, RowKeys): ...
class PairQueryRowKeys(PairQueryParams, RowKeys): ...
class SapaRowKeys(SapaParams, RowKeys): ...
class PripelRowKeys(PripelParams, RowKeys): ...
class PripelRigorousRowKeys(PripelRigorousParams, RowKeys): ...
class KAnonymousRowKeys(KAnonymousParams, RowKeys): ...
class TlkcRowKeys(TlkcParams, RowKeys): ...
class PretsaRowKeys(PretsaParams, RowKeys): ...
class PretsaCaseRowKeys(PretsaCaseParams, RowKeys): ...
class AmunFileKeys(AmunParams, FileKeys): ...
class PrivateDfgFileKeys(PrivateDfgParams, FileKeys): ...
class PappiFileKeys(PappiParams, FileKeys): ...
class IndicatorFileKeys(IndicatorParams, FileKeys): ...
class ProcessTreeFileKeys(ProcessTreeParams, FileKeys): ...
class DpimFileKeys(DpimParams, FileKeys): ...
class VariantHistogramFileKeys(VariantHistogramParams, FileKeys): ...
class PureVariantLogFileKeys(PureVariantLogParams, FileKeys): ...
class VariantLogFileKeys(VariantLogParams, FileKeys): ...
class JointVariantsFileKeys(JointVariantsParams, FileKeys): ...
class PrivateLogFileKeys(PrivateLogParams, FileKeys): ...
class AmunRigorousFileKeys(AmunRigorousParams, FileKeys): ...
class LaplaceVariantsFileKeys(LaplaceVariantsParams, FileKeys): ...
class SacofaFileKeys(SacofaParams, FileKeys): ...
class PairQueryFileKeys(PairQueryParams, FileKeys): ...
class SapaFileKeys(SapaParams, FileKeys): ...
class PripelFileKeys(PripelParams, FileKeys): ...
class PripelRigorousFileKeys(PripelRigorousParams, FileKeys): ...
class KAnonymousFileKeys(KAnonymousParams, FileKeys): ...
class TlkcFileKeys(TlkcParams, FileKeys): ...
class PretsaFileKeys(PretsaParams, FileKeys): ...
class PretsaCaseFileKeys(PretsaCaseParams, FileKeys): ...
class AmunFrameKeys(AmunParams, FrameKeys): ...
class PrivateDfgFrameKeys(PrivateDfgParams, FrameKeys): ...
class PappiFrameKeys(PappiParams, FrameKeys): ...
class IndicatorFrameKeys(IndicatorParams, FrameKeys): ...
class ProcessTreeFrameKeys(ProcessTreeParams, FrameKeys): ...
class DpimFrameKeys(DpimParams, FrameKeys): ...
class VariantHistogramFrameKeys(VariantHistogramParams, FrameKeys): ...
class PureVariantLogFrameKeys(PureVariantLogParams, FrameKeys): ...
class VariantLogFrameKeys(VariantLogParams, FrameKeys): ...
class JointVariantsFrameKeys(JointVariantsParams, FrameKeys): ...
class PrivateLogFrameKeys(PrivateLogParams, FrameKeys): ...
class AmunRigorousFrameKeys(AmunRigorousParams, FrameKeys): ...
class LaplaceVariantsFrameKeys(LaplaceVariantsParams, FrameKeys): ...
class SacofaFrameKeys(SacofaParams, FrameKeys): ...
class PairQueryFrameKeys(PairQueryParams, FrameKeys): ...
class SapaFrameKeys(SapaParams, FrameKeys): ...
class PripelFrameKeys(PripelParams, FrameKeys): ...
class PripelRigorousFrameKeys(PripelRigorousParams, FrameKeys): ...
class KAnonymousFrameKeys(KAnonymousParams, FrameKeys): ...
class TlkcFrameKeys(TlkcParams, FrameKeys): ...
class PretsaFrameKeys(PretsaParams, FrameKeys): ...
class PretsaCaseFrameKeys(PretsaCaseParams, FrameKeys): ...
