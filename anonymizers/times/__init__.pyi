from .case_classes import CaseClasses as CaseClasses
from .generated_times import Timing as Timing
from .generated_times import timed as timed
from .tied_times import tied as tied
