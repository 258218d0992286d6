"""What methods, products, formats, key sources and commands of another distribution are made of.

Its entry points name a class, a function or a small value that is written with these names and with
those of `tracecloak`; CONTRIBUTING.md and the page "Add a method" say what each is for. A name is
loaded when it is used, and none of them loads Beam.
"""

from tracecloak._names import offered

__getattr__, __dir__, __all__ = offered(
    globals(),
    {
        "anonymizers.accounting.calibration": "laplace_interval laplace_scale",
        "anonymizers.accounting.composition": "Spend",
        "anonymizers.accounting.joint": "gaussian_scale",
        "anonymizers.accounting.sensitivity": "Sensitivity of_one_cell",
        "anonymizers.contract.bounding": "ContributionBounds",
        "anonymizers.contract.counters": "CollectNames CountVariants",
        "anonymizers.contract.method": "Anonymizer Counter Decision Decisions Params Products",
        "anonymizers.noise.randomness": "Randomness cell_numbers ReleaseKey",
        "anonymizers.noise.samplers": "CellStream draw_gaussian draw_laplace",
        "anonymizers.registry": "PluginMethod",
        "anonymizers.rigorous.budget": "Sums",
        "anonymizers.rigorous.parts_method": "counts_part PartsMethod",
        "anonymizers.rigorous.params": "Exact RigorousParams drawable guarantee_of",
        "anonymizers.streams.continual": "ContinualNoise continual_noise",
        "anonymizers.streams.count_steps": "CountSteps spent StreamParams",
        "anonymizers.streams.steps": "StepProduct StreamName",
        "anonymizers.variants.generator": "VariantGenerator VariantsDecision fitting",
        "anonymizers.variants.privtree": "PrivTree",
        "anonymizers.variants.method": "VariantHistogramMethod VariantHistogramParams",
        "pipelines.commands.table": "Command CommandEntry Given",
        "pipelines.screen.results": "Result show",
        "schemas.arrays.merging": "Mergeable Statistics",
        "schemas.errors": "InputSchemaError RetryLater TracecloakError UsageError",
        "schemas.events.traces": "TraceBatch",
        "schemas.events.events": "ActivityVocabulary",
        "schemas.published.manifest": "Guarantee Operation Yield",
        "schemas.published.figures": "ReleasedProduct",
        "schemas.published.step": "StepLog StepRelease",
        "schemas.published.variants": "ReleasedVariants most_frequent_first",
        "schemas.statistics.variants": "VariantHistogram",
        "transforms.formats.base": (
            "DeclaringReader RawBatch Reader TypedReader Writer require_columns"
        ),
        "transforms.formats.csv_writer": "iso_utc",
        "transforms.formats.registry": "Format SourceFormat",
        "transforms.publish.products": "ProductKind",
    },
)
