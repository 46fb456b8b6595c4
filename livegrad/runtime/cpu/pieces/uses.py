"""Uses of a weight by single rows: their gradients are added up several at a time, natively.

    x₁ @ w ─► pull ─► w₁ ─┐               x₁ @ w ─► pull: of x₁ alone,  x₁, g₁ ─┐
    x₂ @ w ─► pull ─► w₂ ─► add ─┐        x₂ @ w ─► pull: of x₂ alone,  x₂, g₂ ─┼─► add_outer ─► sum
    x₃ @ w ─► pull ─► w₃ ────────► add    …                                      ─┘   up to 8

A product with one row gives the weight an outer product for a gradient, as large as the weight, of
which each is written, read and added to the sum of those before. Instead the rows wait, and a piece
adds up to eight of them to the sum, element by element in the same order: the bits are the same.
Only the first contribution to a leaf is made in the ordinary way, and what is no such product comes
after all that wait.
"""

from __future__ import annotations

from livegrad.native.calls import put_word, quotient, remainder, word_at
from livegrad.runtime.cpu.pieces.filling import agrees, begin_measuring, is_for_sizes, register
from livegrad.runtime.cpu.pieces.layout import (
    DIMS,
    ENTRIES,
    ENTRIES_END,
    ENTRY,
    FOUND,
    IMAGE_WORDS,
    IMAGES,
    IMAGES_END,
    LENGTH,
    MADE,
    NEXT,
    OUT_TABLE,
    PATTERN,
    RESULT,
    RESULT_FROM,
    RESULT_INPUT,
    RESULT_TABLE,
    RESULT_USES,
    RESULTS,
    UNITED,
    USES_A,
    USES_B,
    USES_COLUMNS,
    USES_OFF,
    USES_ROWS,
    WORD,
    WORDS,
    WORDS_END,
)
from livegrad.runtime.cpu.pieces.linking import COMING, GRADS, SIZES, WAITING_USES
from livegrad.runtime.cpu.pieces.listing import (
    DEEPEST,
    let_go,
    list_place,
    new_block,
    put_entry,
    share,
    view_below,
)
from livegrad.runtime.cpu.pieces.rows import elements, input_of, value_of

# Uses of a leaf that wait: how many, of which table (see USES_A in layout.py), how many rows and
# columns the weight has, and two values for each.
WAITING_COUNT, WAITING_TABLE, WAITING_ROWS, WAITING_COLUMNS, WAITING_VALUES = range(0, 40, 8)
MOST_UNITED = 8
WAITING_WORDS = 4 + 2 * MOST_UNITED
# Elements of a weight from which on it pays, and contributions to come.
LEAST_UNITED = 4096


def waiting_uses(walk: int, link: int) -> int:
    """Where the uses of a leaf that wait are noted."""
    leaf = link - word_at(walk + SIZES)
    return word_at(walk + WAITING_USES) + WORD * WAITING_WORDS * leaf


def use_to_unite(walk: int, card: int, links: int, row: int) -> int:
    """The result of a card that is a use of a weight which may wait, or -1."""
    results = word_at(card + RESULT_TABLE)
    for i in range(word_at(card + RESULTS)):
        result = results + RESULT * i
        table = word_at(result + RESULT_USES)
        if table != 0 and word_at(result + RESULT_FROM) >= 0 and word_at(table + USES_OFF) == 0:
            link = word_at(links + WORD * word_at(result + RESULT_INPUT))
            if link >= word_at(walk + SIZES) and pays(walk, link, table):
                if elements(row, word_at(result + RESULT_INPUT)) >= LEAST_UNITED:
                    return i
    return -1


def pays(walk: int, link: int, table: int) -> bool:
    """Whether a leaf has a gradient already, to which as many will be added that some may wait.

    Once some have, all do.
    """
    if word_at(word_at(walk + GRADS) + WORD * link) == 0:
        return False
    waiting = waiting_uses(walk, link)
    if word_at(waiting + WAITING_COUNT) > 0 or word_at(waiting + WAITING_TABLE) == table:
        return word_at(waiting + WAITING_TABLE) == table
    return word_at(word_at(walk + COMING) + WORD * link) >= MOST_UNITED


