"""The thread pool as LLVM IR; `runtime/cpu/threads.py` has the layout of what it reads."""

from __future__ import annotations

import functools
import platform
import sys

# Long enough for the next step of the same plan, short enough to leave the core to others.
SPIN_NANOSECONDS = 50_000

_POOL_IR = """
; Some chunks after others, first from the thread's own queue, then from the others'.
define internal void @drain(ptr %pool, i64 %self) {
entry:
  %gen.p = getelementptr i64, ptr %pool, i64 16
  %fn.p = getelementptr i64, ptr %pool, i64 17
  %args.p = getelementptr i64, ptr %pool, i64 18
  %count.p = getelementptr i64, ptr %pool, i64 19
  %chunk.p = getelementptr i64, ptr %pool, i64 20
  %per.p = getelementptr i64, ptr %pool, i64 21
  %queues.p = getelementptr i64, ptr %pool, i64 22
  %gen = load atomic i64, ptr %gen.p acquire, align 8
  %fn = load atomic ptr, ptr %fn.p monotonic, align 8
  %args = load atomic ptr, ptr %args.p monotonic, align 8
  %count = load atomic i64, ptr %count.p monotonic, align 8
  %chunk = load atomic i64, ptr %chunk.p monotonic, align 8
  %per = load atomic i64, ptr %per.p monotonic, align 8
  %queues = load atomic i64, ptr %queues.p monotonic, align 8
  %timed.p = getelementptr i64, ptr %pool, i64 34
  %timed.word = load atomic i64, ptr %timed.p monotonic, align 8
  %timed = icmp ne i64 %timed.word, 0
  ; A description that changed under our eyes belongs to no task (see `parallel`).
  fence acquire
  %gen.again = load atomic i64, ptr %gen.p monotonic, align 8
  %stable = icmp eq i64 %gen, %gen.again
  %complete = icmp sgt i64 %gen, 0
  %valid = and i1 %stable, %complete
  br i1 %valid, label %start, label %leave
start:
  %ctx.slot = mul i64 %self, 16
  %ctx.index = add i64 %ctx.slot, 40
  %ctx = getelementptr i64, ptr %pool, i64 %ctx.index
  %began.p = getelementptr i64, ptr %ctx, i64 5
  %ended.p = getelementptr i64, ptr %ctx, i64 6
  %chunks = call i64 @ceil_div(i64 %count, i64 %chunk)
  br label %queue
queue:
  %turn = phi i64 [ 0, %start ], [ %turn.next, %next ]
  %taken = phi i64 [ 0, %start ], [ %taken.queue, %next ]
  %more = icmp ult i64 %turn, %queues
  br i1 %more, label %select, label %report
select:
  %rotated = add i64 %self, %turn
  %q = urem i64 %rotated, %queues
  %first = mul i64 %q, %per
  %q.slot = mul i64 %q, 16
  %q.index = add i64 %q.slot, 48
  %ticket.p = getelementptr i64, ptr %pool, i64 %q.index
  br label %claim
claim:
  %taken.queue = phi i64 [ %taken, %select ], [ %taken.queue, %swap ], [ %taken.more, %call ]
  %ticket = load atomic i64, ptr %ticket.p acquire, align 8
  %ticket.gen = lshr i64 %ticket, 20
  %ours = icmp eq i64 %ticket.gen, %gen
  %local = and i64 %ticket, 1048575
  %in.queue = icmp ult i64 %local, %per
  %number = add i64 %first, %local
  %begin = mul i64 %number, %chunk
  %in.range = icmp ult i64 %begin, %count
  %some = and i1 %in.queue, %in.range
  %open = and i1 %ours, %some
  br i1 %open, label %swap, label %next
swap:
  ; Half of what is left in the queue: large pieces first, small ones for whoever is late.
  %rest = sub i64 %per, %local
  %half = lshr i64 %rest, 1
  %some.chunks = call i64 @llvm.umax.i64(i64 %half, i64 1)
  %to.end = sub i64 %chunks, %number
  %size = call i64 @llvm.umin.i64(i64 %some.chunks, i64 %to.end)
  %ticket.new = add i64 %ticket, %size
  %swapped = cmpxchg ptr %ticket.p, i64 %ticket, i64 %ticket.new acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %swapped, 1
  br i1 %won, label %work, label %claim
work:
  %items = mul i64 %size, %chunk
  %end.full = add i64 %begin, %items
  %end = call i64 @llvm.umin.i64(i64 %end.full, i64 %count)
  br i1 %timed, label %stamp, label %call
stamp:
  ; When this thread began with the step: noted once, and taken away by `note_threads`.
  %began = load atomic i64, ptr %began.p monotonic, align 8
  %first.part = icmp eq i64 %began, 0
  br i1 %first.part, label %stamp.began, label %call
stamp.began:
  %began.time = call i64 @now()
  store atomic i64 %began.time, ptr %began.p monotonic, align 8
  br label %call
call:
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %ctx)
  %taken.more = add i64 %taken.queue, %size
  br label %claim
next:
  %turn.next = add i64 %turn, 1
  br label %queue
report:
  %any = icmp ne i64 %taken, 0
  br i1 %any, label %done, label %leave
done:
  br i1 %timed, label %stamp.ended, label %add
stamp.ended:
  %ended.time = call i64 @now()
  store atomic i64 %ended.time, ptr %ended.p monotonic, align 8
  br label %add
add:
  %done.p = getelementptr i64, ptr %pool, i64 24
  %old = atomicrmw add ptr %done.p, i64 %taken release, align 8
  br label %leave
leave:
  ret void
}

; Fork and join: describe the task, wake who sleeps, take part, wait for the rest.
define internal void @parallel(ptr %pool, ptr %fn, ptr %args, i64 %count, i64 %grain) {
entry:
  %gen.p = getelementptr i64, ptr %pool, i64 16
  %fn.p = getelementptr i64, ptr %pool, i64 17
  %args.p = getelementptr i64, ptr %pool, i64 18
  %count.p = getelementptr i64, ptr %pool, i64 19
  %chunk.p = getelementptr i64, ptr %pool, i64 20
  %per.p = getelementptr i64, ptr %pool, i64 21
  %queues.p = getelementptr i64, ptr %pool, i64 22
  %done.p = getelementptr i64, ptr %pool, i64 24
  %threads.p = getelementptr i64, ptr %pool, i64 33
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  ; Eight chunks per thread let an early thread help a late one.
  %wanted = shl i64 %threads, 3
  %chunk.ideal = call i64 @ceil_div(i64 %count, i64 %wanted)
  %chunk = call i64 @llvm.umax.i64(i64 %chunk.ideal, i64 %grain)
  %chunks = call i64 @ceil_div(i64 %count, i64 %chunk)
  %per = call i64 @ceil_div(i64 %chunks, i64 %threads)
  %gen = load atomic i64, ptr %gen.p monotonic, align 8
  %gen.new = add i64 %gen, 1
  store atomic i64 -1, ptr %gen.p monotonic, align 8
  fence release
  store atomic ptr %fn, ptr %fn.p monotonic, align 8
  store atomic ptr %args, ptr %args.p monotonic, align 8
  store atomic i64 %count, ptr %count.p monotonic, align 8
  store atomic i64 %chunk, ptr %chunk.p monotonic, align 8
  store atomic i64 %per, ptr %per.p monotonic, align 8
  store atomic i64 %threads, ptr %queues.p monotonic, align 8
  store atomic i64 0, ptr %done.p monotonic, align 8
  %cpu = call i32 @sched_getcpu()
  %cpu.wide = sext i32 %cpu to i64
  %cpu.p = getelementptr i64, ptr %pool, i64 23
  store atomic i64 %cpu.wide, ptr %cpu.p monotonic, align 8
  store atomic i64 %gen.new, ptr %gen.p release, align 8
  %ticket = shl i64 %gen.new, 20
  br label %publish
publish:
  %q = phi i64 [ 0, %entry ], [ %q.next, %publish ]
  %q.slot = mul i64 %q, 16
  %q.index = add i64 %q.slot, 48
  %ticket.p = getelementptr i64, ptr %pool, i64 %q.index
  store atomic i64 %ticket, ptr %ticket.p release, align 8
  %q.next = add i64 %q, 1
  %q.more = icmp ult i64 %q.next, %threads
  br i1 %q.more, label %publish, label %ring
ring:
  ; Sequentially consistent against the worker's "sleepers + 1, then look at wake".
  %wake.old = atomicrmw add ptr %pool, i32 1 seq_cst, align 4
  %sleepers.p = getelementptr i64, ptr %pool, i64 8
  %sleepers = load atomic i64, ptr %sleepers.p seq_cst, align 8
  %asleep = icmp ne i64 %sleepers, 0
  br i1 %asleep, label %shake, label %join
shake:
  %helpers = sub i64 %chunks, 1
  call void @wake_sleepers(ptr %pool, i64 %helpers)
  br label %join
join:
  call void @drain(ptr %pool, i64 0)
  br label %wait
wait:
  %spins = phi i64 [ 0, %join ], [ %spins.next, %idle ], [ %spins.next, %yield ]
  %done = load atomic i64, ptr %done.p acquire, align 8
  %finished = icmp eq i64 %done, %chunks
  br i1 %finished, label %leave, label %still
still:
  %spins.next = add i64 %spins, 1
  %long = icmp ugt i64 %spins, 1000
  br i1 %long, label %yield, label %idle
idle:
  call void @pause()
  br label %wait
yield:
  ; The worker we wait for may need this very core.
  %ignored = call i32 @sched_yield()
  br label %wait
leave:
  ret void
}

; A worker's life: work, spin for a while, sleep until the wake word changes.
define void @livegrad_worker(ptr %pool, i64 %index) {
entry:
  %stop.p = getelementptr i64, ptr %pool, i64 1
  %sleepers.p = getelementptr i64, ptr %pool, i64 8
  br label %begin
begin:
  %seen = load atomic i32, ptr %pool seq_cst, align 4
  %stop = load atomic i64, ptr %stop.p acquire, align 8
  %stopping = icmp ne i64 %stop, 0
  br i1 %stopping, label %leave, label %serve
serve:
  call void @step_aside(ptr %pool)
  call void @drain(ptr %pool, i64 %index)
  %since = call i64 @now()
  br label %burst
burst:
  br label %spin
spin:
  %k = phi i64 [ 0, %burst ], [ %k.next, %quiet ]
  %word = load atomic i32, ptr %pool acquire, align 4
  %changed = icmp ne i32 %word, %seen
  br i1 %changed, label %begin, label %quiet
quiet:
  call void @pause()
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, 32
  br i1 %k.more, label %spin, label %clock
clock:
  %time = call i64 @now()
  %waited = sub i64 %time, %since
  %patient = icmp ult i64 %waited, SPIN_NANOSECONDS
  br i1 %patient, label %burst, label %sleep
sleep:
  %a = atomicrmw add ptr %sleepers.p, i64 1 seq_cst, align 8
  %word.last = load atomic i32, ptr %pool seq_cst, align 4
  %same = icmp eq i32 %word.last, %seen
  br i1 %same, label %doze, label %awake
doze:
  call void @sleep_while(ptr %pool, i32 %seen)
  br label %awake
awake:
  %b = atomicrmw sub ptr %sleepers.p, i64 1 seq_cst, align 8
  br label %begin
leave:
  ret void
}

; Change the wake word and rouse everybody, after a write to the stop word.
define void @livegrad_alarm(ptr %pool) {
  %old = atomicrmw add ptr %pool, i32 1 seq_cst, align 4
  call void @wake_sleepers(ptr %pool, i64 1000000)
  ret void
}

define internal i64 @ceil_div(i64 %a, i64 %b) {
  %less = sub i64 %b, 1
  %sum = add i64 %a, %less
  %quotient = udiv i64 %sum, %b
  ret i64 %quotient
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i32 @sched_yield()
"""

