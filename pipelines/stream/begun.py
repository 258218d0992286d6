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
from collections.abc import Callable, Mapping
from typing import Any

from tracecloak.anonymizers.accounting.composition import decimal_text, total
from tracecloak.anonymizers.streams.count_steps import CountSteps, at_another_horizon
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.runners.names import LOCAL
from tracecloak.pipelines.stream.config import StreamConfig, Vocabularies
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts.escapes import escaped
from tracecloak.transforms.files import join, read_if_there
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US
from tracecloak.transforms.stream.step_files import epoch_folder

_ANOTHER = "begin another epoch, which is another spend"


def goes_on_with(
    config: StreamConfig, store: KeyStore, output: str, clock: Callable[[], float]
) -> StreamConfig:
    """Returns the configuration with which an epoch goes on that has a receipt.

    It is the given one, with what is known of the vocabularies so far and the clip of the first. If
    the epoch did not begin with it, and not with fewer names, it is returned as it is: its digest
    is not that of the receipt. Nothing is written.

    Args:
        config: What is published, of what.
        store: The key store.
        output: The folder of all releases.
        clock: Seconds since 1970 UTC.

    Raises:
        UsageError: Nothing differs but the horizon, or a vocabulary that cannot grow so.
    """
    receipt = store.reserved(output, config.name.both)
    key, noted = store.key_state(receipt), _noted(store, output, config, receipt.key_fingerprint)
    if receipt.config_digest == config.digest and not noted:
        return config
    if key != "there" and store.last_step(output, config.name.both) is None:
        return config
    said = _said(output, config)
    known = noted or ((0, tuple(said.get("vocabulary", config.vocabulary))),)
    changed = {"vocabulary": known[0][1], "horizon": said.get("horizon", config.horizon)}
    begun = config.model_copy(update=changed)
    if begun.digest != receipt.config_digest:
        return config
    epoch = f"epoch {config.epoch!r} of {config.release_id!r} was begun with another configuration"
    if begun.horizon != config.horizon:
        raise UsageError(f"{epoch}: {_another_horizon(begun, config)}, or {_ANOTHER}")
    if lost := sorted(set(known[-1][1]) - set(config.vocabulary)):
        raise UsageError(
            f"{epoch}: its vocabulary has {escaped(lost[0])!r}, and may only get more names. Add "
            f"those that are missing, {len(lost):,} in all, or {_ANOTHER}"
        )
    if key == "there" and set(config.vocabulary) - set(known[-1][1]):
        now_us = int(clock() * 1e6) + CLOCK_SKEW_US  # messages from then on are not read yet
        step = max(int(config.rule.step_of(now_us)) + 1, 0)
        if step >= config.horizon:
            raise UsageError(
                f"{epoch}: names that come to its vocabulary count from the next step on that "
                f"begins, and none does. Take them out again, or {_ANOTHER}"
            )
        known = (*known, (step, config.vocabulary))
    if len(known) > 1 and (config.runner not in (LOCAL, "DirectRunner") or config.product != "dfg"):
        raise UsageError(
            f"{epoch}: a vocabulary grows with product dfg and runner {LOCAL}, which have the "
            f"numbers of its names where they can be changed, and not with product "
            f"{config.product} and runner {config.runner}. Take the names out again, or {_ANOTHER}"
        )
    grown = config.after(begun, known)
    _require_same_noise(begun, grown)
    return grown


def note_names(config: StreamConfig, store: KeyStore, output: str) -> None:
    """Notes the vocabularies of an epoch; those that are noted stay as they are."""
    receipt = store.reserved(output, config.name.both)
    body = {"key": receipt.key_fingerprint, "vocabularies": config.vocabularies}
    store.note_names(output, config.name.both, json.dumps(body))


def _noted(store: KeyStore, output: str, config: StreamConfig, fingerprint: str) -> Vocabularies:
    """The vocabularies that are noted; none are if the first one is the only one."""
    body = json.loads(store.names_of(output, config.name.both) or "{}")
    if body.get("key") != fingerprint:  # of an epoch of this name before this one
        return ()
    return tuple((step, tuple(names)) for step, names in body["vocabularies"])


def _said(output: str, config: StreamConfig) -> Mapping[str, Any]:
    """What the epoch's manifest says of it; the receipt shows whether that is so."""
    folder = epoch_folder(output, config.release_id, config.epoch)
    params = json.loads(read_if_there(join(folder, MANIFEST_NAME)) or "{}").get("params", {})
    return {name: params[name] for name in ("vocabulary", "horizon") if name in params}


def _require_same_noise(begun: StreamConfig, grown: StreamConfig) -> None:
    """Makes sure that what was paid for is the noise of all cells; see the module."""
    products = begun.made_product(), grown.made_product()
    if products[0].spends() != products[1].spends():
        raise UsageError(
            f"the names that came to the vocabulary would need other noise than that of epoch "
            f"{begun.epoch!r}; {_ANOTHER}"
        )


def _another_horizon(begun: StreamConfig, config: StreamConfig) -> str:
    """What is charged for the horizon of an epoch, and what another one would cost."""
    product, other = begun.made_product(), config.made_product()
    charged, anew = (total(one.spends()) for one in (product, other))
    epsilon, delta = map(decimal_text, charged)
    sentence = (
        f"it is charged epsilon {epsilon} with delta {delta} for a horizon of {begun.horizon:,} "
        f"steps, and promises that in every step. "
    )
    wider, costs = "", None
    if isinstance(product, CountSteps) and isinstance(other, CountSteps):
        costs = at_another_horizon(product, other)
    if costs is not None:
        same, times = math.ceil(costs[0] * 10**4) / 10**4, costs[1]
        sentence += f"With its noise {config.horizon:,} steps would cost epsilon {same:g}. "
        wider = f", for {times:.2f} times its noise"
    epsilon, delta = map(decimal_text, anew)
    return (
        f"{sentence}Another epoch of {config.horizon:,} steps is charged epsilon {epsilon} with "
        f"delta {delta}{wider}, and a case in both is protected with the sum. Set horizon to "
        f"{begun.horizon} again"
    )
