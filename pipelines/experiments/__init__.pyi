from .run import GRIDS as GRIDS
