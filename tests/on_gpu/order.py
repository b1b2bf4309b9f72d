"""Which files hold tests marked gpu, the most telling first: a machine with a GPU is lent for some minutes only.

Whoever runs them reads this, so it imports nothing.
"""

GPU_FILES: tuple[str, ...] = (
    "tests/on_gpu/test_custom_gradients.py",
    "tests/on_gpu/test_checks_of_kernels.py",
    "tests/on_gpu/test_batch_jacobians.py",
    "tests/on_gpu/test_formulas.py",
    "tests/on_gpu/test_losses.py",
    "tests/on_gpu/test_accumulation.py",
    "tests/on_gpu/test_host_syncs.py",
    "tests/on_gpu/test_out_of_memory.py",
    "tests/on_gpu/test_diagnosing.py",
    "tests/on_gpu/test_graphs.py",
    "tests/derivatives/test_devices.py",
    "tests/losses/test_queued.py",
    "tests/kernels/launch/test_triton.py",
    "tests/kernels/launch/test_triton_rows.py",
)
