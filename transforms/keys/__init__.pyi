from .reference import KeyReference as KeyReference
from .sources import KEY_SOURCES as KEY_SOURCES
from .wrapping import KeyEncryptionKey as KeyEncryptionKey
