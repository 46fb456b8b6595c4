"""Lists the pieces of a backward pass, natively: each node's gradient rule, and the sums.

It goes by the tables of a walk: see linking.py.
"""

from __future__ import annotations

from livegrad.native.calls import fetch, int_at, object_at, put_word, word_at
from livegrad.runtime.cpu.pieces.families import Family
from livegrad.runtime.cpu.pieces.filling import (
    agrees,
    begin_measuring,
    has_room_for_program,
    is_for_sizes,
    program_of,
    register,
)
from livegrad.runtime.cpu.pieces.layout import (
    ADD,
    ADDS,
    ADDS_MADE,
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
    MASK,
    NEXT,
    OUT_TABLE,
    PATTERN,
    PLACE,
    READS,
    RESULT,
    RESULT_ADD,
    RESULT_BYTES,
    RESULT_FROM,
    RESULT_INPUT,
    RESULT_TABLE,
    RESULTS,
    ROW_COUNT,
    ROW_FAMILY,
    ROW_PLACE,
    USES,
    WORD,
    WORDS,
    WORDS_END,
)
from livegrad.runtime.cpu.pieces.linking import (
    AHEAD,
    COMING,
    GRADS,
    LEAF_TARGETS,
    LINKS,
    NODE_ROWS,
    ORDER,
    ORDERED,
    SIZES,
    STARTS,
)
from livegrad.runtime.cpu.pieces.listing import (
    computes_views,
    has_room,
    let_go,
    new_block,
    put_all_numbers,
    put_copy,
    put_entry,
    share,
    use_up,
    use_up_all,
)
from livegrad.runtime.cpu.pieces.matching import (
    BACKWARD,
    finds,
    finds_again,
    known_card,
    note_found,
)
from livegrad.runtime.cpu.pieces.rows import (
    elements,
    entry_of,
    saved_in,
    set_entry,
    value_in,
)
from livegrad.runtime.cpu.pieces.survey import count_reads
from livegrad.runtime.cpu.pieces.uses import add_waiting, has_rows, use_is_put_off, use_to_unite

# Words of a program that adds two vectors, at the most, twice.
MOST_ADDING = 400


def list_gradients(desk: int, nodes: int, walk: int, at: int) -> int:
    """Lists the gradients of the order from `at` on; where Python is needed, or the end."""
    order, count = word_at(walk + ORDER), word_at(walk + ORDERED)
    rows = word_at(walk + NODE_ROWS)
    while at < count:
        if at + AHEAD < count:
            fetch(word_at(rows + WORD * word_at(order + WORD * (at + AHEAD))))
        number = word_at(order + WORD * at)
        row = word_at(rows + WORD * number)
        family: Family = object_at(row + ROW_FAMILY)
        if not list_gradient(desk, nodes, walk, number, row, int_at(id(family.backward))):
            saved = int_at(id(family.saved))
            if saved != 1 and saved != 3:
                return at
            if not computes_views(desk, nodes, row):
                return at
            if not list_gradient(desk, nodes, walk, number, row, int_at(id(family.backward))):
                return at
        at += 1
    return at


def list_gradient(desk: int, nodes: int, walk: int, number: int, row: int, card: int) -> bool:
    """Adds the piece of a node's gradient; False if no card is for it, or the list is full."""
    first = word_at(word_at(walk + STARTS) + WORD * number)
    links = word_at(walk + LINKS) + WORD * first
    count, found = word_at(row + ROW_COUNT), word_at(desk + FOUND) + WORD
    known = known_card(desk, row, BACKWARD)
    if known != 0:
        again = finds_again(desk, row, known, found)
        if again != 0 and wants(again, links, count):
            done = pull(desk, nodes, walk, number, row, again, card)
            if done >= 0:
                return done != 0
    first_card = card
    while card != 0:
        if wants(card, links, count) and finds(desk, row, card, found):
            if known != 0:
                note_found(desk, row, known, card)
            done = pull(desk, nodes, walk, number, row, card, first_card)
            if done >= 0:
                return done != 0
        card = word_at(card + NEXT)
    return False