_NOW_IR = """
; Nanoseconds of the monotonic clock.
define internal i64 @now() {
  %time = alloca [2 x i64], align 8
  %status = call i32 @clock_gettime(i32 CLOCK_ID, ptr %time)
  %nanos.p = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time, align 8
  %nanos = load i64, ptr %nanos.p, align 8
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanos
  ret i64 %sum
}
declare i32 @clock_gettime(i32, ptr)
"""

_FUTEX_IR = """
; FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129
define internal void @sleep_while(ptr %word, i32 %value) {
  %s = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %word, i64 128, i32 %value, ptr null)
  ret void
}
define internal void @wake_sleepers(ptr %word, i64 %number) {
  %s = call i64 (i64, ...) @syscall(i64 SYS_FUTEX, ptr %word, i64 129, i64 %number)
  ret void
}
declare i64 @syscall(i64, ...)
"""

_STEP_ASIDE_IR = """
; The scheduler may leave a woken worker on its caller's CPU for a long time while others idle
; (measured in virtual machines). The worker then moves: it forbids itself that CPU for a moment.
define internal void @step_aside(ptr %pool) {
entry:
  %cpu.p = getelementptr i64, ptr %pool, i64 23
  %theirs = load atomic i64, ptr %cpu.p monotonic, align 8
  %here = call i32 @sched_getcpu()
  %ours = sext i32 %here to i64
  %same = icmp eq i64 %theirs, %ours
  %known = icmp ult i64 %ours, 1024
  %shared = and i1 %same, %known
  br i1 %shared, label %move, label %leave
move:
  %mask = alloca [16 x i64], align 8
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %word = lshr i64 %ours, 6
  %bit = and i64 %ours, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %word.p = getelementptr i64, ptr %mask, i64 %word
  %all = load i64, ptr %word.p, align 8
  %rest = and i64 %all, %others
  store i64 %rest, ptr %word.p, align 8
  ; Without another CPU in the mask this fails, and we stay.
  %away = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  store i64 %all, ptr %word.p, align 8
  %back = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %leave
leave:
  ret void
}
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
"""

