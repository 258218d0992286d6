from .document import Chart as Chart
from .document import document as document
from .page import Page as Page
from .page import policy_of as policy_of
from .page import rendered as rendered
