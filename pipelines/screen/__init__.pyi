from .progress import NothingOfData as NothingOfData
from .progress import is_of_operator as is_of_operator
from .progress import showing_progress as showing_progress
from .results import Form as Form
from .results import Result as Result
from .results import duration as duration
from .results import quantity as quantity
from .results import show as show
