"""The digests by which releases are told apart: that of the configuration and that of the noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tracecloak.anonymizers.noise.randomness import text_digest


def config_digest(given: Mapping[str, Any]) -> str:
    """Returns 64 hex digits of a configuration, by which a finished release is known.

    A key at its default must not be among those given. So a key that a later version adds leaves
    the digests of all configurations without it as they are. The order of keys does not matter.

    Args:
        given: JSON values by key, of all that changes a released byte and is not at its default.
    """
    return text_digest(json.dumps(given, sort_keys=True, allow_nan=False))


def noise_digest(config: str, version: int, inner: Mapping[str, int] | None = None) -> str:
    """Returns 64 hex digits of what noise is drawn for, beside the input, for `Randomness`.

    It has the version of the method, in which its defaults and its steps up to the noise are as
    they are: another version draws other noise, and never the same for other counts.

    Args:
        config: `config_digest` of the configuration.
        version: Of the method, or of the product of a stream.
        inner: `inner_versions` of the method or product; none are as if they were not named.
    """
    return text_digest(config, version, *(f"{n} {of}" for n, of in sorted((inner or {}).items())))
