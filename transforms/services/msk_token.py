"""The token of Amazon MSK: AWS's own signer signs it with the credentials of this machine.

They are found as AWS's programs find them: in the environment, a profile, or the role of a machine.
The region is in the brokers' addresses, or `sasl.oauthbearer.config` names it as `region=REGION`.
"""

from __future__ import annotations

import re

from tracecloak.schemas.errors import UsageError, of_extra

_OF_MSK = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_SAID = re.compile(r"\bregion=([a-z0-9-]+)")


def msk_token(servers: str, configuration: str) -> tuple[str, float]:
    """Returns a token and when it ends, seconds since 1970 UTC; see `kafka_tokens.TOKENS`.

    Raises:
        UsageError: AWS's signer is not installed, no region is named, or there are no credentials.
    """
    library = "aws-msk-iam-sasl-signer-python"
    module = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
    signer = of_extra(module, "kafka_token msk", library, "msk")
    region = _SAID.search(configuration) or _OF_MSK.search(servers)
    if region is None:
        raise UsageError(
            "no region of AWS is in the addresses of the brokers: write "
            "sasl.oauthbearer.config=region=REGION into the file of kafka_properties"
        )
    try:
        token, ends_ms = signer.generate_auth_token(region[1])
    except Exception as error:  # of AWS's libraries
        raise UsageError(
            f"AWS's signer gives no token ({type(error).__name__}): give this machine credentials, "
            "such as a role that may connect to the cluster, AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        ) from None
    return str(token), ends_ms / 1_000
