"""Packaging of tracecloak: what a worker installs, and the command."""

from setuptools import setup

setup(
    name="tracecloak",
    version="0.1.0",
    description="Anonymises process-mining event logs with Apache Beam",
    long_description="See README.md.",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=["schemas", "anonymizers", "transforms", "transforms.formats", "pipelines"],
    package_data={"schemas": ["*.avsc", "*.json", "*.xesext"]},
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "cryptography>=42",
        "fastavro[snappy,zstandard]>=1.9,<2",
        "jsonschema>=4.20",
        "numpy>=1.26,<2.5",
        "POT>=0.9.4",
        "pyarrow>=17,<26",
        "pydantic>=2.7,<3",
        "PyYAML>=6",
        "rapidfuzz>=3.9",
        "scipy>=1.12",
        "tqdm>=4.66",
    ],
    extras_require={
        "gcp": ["apache-beam[gcp]>=2.77,<2.78"],
        "kafka": ["confluent-kafka>=2.5"],
        "mining": ["pm4py>=2.7.20,<2.8"],
        "report": ["jinja2>=3.1"],
        "dev": [
            "hypothesis>=6.100",
            "mypy>=1.10",
            "pandas>=2.2",
            "pm4py>=2.7.20,<2.8",
            "polars>=1",  # pm4py reads XES through r4pm with it
            "pytest>=8",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.6",
            "r4pm>=0.6",
            "ruff>=0.6",
            "types-PyYAML",
            "types-jsonschema",
            "types-tqdm",
        ],
    },
    entry_points={"console_scripts": ["tracecloak=pipelines.cli:main"]},
)
