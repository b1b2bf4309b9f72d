"""The code that threads of ours run, in LLVM's language: waiting for a launch, taking part in it, and launching.

NOTE [No interpreter]: the threads are the system's, not Python's. A launch is one call, during which no Python runs: it
needs the interpreter's lock neither to wake a thread nor to wait for it, no signal handler can raise in the middle of
it, and when it returns no thread uses the launch's parameters or tensors any more. Nothing of it can hang or print when
the interpreter ends; the threads end with the process.

NOTE [One launch at a time]: a launch that finds the crew at work for another one runs on its own thread alone. Results
do not depend on that.

The crew's memory, in bytes: mutex at 0, "wake" at 128, "done" at 256 (condition variables), the mutex of whose turn it
is at 384; workers still wanted at 512, workers inside at 520, kernel at 528, parameters at 536, and the state of
floating-point arithmetic (``fenv_t``: rounding, and whether subnormals are flushed, as torch.set_flush_denormal has it)
of the thread that launches at 544.
"""

from __future__ import annotations

from typing import Final

MEMORY_BYTES: Final = 1024
MUTEX, WAKE, DONE, TURN, WANTED, INSIDE, KERNEL, PARAMETERS, ARITHMETIC = 0, 128, 256, 384, 512, 520, 528, 536, 544
WORKER: Final = "gradwright_worker"
LAUNCH: Final = "gradwright_launch"

# How often the launching thread looks whether the others are done, before it sleeps: a few microseconds.
_LOOKS: Final = 10_000

_PLACES: Final = "\n".join(
    f"  %{name} = getelementptr i8, ptr %crew, i64 {place}"
    for name, place in {
        "mutex": MUTEX,
        "wake": WAKE,
        "done": DONE,
        "turn": TURN,
        "wanted": WANTED,
        "inside": INSIDE,
        "kernel": KERNEL,
        "parameters": PARAMETERS,
        "arithmetic": ARITHMETIC,
    }.items()
)

CODE: Final = f"""
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_trylock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @fegetenv(ptr)
declare i32 @fesetenv(ptr)

define ptr @{WORKER}(ptr %crew) {{
{_PLACES}
  %entered = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look

look:
  %left = load i64, ptr %wanted
  %is_idle = icmp eq i64 %left, 0
  br i1 %is_idle, label %sleep, label %take

sleep:
  %woken = call i32 @pthread_cond_wait(ptr %wake, ptr %mutex)
  br label %look

take:
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %wanted
  %before = load i64, ptr %inside
  %more = add i64 %before, 1
  store i64 %more, ptr %inside
  %code = load ptr, ptr %kernel
  %words = load i64, ptr %parameters
  %set = call i32 @fesetenv(ptr %arithmetic)
  %released = call i32 @pthread_mutex_unlock(ptr %mutex)
  call void %code(i64 %words)
  %returned = call i32 @pthread_mutex_lock(ptr %mutex)
  %with_me = load i64, ptr %inside
  %without_me = sub i64 %with_me, 1
  store atomic i64 %without_me, ptr %inside release, align 8
  %is_last = icmp eq i64 %without_me, 0
  br i1 %is_last, label %tell, label %look

tell:
  %told = call i32 @pthread_cond_signal(ptr %done)
  br label %look
}}

define void @{LAUNCH}(ptr %crew, ptr %code, i64 %words, i64 %workers) {{
{_PLACES}
  %tried = call i32 @pthread_mutex_trylock(ptr %turn)
  %is_mine = icmp eq i32 %tried, 0
  br i1 %is_mine, label %post, label %alone

alone:
  call void %code(i64 %words)
  ret void

post:
  %got = call i32 @fegetenv(ptr %arithmetic)
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  store ptr %code, ptr %kernel
  store i64 %words, ptr %parameters
  store i64 %workers, ptr %wanted
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  %is_one = icmp eq i64 %workers, 1
  br i1 %is_one, label %wake_one, label %wake_all

wake_one:
  %signalled = call i32 @pthread_cond_signal(ptr %wake)
  br label %work

wake_all:
  %broadcast = call i32 @pthread_cond_broadcast(ptr %wake)
  br label %work

work:
  call void %code(i64 %words)
  %locked_2 = call i32 @pthread_mutex_lock(ptr %mutex)
  store i64 0, ptr %wanted
  %unlocked_2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %look

look:
  %looks = phi i64 [ 0, %work ], [ %looked, %again ]
  %others = load atomic i64, ptr %inside acquire, align 8
  %are_gone = icmp eq i64 %others, 0
  br i1 %are_gone, label %end, label %again

again:
  %looked = add i64 %looks, 1
  %is_enough = icmp eq i64 %looked, {_LOOKS}
  br i1 %is_enough, label %wait, label %look

wait:
  %locked_3 = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check

check:
  %still = load i64, ptr %inside
  %is_over = icmp eq i64 %still, 0
  br i1 %is_over, label %leave, label %sleep

sleep:
  %woken = call i32 @pthread_cond_wait(ptr %done, ptr %mutex)
  br label %check

leave:
  %unlocked_3 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %end

end:
  %passed = call i32 @pthread_mutex_unlock(ptr %turn)
  ret void
}}
"""
