from gradwright.checking.check import check as check
from gradwright.checking.losses import check_loss as check_loss
from gradwright.doctor.consultation import diagnose as diagnose
from gradwright.functions import surrogate as surrogate

__version__: str