def use_is_put_off(
    desk: int, walk: int, card: int, number: int, links: int, row: int, g: int, target: int
) -> bool:
    """Has the use that is a result of a card wait, and adds up those that do if they are enough.

    False if a piece is missing, or room.
    """
    result = word_at(card + RESULT_TABLE) + RESULT * number
    table, place = word_at(result + RESULT_USES), links + WORD * word_at(result + RESULT_INPUT)
    link = word_at(place)
    waiting = waiting_uses(walk, link)
    count = word_at(waiting + WAITING_COUNT)
    coming = word_at(walk + COMING) + WORD * link
    one, other = word_at(table + USES_A), word_at(table + USES_B)
    if count == 0:
        numel = elements(row, word_at(result + RESULT_INPUT))
        if one > 0:
            rows = elements(row, one - 1)
        else:
            rows = quotient(numel, elements(row, other - 1))
        columns = quotient(numel, rows)
        if not has_sums(desk, table, rows, columns):
            put_word(table + USES_ROWS, rows)
            put_word(table + USES_COLUMNS, columns)
            return False
        put_word(waiting + WAITING_TABLE, table)
        put_word(waiting + WAITING_ROWS, rows)
        put_word(waiting + WAITING_COLUMNS, columns)
    left = word_at(coming) - 1
    if (count + 1 == MOST_UNITED or left == 0) and not has_room_for_sums(desk, table):
        return False
    a, b = factor_of(desk, row, one, g), factor_of(desk, row, other, g)
    share(desk, a)
    share(desk, b)
    values = waiting + WAITING_VALUES + 2 * WORD * count
    put_word(values, a)
    put_word(values + WORD, b)
    put_word(waiting + WAITING_COUNT, count + 1)
    put_word(coming, left)
    put_word(place, -2 - link)
    if count + 1 == MOST_UNITED or left == 0:
        if left != 0:
            target = 0
        add_uses(desk, walk, link, target)
    return True


def factor_of(desk: int, row: int, number: int, g: int) -> int:
    """The value of one of the rows that are multiplied: the gradient `g`, or an input."""
    if number == 0:
        return g
    return value_of(desk, input_of(row, number - 1))


def has_rows(desk: int, nodes: int, card: int, number: int, row: int) -> bool:
    """Whether the rows of a use have values: views are computed by themselves, if they can be."""
    result = word_at(card + RESULT_TABLE) + RESULT * number
    table = word_at(result + RESULT_USES)
    if factor_of(desk, row, word_at(table + USES_A), 1) == 0:
        computes_view(desk, nodes, row, word_at(table + USES_A))
    if factor_of(desk, row, word_at(table + USES_B), 1) == 0:
        computes_view(desk, nodes, row, word_at(table + USES_B))
    if factor_of(desk, row, word_at(table + USES_A), 1) == 0:
        return False
    return factor_of(desk, row, word_at(table + USES_B), 1) != 0


def computes_view(desk: int, nodes: int, row: int, number: int) -> int:
    """Lists the views that an input is seen through, the innermost first."""
    for depth in range(DEEPEST):
        place = view_below(desk, input_of(row, number - 1), DEEPEST - 1 - depth)
        if place >= 0 and list_place(desk, nodes, place) == 0:
            return 0
    return 0


def has_sums(desk: int, table: int, rows: int, columns: int) -> bool:
    """Whether there are pieces that add one, two, four and eight products of such sizes."""
    for slot in range(4):
        first = word_at(table + WORD * slot)
        if card_for_matrix(desk, first, rows, columns) == 0:
            return False
    return True


