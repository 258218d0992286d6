"""What methods, products, formats, key sources and commands of another distribution are made of.

Its entry points name a class, a function or a small value that is written with these names and with
those of `tracecloak`; CONTRIBUTING.md and the page "Add a method" say what each is for. A name is
loaded when it is used, and none of them loads Beam.
"""

from typing import TYPE_CHECKING

from tracecloak._names import offered

if TYPE_CHECKING:
    from tracecloak.anonymizers.accounting.calibration import laplace_interval as laplace_interval
    from tracecloak.anonymizers.accounting.calibration import laplace_scale as laplace_scale
    from tracecloak.anonymizers.accounting.composition import Spend as Spend
    from tracecloak.anonymizers.accounting.gaussian_scale import gaussian_scale as gaussian_scale
    from tracecloak.anonymizers.accounting.sensitivity import Sensitivity as Sensitivity
    from tracecloak.anonymizers.accounting.sensitivity import of_one_cell as of_one_cell
    from tracecloak.anonymizers.contract.bounding import ContributionBounds as ContributionBounds
    from tracecloak.anonymizers.contract.counters import CollectNames as CollectNames
    from tracecloak.anonymizers.contract.counters import CountVariants as CountVariants
    from tracecloak.anonymizers.contract.method import Anonymizer as Anonymizer
    from tracecloak.anonymizers.contract.method import Counter as Counter
    from tracecloak.anonymizers.contract.method import Decision as Decision
    from tracecloak.anonymizers.contract.method import Decisions as Decisions
    from tracecloak.anonymizers.contract.method import Params as Params
    from tracecloak.anonymizers.contract.method import Products as Products
    from tracecloak.anonymizers.noise.drawing import draw_gaussian as draw_gaussian
    from tracecloak.anonymizers.noise.drawing import draw_laplace as draw_laplace
    from tracecloak.anonymizers.noise.randomness import Randomness as Randomness
    from tracecloak.anonymizers.noise.randomness import cell_numbers as cell_numbers
    from tracecloak.anonymizers.noise.release_key import ReleaseKey as ReleaseKey
    from tracecloak.anonymizers.noise.samplers import CellStream as CellStream
    from tracecloak.anonymizers.rigorous.budget import Sums as Sums
    from tracecloak.anonymizers.rigorous.counts_part import counts_part as counts_part
    from tracecloak.anonymizers.rigorous.params import Exact as Exact
    from tracecloak.anonymizers.rigorous.params import RigorousParams as RigorousParams
    from tracecloak.anonymizers.rigorous.params import drawable as drawable
    from tracecloak.anonymizers.rigorous.params import guarantee_of as guarantee_of
    from tracecloak.anonymizers.rigorous.parts_method import PartsMethod as PartsMethod
    from tracecloak.anonymizers.streams.continual import ContinualNoise as ContinualNoise
    from tracecloak.anonymizers.streams.continual import continual_noise as continual_noise
    from tracecloak.anonymizers.streams.count_steps import CountSteps as CountSteps
    from tracecloak.anonymizers.streams.count_steps import spent as spent
    from tracecloak.anonymizers.streams.params import StreamParams as StreamParams
    from tracecloak.anonymizers.streams.steps import StepProduct as StepProduct
    from tracecloak.anonymizers.streams.steps import StreamName as StreamName
    from tracecloak.anonymizers.variants.generator import VariantGenerator as VariantGenerator
    from tracecloak.anonymizers.variants.generator import VariantsDecision as VariantsDecision
    from tracecloak.anonymizers.variants.generator import fitting as fitting
    from tracecloak.anonymizers.variants.privtree import PrivTree as PrivTree
    from tracecloak.anonymizers.variants.stability_histogram import (
        VariantHistogramMethod as VariantHistogramMethod,
    )
    from tracecloak.anonymizers.variants.stability_histogram import (
        VariantHistogramParams as VariantHistogramParams,
    )
    from tracecloak.pipelines.commands.table import Command as Command
    from tracecloak.pipelines.commands.table import CommandEntry as CommandEntry
    from tracecloak.pipelines.commands.table import Given as Given
    from tracecloak.pipelines.screen.results import Result as Result
    from tracecloak.pipelines.screen.results import show as show
    from tracecloak.schemas.arrays.merging import Mergeable as Mergeable
    from tracecloak.schemas.arrays.merging import Statistics as Statistics
    from tracecloak.schemas.errors import InputSchemaError as InputSchemaError
    from tracecloak.schemas.errors import RetryLater as RetryLater
    from tracecloak.schemas.errors import TracecloakError as TracecloakError
    from tracecloak.schemas.errors import UsageError as UsageError
    from tracecloak.schemas.events.traces import TraceBatch as TraceBatch
    from tracecloak.schemas.events.vocabulary import ActivityVocabulary as ActivityVocabulary
    from tracecloak.schemas.published.guarantee import Guarantee as Guarantee
    from tracecloak.schemas.published.manifest import Operation as Operation
    from tracecloak.schemas.published.product import ReleasedProduct as ReleasedProduct
    from tracecloak.schemas.published.step import StepLog as StepLog
    from tracecloak.schemas.published.step import StepRelease as StepRelease
    from tracecloak.schemas.published.variants import ReleasedVariants as ReleasedVariants
    from tracecloak.schemas.published.variants import most_frequent_first as most_frequent_first
    from tracecloak.schemas.published.yields import Yield as Yield
    from tracecloak.schemas.statistics.variants import VariantHistogram as VariantHistogram
    from tracecloak.transforms.formats.base import DeclaringReader as DeclaringReader
    from tracecloak.transforms.formats.base import RawBatch as RawBatch
    from tracecloak.transforms.formats.base import Reader as Reader
    from tracecloak.transforms.formats.base import TypedReader as TypedReader
    from tracecloak.transforms.formats.base import Writer as Writer
    from tracecloak.transforms.formats.base import require_columns as require_columns
    from tracecloak.transforms.formats.csv_writer import iso_utc as iso_utc
    from tracecloak.transforms.formats.registry import Format as Format
    from tracecloak.transforms.formats.registry import SourceFormat as SourceFormat
    from tracecloak.transforms.publish.products import ProductKind as ProductKind
