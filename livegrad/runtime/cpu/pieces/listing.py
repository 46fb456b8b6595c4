"""Lists the pieces that pending nodes need, natively: which programs run, on what memory.

Functions of words and lent objects (native/words.py): they read nodes where they lie, and write
entries; see layout.py. They go on until something has to be done in Python, and say where.
"""

from __future__ import annotations

from livegrad.graph.node import Node
from livegrad.native.calls import int_at, object_at, put_word, quotient, word_at
from livegrad.native.layout import FLOAT_VALUE, SIZE, TUPLE_ITEMS
from livegrad.runtime.cpu.pieces.families import Family
from livegrad.runtime.cpu.pieces.filling import has_room_for_program, program_of, register
from livegrad.runtime.cpu.pieces.layout import (
    ALIAS,
    ARENA,
    BLOCK,
    BLOCK_CLASS,
    BLOCK_NEXT,
    BLOCK_OFFSET,
    BLOCK_USERS,
    BLOCKS,
    BLOCKS_MADE,
    COMPUTED,
    COUNT,
    DEPTHS,
    ENTRIES,
    ENTRIES_END,
    ENTRY,
    ENTRY_CARD,
    ENTRY_MOVED,
    ENTRY_PLACE,
    ENTRY_PROGRAM,
    ENTRY_SCALARS,
    ENTRY_WORDS,
    FOUND,
    FREE,
    GENERATION,
    GRADIENT_OF,
    IMAGE_WORDS,
    INPUT_PLACE,
    KEY,
    KINDS,
    LEAST_STEP,
    LENGTH,
    MADE,
    NEXT,
    NUMBERS,
    OFTEN,
    OUT_TABLE,
    OUTS,
    PLACE,
    RARE_COUNT,
    RARE_LIST,
    READS,
    RESULT_BYTES,
    RESULT_FROM,
    RESULT_TABLE,
    ROW_ARGS,
    ROW_COUNT,
    ROW_FAMILY,
    ROW_INPUTS,
    SCALARS,
    SCALARS_END,
    SCRATCH,
    SCRATCH_NEEDED,
    TARGETS,
    THREAD_SCRATCH,
    THREAD_SCRATCH_NEEDED,
    TOP,
    USES,
    VALUES,
    VIEW,
    WORD,
    WORDS,
    WORDS_END,
    WRITES,
)
from livegrad.runtime.cpu.pieces.matching import (
    FORWARD,
    finds,
    finds_again,
    known_card,
    note_found,
)
from livegrad.runtime.cpu.pieces.rows import (
    entry_of,
    input_of,
    place_of,
    role_at,
    row_at,
    set_entry,
)

# A view of a view of a view is computed: pieces are made for each way of looking at a tensor.
DEEPEST = 2


# -------------------------------------------------------------------------- memory of the arena


def new_block(desk: int, nbytes: int) -> int:
    """A value in the arena, as one block that has one user."""
    last, step, size_class = nbytes - 1, LEAST_STEP, 0
    if nbytes == 0:
        last = 0
    while last >= 8 * step:
        step = step + step
        size_class += 4
    part = quotient(last, step)
    size_class += part
    heads = word_at(desk + FREE)
    head = word_at(heads + WORD * size_class)
    if head != 0:
        block = word_at(desk + BLOCKS) + BLOCK * (head - 1)
        put_word(heads + WORD * size_class, word_at(block + BLOCK_NEXT))
        put_word(block + BLOCK_USERS, 1)
        return -head
    made = word_at(desk + BLOCKS_MADE)
    block = word_at(desk + BLOCKS) + BLOCK * made
    put_word(desk + BLOCKS_MADE, made + 1)
    put_word(block + BLOCK_OFFSET, word_at(desk + TOP))
    put_word(block + BLOCK_CLASS, size_class)
    put_word(block + BLOCK_USERS, 1)
    put_word(desk + TOP, word_at(desk + TOP) + step * (part + 1))
    return -1 - made


def share(desk: int, value: int) -> int:
    """Notes one more user of a value."""
    if value < 0:
        users = word_at(desk + BLOCKS) + BLOCK * (-1 - value) + BLOCK_USERS
        put_word(users, word_at(users) + 1)
    return 0


