"""Whether the manifest is signed, by whom, and whether that is who the recipient trusts."""

from __future__ import annotations

from tracecloak.pipelines.verification.findings import NotApplicable, Wrong
from tracecloak.pipelines.verification.folder import ReceivedFolder
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME, SIGNATURE_NAMES
from tracecloak.transforms.keys.signing import SIGNATURE_BYTES, PublicKey

_SIGNATURE, _PUBLIC = SIGNATURE_NAMES
_LARGEST_KEY = 4096


def check_signature(folder: ReceivedFolder, trusted: PublicKey | None) -> str:
    """The manifest is signed, by the trusted key if there is one.

    Raises:
        Wrong: The signature does not hold, or is missing although a key is trusted.
        NotApplicable: There is no signature, and nobody asked for one.
    """
    there = [name in folder.sizes for name in SIGNATURE_NAMES]
    if not any(there):
        if trusted is not None:
            raise Wrong(f"There is no {_SIGNATURE}: nobody signed the release.")
        raise NotApplicable(
            "The release is not signed: nothing shows who made it, or that it was not replaced as "
            "a whole."
        )
    if not there[0]:
        raise Wrong(f"{_PUBLIC} is there, and {_SIGNATURE} is not.")
    signature = folder.read(_SIGNATURE, _LARGEST_KEY)
    if len(signature) != SIGNATURE_BYTES:
        raise Wrong(f"{_SIGNATURE} is no signature of ed25519, which has {SIGNATURE_BYTES} bytes.")
    manifest = folder.read(MANIFEST_NAME)
    if trusted is not None:
        if not trusted.signed(manifest, signature):
            raise Wrong(
                f"{_SIGNATURE} is not by the key that you trust, with fingerprint "
                f"{trusted.fingerprint}, or {MANIFEST_NAME} was changed."
            )
        if there[1] and folder.read(_PUBLIC, _LARGEST_KEY) != trusted.pem:
            raise Wrong(f"{_PUBLIC} is not the key that you trust, in PEM and nothing else.")
        return f"Signed by the key that you trust, with fingerprint {trusted.fingerprint}."
    if not there[1]:
        raise Wrong(
            f"There is a {_SIGNATURE} but no {_PUBLIC}, so it can be checked only with a public "
            "key that you have: name that with --key."
        )
    try:
        public = PublicKey.of_text(folder.read(_PUBLIC, _LARGEST_KEY), _PUBLIC)
    except UsageError:
        raise Wrong(f"{_PUBLIC} is no public key of ed25519 in PEM.") from None
    if public.pem != folder.read(_PUBLIC, _LARGEST_KEY):
        raise Wrong(f"{_PUBLIC} holds more than a public key in PEM.")
    if not public.signed(manifest, signature):
        raise Wrong(f"{_SIGNATURE} is not by the key in {_PUBLIC}, or {MANIFEST_NAME} was changed.")
    return (
        f"Signed by the key with fingerprint {public.fingerprint}, which you have not said you "
        "trust: anybody can sign with a key of their own. Compare the fingerprint with the one "
        "that the publisher told you, or name their public key with --key."
    )
