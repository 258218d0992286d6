from .page import Page as Page
from .page import rendered as rendered
