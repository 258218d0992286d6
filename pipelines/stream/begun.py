"""The configuration of an epoch that has begun: a vocabulary that grows, and another horizon.

A public vocabulary may get more names. A case still counts in one step, with a vector of the same
clip, over more cells; and noise of the same scale is drawn for each cell, whatever their number. So
what one case changes over all steps, and epsilon and delta, are as before. The names count from
the first step on that begins after the stream has started with them: a message that was published
before that is of `__other__`, or of a closed vocabulary left out, whenever it is read. So which
cell an event is in is a function of the event and of public numbers, and never of how far the
messages of others were read. The names are a person's choice, and are never taken from the data.

Another horizon is another epoch, since what was published promises this one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text, total
from tracecloak.anonymizers.streams.count_steps import CountSteps
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.runners.names import LOCAL
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.files import join, read_if_there
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US


def goes_on_with(
    config: StreamConfig, store: KeyStore, clock: Callable[[], float] = time.time
) -> StreamConfig:
    """Returns the configuration with which an epoch begins or goes on. Nothing is written.

    It is the given one, with what is known of names that came later, and under the clip of the
    first vocabulary. If the epoch did not begin with it, and not with fewer names, it is returned
    as it is: its digest is not that of the receipt. So is one that this has returned.

    Args:
        config: What is published, of what.
        store: The key store.
        clock: Seconds since 1970 UTC.

    Raises:
        UsageError: Nothing differs but the horizon, or a vocabulary that cannot grow so.
        TracecloakError: The published manifest is damaged.
    """
    receipt, last_step = store.receipt(*config.place), store.last_step(*config.place)
    is_running = store.key_state(receipt) == "there"
    if receipt is None or config.since or not (is_running or last_step is not None):
        return config
    noted = json.loads(store.names_of(*config.place) or "{}")
    if noted.pop("key", None) != receipt.key_fingerprint:  # or it is of a run that lost its key
        if receipt.config_digest == config.digest:
            return config
        noted = _published(join(config.folder, MANIFEST_NAME))
    noted = {"vocabulary": config.vocabulary, "horizon": config.horizon, "since": {}} | noted
    since: dict[str, int] = noted["since"]
    changed = {"vocabulary": tuple(noted["vocabulary"]), "horizon": noted["horizon"]}
    begun = config.model_copy(update=changed)
    if begun.digest != receipt.config_digest:  # a manifest that was changed is found, too
        return config

    def refused(reason: str, remedy: str) -> UsageError:
        return UsageError(
            f"epoch {config.epoch!r} of {config.release_id!r} was begun with another "
            f"configuration: {reason}. {remedy}, or begin another epoch, which is another spend"
        )

    if begun.horizon != config.horizon:
        raise refused(_costs(begun, config), f"Set horizon to {begun.horizon} again")
    known, names = {*begun.vocabulary, *since}, set(config.vocabulary)
    if lost := sorted(known - names):
        raise refused(
            f"its vocabulary has {lost[0]!r}, and can only get more names",
            "Add what is missing",
        )
    if is_running and (new := sorted(names - known)):
        now_us: Any = int(clock() * 1e6) + CLOCK_SKEW_US  # no message from then on is read yet
        step = max(int(config.rule.step_of(now_us)) + 1, 0)
        since |= dict.fromkeys(new, step)
        if step >= config.horizon:
            raise refused("no step begins in which more names could count", "Leave them out")
    if since and (config.runner not in (LOCAL, "DirectRunner") or config.product != "dfg"):
        raise refused(
            f"its vocabulary grows with product dfg and runner {LOCAL} alone, as other state has "
            "the numbers of its names for good",
            "Leave the new names out",
        )
    grown = config.grown(begun, since)
    if grown.made_product().spends() != begun.made_product().spends():
        raise refused("more names would need other noise than was paid for", "Leave them out")
    return grown


def _published(path: str) -> dict[str, Any]:
    """Returns the parameters in a manifest, or none if it is not there."""
    try:
        return dict(json.loads(read_if_there(path) or "{}").get("params", {}))
    except (ValueError, TypeError, AttributeError):  # no JSON, or another value than a manifest
        raise TracecloakError(
            f"{path} is damaged, by which the stream knows how its epoch was begun; restore it"
        ) from None


def _costs(begun: StreamConfig, config: StreamConfig) -> str:
    """Returns what is charged for the horizon of an epoch, and what another one would cost."""
    product, other = begun.made_product(), config.made_product()
    charged, anew = (
        "epsilon {} with delta {}".format(*map(decimal_text, total(one.spends())))
        for one in (product, other)
    )
    same = wider = ""
    if isinstance(product, CountSteps) and isinstance(other, CountSteps):
        if (costs := product.costs_of(other)) is not None:
            epsilon = math.ceil(costs[0] * 10**4) / 10**4
            same = f"; with its noise {config.horizon:,} steps would cost epsilon {epsilon:g}"
            wider = f" and has {costs[1]:.2f} times its noise"
    return (
        f"it is charged {charged} for {begun.horizon:,} steps, and each step promises that{same}. "
        f"Another epoch of {config.horizon:,} steps is charged {anew}{wider}; a case in both is "
        "protected with the sum"
    )