def let_go(desk: int, value: int) -> int:
    """Notes one user less: memory that nobody uses is free for what is listed later."""
    if value < 0:
        block = word_at(desk + BLOCKS) + BLOCK * (-1 - value)
        users = word_at(block + BLOCK_USERS) - 1
        put_word(block + BLOCK_USERS, users)
        if users == 0:
            head = word_at(desk + FREE) + WORD * word_at(block + BLOCK_CLASS)
            put_word(block + BLOCK_NEXT, word_at(head))
            put_word(head, -value)
    return 0


def use_up(desk: int, place: int) -> int:
    """Notes that a value was read once more, and through a view what that is a view of."""
    while place >= 0:
        left = entry_of(desk, USES, place) - 1
        set_entry(desk, USES, place, left)
        value = entry_of(desk, VALUES, place)
        if left == 0 and value != 0:
            let_go(desk, value)
        if left > 0 or value != 0:
            return 0
        place = word_at(row_at(desk, place) + ROW_INPUTS + INPUT_PLACE)
    return 0


def use_up_all(desk: int, row: int) -> int:
    """`use_up` for every input that a row tells of."""
    for i in range(word_at(row + ROW_COUNT)):
        use_up(desk, word_at(input_of(row, i) + INPUT_PLACE))
    return 0


# ----------------------------------------------------------------------------------- one entry


def has_room(desk: int, card: int, times: int) -> bool:
    """Whether as many entries like that of a card fit on the list."""
    if word_at(desk + ENTRIES) + ENTRY * times > word_at(desk + ENTRIES_END):
        return False
    if word_at(desk + WORDS) + WORD * times * word_at(card + LENGTH) > word_at(desk + WORDS_END):
        return False
    numbers = WORD * times * word_at(card + NUMBERS)
    if word_at(desk + SCALARS) + numbers > word_at(desk + SCALARS_END):
        return False
    return has_room_for_program(desk, card)


def put_numbers(args: int, kinds: int, ints: int, floats: int) -> int:
    """Writes the numbers of a node, if they are of these kinds; how many are floats, or -1."""
    found = 0
    for i in range(word_at(args + SIZE)):
        x = object_at(args + TUPLE_ITEMS + WORD * i)
        if word_at(kinds + WORD * i) != 0:
            if type(x) is not float:
                return -1
            put_word(floats + WORD * found, word_at(id(x) + FLOAT_VALUE))
            found += 1
        elif type(x) is int or type(x) is bool:
            put_word(ints + WORD * (i - found), int_at(id(x)))
        else:
            return -1
    return found


def put_all_numbers(desk: int, row: int, card: int) -> int:
    """Writes the numbers of the views that inputs are seen through, and the node's; as above."""
    if word_at(card + NUMBERS) == 0:
        return 0
    first = 1 + word_at(card + READS) + word_at(card + OUTS)
    ints, floats = word_at(desk + WORDS) + WORD * first, word_at(desk + SCALARS)
    kinds, key, total = word_at(card + KINDS), word_at(card + KEY), 0
    for i in range(word_at(row + ROW_COUNT)):
        views = word_at(key)
        key += WORD
        if views > 0:
            key += WORD * views
            for k in range(views):
                args = args_of_view(desk, input_of(row, i), views - 1 - k)
                count = word_at(args + SIZE)
                found = put_numbers(args, kinds, ints, floats)
                if found < 0:
                    return -1
                kinds += WORD * count
                ints += WORD * (count - found)
                floats += WORD * found
                total += found
    found = put_numbers(word_at(row + ROW_ARGS), kinds, ints, floats)
    if found < 0:
        return -1
    return total + found


def args_of_view(desk: int, told: int, depth: int) -> int:
    """The numbers of the view that so many others, which an input is seen through, show."""
    x: Node = object_at(told)
    place = word_at(told + INPUT_PLACE)
    for _ in range(depth):
        if place >= 0:
            told = row_at(desk, place) + ROW_INPUTS
            x = object_at(told)
            place = word_at(told + INPUT_PLACE)
        else:
            x = object_at(id(x.inputs) + TUPLE_ITEMS)
            place = place_of(desk, x)
    if place >= 0:
        return word_at(row_at(desk, place) + ROW_ARGS)
    return id(x.args)


def written(desk: int, value: int) -> int:
    """A value as it is written into the words of an entry."""
    if value < 0:
        return ARENA + word_at(word_at(desk + BLOCKS) + BLOCK * (-1 - value) + BLOCK_OFFSET)
    return value


