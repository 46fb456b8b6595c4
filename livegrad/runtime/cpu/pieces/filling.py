"""Fills in the programs of pieces for the sizes of nodes, natively: see moulds.py.

Functions of words and lent objects (native/words.py), as those that list pieces.
"""

from __future__ import annotations

from livegrad.graph.meta import Meta
from livegrad.native.calls import (
    double_bits,
    int_at,
    object_at,
    put_word,
    quotient,
    ratio_bits,
    remainder,
    word_at,
)
from livegrad.native.layout import SIZE, TUPLE_ITEMS
from livegrad.runtime.cpu.pieces.layout import (
    ANY_SIZES,
    BLOCKS_WORD,
    CODE,
    CODE_END,
    DIMS,
    DOUBLE,
    EQUAL,
    FILLED,
    FILLING,
    FILLS,
    FILLS_COUNT,
    GENERATION,
    GUARD,
    IMAGE,
    IMAGE_WORDS,
    IMAGES,
    IMAGES_END,
    INSTRUCTION,
    LEAST,
    LESS,
    MEASURED,
    MINUS,
    MOST_SETS,
    NOT,
    NUMBER,
    PATCHES_WORD,
    PATTERN,
    PLUS,
    PROGRAM,
    PROVEN,
    PROVEN_COUNT,
    QUOTIENT,
    RATIO,
    REGISTERS,
    REMAINDER,
    SET_BYTES,
    SET_HEAD,
    SETS,
    SIZES,
    STAMP,
    STEPS_WORD,
    TIMES,
    TURN,
    WORD,
)

# --------------------------------------------------------------------------------- measuring


def measure(desk: int, card: int, meta: Meta, at: int) -> int:
    """Compares the dims of a tensor with the pattern of a card from `at` on; where it goes on.

    Sizes are written to the desk as they are met. -1 if these are no sizes for the card.
    """
    shape = id(meta.shape)
    count = word_at(shape + SIZE)
    if at + count > word_at(card + DIMS):
        return -1
    for i in range(count):
        size = int_at(id(object_at(shape + TUPLE_ITEMS + WORD * i)))
        if not agrees(desk, word_at(word_at(card + PATTERN) + WORD * (at + i)), size):
            return -1
    return at + count


def agrees(desk: int, wanted: int, size: int) -> bool:
    """Whether a size is the one that a pattern wants; the first of its number is noted.

    The desk's table begins with how many have been noted.
    """
    if wanted < 2:
        return size == wanted
    noted = word_at(desk + MEASURED)
    count, sizes = word_at(noted), noted + WORD
    number = wanted - 2
    if number < count:
        return word_at(sizes + WORD * number) == size
    for i in range(count):
        if word_at(sizes + WORD * i) == size:
            return False
    put_word(sizes + WORD * count, size)
    put_word(noted, count + 1)
    return size >= 2


def begin_measuring(desk: int) -> int:
    """Forgets the sizes on the desk; the place of the first dim."""
    put_word(word_at(desk + MEASURED), 0)
    return 0


# --------------------------------------------------------------------------------- registers


def is_for_sizes(desk: int, card: int) -> bool:
    """Whether a card holds for the sizes on the desk; then its registers are theirs."""
    if is_filled(desk, card, word_at(card + REGISTERS)):
        return True
    first = word_at(card + SETS) + SET_HEAD
    for i in range(MOST_SETS):
        registers = first + word_at(card + SET_BYTES) * i
        if is_filled(desk, card, registers):
            put_word(card + REGISTERS, registers)
            return True
    sizes, count = word_at(desk + MEASURED) + WORD, word_at(card + SIZES)
    if not is_proven(card, sizes, count):
        return False
    turn = word_at(card + TURN)
    registers = first + word_at(card + SET_BYTES) * turn
    put_word(card + TURN, remainder(turn + 1, MOST_SETS))
    for i in range(count):
        put_word(registers + WORD * i, word_at(sizes + WORD * i))
    put_word(registers + PROGRAM, 0)
    put_word(registers + FILLED, -1)
    if not computes(word_at(card + CODE), word_at(card + CODE_END), registers, count):
        return False
    put_word(desk + STAMP, word_at(desk + STAMP) + 1)
    put_word(registers + FILLED, word_at(desk + GENERATION))
    put_word(registers + FILLING, word_at(desk + STAMP))
    put_word(card + REGISTERS, registers)
    return True


