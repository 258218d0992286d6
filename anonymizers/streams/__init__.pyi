from .identities import Identities as Identities
from .log_steps import LogSteps as LogSteps
from .params import StreamParams as StreamParams
from .steps import StepProduct as StepProduct
from .steps import StreamName as StreamName
from .steps import product_of as product_of