def has_room_for_sums(desk: int, table: int) -> bool:
    """Whether the list has room for all entries that add up what waits."""
    words, images = 0, 0
    for slot in range(4):
        card = word_at(table + WORD * slot)
        words += word_at(card + LENGTH)
        images += word_at(card + IMAGE_WORDS)
    if word_at(desk + ENTRIES) + 4 * ENTRY > word_at(desk + ENTRIES_END):
        return False
    if word_at(desk + WORDS) + WORD * words > word_at(desk + WORDS_END):
        return False
    return word_at(desk + IMAGES) + WORD * images <= word_at(desk + IMAGES_END)


def card_for_matrix(desk: int, card: int, rows: int, columns: int) -> int:
    """The first card that adds products to a matrix of such sizes, or 0."""
    while card != 0:
        if is_for_matrix(desk, card, rows, columns) and is_for_sizes(desk, card):
            return card
        card = word_at(card + NEXT)
    return 0


def is_for_matrix(desk: int, card: int, rows: int, columns: int) -> bool:
    """Whether the sizes that a card looks at are these: of the matrix, pairs of rows, the sum."""
    begin_measuring(desk)
    dims = word_at(card + DIMS)
    for i in range(dims):
        size = rows
        of_row = remainder(i - 2 + 4, 4)
        if i >= 2 and i < dims - 2:
            if of_row == 0 or of_row == 2:
                size = 1
            elif of_row == 3:
                size = columns
        elif remainder(i, 2) == 1:
            size = columns
        if not agrees(desk, word_at(word_at(card + PATTERN) + WORD * i), size):
            return False
    return True


def add_uses(desk: int, walk: int, link: int, target: int) -> int:
    """Adds the entries that add what waits to a leaf's gradient; the last one to `target`."""
    waiting = waiting_uses(walk, link)
    table, left = word_at(waiting + WAITING_TABLE), word_at(waiting + WAITING_COUNT)
    rows, columns = word_at(waiting + WAITING_ROWS), word_at(waiting + WAITING_COLUMNS)
    values, grads = waiting + WAITING_VALUES, word_at(walk + GRADS)
    put_word(desk + UNITED, word_at(desk + UNITED) + left)
    while left > 0:
        count, slot = MOST_UNITED, 0
        while count > left:
            count = quotient(count, 2)
            slot += 1
        card = card_for_matrix(desk, word_at(table + WORD * slot), rows, columns)
        before = word_at(grads + WORD * link)
        found = word_at(desk + FOUND)
        put_word(found, before)
        for i in range(2 * count):
            put_word(found + WORD * (1 + i), word_at(values + WORD * i))
        left -= count
        value = 0
        if left == 0:
            value = target
        if value == 0:
            value = new_block(desk, register(card, word_at(word_at(card + OUT_TABLE))))
        put_word(word_at(desk + MADE), value)
        put_entry(desk, card, 0)
        let_go(desk, before)
        for i in range(2 * count):
            let_go(desk, word_at(values + WORD * i))
        values += 2 * WORD * count
        put_word(grads + WORD * link, value)
    put_word(waiting + WAITING_COUNT, 0)
    return 0


def add_waiting(desk: int, walk: int, card: int, links: int) -> int:
    """Adds what waits to the leaves that a card has results for: these come after it.

    To how many; -1 if there is no room.
    """
    results, added = word_at(card + RESULT_TABLE), 0
    for i in range(word_at(card + RESULTS)):
        link = word_at(links + WORD * word_at(results + RESULT * i + RESULT_INPUT))
        if link >= word_at(walk + SIZES):
            waiting = waiting_uses(walk, link)
            if word_at(waiting + WAITING_COUNT) > 0:
                if not has_room_for_sums(desk, word_at(waiting + WAITING_TABLE)):
                    return -1
                add_uses(desk, walk, link, 0)
                added += 1
    return added


FUNCTIONS = [
    waiting_uses, use_to_unite, pays, use_is_put_off, factor_of, has_rows, computes_view, has_sums,
    has_room_for_sums, card_for_matrix, is_for_matrix, add_uses, add_waiting,
]  # fmt: skip