def put_entry(desk: int, card: int, floats: int) -> int:
    """Adds an entry, whose numbers are written already, for the values found and made."""
    entry, words = word_at(desk + ENTRIES), word_at(desk + WORDS)
    reads, outs = word_at(card + READS), word_at(card + OUTS)
    found, made = word_at(desk + FOUND), word_at(desk + MADE)
    for i in range(reads):
        put_word(words + WORD * (1 + i), written(desk, word_at(found + WORD * i)))
    for i in range(outs):
        put_word(words + WORD * (1 + reads + i), written(desk, word_at(made + WORD * i)))
    put_word(entry + ENTRY_PROGRAM, program_of(desk, card))
    put_word(entry + ENTRY_WORDS, words)
    put_word(entry + ENTRY_SCALARS, word_at(desk + SCALARS))
    put_word(entry + ENTRY_MOVED, reads + outs)
    put_word(entry + ENTRY_PLACE, word_at(desk + PLACE))
    put_word(entry + ENTRY_CARD, card)
    put_word(desk + ENTRIES, entry + ENTRY)
    put_word(desk + WORDS, words + WORD * word_at(card + LENGTH))
    put_word(desk + SCALARS, word_at(desk + SCALARS) + WORD * floats)
    need(desk + SCRATCH_NEEDED, register(card, word_at(card + SCRATCH)))
    need(desk + THREAD_SCRATCH_NEEDED, register(card, word_at(card + THREAD_SCRATCH)))
    return 0


def need(place: int, nbytes: int) -> int:
    """Notes how much memory is needed."""
    if nbytes > word_at(place):
        put_word(place, nbytes)
    return 0


def put_copy(desk: int, value: int, nbytes: int, target: int) -> int:
    """Adds an entry that copies a value."""
    entry, words = word_at(desk + ENTRIES), word_at(desk + WORDS)
    put_word(words + WORD, written(desk, value))
    put_word(words + 2 * WORD, written(desk, target))
    put_word(entry + ENTRY_PROGRAM, 0)
    put_word(entry + ENTRY_WORDS, words)
    put_word(entry + ENTRY_SCALARS, nbytes)
    put_word(entry + ENTRY_MOVED, 2)
    put_word(entry + ENTRY_PLACE, word_at(desk + PLACE))
    put_word(entry + ENTRY_CARD, 0)
    put_word(desk + ENTRIES, entry + ENTRY)
    put_word(desk + WORDS, words + 3 * WORD)
    return 0


# ------------------------------------------------------------------------------------- forward


def list_node(desk: int, place: int, card: int) -> bool:
    """Adds the piece of a node; False if none of the cards is for it, or the list is full."""
    row = row_at(desk, place)
    known, found = known_card(desk, row, FORWARD), word_at(desk + FOUND)
    if known != 0:
        again = finds_again(desk, row, known, found)
        if again != 0:
            if not has_room(desk, again, 1):
                return False
            if puts_node(desk, place, row, again):
                return True
    while card != 0:
        if finds(desk, row, card, found):
            if not has_room(desk, card, 1):
                return False
            if known != 0:
                note_found(desk, row, known, card)
            if puts_node(desk, place, row, card):
                return True
        card = word_at(card + NEXT)
    return False


def puts_node(desk: int, place: int, row: int, card: int) -> bool:
    """Adds the entry of a node, the values of whose inputs are found; False if a card is for
    numbers of other kinds, or would write to what is read."""
    if is_no_alias(desk, place, row, card):
        return False
    floats = put_all_numbers(desk, row, card)
    if floats < 0:
        return False
    put_word(desk + PLACE, place)
    give_value(desk, place, card, floats)
    use_up_all(desk, row)
    return True


def is_no_alias(desk: int, place: int, row: int, card: int) -> bool:
    """Whether a node has the memory of its input for a target, and a card computes something.

    A sum of one element is that element; but of others of its family, sums are to be computed. Then
    Python is needed: what the family is to the list has to be learnt anew.
    """
    if word_at(card + IMAGE_WORDS) == 0 or entry_of(desk, TARGETS, place) == 0:
        return False
    family: Family = object_at(row + ROW_FAMILY)
    return int_at(id(family.role)) == ALIAS


