from .page import Page as Page
from .page import is_confined as is_confined
from .page import rendered as rendered
