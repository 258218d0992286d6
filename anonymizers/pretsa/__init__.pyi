from .method import Pretsa as Pretsa
from .method import PretsaCase as PretsaCase
from .params import PretsaCaseParams as PretsaCaseParams
from .params import PretsaParams as PretsaParams
