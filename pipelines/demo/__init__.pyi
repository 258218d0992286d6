from .hospital_file import write_sample as write_sample
from .hospital_file import write_vocabulary as write_vocabulary