def pull(
    desk: int, nodes: int, walk: int, number: int, row: int, card: int, first_card: int
) -> int:
    """Adds a piece that is for a node's gradient, the values of whose inputs are found.

    0 if something is missing, -1 if the card is for numbers of other kinds.
    """
    links = word_at(walk + LINKS) + WORD * word_at(word_at(walk + STARTS) + WORD * number)
    found, count = word_at(desk + FOUND), word_at(row + ROW_COUNT)
    g = word_at(word_at(walk + GRADS) + WORD * number)
    united = use_to_unite(walk, card, links, row)
    if united >= 0 and has_rows(desk, nodes, card, united, row):
        put_word(desk + PLACE, word_at(row + ROW_PLACE))
        target = leaf_target(walk, link_of(word_at(card + RESULT_TABLE), united, links))
        if not use_is_put_off(desk, walk, card, united, links, row, g, target):
            return 0
        if goes_on(links, count):
            return list_gradient(desk, nodes, walk, number, row, first_card)
        let_go(desk, g)
        use_up_saved(desk, card, row)
        return 1
    added = add_waiting(desk, walk, card, links)
    # What was found has made way for what has been listed.
    if added < 0:
        return 0
    if (added > 0 or united >= 0) and not finds(desk, row, card, found + WORD):
        return list_gradient(desk, nodes, walk, number, row, first_card)
    if not has_room(desk, card, 1):
        return 0
    program_of(desk, card)
    if not can_add(desk, walk, card, links, row):
        return 0
    floats = put_all_numbers(desk, row, card)
    if floats < 0:
        return -1
    put_word(desk + PLACE, word_at(row + ROW_PLACE))
    put_word(found, g)
    put_word(found + WORD * (1 + count), 0)
    if reads_result(card):
        put_word(found + WORD * (1 + count), value_in(desk, row))
    put_results(desk, walk, card, links, row, floats)
    let_go(desk, g)
    use_up_saved(desk, card, row)
    return 1


def goes_on(links: int, count: int) -> bool:
    """Whether the gradient of some input is wanted."""
    for i in range(count):
        if word_at(links + WORD * i) >= 0:
            return True
    return False


def use_up_saved(desk: int, card: int, row: int) -> int:
    """Notes that the values were read which a node's gradient is made from."""
    if reads_inputs(card):
        use_up_all(desk, row)
    if reads_result(card):
        use_up(desk, word_at(row + ROW_PLACE))
    return 0


def wants(card: int, links: int, count: int) -> bool:
    """Whether a card gives the gradients of those inputs that a walk goes on to."""
    mask = word_at(card + MASK)
    for i in range(count):
        if (word_at(links + WORD * i) >= 0) != (word_at(mask + WORD * i) != 0):
            return False
    return True


def reads_inputs(card: int) -> bool:
    """Whether the gradient is made from what the node reads."""
    return word_at(word_at(card + MASK) - 2 * WORD) != 0


def reads_result(card: int) -> bool:
    """Whether the gradient is made from the node's value."""
    return word_at(word_at(card + MASK) - WORD) != 0


def can_add(desk: int, walk: int, card: int, links: int, row: int) -> bool:
    """Whether the cards that adding the results up needs are there, and the list has room."""
    results, count = word_at(card + RESULT_TABLE), word_at(card + RESULTS)
    entries, words = 1 + count, word_at(card + LENGTH) + 4 * count
    if word_at(desk + ENTRIES) + ENTRY * entries > word_at(desk + ENTRIES_END):
        return False
    if word_at(desk + WORDS) + WORD * words > word_at(desk + WORDS_END):
        return False
    # Programs that add are small, but may have to be made for several sizes.
    if word_at(desk + IMAGES) + WORD * MOST_ADDING * (1 + count) > word_at(desk + IMAGES_END):
        return False
    for i in range(count):
        link = WORD * link_of(results, i, links)
        several = word_at(word_at(walk + COMING) + link) > 1
        if several or word_at(word_at(walk + GRADS) + link) != 0:
            if adding_card(desk, results + RESULT * i, row) == 0:
                return False
    return True


def adding_card(desk: int, result: int, row: int) -> int:
    """The card that adds two gradients like a result, if there is room for its program; or 0."""
    first = word_at(result + RESULT_ADD)
    if first == 0:
        return 0
    return card_for_vectors(desk, word_at(first), elements(row, word_at(result + RESULT_INPUT)))


def is_for_vectors(desk: int, card: int, numel: int) -> bool:
    """Whether all dims that a card looks at may have so many elements."""
    begin_measuring(desk)
    for i in range(word_at(card + DIMS)):
        if not agrees(desk, word_at(word_at(card + PATTERN) + WORD * i), numel):
            return False
    return True


def card_for_vectors(desk: int, card: int, numel: int) -> int:
    """The first card that is for vectors of so many elements, if there is room for its program."""
    while card != 0:
        if is_for_vectors(desk, card, numel) and is_for_sizes(desk, card):
            if has_room_for_program(desk, card):
                program_of(desk, card)
                return card
            return 0
        card = word_at(card + NEXT)
    return 0


def link_of(results: int, i: int, links: int) -> int:
    """Where a result goes."""
    return word_at(links + WORD * word_at(results + RESULT * i + RESULT_INPUT))


