from .closing_rule import ClosingRule as ClosingRule
from .open_cases import CaseEvents as CaseEvents
from .open_cases import OpenCases as OpenCases
from .stream_caps import CaseCap as CaseCap
from .stream_caps import CountedCases as CountedCases
from .stream_cases import ClosedCases as ClosedCases
