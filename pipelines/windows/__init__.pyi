from .calendar import Day as Day
from .calendar import calendar_of as calendar_of
from .several import Ended as Ended
from .several import exit_code_of as exit_code_of
from .several import release_windows as release_windows
from .several import windows_asked as windows_asked
from .watched import lineage_sent as lineage_sent
from .watched import note_standing as note_standing