_STAY_IR = """
define internal void @step_aside(ptr %pool) {
  ret void
}
define internal i32 @sched_getcpu() {
  ret i32 -1
}
"""

_POLLING_IR = """
; No futex here: a worker looks at the word every 50 microseconds.
define internal void @sleep_while(ptr %word, i32 %value) {
  %s = call i32 @usleep(i32 50)
  ret void
}
define internal void @wake_sleepers(ptr %word, i64 %number) {
  ret void
}
declare i32 @usleep(i32)
"""

_PAUSE_IR = """
define internal void @pause() {
  PAUSE
  ret void
}
"""

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}
_PAUSES = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}


@functools.cache
def pool_ir() -> str:
    """IR of the pool for this platform; the driver's IR is appended to it."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    call, declaration = _PAUSES.get(machine, ("", ""))
    futex = _FUTEX_NUMBERS.get(machine) if sys.platform == "linux" else None
    sleeping = _POLLING_IR if futex is None else _FUTEX_IR.replace("SYS_FUTEX", str(futex))
    sleeping += _STEP_ASIDE_IR if sys.platform == "linux" else _STAY_IR
    clock = _NOW_IR.replace("CLOCK_ID", "6" if sys.platform == "darwin" else "1")
    pool = _POOL_IR.replace("SPIN_NANOSECONDS", str(SPIN_NANOSECONDS))
    return pool + clock + sleeping + _PAUSE_IR.replace("PAUSE", call) + declaration + "\n"
