"""What the native code that lists pieces reads and writes: cards, the desk, entries. All int64.

    card     of a piece: what it reads and gives, for which nodes it is, and the mould of its
             program, which knows no sizes
    desk     of a flush: where the values of pending nodes are, free memory, and how far the list is
    entry    program │ address of its words │ address of its numbers │ words to move │ place │ card
    row      of a node: what is asked of it again and again; see rows.py
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
NEXT = 0  # the next card of the same family
READS = 8  # how many tensors are read
OUTS = 16  # how many new ones are made
RESULTS = 24  # how many results there are
NUMBERS = 32  # how many run-time numbers there are
LENGTH = 40  # words of an entry
KEY = 48  # per input: how many views are looked through (or UNREAD), their families
KINDS = 56  # per number: whether it is a float
OUT_TABLE = 64  # per new tensor: the register with its bytes
RESULT_TABLE = 72  # per result: see below
MASK = 80  # of a gradient, per input: whether its gradient is wanted
# Sizes: 0, 1, or 2 + the number of a size, for each dim of what is looked at, in order.
PATTERN, DIMS, SIZES = 88, 96, 104  # table, its length, how many numbers there are
PROVEN, PROVEN_COUNT = 112, 120  # sizes for which alone it is known to hold; -1: for all
REGISTERS = 128  # table: sizes, then what the code computes; of one of the sets, the latest used
CODE, CODE_END = 136, 144
IMAGE, IMAGE_WORDS = 152, 160  # the words of the program; without any, a result is what is read
FILLS, FILLS_COUNT = 168, 176  # table: a word of the image, the register that goes there
SCRATCH, THREAD_SCRATCH = 184, 192  # registers with bytes for the program, and for each thread
SETS, SET_BYTES = 200, 208  # table of sets of registers, for several sizes that take turns
TURN = 216  # the set that is filled next
CARD = 224

# Before the registers of a set: the list for which they were computed, or -1; which time that was;
# and the program that was made for them, or 0.
FILLED, FILLING, PROGRAM = -24, -16, -8
SET_HEAD = 24
MOST_SETS = 4

UNREAD = -1
ANY_SIZES = -1

# A result: the number of a new tensor, or -1 - that of a tensor that is read; the register with
# its bytes; of a gradient, the input that it belongs to, and where the first card that adds
# such tensors is noted; and the table of its uses, or 0.
RESULT = 40
RESULT_FROM, RESULT_BYTES, RESULT_INPUT, RESULT_ADD, RESULT_USES = range(0, 40, 8)

# Of a gradient that is the outer product of two rows (uses.py), a table: the first cards that add
# eight, four, two and one of them; the numbers of what is read that are the rows, 0 for the
# gradient, else 1 + an input; sizes for which cards are wanted; whether there can be none.
USES_A, USES_B, USES_ROWS, USES_COLUMNS, USES_OFF = range(32, 72, 8)
USES_WORDS = 9

# Where the parts of a program begin is written into its header: which word tells which.
BLOCKS_WORD, PATCHES_WORD, STEPS_WORD = 0, 1, 3

# An entry of the list.
ENTRY = 48
ENTRY_PROGRAM, ENTRY_WORDS, ENTRY_SCALARS, ENTRY_MOVED, ENTRY_PLACE, ENTRY_CARD = range(0, 48, 8)

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
ADDS = 144  # table of additions to be listed: card, two values, the value they make, elements;
# and of copies: 0, the value, the bytes, where to
ADDS_MADE = 152
SCRATCH_NEEDED, THREAD_SCRATCH_NEEDED = 160, 168
PLACE = 176  # what is being listed, for entries
KEPT = 184  # table: the places of what must be kept, and how many
KEPT_MADE = 192
STRUCTURE = 200  # table: what was recorded, as one structure is told from another
STRUCTURE_END = 208
IMAGES, IMAGES_END = 216, 224  # where the next program goes
GENERATION = 232  # the number of the list
MEASURED = 240  # table: the sizes that a card is tried with
UNITED = 248  # uses of weights whose gradients were added up several at a time
ROWS = 256  # table by place: the row
TAPE, TAPE_END = 264, 272  # where the next row goes
KNOWN = 280  # table: cards that were found on this list; see matching.py
STAMP = 288  # counts how often registers were computed
NUMBERED = 296  # table by place: while a walk is linked up, the number of an interior node + 1
MISSING_ROWS = 304  # bytes of rows that a walk needs besides those of what is pending
DESK_BYTES = 312

# A row, and what it tells of an input.
ROW_NODE, ROW_SPEC, ROW_FAMILY, ROW_ARGS, ROW_PLACE, ROW_COUNT, ROW_INPUTS = range(0, 56, 8)
INPUT, INPUT_PLACE = 16, 8

BLOCK = 32
BLOCK_OFFSET, BLOCK_CLASS, BLOCK_NEXT, BLOCK_USERS = 0, 8, 16, 24
ADD = 40
# Sizes of memory: four classes per octave, see runtime/memory.py.
MOST_CLASSES = 256
LEAST_STEP = 64

# Of a family: on which list nodes were last seen that read through views for which there is no
# piece, and how many. There are many ways of looking at a tensor, and a kernel for each would be
# compiled for ever: the views are computed, until as many nodes of one list read so.
RARE = 16
RARE_LIST, RARE_COUNT = 0, 8
OFTEN = 4

# An instruction: what, and two registers (or a number); it makes the next register.
INSTRUCTION = 24
(
    NUMBER, PLUS, MINUS, TIMES, QUOTIENT, REMAINDER, LEAST, MOST, EQUAL, LESS, NOT, GUARD, DOUBLE,
    RATIO,
) = range(14)  # fmt: skip

# What a family is to the list.
COMPUTED, VIEW, ALIAS, GRADIENT, GRADIENT_OF, WRITES, UNFIT, UPDATE = range(8)
# Elements of what a part is written of: of more than this, plans write in place.
MOST_COPIED = 1 << 14