else:
    __getattr__, __dir__, __all__ = offered(
        globals(),
        {
            "anonymizers.accounting.calibration": "laplace_interval laplace_scale",
            "anonymizers.accounting.composition": "Spend",
            "anonymizers.accounting.gaussian_scale": "gaussian_scale",
            "anonymizers.accounting.sensitivity": "Sensitivity of_one_cell",
            "anonymizers.contract.bounding": "ContributionBounds",
            "anonymizers.contract.counters": "CollectNames CountVariants",
            "anonymizers.contract.method": "Anonymizer Counter Decision Decisions Params Products",
            "anonymizers.noise.drawing": "draw_gaussian draw_laplace",
            "anonymizers.noise.randomness": "Randomness cell_numbers",
            "anonymizers.noise.release_key": "ReleaseKey",
            "anonymizers.noise.samplers": "CellStream",
            "anonymizers.rigorous.budget": "Sums",
            "anonymizers.rigorous.counts_part": "counts_part",
            "anonymizers.rigorous.params": "Exact RigorousParams drawable guarantee_of",
            "anonymizers.rigorous.parts_method": "PartsMethod",
            "anonymizers.streams.continual": "ContinualNoise continual_noise",
            "anonymizers.streams.count_steps": "CountSteps spent",
            "anonymizers.streams.params": "StreamParams",
            "anonymizers.streams.steps": "StepProduct StreamName",
            "anonymizers.variants.generator": "VariantGenerator VariantsDecision fitting",
            "anonymizers.variants.privtree": "PrivTree",
            "anonymizers.variants.stability_histogram": (
                "VariantHistogramMethod VariantHistogramParams"
            ),
            "pipelines.commands.table": "Command CommandEntry Given",
            "pipelines.screen.results": "Result show",
            "schemas.arrays.merging": "Mergeable Statistics",
            "schemas.errors": "InputSchemaError RetryLater TracecloakError UsageError",
            "schemas.events.traces": "TraceBatch",
            "schemas.events.vocabulary": "ActivityVocabulary",
            "schemas.published.guarantee": "Guarantee",
            "schemas.published.manifest": "Operation",
            "schemas.published.product": "ReleasedProduct",
            "schemas.published.step": "StepLog StepRelease",
            "schemas.published.variants": "ReleasedVariants most_frequent_first",
            "schemas.published.yields": "Yield",
            "schemas.statistics.variants": "VariantHistogram",
            "transforms.formats.base": (
                "DeclaringReader RawBatch Reader TypedReader Writer require_columns"
            ),
            "transforms.formats.csv_writer": "iso_utc",
            "transforms.formats.registry": "Format SourceFormat",
            "transforms.publish.products": "ProductKind",
        },
    )
