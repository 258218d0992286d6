from .belonging import members as members
from .periods import Period as Period
from .schedule import Schedule as Schedule
from .schedule import Window as Window