def is_filled(desk: int, card: int, registers: int) -> bool:
    """Whether a set of registers of a card was computed on this list, for the sizes on the desk."""
    if word_at(registers + FILLED) != word_at(desk + GENERATION):
        return False
    return same(word_at(desk + MEASURED) + WORD, registers, word_at(card + SIZES))


def same(a: int, b: int, count: int) -> bool:
    """Whether two tables of so many words are equal."""
    for i in range(count):
        if word_at(a + WORD * i) != word_at(b + WORD * i):
            return False
    return True


def is_proven(card: int, sizes: int, count: int) -> bool:
    """Whether a card is known to hold for sizes like these, if its code does not refuse them."""
    proven = word_at(card + PROVEN_COUNT)
    if proven == ANY_SIZES:
        return True
    for i in range(proven):
        if same(word_at(card + PROVEN) + WORD * count * i, sizes, count):
            return True
    return False


def computes(code: int, end: int, registers: int, at: int) -> bool:
    """Computes registers from `at` on; False if a guard does not hold."""
    made = registers + WORD * at
    while code < end:
        what = word_at(code)
        a, b = word_at(code + WORD), word_at(code + 2 * WORD)
        if what == NUMBER:
            put_word(made, a)
        else:
            x = word_at(registers + WORD * a)
            if what == GUARD:
                if x == 0:
                    return False
            else:
                y = word_at(registers + WORD * b)
                if (what == QUOTIENT or what == REMAINDER or what == RATIO) and y <= 0:
                    return False
                put_word(made, computed(what, x, y))
        made += WORD
        code += INSTRUCTION
    return True


def computed(what: int, x: int, y: int) -> int:
    """The result of an instruction."""
    if what == PLUS:
        return x + y
    if what == TIMES:
        return x * y
    if what == MINUS:
        return x - y
    if what == QUOTIENT:
        return floor(x, y)
    if what == REMAINDER:
        return x - y * floor(x, y)
    if what == DOUBLE:
        return double_bits(x)
    if what == RATIO:
        return ratio_bits(x, y)
    return compared(what, x, y)


def compared(what: int, x: int, y: int) -> int:
    """The result of an instruction that compares."""
    if what == EQUAL:
        return x == y
    if what == LESS:
        return x < y
    if what == NOT:
        return x == 0
    if (what == LEAST) == (x < y):
        return x
    return y


def floor(x: int, y: int) -> int:
    """`x // y` for a y that is not negative."""
    if x >= 0:
        return quotient(x, y)
    return 0 - quotient(y - 1 - x, y)


# ---------------------------------------------------------------------------------- programs


def has_room_for_program(desk: int, card: int) -> bool:
    """Whether the program of a card is made already, or there is room for it."""
    if word_at(word_at(card + REGISTERS) + PROGRAM) != 0:
        return True
    return word_at(desk + IMAGES) + WORD * word_at(card + IMAGE_WORDS) <= word_at(desk + IMAGES_END)


def program_of(desk: int, card: int) -> int:
    """The program of a card, for the sizes that its registers are for."""
    known = word_at(word_at(card + REGISTERS) + PROGRAM)
    if known != 0:
        return known
    program, image, count = (
        word_at(desk + IMAGES),
        word_at(card + IMAGE),
        word_at(card + IMAGE_WORDS),
    )
    for i in range(count):
        put_word(program + WORD * i, word_at(image + WORD * i))
    fills, registers = word_at(card + FILLS), word_at(card + REGISTERS)
    for i in range(word_at(card + FILLS_COUNT)):
        at, register = word_at(fills + 2 * WORD * i), word_at(fills + 2 * WORD * i + WORD)
        put_word(program + WORD * at, word_at(registers + WORD * register))
    link(program, BLOCKS_WORD)
    link(program, PATCHES_WORD)
    link(program, STEPS_WORD)
    put_word(desk + IMAGES, program + WORD * count)
    put_word(registers + PROGRAM, program)
    return program


def link(program: int, word: int) -> int:
    """Makes an address of a place in the program that is written there."""
    at = program + WORD * word
    put_word(at, program + WORD * word_at(at))
    return 0


def register(card: int, number: int) -> int:
    """What the code of a card has computed."""
    return word_at(word_at(card + REGISTERS) + WORD * number)


FUNCTIONS = [
    measure, agrees, begin_measuring, is_for_sizes, is_filled, same, is_proven, computes, computed,
    compared, floor, has_room_for_program, program_of, link, register,
]  # fmt: skip
