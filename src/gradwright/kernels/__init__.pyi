from gradwright.kernels.elementwise import Elementwise as Elementwise
from gradwright.kernels.elementwise import elementwise as elementwise
from gradwright.kernels.freed_memory import RetainedMemory as RetainedMemory
from gradwright.kernels.freed_memory import retain_freed_memory as retain_freed_memory
