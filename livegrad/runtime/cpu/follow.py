"""Following a known step natively: is what was recorded the plan's own structure once more?

A training step repeats. For a plan that has been run before, one native call checks that the
pending nodes are the recorded structure again (same specs, same links, same values kept) and
writes the addresses and numbers of this run into the program's inputs. It reads Python objects
where they lie in memory: slots at the offsets their descriptors tell, items of lists and tuples,
reference counts. Anything unexpected makes it say no, and the Python code in runtime/flush.py,
which means the same, decides.

Table (int64 slots):
     0 nodes   1 None   2 True   3 float   4 weakref.ref   5 Cell   6 Pending   7 int   8 bool
     9 Node.spec   10 .inputs   11 .args   12 .buffer   13 .grad_to   14 .spent
    15 Handle._node   16 Cell._node   17 Buffer.ptr   18 PyLong_AsLongLong
    19 slot of the first int   20 leaves   21 memory for one pointer per leaf
    22 writes   23 their records: leaf, references it may have, slot
    24 code: per node: spec, flags, number of inputs, links, number of args, whether each is a float
    25 Buffer.home
Flags: 1 the value is kept, 2 the node reads what an update overwrites.
A link is the place of a pending node, or -1 - the number of a leaf.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from array import array
from typing import Any

from livegrad.graph.node import Node
from livegrad.graph.record import Cell, Handle
from livegrad.native.calls import call_native
from livegrad.native.hot import hot
from livegrad.native.layout import TUPLE_ITEMS, slot_offset
from livegrad.ops.update import Pending
from livegrad.runtime.cpu import jit
from livegrad.runtime.memory import Buffer

_IR = """
define i64 @livegrad_follow(ptr %nodes, ptr %handles, ptr %t, ptr %in, ptr %scalars) {
entry:
  %n = load i64, ptr %t
  %size.p = getelementptr i64, ptr %nodes, i64 2
  %size = load i64, ptr %size.p
  %same.size = icmp eq i64 %size, %n
  br i1 %same.size, label %prepare, label %no
prepare:
  %items.p = getelementptr i64, ptr %nodes, i64 3
  %items = load ptr, ptr %items.p
  %hitems.p = getelementptr i64, ptr %handles, i64 3
  %hitems = load ptr, ptr %hitems.p
  %none.p = getelementptr i64, ptr %t, i64 1
  %none = load ptr, ptr %none.p
  %true.p = getelementptr i64, ptr %t, i64 2
  %true = load ptr, ptr %true.p
  %float.p = getelementptr i64, ptr %t, i64 3
  %float = load ptr, ptr %float.p
  %ref.p = getelementptr i64, ptr %t, i64 4
  %ref = load ptr, ptr %ref.p
  %cell.p = getelementptr i64, ptr %t, i64 5
  %cell = load ptr, ptr %cell.p
  %pending.p = getelementptr i64, ptr %t, i64 6
  %pending = load ptr, ptr %pending.p
  %int.p = getelementptr i64, ptr %t, i64 7
  %int = load ptr, ptr %int.p
  %bool.p = getelementptr i64, ptr %t, i64 8
  %bool = load ptr, ptr %bool.p
  %o.spec.p = getelementptr i64, ptr %t, i64 9
  %o.spec = load i64, ptr %o.spec.p
  %o.inputs.p = getelementptr i64, ptr %t, i64 10
  %o.inputs = load i64, ptr %o.inputs.p
  %o.args.p = getelementptr i64, ptr %t, i64 11
  %o.args = load i64, ptr %o.args.p
  %o.buffer.p = getelementptr i64, ptr %t, i64 12
  %o.buffer = load i64, ptr %o.buffer.p
  %o.grad.p = getelementptr i64, ptr %t, i64 13
  %o.grad = load i64, ptr %o.grad.p
  %o.spent.p = getelementptr i64, ptr %t, i64 14
  %o.spent = load i64, ptr %o.spent.p
  %o.node.p = getelementptr i64, ptr %t, i64 15
  %o.node = load i64, ptr %o.node.p
  %o.cell.p = getelementptr i64, ptr %t, i64 16
  %o.cell = load i64, ptr %o.cell.p
  %o.ptr.p = getelementptr i64, ptr %t, i64 17
  %o.ptr = load i64, ptr %o.ptr.p
  %as.long.p = getelementptr i64, ptr %t, i64 18
  %as.long = load ptr, ptr %as.long.p
  %first.int.p = getelementptr i64, ptr %t, i64 19
  %first.int = load i64, ptr %first.int.p
  %leaves.p = getelementptr i64, ptr %t, i64 20
  %leaves = load i64, ptr %leaves.p
  %seen.p = getelementptr i64, ptr %t, i64 21
  %seen = load ptr, ptr %seen.p
  %writes.p = getelementptr i64, ptr %t, i64 22
  %writes = load i64, ptr %writes.p
  %write.p = getelementptr i64, ptr %t, i64 23
  %write = load ptr, ptr %write.p
  %code.p = getelementptr i64, ptr %t, i64 24
  %code = load ptr, ptr %code.p
  %o.home.p = getelementptr i64, ptr %t, i64 25
  %o.home = load i64, ptr %o.home.p
  br label %clear
clear:
  %c = phi i64 [ 0, %prepare ], [ %c.next, %clear.one ]
  %c.more = icmp ult i64 %c, %leaves
  br i1 %c.more, label %clear.one, label %head
clear.one:
  %c.p = getelementptr ptr, ptr %seen, i64 %c
  store ptr null, ptr %c.p
  %c.next = add i64 %c, 1
  br label %clear

head:
  %i = phi i64 [ 0, %clear ], [ %i.next, %args.done ]
  %at = phi i64 [ 0, %clear ], [ %at.next, %args.done ]
  %ints = phi i64 [ %first.int, %clear ], [ %ints.now, %args.done ]
  %floats = phi i64 [ 0, %clear ], [ %floats.now, %args.done ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %node, label %check.writes

node:
  %node.p = getelementptr ptr, ptr %items, i64 %i
  %it = load ptr, ptr %node.p
  %spec.p = getelementptr i8, ptr %it, i64 %o.spec
  %spec = load i64, ptr %spec.p
  %want.p = getelementptr i64, ptr %code, i64 %at
  %want = load i64, ptr %want.p
  %spec.same = icmp eq i64 %spec, %want
  br i1 %spec.same, label %alive, label %no

alive:
  ; A handle that only the pending list refers to, or that has moved on, is dead.
  %keep.p = getelementptr i64, ptr %want.p, i64 1
  %keep = load i64, ptr %keep.p
  %handle.p = getelementptr ptr, ptr %hitems, i64 %i
  %handle = load ptr, ptr %handle.p
  %refs = load i32, ptr %handle
  %held = icmp ugt i32 %refs, 1
  %type.p = getelementptr i64, ptr %handle, i64 1
  %type = load ptr, ptr %type.p
  %is.pending = icmp eq ptr %type, %pending
  br i1 %is.pending, label %inputs, label %look
look:
  %is.cell = icmp eq ptr %type, %cell
  %o.of = select i1 %is.cell, i64 %o.cell, i64 %o.node
  %of.p = getelementptr i8, ptr %handle, i64 %o.of
  %of = load ptr, ptr %of.p
  %still = icmp eq ptr %of, %it
  %live = and i1 %held, %still
  %live.wide = zext i1 %live to i64
  %kept = and i64 %keep, 1
  %as.planned = icmp eq i64 %live.wide, %kept
  br i1 %as.planned, label %claim, label %no
claim:
  ; A kept value of a graph that backward may still walk: what else to keep is Python's business.
  %grad.p = getelementptr i8, ptr %it, i64 %o.grad
  %grad = load ptr, ptr %grad.p
  %no.grad = icmp eq ptr %grad, %none
  %dead = icmp eq i64 %keep, 0
  %free = or i1 %no.grad, %dead
  br i1 %free, label %inputs, label %claim.spent
claim.spent:
  %spent.p = getelementptr i8, ptr %it, i64 %o.spent
  %spent = load ptr, ptr %spent.p
  %is.spent = icmp eq ptr %spent, %true
  br i1 %is.spent, label %inputs, label %claim.leaf
claim.leaf:
  %grad.type.p = getelementptr i64, ptr %grad, i64 1
  %grad.type = load ptr, ptr %grad.type.p
  %is.leaf = icmp eq ptr %grad.type, %ref
  br i1 %is.leaf, label %inputs, label %no

inputs:
  %tuple.p = getelementptr i8, ptr %it, i64 %o.inputs
  %tuple = load ptr, ptr %tuple.p
  %tuple.items = getelementptr i8, ptr %tuple, i64 TUPLE_ITEMS
  %count.p = getelementptr i64, ptr %tuple, i64 2
  %count = load i64, ptr %count.p
  %want.count.p = getelementptr i64, ptr %want.p, i64 2
  %want.count = load i64, ptr %want.count.p
  %count.same = icmp eq i64 %count, %want.count
  br i1 %count.same, label %link, label %no
link:
  %k = phi i64 [ 0, %inputs ], [ %k.next, %linked ]
  %k.more = icmp ult i64 %k, %count
  br i1 %k.more, label %input, label %args
input:
  %k.slot = add i64 %k, 3
  %x.p = getelementptr ptr, ptr %tuple.items, i64 %k
  %x = load ptr, ptr %x.p
  %link.p = getelementptr i64, ptr %want.p, i64 %k.slot
  %place = load i64, ptr %link.p
  %k.next = add i64 %k, 1
  %is.pending.node = icmp sge i64 %place, 0
  br i1 %is.pending.node, label %pending.node, label %leaf
pending.node:
  %other.p = getelementptr ptr, ptr %items, i64 %place
  %other = load ptr, ptr %other.p
  %other.same = icmp eq ptr %other, %x
  br i1 %other.same, label %linked, label %no
leaf:
  %number = sub i64 -1, %place
  %seen.at = getelementptr ptr, ptr %seen, i64 %number
  %before = load ptr, ptr %seen.at
  %new = icmp eq ptr %before, null
  br i1 %new, label %first, label %again
again:
  %again.same = icmp eq ptr %before, %x
  br i1 %again.same, label %linked, label %no
first:
  %buffer.p = getelementptr i8, ptr %x, i64 %o.buffer
  %buffer = load ptr, ptr %buffer.p
  %missing = icmp eq ptr %buffer, %none
  br i1 %missing, label %no, label %address
address:
  store ptr %x, ptr %seen.at
  %address.p = getelementptr i8, ptr %buffer, i64 %o.ptr
  %address.o = load ptr, ptr %address.p
  %address.v = call i64 %as.long(ptr %address.o)
  %slot = add i64 %number, 1
  %slot.p = getelementptr i64, ptr %in, i64 %slot
  store i64 %address.v, ptr %slot.p
  br label %linked
linked:
  br label %link

args:
  %atuple.p = getelementptr i8, ptr %it, i64 %o.args
  %atuple = load ptr, ptr %atuple.p
  %atuple.items = getelementptr i8, ptr %atuple, i64 TUPLE_ITEMS
  %acount.p = getelementptr i64, ptr %atuple, i64 2
  %acount = load i64, ptr %acount.p
  %kinds.at = add i64 %count, 3
  %kinds.p = getelementptr i64, ptr %want.p, i64 %kinds.at
  %want.acount = load i64, ptr %kinds.p
  %acount.same = icmp eq i64 %acount, %want.acount
  br i1 %acount.same, label %arg.head, label %no
arg.head:
  %a = phi i64 [ 0, %args ], [ %a.next, %arg.int.store ], [ %a.next, %arg.float.store ]
  %ints.now = phi i64 [ %ints, %args ], [ %ints.more, %arg.int.store ],
                      [ %ints.now, %arg.float.store ]
  %floats.now = phi i64 [ %floats, %args ], [ %floats.now, %arg.int.store ],
                        [ %floats.more, %arg.float.store ]
  %a.more = icmp ult i64 %a, %acount
  br i1 %a.more, label %arg, label %args.done
arg:
  %a.next = add i64 %a, 1
  %kind.p = getelementptr i64, ptr %kinds.p, i64 %a.next
  %kind = load i64, ptr %kind.p
  %arg.p = getelementptr ptr, ptr %atuple.items, i64 %a
  %arg.o = load ptr, ptr %arg.p
  %arg.type.p = getelementptr i64, ptr %arg.o, i64 1
  %arg.type = load ptr, ptr %arg.type.p
  %is.float = icmp eq ptr %arg.type, %float
  %want.float = icmp ne i64 %kind, 0
  br i1 %want.float, label %arg.float, label %arg.int
arg.float:
  br i1 %is.float, label %arg.float.store, label %no
arg.float.store:
  %value.p = getelementptr i64, ptr %arg.o, i64 2
  %value = load double, ptr %value.p
  %scalar.p = getelementptr double, ptr %scalars, i64 %floats.now
  store double %value, ptr %scalar.p
  %floats.more = add i64 %floats.now, 1
  br label %arg.head
arg.int:
  %is.int = icmp eq ptr %arg.type, %int
  %is.bool = icmp eq ptr %arg.type, %bool
  %is.whole = or i1 %is.int, %is.bool
  br i1 %is.whole, label %arg.int.store, label %no
arg.int.store:
  %whole = call i64 %as.long(ptr %arg.o)
  %whole.p = getelementptr i64, ptr %in, i64 %ints.now
  store i64 %whole, ptr %whole.p
  %ints.more = add i64 %ints.now, 1
  br label %arg.head
args.done:
  %i.next = add i64 %i, 1
  %step = add i64 %count, %acount
  %step.4 = add i64 %step, 4
  %at.next = add i64 %at, %step.4
  br label %head

check.writes:
  ; What an update overwrites in place is our own, and nobody else may see it.
  %w = phi i64 [ 0, %head ], [ %w.next, %write.ok ]
  %w.more = icmp ult i64 %w, %writes
  br i1 %w.more, label %write.one, label %yes
write.one:
  %w.at = mul i64 %w, 3
  %w.p = getelementptr i64, ptr %write, i64 %w.at
  %w.leaf = load i64, ptr %w.p
  %w.limit.p = getelementptr i64, ptr %w.p, i64 1
  %w.limit = load i64, ptr %w.limit.p
  %w.slot.p = getelementptr i64, ptr %w.p, i64 2
  %w.slot = load i64, ptr %w.slot.p
  %w.node.p = getelementptr ptr, ptr %seen, i64 %w.leaf
  %w.node = load ptr, ptr %w.node.p
  %w.refs.32 = load i32, ptr %w.node
  %w.refs = zext i32 %w.refs.32 to i64
  %w.buffer.p = getelementptr i8, ptr %w.node, i64 %o.buffer
  %w.buffer = load ptr, ptr %w.buffer.p
  %w.buffer.refs = load i32, ptr %w.buffer
  %w.node.ok = icmp ule i64 %w.refs, %w.limit
  %w.buffer.ok = icmp ule i32 %w.buffer.refs, 1
  %w.home.p = getelementptr i8, ptr %w.buffer, i64 %o.home
  %w.home = load ptr, ptr %w.home.p
  %w.ours = icmp ne ptr %w.home, %none
  %w.alone = and i1 %w.node.ok, %w.buffer.ok
  %w.ok = and i1 %w.alone, %w.ours
  br i1 %w.ok, label %write.ok, label %no
write.ok:
  %w.from = add i64 %w.leaf, 1
  %w.from.p = getelementptr i64, ptr %in, i64 %w.from
  %w.address = load i64, ptr %w.from.p
  %w.to.p = getelementptr i64, ptr %in, i64 %w.slot
  store i64 %w.address, ptr %w.to.p
  %w.next = add i64 %w, 1
  br label %check.writes
yes:
  ret i64 1
no:
  ret i64 0
}
"""

# CPython versions whose objects have been seen to lie in memory like this (with the GIL).
_KNOWN = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))


@functools.cache
def available() -> bool:
    """Whether this interpreter's objects lie in memory as the native code expects."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in _KNOWN:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return _layout_is_known()


def _layout_is_known() -> bool:
    """Reads a few objects natively and compares with what Python says of them."""
    node = object.__new__(Node)
    node.spec = spec = object()  # type: ignore[assignment]
    node.inputs = inputs = (node,)
    number, things = 1.5, [spec, inputs]
    word = ctypes.c_size_t.from_address
    items = word(id(things) + 24).value
    known = (
        word(id(node) + slot_offset(Node, "spec")).value == id(spec)
        and word(id(node) + slot_offset(Node, "inputs")).value == id(inputs)
        and word(id(inputs) + 16).value == 1
        and word(id(inputs) + TUPLE_ITEMS).value == id(node)
        and word(id(things) + 16).value == 2
        and word(items).value == id(spec)
        and ctypes.c_uint32.from_address(id(things)).value == 1
        and ctypes.c_double.from_address(id(number) + 16).value == number
    )
    node.inputs = ()  # the node held itself
    return known


@functools.cache
def _native() -> int:
    text = _IR.replace("TUPLE_ITEMS", str(TUPLE_ITEMS))
    return jit.compile_kernel(text, "livegrad_follow")


@functools.cache
def _constants() -> tuple[int, ...]:
    as_long = ctypes.cast(ctypes.pythonapi.PyLong_AsLongLong, ctypes.c_void_p).value
    assert as_long is not None
    objects = (None, True, float, weakref.ref, Cell, Pending, int, bool)
    slots = ("spec", "inputs", "args", "buffer", "grad_to", "spent")
    return (
        *[id(x) for x in objects],
        *[slot_offset(Node, name) for name in slots],
        slot_offset(Handle, "_node"),
        slot_offset(Cell, "_node"),
        slot_offset(Buffer, "ptr"),
        as_long,
    )


class Follower:
    """The native check for one plan.

    Args:
        nodes: what was recorded when the plan was made.
        links: per input of each node, the place of a pending node or -1 - the number of a leaf.
        flags: per node, what the table says.
        first_int, leaves: slots of the program's inputs.
        writes: (leaf, references it may have, slot) of what updates overwrite.
        inputs, scalars: addresses of the program's inputs and scalars.
    """

    def __init__(
        self,
        nodes: list[Node],
        links: list[int],
        flags: list[int],
        first_int: int,
        leaves: int,
        writes: list[tuple[int, int, int]],
        inputs: int,
        scalars: int,
    ) -> None:
        code = array("q")
        places = iter(links)
        for node, flag in zip(nodes, flags, strict=True):
            kinds = [node.spec.floats or type(a) is float for a in node.args]
            code.extend([id(node.spec), flag, len(node.inputs)])
            code.extend([next(places) for _ in node.inputs])
            code.extend([len(kinds), *kinds])
        self._specs = [node.spec for node in nodes]  # their addresses must stay theirs
        self._code = code
        self._seen = array("q", [0] * max(leaves, 1))
        self._writes = array("q", [number for write in writes for number in write] or [0])
        table = array("q", [len(nodes), *_constants(), first_int, leaves])
        table.extend([self._seen.buffer_info()[0], len(writes), self._writes.buffer_info()[0]])
        table.extend([code.buffer_info()[0], slot_offset(Buffer, "home")])
        self._table = table
        self._address = _native()
        self._at = table.buffer_info()[0]
        self._inputs, self._scalars = inputs, scalars

    @hot
    def matches(self, nodes: list[Any], handles: list[Any]) -> bool:
        """Whether these are the plan's nodes once more; if so the program's inputs are set."""
        # Called with the GIL held: the objects must not change meanwhile.
        found = call_native(
            self._address, id(nodes), id(handles), self._at, self._inputs, self._scalars
        )
        return found == 1
