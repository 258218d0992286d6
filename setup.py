"""Packaging of tracecloak: what a worker installs, and the command."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
TOPS = ("schemas", "anonymizers", "transforms", "pipelines")


def _rooms(top: str) -> list[str]:
    return [f"{top}.{name}" for name in find_packages(str(HERE / top))]


setup(
    name="tracecloak",
    version="0.1.0",
    description="Anonymises process-mining event logs with Apache Beam",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    # The folders of the repository are packages of one package; `face` is its public face.
    packages=["tracecloak"]
    + [f"tracecloak.{name}" for top in TOPS for name in (top, *_rooms(top))],
    package_dir={"tracecloak": "face", **{f"tracecloak.{top}": top for top in TOPS}},
    package_data={
        "": ["*.pyi"],
        "tracecloak": ["py.typed"],
        "tracecloak.schemas.files": ["*.avsc", "*.json", "*.xesext"],
        "tracecloak.transforms.publish": ["templates/*.j2"],
        "tracecloak.pipelines.demo": ["templates/*.j2"],
    },
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "cryptography>=42",
        "dp-accounting>=0.6,<0.7",
        "fastavro[snappy,zstandard]>=1.9,<2",
        "Jinja2>=3.1",
        "lazy-loader>=0.4",
        "jsonschema>=4.20",
        "numpy>=1.26,<2.5",
        "POT>=0.9.4",
        "pyarrow>=17,<26",
        "pydantic>=2.7,<3",
        "PyYAML>=6",
        "rapidfuzz>=3.9",
        "scipy>=1.12",
        "SQLAlchemy>=2.0,<3",
        "tqdm>=4.66",
    ],
    extras_require={
        "embedding": ["gensim>=4.3,<5"],
        "gcp": ["apache-beam[gcp]>=2.77,<2.78"],
        "kafka": ["confluent-kafka>=2.5"],
        "mining": ["pm4py>=2.7.20,<2.8", "scikit-learn>=1.4"],
        "postgresql": ["psycopg[binary]>=3.1"],
        "pubsub": ["google-cloud-pubsub>=2.1,<3"],
        "report": ["matplotlib>=3.8"],
        "dev": [
            "gensim>=4.3,<5",
            "google-cloud-pubsub>=2.1,<3",
            "hypothesis>=6.100",
            "markdown-it-py>=3",
            "matplotlib>=3.8",
            "mpmath>=1.3",
            "mypy>=1.10",
            "opendp>=0.12",
            "pandas>=2.2",
            "pgserver>=0.1.4",
            "psycopg[binary]>=3.1",
            "pm4py>=2.7.20,<2.8",
            "polars>=1",  # pm4py reads XES through r4pm with it
            "pytest>=8",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.6",
            "r4pm>=0.6",
            "ruff>=0.6",
            "scikit-learn>=1.4",
            "types-PyYAML",
            "types-jsonschema",
            "types-tqdm",
        ],
    },
    entry_points={"console_scripts": ["tracecloak=tracecloak.pipelines.commands.main:main"]},
)
