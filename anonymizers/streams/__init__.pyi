from .identities import Identities as Identities
from .log_steps import LogSteps as LogSteps
from .params import StreamParams as StreamParams
from .registry import STREAM_PRODUCTS as STREAM_PRODUCTS
from .steps import StepProduct as StepProduct
from .steps import StreamName as StreamName
