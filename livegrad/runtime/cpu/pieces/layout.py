"""What the native code that lists pieces reads and writes: cards, the desk, entries. All int64.

    card     of a piece: its program, what it reads and gives, and for which nodes it is
    desk     of a flush: where the values of pending nodes are, free memory, and how far the list is
    entry    program │ address of its words │ address of its numbers │ words to move │ place
    words    scratch │ addresses of what is read │ of what is written │ integers
    copy     an entry without a program: from the first word to the second, as many bytes as it has
             for the address of numbers

A value is the address of its memory, or -1 - b for block b of the arena, whose address is known
when the list is run; 0 if there is none (yet). An address in the arena is written as ARENA plus its
offset, and moved to where the arena is by what runs the list.
"""

from __future__ import annotations

WORD = 8
ARENA = 1 << 62

# A card. Tables are given by their addresses.
NEXT = 0  # the next card of the same spec
PROGRAM = 8  # 0: there is nothing to run, the result is what is read
READS = 16  # how many tensors are read
OUTS = 24  # how many new ones are made
RESULTS = 32  # how many results there are
NUMBERS = 40  # how many run-time numbers there are
LENGTH = 48  # words of an entry
SCRATCH = 56  # bytes
KEY = 64  # per input: how many views are looked through (or UNREAD), their specs
KINDS = 72  # per number: whether it is a float
OUT_TABLE = 80  # per new tensor: bytes, size class
RESULT_TABLE = 88  # per result: see below
MASK = 96  # of a gradient, per input: whether its gradient is wanted
CARD = 104

UNREAD = -1

# A result: the number of a new tensor, or -1 - that of a tensor that is read; its bytes; of a
# gradient, the input that it belongs to, and the card that adds such tensors.
RESULT = 32
RESULT_FROM, RESULT_BYTES, RESULT_INPUT, RESULT_ADD = 0, 8, 16, 24

# An entry of the list.
ENTRY = 40
ENTRY_PROGRAM, ENTRY_WORDS, ENTRY_SCALARS, ENTRY_MOVED, ENTRY_PLACE = 0, 8, 16, 24, 32

# The desk.
BASE = 0  # the index of the first pending node
COUNT = 8  # how many are pending
VALUES = 16  # tables by place: the value,
USES = 24  # how often it will be read,
TARGETS = 32  # where it must be, for the program to keep it: an address or 0,
DEPTHS = 40  # through how many views it is seen
BLOCKS = 48  # table of blocks of the arena: offset, size class, next free one + 1, references
BLOCKS_MADE = 56
FREE = 64  # by size class, a free block + 1
TOP = 72  # bytes of the arena in use
ENTRIES, ENTRIES_END = 80, 88  # where the next entry goes
WORDS, WORDS_END = 96, 104
SCALARS, SCALARS_END = 112, 120
FOUND = 128  # table: the values that a piece reads
MADE = 136  # table: the values that it makes
ADDS = 144  # table of additions to be listed: card, two values, the value they make;
# and of copies: 0, the value, the bytes, where to
ADDS_MADE = 152
SCRATCH_NEEDED = 160
PLACE = 168  # what is being listed, for entries
KEPT = 176  # table: the places of what must be kept, and how many
KEPT_MADE = 184
STRUCTURE = 192  # table: what was recorded, as one structure is told from another
STRUCTURE_MADE = 200
STRUCTURE_END = 208
DESK = 216

BLOCK = 32
BLOCK_OFFSET, BLOCK_CLASS, BLOCK_NEXT, BLOCK_USERS = 0, 8, 16, 24
ADD = 32

# What a spec is to the list.
COMPUTED, VIEW, ALIAS, GRADIENT, GRADIENT_OF, UNFIT = range(6)
