from .guessing_advantage import epsilon_of_counts as epsilon_of_counts
from .method import Amun as Amun
from .params import DAY_US as DAY_US
from .params import AmunParams as AmunParams
from .params import ticks_of as ticks_of
