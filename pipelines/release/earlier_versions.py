"""What an earlier version of a method, with other defaults, was given for what is asked now.

Suppose that version 1 of a method has `min_count` 0 by default and version 2 has 5. A release of
version 1 that was given no `min_count` is the one that is asked for if none is given now, or 0; and
it is another one if 5 is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig


def given_then(
    config: ReleaseConfig, given: Mapping[str, Any], in_effect: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the parameters that an earlier version would have been given, as JSON values.

    They are `given` if and only if the configuration asks for what was released: what it says is as
    it was in effect, and what it does not say was not given either, or is the same by default now.

    Args:
        config: Of now.
        given: Those that were given then and not as by default.
        in_effect: All that were in effect then, of the release's manifest.
    """
    now, of_now = config.method_params.resolved(), config.method_params.given()
    asked = (config.params.keys() & now.keys()) | given.keys()
    # Read by this build, what was in effect has the parts that parameters got since.
    then = {name: in_effect[name] for name in asked & in_effect.keys()}
    try:
        read = method_named(config.method).Params(**{**config.params, **then}).resolved()
    except pydantic.ValidationError:  # nothing that this build can be asked for
        read = {}
    result = {}
    for name in asked:
        if name in then and name in read and read[name] == now.get(name):
            if name in given:
                result[name] = given[name]
        elif name in then or name in of_now:
            result[name] = now.get(name)
    return result
