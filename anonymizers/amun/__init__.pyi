from .method import Amun as Amun
from .params import AmunParams as AmunParams
