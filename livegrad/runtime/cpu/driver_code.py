"""The step interpreter as LLVM IR; `runtime/cpu/driver.py` has the layout of what it reads."""

from __future__ import annotations

RUN_IR = """
; 0 when all steps ran, 1 + index of the step that reported a fault, -1 when the pool is taken.
define i64 @livegrad_run(ptr %program, ptr %inputs, ptr %scalars) {
entry:
  %pool.p = getelementptr i64, ptr %program, i64 6
  %pool = load ptr, ptr %pool.p, align 8
  %busy.p = getelementptr i64, ptr %pool, i64 32
  %lock = cmpxchg ptr %busy.p, i64 0, i64 1 acquire monotonic, align 8
  %locked = extractvalue { i64, i1 } %lock, 1
  br i1 %locked, label %start, label %taken
taken:
  ret i64 -1
start:
  %completed.p = getelementptr i64, ptr %program, i64 7
  call void @apply_patches(ptr %program, ptr %inputs, ptr %scalars)
  %status = call i64 @run_steps(ptr %program, ptr %pool)
  %good = icmp eq i64 %status, 0
  %flag = zext i1 %good to i64
  %runs = load i64, ptr %completed.p, align 8
  %runs.now = add i64 %runs, %flag
  store i64 %runs.now, ptr %completed.p, align 8
  store atomic i64 0, ptr %busy.p release, align 8
  ret i64 %status
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; Runs a list of programs, each on words of its own (runtime/cpu/pieces/layout.py). 0 when all ran,
; 1 + index of the entry that reported a fault, -1 when the pool is taken.
define i64 @livegrad_run_list(ptr %entries, i64 %number, i64 %arena, i64 %scratch, ptr %pool) {
entry:
  %busy.p = getelementptr i64, ptr %pool, i64 32
  %lock = cmpxchg ptr %busy.p, i64 0, i64 1 acquire monotonic, align 8
  %locked = extractvalue { i64, i1 } %lock, 1
  br i1 %locked, label %start, label %taken
taken:
  ret i64 -1
start:
  br label %head
head:
  %i = phi i64 [ 0, %start ], [ %i.next, %next ]
  %more = icmp ult i64 %i, %number
  br i1 %more, label %body, label %finish
body:
  %at = mul i64 %i, 6
  %e = getelementptr i64, ptr %entries, i64 %at
  %words.p = getelementptr i64, ptr %e, i64 1
  %scalars.p = getelementptr i64, ptr %e, i64 2
  %moved.p = getelementptr i64, ptr %e, i64 3
  %program = load ptr, ptr %e, align 8
  %words = load ptr, ptr %words.p, align 8
  %scalars = load ptr, ptr %scalars.p, align 8
  %moved = load i64, ptr %moved.p, align 8
  store i64 %scratch, ptr %words, align 8
  br label %move
move:
  %w = phi i64 [ 1, %body ], [ %w.next, %moving ]
  %left = icmp ule i64 %w, %moved
  br i1 %left, label %moving, label %run
moving:
  %word.p = getelementptr i64, ptr %words, i64 %w
  %word = load i64, ptr %word.p, align 8
  %offset = sub i64 %word, 4611686018427387904
  %inside = icmp sge i64 %offset, 0
  %address = add i64 %offset, %arena
  %new = select i1 %inside, i64 %address, i64 %word
  store i64 %new, ptr %word.p, align 8
  %w.next = add i64 %w, 1
  br label %move
run:
  %is.copy = icmp eq ptr %program, null
  br i1 %is.copy, label %copy, label %run.program
copy:
  ; Without a program: as many bytes as it has for numbers go from the first word to the second.
  %from.p = getelementptr i64, ptr %words, i64 1
  %to.p = getelementptr i64, ptr %words, i64 2
  %from = load ptr, ptr %from.p, align 8
  %to = load ptr, ptr %to.p, align 8
  %bytes = ptrtoint ptr %scalars to i64
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %next
run.program:
  call void @apply_patches(ptr %program, ptr %words, ptr %scalars)
  %status = call i64 @run_steps(ptr %program, ptr %pool)
  %bad = icmp ne i64 %status, 0
  br i1 %bad, label %stop, label %next
stop:
  %status.p = getelementptr i64, ptr %program, i64 12
  store i64 %status, ptr %status.p, align 8
  br label %finish
next:
  %i.next = add i64 %i, 1
  br label %head
finish:
  %failed = phi i64 [ 0, %head ], [ 1, %stop ]
  %number.failed = add i64 %i, 1
  %result = mul i64 %failed, %number.failed
  store atomic i64 0, ptr %busy.p release, align 8
  ret i64 %result
}

define internal void @apply_patches(ptr %program, ptr %inputs, ptr %scalars) {
entry:
  %blocks = load ptr, ptr %program, align 8
  %patches.p = getelementptr i64, ptr %program, i64 1
  %patches = load ptr, ptr %patches.p, align 8
  %number.p = getelementptr i64, ptr %program, i64 2
  %number = load i64, ptr %number.p, align 8
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %store ]
  %more = icmp ult i64 %i, %number
  br i1 %more, label %body, label %leave
body:
  %at = shl i64 %i, 2
  %kind.p = getelementptr i64, ptr %patches, i64 %at
  %dst.p = getelementptr i64, ptr %kind.p, i64 1
  %src.p = getelementptr i64, ptr %kind.p, i64 2
  %value.p = getelementptr i64, ptr %kind.p, i64 3
  %kind = load i64, ptr %kind.p, align 8
  %dst = load i64, ptr %dst.p, align 8
  %src = load i64, ptr %src.p, align 8
  %value = load i64, ptr %value.p, align 8
  %slot = getelementptr i64, ptr %blocks, i64 %dst
  %input.p = getelementptr i64, ptr %inputs, i64 %src
  switch i64 %kind, label %constant [
    i64 0, label %set
    i64 1, label %accumulate
    i64 2, label %scalar
    i64 4, label %compare
  ]
set:
  %input = load i64, ptr %input.p, align 8
  %moved = add i64 %input, %value
  br label %store
accumulate:
  %factor = load i64, ptr %input.p, align 8
  %old = load i64, ptr %slot, align 8
  %product = mul i64 %factor, %value
  %sum = add i64 %old, %product
  br label %store
scalar:
  %scalar.p = getelementptr i64, ptr %scalars, i64 %src
  %bits = load i64, ptr %scalar.p, align 8
  br label %store
constant:
  br label %store
compare:
  %other.p = getelementptr i64, ptr %inputs, i64 %value
  %one = load i64, ptr %input.p, align 8
  %other = load i64, ptr %other.p, align 8
  %same = icmp eq i64 %one, %other
  %before = load i64, ptr %slot, align 8
  %cleared = select i1 %same, i64 0, i64 %before
  br label %store
store:
  %new = phi i64 [ %moved, %set ], [ %sum, %accumulate ], [ %bits, %scalar ],
                 [ %value, %constant ], [ %cleared, %compare ]
  store i64 %new, ptr %slot, align 8
  %i.next = add i64 %i, 1
  br label %head
leave:
  ret void
}

define internal i64 @run_steps(ptr %program, ptr %pool) {
entry:
  %steps.p = getelementptr i64, ptr %program, i64 3
  %steps = load ptr, ptr %steps.p, align 8
  %number.p = getelementptr i64, ptr %program, i64 4
  %number = load i64, ptr %number.p, align 8
  %blocks = load ptr, ptr %program, align 8
  %timing.p = getelementptr i64, ptr %program, i64 5
  %timing = load ptr, ptr %timing.p, align 8
  %timed = icmp ne ptr %timing, null
  %timed.word = zext i1 %timed to i64
  %timed.p = getelementptr i64, ptr %pool, i64 34
  store atomic i64 %timed.word, ptr %timed.p monotonic, align 8
  br i1 %timed, label %timing.size, label %head
timing.size:
  %noted.size = load i64, ptr %timing, align 8
  br label %head
head:
  %s = phi i64 [ 0, %entry ], [ 0, %timing.size ], [ %s.next, %next ]
  %noted = phi i64 [ 0, %entry ], [ %noted.size, %timing.size ], [ %noted, %next ]
  %more = icmp ult i64 %s, %number
  br i1 %more, label %body, label %all
all:
  ret i64 0
body:
  %at = shl i64 %s, 3
  %step = getelementptr i64, ptr %steps, i64 %at
  %flags.p = getelementptr i64, ptr %step, i64 5
  %flags = load i64, ptr %flags.p, align 8
  ; Of a step: when it began and ended, and the same of each thread.
  %noted.words = shl i64 %noted, 1
  %row.words = add i64 %noted.words, 2
  %row.at = mul i64 %s, %row.words
  %start.at = add i64 %row.at, 8
  %start.p = getelementptr i64, ptr %timing, i64 %start.at
  %stop.p = getelementptr i64, ptr %start.p, i64 1
  br i1 %timed, label %stamp.start, label %go
stamp.start:
  %start.time = call i64 @now()
  store i64 %start.time, ptr %start.p, align 8
  br label %go
go:
  call void @run_step(ptr %pool, ptr %step, ptr %blocks)
  br i1 %timed, label %stamp.stop, label %check
stamp.stop:
  %stop.time = call i64 @now()
  store i64 %stop.time, ptr %stop.p, align 8
  call void @note_threads(ptr %pool, ptr %start.p, i64 %noted)
  br label %check
check:
  %may.fault = and i64 %flags, 1
  %may = icmp ne i64 %may.fault, 0
  br i1 %may, label %look, label %next
look:
  %fault = call i1 @collect_fault(ptr %program, ptr %pool)
  br i1 %fault, label %stop, label %next
stop:
  %where = add i64 %s, 1
  ret i64 %where
next:
  %s.next = add i64 %s, 1
  br label %head
}

; Move what threads have noted of the step that is over into its row, behind its own times.
define internal void @note_threads(ptr %pool, ptr %row, i64 %number) {
entry:
  br label %head
head:
  %t = phi i64 [ 0, %entry ], [ %t.next, %body ]
  %more = icmp ult i64 %t, %number
  br i1 %more, label %body, label %leave
body:
  %slot = mul i64 %t, 16
  %index = add i64 %slot, 45
  %began.p = getelementptr i64, ptr %pool, i64 %index
  %ended.p = getelementptr i64, ptr %began.p, i64 1
  %began = load atomic i64, ptr %began.p monotonic, align 8
  %ended = load atomic i64, ptr %ended.p monotonic, align 8
  store atomic i64 0, ptr %began.p monotonic, align 8
  %t.next = add i64 %t, 1
  %to = shl i64 %t.next, 1
  %to.p = getelementptr i64, ptr %row, i64 %to
  %to.end.p = getelementptr i64, ptr %to.p, i64 1
  store i64 %began, ptr %to.p, align 8
  store i64 %ended, ptr %to.end.p, align 8
  br label %head
leave:
  ret void
}

; All argument blocks of one step, on one thread, or side by side on all of them.
define internal void @run_step(ptr %pool, ptr %step, ptr %blocks) {
entry:
  %offset.p = getelementptr i64, ptr %step, i64 1
  %repeat.p = getelementptr i64, ptr %step, i64 2
  %stride.p = getelementptr i64, ptr %step, i64 3
  %grain.p = getelementptr i64, ptr %step, i64 4
  %flags.p = getelementptr i64, ptr %step, i64 5
  %fn = load ptr, ptr %step, align 8
  %offset = load i64, ptr %offset.p, align 8
  %repeat = load i64, ptr %repeat.p, align 8
  %stride = load i64, ptr %stride.p, align 8
  %grain = load i64, ptr %grain.p, align 8
  %flags = load i64, ptr %flags.p, align 8
  %threads.p = getelementptr i64, ptr %pool, i64 33
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  %several = icmp ugt i64 %threads, 1
  %serial.bit = and i64 %flags, 2
  %splittable = icmp eq i64 %serial.bit, 0
  %may.split = and i1 %several, %splittable
  %worthwhile = shl i64 %grain, 1
  %ctx = getelementptr i64, ptr %pool, i64 40
  %args = getelementptr i64, ptr %blocks, i64 %offset
  %task = alloca [4 x i64], align 8
  %task.args = getelementptr i64, ptr %task, i64 1
  %task.repeat = getelementptr i64, ptr %task, i64 2
  %task.stride = getelementptr i64, ptr %task, i64 3
  store ptr %fn, ptr %task, align 8
  store ptr %args, ptr %task.args, align 8
  store i64 %repeat, ptr %task.repeat, align 8
  store i64 %stride, ptr %task.stride, align 8
  br label %head
head:
  %r = phi i64 [ 0, %entry ], [ %r.next, %head ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %head ]
  %r.next = add i64 %r, 1
  %distance = mul i64 %r, %stride
  %block = getelementptr i64, ptr %args, i64 %distance
  %count = load i64, ptr %block, align 8
  %items = call i64 @llvm.smax.i64(i64 %count, i64 0)
  %total.next = add i64 %total, %items
  %more = icmp ult i64 %r.next, %repeat
  br i1 %more, label %head, label %choose
choose:
  %enough = icmp uge i64 %total.next, %worthwhile
  %nonempty = icmp ne i64 %total.next, 0
  %split = and i1 %enough, %may.split
  br i1 %nonempty, label %run, label %leave
run:
  %single = icmp eq i64 %repeat, 1
  %what = select i1 %single, ptr %fn, ptr @run_blocks
  %with = select i1 %single, ptr %args, ptr %task
  br i1 %split, label %together, label %alone
alone:
  call void %what(ptr %with, i64 0, i64 %total.next, ptr %ctx)
  br label %leave
together:
  call void @parallel(ptr %pool, ptr %what, ptr %with, i64 %total.next, i64 %grain)
  br label %leave
leave:
  %tail.bit = and i64 %flags, 4
  %has.tail = icmp ne i64 %tail.bit, 0
  br i1 %has.tail, label %tail, label %done
tail:
  call void %fn(ptr %args, i64 -1, i64 -1, ptr %ctx)
  br label %done
done:
  ret void
}

; The items [begin, end) of several blocks, counted through: a kernel whose arguments are another
; kernel, its first block, their number, and the slots from one to the next.
define internal void @run_blocks(ptr %task, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %args.p = getelementptr i64, ptr %task, i64 1
  %repeat.p = getelementptr i64, ptr %task, i64 2
  %stride.p = getelementptr i64, ptr %task, i64 3
  %fn = load ptr, ptr %task, align 8
  %args = load ptr, ptr %args.p, align 8
  %repeat = load i64, ptr %repeat.p, align 8
  %stride = load i64, ptr %stride.p, align 8
  br label %head
head:
  %r = phi i64 [ 0, %entry ], [ %r.next, %next ]
  %before = phi i64 [ 0, %entry ], [ %after, %next ]
  %distance = mul i64 %r, %stride
  %block = getelementptr i64, ptr %args, i64 %distance
  %count = load i64, ptr %block, align 8
  %items = call i64 @llvm.smax.i64(i64 %count, i64 0)
  %after = add i64 %before, %items
  %low = call i64 @llvm.smax.i64(i64 %begin, i64 %before)
  %high = call i64 @llvm.smin.i64(i64 %end, i64 %after)
  %some = icmp slt i64 %low, %high
  br i1 %some, label %body, label %next
body:
  %first = sub i64 %low, %before
  %last = sub i64 %high, %before
  call void %fn(ptr %block, i64 %first, i64 %last, ptr %ctx)
  br label %next
next:
  %r.next = add i64 %r, 1
  %in.blocks = icmp ult i64 %r.next, %repeat
  %in.items = icmp slt i64 %after, %end
  %more = and i1 %in.blocks, %in.items
  br i1 %more, label %head, label %leave
leave:
  ret void
}

; Move the first thread's fault into the program, and clear all threads' faults.
define internal i1 @collect_fault(ptr %program, ptr %pool) {
entry:
  ; Those who took part in the last task; the number of threads may have changed since.
  %queues.p = getelementptr i64, ptr %pool, i64 22
  %queues = load atomic i64, ptr %queues.p monotonic, align 8
  %threads = call i64 @llvm.umax.i64(i64 %queues, i64 1)
  %out.code.p = getelementptr i64, ptr %program, i64 9
  %out.value.p = getelementptr i64, ptr %program, i64 10
  br label %head
head:
  %t = phi i64 [ 0, %entry ], [ %t.next, %next ]
  %found = phi i1 [ false, %entry ], [ %found.next, %next ]
  %slot = mul i64 %t, 16
  %index = add i64 %slot, 40
  %ctx = getelementptr i64, ptr %pool, i64 %index
  %value.p = getelementptr i64, ptr %ctx, i64 1
  %code = load i64, ptr %ctx, align 8
  %bad = icmp ne i64 %code, 0
  br i1 %bad, label %clear, label %next
clear:
  store i64 0, ptr %ctx, align 8
  br i1 %found, label %next, label %keep
keep:
  %value = load i64, ptr %value.p, align 8
  store i64 %code, ptr %out.code.p, align 8
  store i64 %value, ptr %out.value.p, align 8
  br label %next
next:
  %found.next = phi i1 [ %found, %head ], [ true, %clear ], [ true, %keep ]
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %threads
  br i1 %more, label %head, label %leave
leave:
  ret i1 %found.next
}
"""
