from .method import Pripel as Pripel
from .method import PripelParams as PripelParams
