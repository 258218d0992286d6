from .findings import Finding as Finding
from .verify import Verification as Verification
from .verify import verify as verify