def put_results(desk: int, walk: int, card: int, links: int, row: int, floats: int) -> int:
    """Says where the results go, adds the entry, and then those that add up."""
    results = word_at(card + RESULT_TABLE)
    put_word(desk + ADDS_MADE, 0)
    for i in range(word_at(card + RESULTS)):
        result = results + RESULT * i
        source = word_at(result + RESULT_FROM)
        link = link_of(results, i, links)
        target = target_of(walk, link)
        before = word_at(word_at(walk + GRADS) + WORD * link)
        if source >= 0:
            value = target
            if value == 0 or before != 0:
                value = new_block(desk, out_bytes(card, source))
            put_word(word_at(desk + MADE) + WORD * source, value)
        else:
            value = taken(desk, card, -1 - source)
            share(desk, value)
            if before == 0 and target != 0:
                value = put_off(desk, 0, value, result_bytes(card, result), target, 0)
        if before != 0:
            numel = elements(row, word_at(result + RESULT_INPUT))
            add = card_for_vectors(desk, word_at(word_at(result + RESULT_ADD)), numel)
            value = put_off(desk, add, before, value, target, numel)
        put_word(word_at(walk + GRADS) + WORD * link, value)
    if word_at(card + IMAGE_WORDS) != 0:
        put_entry(desk, card, floats)
    return add_up(desk)


def out_bytes(card: int, number: int) -> int:
    """The bytes of a new tensor."""
    return register(card, word_at(word_at(card + OUT_TABLE) + WORD * number))


def result_bytes(card: int, result: int) -> int:
    """The bytes of a result."""
    return register(card, word_at(result + RESULT_BYTES))


def taken(desk: int, card: int, number: int) -> int:
    """The value of a result that is read, or was made for another result."""
    reads = word_at(card + READS)
    if number < reads:
        return word_at(word_at(desk + FOUND) + WORD * number)
    return word_at(word_at(desk + MADE) + WORD * (number - reads))


def target_of(walk: int, link: int) -> int:
    """Where the next sum of contributions must be: the last one to a leaf, where that is kept."""
    coming = word_at(walk + COMING) + WORD * link
    left = word_at(coming) - 1
    put_word(coming, left)
    if left == 0 and link >= word_at(walk + SIZES):
        return leaf_target(walk, link)
    return 0


def leaf_target(walk: int, link: int) -> int:
    """Where the gradient of a leaf must be, or 0."""
    return word_at(word_at(walk + LEAF_TARGETS) + WORD * (link - word_at(walk + SIZES)))


def put_off(desk: int, card: int, one: int, other: int, target: int, numel: int) -> int:
    """Notes that two values are to be added, or one copied (without a card); what that makes."""
    value = target
    if value == 0:
        value = new_block(desk, out_bytes(card, 0))
    made = word_at(desk + ADDS_MADE)
    add = word_at(desk + ADDS) + ADD * made
    put_word(add, card)
    put_word(add + WORD, one)
    put_word(add + 2 * WORD, other)
    put_word(add + 3 * WORD, value)
    put_word(add + 4 * WORD, numel)
    put_word(desk + ADDS_MADE, made + 1)
    return value


def add_up(desk: int) -> int:
    """Adds the entries that were put off, and lets go of what they read."""
    found, made = word_at(desk + FOUND), word_at(desk + MADE)
    for i in range(word_at(desk + ADDS_MADE)):
        add = word_at(desk + ADDS) + ADD * i
        one, other, value = word_at(add + WORD), word_at(add + 2 * WORD), word_at(add + 3 * WORD)
        if word_at(add) == 0:
            put_copy(desk, one, other, value)
        else:
            put_word(found, one)
            put_word(found + WORD, other)
            put_word(made, value)
            put_entry(desk, card_for_vectors(desk, word_at(add), word_at(add + 4 * WORD)), 0)
    for i in range(word_at(desk + ADDS_MADE)):
        add = word_at(desk + ADDS) + ADD * i
        let_go(desk, word_at(add + WORD))
        if word_at(add) != 0:
            let_go(desk, word_at(add + 2 * WORD))
    return 0


def count_saved(desk: int, walk: int, number: int) -> int:
    """Counts the reads of values by gradient rules, from `number` on; where Python is needed."""
    rows, count = word_at(walk + NODE_ROWS), word_at(walk + SIZES)
    while number < count:
        row = word_at(rows + WORD * number)
        saved, place = saved_in(row), word_at(row + ROW_PLACE)
        if saved < 0:
            return number
        if saved == 1 or saved == 3:
            count_reads(desk, row, False)
        if saved >= 2 and place >= 0:
            set_entry(desk, USES, place, entry_of(desk, USES, place) + 1)
        if saved >= 2 and place < 0 and value_in(desk, row) == 0:
            return number
        number += 1
    return number


FUNCTIONS = [
    list_gradients, list_gradient, pull, goes_on, use_up_saved, wants, reads_inputs, reads_result,
    can_add, link_of, put_results, out_bytes, result_bytes, adding_card, is_for_vectors,
    card_for_vectors, taken, target_of, leaf_target, put_off, add_up, count_saved,
]  # fmt: skip