def give_value(desk: int, place: int, card: int, floats: int) -> int:
    """Gives a place its value: that of what is read, or memory which an entry writes."""
    value = entry_of(desk, TARGETS, place)
    if word_at(card + IMAGE_WORDS) == 0:
        result = word_at(card + RESULT_TABLE)
        number = -1 - word_at(result + RESULT_FROM)
        source = word_at(word_at(desk + FOUND) + WORD * number)
        if value == 0:
            value = source
            share(desk, value)
        elif value != source:
            put_copy(desk, source, register(card, word_at(result + RESULT_BYTES)), value)
    else:
        if value == 0:
            value = new_block(desk, register(card, word_at(word_at(card + OUT_TABLE))))
        put_word(word_at(desk + MADE), value)
        put_entry(desk, card, floats)
    set_entry(desk, VALUES, place, value)
    return 0


def stays_view(desk: int, place: int, row: int) -> bool:
    """Whether who reads a view looks through it; how deep that is, is noted."""
    if entry_of(desk, TARGETS, place) != 0:
        return False
    depth, below = 1, word_at(row + ROW_INPUTS + INPUT_PLACE)
    if below >= 0 and entry_of(desk, VALUES, below) == 0:
        depth += entry_of(desk, DEPTHS, below)
    set_entry(desk, DEPTHS, place, depth)
    return depth <= DEEPEST


def list_place(desk: int, nodes: int, place: int) -> int:
    """Lists the node of a place now, whoever needs it; 0 if Python is needed for that."""
    family: Family = object_at(row_at(desk, place) + ROW_FAMILY)
    if list_node(desk, place, int_at(id(family.forward))):
        return 1
    return 0


def computes_views(desk: int, nodes: int, row: int) -> bool:
    """Lists by themselves the views that inputs are seen through; False if Python is needed.

    That is, if there is to be a piece that looks through them, or none of a view.
    """
    family: Family = object_at(row + ROW_FAMILY)
    rare, found = int_at(id(family.rare)), 0
    if word_at(rare + RARE_LIST) != word_at(desk + GENERATION):
        put_word(rare + RARE_LIST, word_at(desk + GENERATION))
        put_word(rare + RARE_COUNT, 0)
    put_word(rare + RARE_COUNT, word_at(rare + RARE_COUNT) + 1)
    if word_at(rare + RARE_COUNT) >= OFTEN:
        return False
    for i in range(word_at(row + ROW_COUNT)):
        # The innermost view comes first.
        for depth in range(DEEPEST):
            place = view_below(desk, input_of(row, i), DEEPEST - 1 - depth)
            if place >= 0:
                if list_place(desk, nodes, place) == 0:
                    return False
                found += 1
    return found > 0


def view_below(desk: int, told: int, depth: int) -> int:
    """The place of the view that so many others show, if that has no value; else -1."""
    place = word_at(told + INPUT_PLACE)
    for _ in range(depth):
        if place < 0 or entry_of(desk, VALUES, place) != 0 or role_at(desk, place) != VIEW:
            return -1
        place = word_at(row_at(desk, place) + ROW_INPUTS + INPUT_PLACE)
    if place < 0 or entry_of(desk, VALUES, place) != 0 or role_at(desk, place) != VIEW:
        return -1
    return place


def list_nodes(desk: int, nodes: int, place: int) -> int:
    """Lists what is needed from `place` on; the place where Python is needed, or the end."""
    count = word_at(desk + COUNT)
    while place < count:
        if entry_of(desk, USES, place) != 0 or entry_of(desk, TARGETS, place) != 0:
            row = row_at(desk, place)
            family: Family = object_at(row + ROW_FAMILY)
            role = int_at(id(family.role))
            if role == VIEW and stays_view(desk, place, row):
                role = GRADIENT_OF  # of which nothing is to be done here, either
            if role == COMPUTED or role == ALIAS or role == VIEW or role == WRITES:
                if not list_node(desk, place, int_at(id(family.forward))):
                    if not computes_views(desk, nodes, row):
                        return place
                    if not list_node(desk, place, int_at(id(family.forward))):
                        return place
            elif role != GRADIENT_OF:
                return place
        place += 1
    return place


FUNCTIONS = [
    new_block, share, let_go, use_up, use_up_all, need, has_room, put_numbers, put_all_numbers,
    args_of_view, written, put_entry, put_copy, list_node, puts_node, is_no_alias, give_value,
    stays_view, list_place, computes_views, view_below, list_nodes,
]  # fmt: skip
