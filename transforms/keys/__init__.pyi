from .reference import KeyReference as KeyReference
from .signing import PublicKey as PublicKey
from .signing import SigningReference as SigningReference
from .sources import KEY_SOURCES as KEY_SOURCES
from .wrapping import KeyEncryptionKey as KeyEncryptionKey
