"""What a release says of itself, and takes from its account."""

from __future__ import annotations

from collections.abc import Sequence

from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig, without_filters
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.entries import Reservation
from tracecloak.pipelines.release.values import Concern, Run
from tracecloak.pipelines.runners.names import is_durable
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.publish.release_folder import ReleaseFolder


def manifest_of(
    config: ReleaseConfig,
    begun: Receipt,
    beam_version: str | None = None,
    concerns: Sequence[Concern] = (),
    is_by_name: bool = False,
) -> ReleaseManifest:
    """Returns what a release says of itself.

    Args:
        config: Its configuration.
        begun: Of what it was begun.
        beam_version: Of Apache Beam; None: it is made without it.
        concerns: What else has something to say.
        is_by_name: Whether events with equal timestamps are ordered by name.
    """
    method, params = method_named(config.method), config.method_params
    resolved = params.resolved()
    manifest = ReleaseManifest(
        release_id=begun.release_id,
        method=method.name,
        method_version=method.version,
        params=resolved,
        guarantee=config.guarantee.with_order_note(is_by_name),
        operations=method.operations_of(params),
        spends=tuple(part.to_json() for part in method.spends(params)),
        config_digest=without_filters(config).digest,
        key_fingerprint=begun.key_fingerprint,
        exact_noise=method.exact_noise,
        unsafe_barrier=beam_version is not None and not is_durable(config.runner),
        beam_version=beam_version,
        about=config.about.model_dump(exclude_none=True),
        released_on=begun.reserved_on,
        time_caveats=method.time_caveats(params),
        given={name: resolved[name] for name in params.given()},
        inner_versions=dict(method.inner_versions(params)),
    )
    for concern in concerns:
        manifest = concern.described(config, manifest)
    return manifest


def manifest_of_run(run: Run) -> ReleaseManifest:
    """Returns what the release of a run says of itself, once it is paid."""
    assert run.receipt is not None  # the run is claimed
    beam_version, is_by_name = run.driver.beam_version, run.source.is_by_name
    return manifest_of(run.config, run.receipt, beam_version, run.concerns, is_by_name)


def reservation_of(
    config: ReleaseConfig, folder: ReleaseFolder, key_fingerprint: str
) -> Reservation:
    """Returns what a release takes from its account.

    Args:
        config: Its configuration.
        folder: Where it goes.
        key_fingerprint: Tells release keys apart.
    """
    method, params = method_named(config.method), config.method_params
    spends = method.spends(params)
    epsilon, delta = total(spends) if spends else (None, None)
    return Reservation(
        account=config.account,
        release_id=folder.release_id,
        output=folder.output,
        epsilon=epsilon,
        delta=delta,
        unit=config.guarantee.unit,
        adjacency=config.guarantee.adjacency,
        method=method.name,
        spends=tuple(part.to_json() for part in spends),
        config_digest=without_filters(config).digest,  # others may read the ledger
        key_fingerprint=key_fingerprint,
        dataset=config.dataset,
        staging_area=folder.staging_area,
    )
