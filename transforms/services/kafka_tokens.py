"""TOKENS: where a client of Kafka gets the token by which brokers know it (SASL OAUTHBEARER).

An entry is a function of the brokers' addresses and of what the setting `sasl.oauthbearer.config`
says. It returns a token and when that ends, in seconds since 1970 UTC; the client asks for the next
one before. It raises a `TracecloakError` whose text is for the operator.
"""

from __future__ import annotations

from collections.abc import Callable

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.plugins import Plugins

TokenSource = Callable[[str, str], tuple[str, float]]

TOKENS: Plugins[TokenSource] = Plugins(
    "token of Kafka",
    "tracecloak.kafka_tokens",
    {"msk": "tracecloak.transforms.services.msk_token:msk_token"},
)


def token_of(name: str, servers: str, configuration: str) -> tuple[str, float]:
    """Returns a token and when it ends, as the client library asks for it.

    Raises:
        TracecloakError: There is none. The text has nothing of what others raise, as that may be a
            secret.
    """
    try:
        return TOKENS.named(name)(servers, configuration)
    except TracecloakError as error:
        raise type(error)(f"kafka_token {name}: {error}") from None
    except Exception as error:
        raise UsageError(f"kafka_token {name} failed ({type(error).__name__})") from None
