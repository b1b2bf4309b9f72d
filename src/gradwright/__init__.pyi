from gradwright.doctor.consultation import diagnose as diagnose
from gradwright.functions import surrogate as surrogate

__version__: str
