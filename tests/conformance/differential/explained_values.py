"""Values, gradients and what hooks wrote, where PyTorch's are not promised or not wanted."""

from __future__ import annotations

import cmath
import math
import re
import struct
from collections import Counter
from collections.abc import Collection
from typing import Any

import torch

from .explained_backward import HOOKED_AGAIN, OLD_HOOKS
from .tensors import functions_before, storage
from .undefined import (
    COPIED_OVERLAP,
    GONE,
    HALF_WAY,
    MASKED_INFINITY,
    MASKED_NAN,
    OF_BYTES,
    ONE_GRADIENT,
    OVERLAPPING,
    OVERLAPPING_BACK,
    READ_MEANWHILE,
    SIBLINGS,
    SORTED_IN_PLACE,
    TOO_LARGE,
    TWO_STORAGES,
    ZERO_BELOW,
    ZERO_TO,
    is_stale,
)

VALUES = ("value", "grad value", "grad", "log")

# What a line on the way did not promise, and in which kinds of difference that may show.
NOTED = {
    OVERLAPPING: ("value", "grad value", "log"),
    OVERLAPPING_BACK: ("grad value", "log"),
    READ_MEANWHILE: ("value", "grad value", "log"),
    TWO_STORAGES: ("value", "grad value", "log"),
    ONE_GRADIENT: ("grad value",),
    GONE: ("log", "grad", "grad value"),
    HALF_WAY: ("grad", "grad value", "log"),
    SIBLINGS: ("log", "grad", "grad value"),
    ZERO_BELOW: ("value", "grad value", "log"),
    ZERO_TO: ("value", "grad value", "log"),
    TOO_LARGE: ("value", "grad value", "log"),
    COPIED_OVERLAP: ("value", "grad value", "log"),
    OF_BYTES: ("value", "grad value", "log"),
    SORTED_IN_PLACE: ("value", "grad value", "log"),
}

ENDLESS = "gradients of products do not divide: they are right where PyTorch's, which do, are NaN"
GELU = "PyTorch's gelu of infinity is NaN, where it is computed in vectors"
INFINITE = (
    "an infinite complex number is that, whatever NaN PyTorch's multiplying by 1 leaves in it"
)
SHORT_EPS = "the least length to divide by is not rounded to float16, where it would be 0"
AT_ZERO = "PyTorch's second gradient of prelu is another than that of its first one at 0"
HIDDEN_WHOLE = (
    "what products, linear, 1-d pools and repeat_interleave return is a view, in PyTorch, of what "
    "is hidden"
)
SIGN = "the bits of NaN, and the sign of a complex 0 that PyTorch negates in vectors, are open"
PADDED = "zeros that gradients are padded with for a convolution are NaN times weights that are"
LENGTH_OF_ZERO = "the second gradient of a length at 0 is that of 0, or eps; PyTorch's is 0 / 0"
NO_FREEDOM = "PyTorch's gradient of the variance of too few values is +inf, or NaN, by their mean"
INFINITE_GRADIENT = (
    "an infinite gradient of a norm is NaN in PyTorch, whose rule subtracts infinities from another"
)
INFINITE_LOSS = (
    "an infinite gradient times the slope of a loss is infinite; PyTorch multiplies the parts of "
    "the slope, which may be 0, and subtracts one infinity from another"
)
SLOPED = re.compile(r"\bF\.(\w+_loss|kl_div)\(")
OVERFLOWING = "log(1 + exp(x)) of a large x is x; PyTorch's soft_margin_loss of it is infinite"
KEPT_BY_FUNC = (
    "values that backward needs are kept as they were, also by transforms; PyTorch's saves the "
    "tensor that was written"
)
EQUAL_TO_MEAN = (
    "equal numbers are 0 if normalised; PyTorch's are the rounding of their mean, over their spread"
)
STEPPED = "a step goes by gradients of a backward that was refused on its way: which is open"
UNKNOWN_SCORES = "attention with scores that are NaN is NaN; PyTorch's is 0, where none is masked"
NORMALISED = re.compile(r"(layer|group|instance|batch)_norm\(|(Layer|Group|Batch)Norm\w*\(")
LOGIT = "PyTorch's gradient of logit at -0 is -inf where it computes in vectors, else that at 0"
HOOKED = re.compile(r"\b(\w+)\.(?:grad_fn\.register_prehook|register_hook)\(")
HOOKED_PAIR = re.compile(r"register_multi_grad_hook\(\((\w+), (\w+)\)")
POWERS = (
    "the gradient of a root is computed from it, also if it is a power; PyTorch's from its base"
)
OF_ROOT = "PyTorch takes the tensor that a backward pass begins with for one that it does not reach"
COMPUTED_AGAIN = (
    "gradients of the gradients of a checkpoint go through what it computes again, not its result"
)
BASE_WITHOUT = (
    "PyTorch loses gradients of a view made a leaf: what it shows was written, and has none"
)


def explanation_of_values(
    kind: str, detail: str, program: str, noted: Collection[str], torchs: dict[str, Any]
) -> str | None:
    """Why values, gradients or what hooks wrote may differ; None if they should not.

    `torchs` are the variables as PyTorch has them.
    """
    if kind == "log" and is_of_root(program, torchs):
        return OF_ROOT
    if kind == "log" and is_on_power(program):
        return POWERS
    if kind in ("log", "grad", "grad value") and HOOKED_AGAIN.search(program):
        return OLD_HOOKS
    if kind in ("log", "grad") and is_of_checkpoint(kind, detail, program):
        return COMPUTED_AGAIN
    named = torchs.get(re.split(r"[:.]", detail)[0])
    shown = {kind, "grad value"} if kind == "value" and is_gradient(named, torchs) else {kind}
    for reason, kinds in NOTED.items():
        if reason in noted and not shown.isdisjoint(kinds):
            return reason
    if kind == "value" and HALF_WAY in noted and ".step()" in program:
        return STEPPED
    if kind == "grad value" and is_written_beside_transform(program):
        return KEPT_BY_FUNC
    theirs, _, mine = detail.partition(", livegrad ")
    if (
        kind != "grad"
        and re.search(r"\b(cum)?prod\(|'prod'", program)
        and re.search("nan|inf", detail)
    ):
        return ENDLESS
    if (reason := explanation_of_masked(differing(theirs, mine), noted)) is not None:
        return reason
    if "gelu(" in program and "nan" in theirs and "inf" in mine:
        return GELU
    if re.search(r"cosine_similarity\(|normalize\(", program) and "nan" in theirs:
        if "float16" in program:
            return SHORT_EPS
        twice = "create_graph=True" in program and has_zeros(program, torchs)
        only_theirs = all(math.isnan(a) and math.isfinite(b) for a, b in differing(theirs, mine))
        return LENGTH_OF_ZERO if twice and only_theirs else None
    twice = re.search(r"PReLU\(|prelu\(", program) and "create_graph=True" in program
    if twice and (re.search(r"\b0\.0\b", program) or is_prelu_of_zero(program, torchs)):
        return AT_ZERO
    if kind in ("grad", "grad value") and is_view_made_leaf(named):
        lost = "torch None" in detail or has_lost_views(named, torchs)
        return BASE_WITHOUT if lost else None
    if kind == "value" and any(has_lost_gradients_in(named, x, torchs) for x in torchs.values()):
        return BASE_WITHOUT
    if kind in ("value", "grad value") and are_infinite_alike(theirs, mine):
        return INFINITE
    if (
        reason := explanation_of_numbers(differing(theirs, mine), program, named, torchs)
    ) is not None:
        return reason
    if kind == "value" and "autograd.grad(" not in program:
        return None
    return HIDDEN_WHOLE if is_watched(program, torchs) else None


def is_gradient(x: Any, torchs: dict[str, Any]) -> bool:
    """Whether a variable is the gradient of another."""
    others = [y for y in torchs.values() if isinstance(y, torch.Tensor) and not is_stale(y)]
    return any(y.grad is x is not None for y in others if y.is_leaf or y.retains_grad)


def is_written_beside_transform(program: str) -> bool:
    """Whether what a transform returned, or was given, is written so that PyTorch does not see."""
    made = re.findall(r"^(\w+) = T\.func\.vmap\(", program, re.MULTILINE)
    of_gradients = r"= T\.func\.(?:vmap\(T\.func\.)?grad\(.*\)\((\w+)(?:\.unsqueeze\(-1\))?\)$"
    made += re.findall(of_gradients, program, re.MULTILINE)
    return any(re.search(rf"\b{name}\.(data|detach\(\))\.\w+_\(", program) for name in made)


def explanation_of_masked(pairs: list[tuple[float, float]], noted: Collection[str]) -> str | None:
    """Why numbers may be NaN in one of the two, after attention to what is not finite."""
    left = [(a, b) for a, b in pairs if not math.isclose(a, b, rel_tol=1e-4)]  # not roundings
    if left and MASKED_NAN in noted and all(math.isnan(a) or math.isnan(b) for a, b in left):
        return MASKED_NAN
    if left and MASKED_INFINITY in noted and all(math.isnan(a) for a, _ in left):
        return MASKED_INFINITY
    return None


def is_of_root(program: str, torchs: dict[str, Any]) -> bool:
    """Whether a hook on several tensors is on one that a backward pass begins with."""
    roots = re.findall(r"(?:^|: )(\w+)\.backward\(", program, re.MULTILINE)
    roots += re.findall(r"autograd\.(?:backward|grad)\(\[?(\w+)[,\]]", program)
    begun = [torchs[name] for name in roots if name in torchs]  # perhaps by another name
    hooked = {name for pair in HOOKED_PAIR.findall(program) for name in pair}
    return any(name in roots or any(torchs.get(name) is x for x in begun) for name in hooked)


def is_on_power(program: str) -> bool:
    """Whether a hook on several tensors is on a root, or on 1 over something, made as a power."""
    hooked = {name for pair in HOOKED_PAIR.findall(program) for name in pair}
    made = re.findall(
        r"^(\w+) = .*(?:\*\* -?(?:0\.5|1)\b|\bpow\([^()]*(?:0\.5|-1)\)|lp_pool\dd\()",
        program,
        re.MULTILINE,
    )
    return "create_graph=True" in program and not hooked.isdisjoint(made)


def is_of_checkpoint(kind: str, detail: str, program: str) -> bool:
    """Whether the result of a checkpoint has no gradient here, after gradients of gradients."""
    results = re.findall(r"^(\w+) = .*\bcheckpoint\(", program, re.MULTILINE)
    if kind == "grad":
        missing = detail.partition(":")[0] in results and detail.endswith("livegrad None")
    else:
        hooks = re.findall(r"_hook\(\((\w+), (\w+)\)", program)
        on_results = {name for pair in hooks if not set(pair).isdisjoint(results) for name in pair}
        on_results |= {name for name in HOOKED.findall(program) if name in results}
        lacking = lack_calls(detail)
        missing = bool(on_results) and ("None" in detail or bool(lacking and lacking <= on_results))
    return missing and "create_graph=True" in program


def lack_calls(detail: str) -> set[str]:
    """What hooks are on that were called less often here, and none more often, by two logs."""
    theirs, mine = (Counter(re.findall(r"\('(\w+)', ", x)) for x in detail.split(", livegrad "))
    return set() if mine - theirs else set(theirs - mine)


def explanation_of_numbers(
    pairs: list[tuple[float, float]], program: str, x: Any, torchs: dict[str, Any]
) -> str | None:
    """Why numbers of `x` may differ, of which PyTorch has the first and livegrad the second."""
    if not pairs:
        return None
    if ".view(T." in program and all(differ_in_sign_or_nan(a, b, x) for a, b in pairs):
        return SIGN
    if "create_graph=True" in program and all(math.isnan(a) and b == 0 for a, b in pairs):
        return LENGTH_OF_ZERO if has_length_of_zero(program, torchs) else None
    if "create_graph=True" in program and all(math.isnan(a) and math.isfinite(b) for a, b in pairs):
        # What other gradients have brought besides.
        return LENGTH_OF_ZERO if has_length_of_zero(program, torchs, of=x) else None
    if all(math.isnan(b) for _, b in pairs) and any(map(is_broken, torchs.values())):
        return PADDED
    if "scaled_dot_product_attention(" in program and all(
        a == 0 and math.isnan(b) for a, b in pairs
    ):
        return UNKNOWN_SCORES
    if "soft_margin_loss(" in program and all(
        (a == math.inf and b < math.inf) or (math.isnan(a) and math.isfinite(b)) for a, b in pairs
    ):
        return OVERFLOWING
    if NORMALISED.search(program) and all(b == 0 and abs(a) < 1e-4 for a, b in pairs):
        return EQUAL_TO_MEAN
    if NORMALISED.search(program) and all(math.isnan(a) and math.isinf(b) for a, b in pairs):
        return INFINITE_GRADIENT
    if SLOPED.search(program) and all(math.isnan(a) and math.isinf(b) for a, b in pairs):
        return INFINITE_LOSS
    if re.search(r"\blogit\(", program) and all(math.isinf(a) and a == -b for a, b in pairs):
        return LOGIT if any(map(has_negative_zero, torchs.values())) else None
    if re.search(r"\b(var|std)\(", program) and not any(math.isfinite(x) for p in pairs for x in p):
        return NO_FREEDOM
    return None


# The bits of an infinity in float16, float32 and float64, by how many there are.
INFINITIES = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF << 52}
SIGN_BYTES = ({0, 128}, {126, 254}, {127, 255})  # what the signs of 0 and of NaN are in
SIGNS = 1 << 15 | 1 << 31 | 1 << 47 | 1 << 63  # of numbers that may lie in an integer


def differ_in_sign_or_nan(a: float, b: float, x: Any) -> bool:
    """Whether numbers of `x` are the bits of numbers that differ in signs, or both those of NaN."""
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return a == -b and ends_in_nan(a, x.dtype)
    if isinstance(a, float) or isinstance(b, float):
        return False
    if isinstance(x, torch.Tensor) and x.element_size() == 1:
        return {a % 256, b % 256} in SIGN_BYTES
    wide = {8 * x.element_size()} if isinstance(x, torch.Tensor) else INFINITIES
    for width, infinity in INFINITIES.items():
        if width not in wide:  # where a small negative integer would be the bits of a NaN
            continue
        bits = [n % (1 << width) for n in (a, b) if n.bit_length() < width]
        if len(bits) == 2 and not (bits[0] ^ bits[1]) & ~SIGNS:
            return True
        sign = 1 << (width - 1)
        if len(bits) == 2 and all(infinity < n % sign for n in bits):
            return True
    return False


def ends_in_nan(number: float, dtype: torch.dtype) -> bool:
    """Whether the upper half of a number's bits, where its sign is, is a shorter NaN."""
    code = {torch.float64: (">d", "I", 32), torch.float32: (">f", "H", 16)}.get(dtype)
    if code is None:
        return False
    (upper,) = struct.unpack_from(f">{code[1]}", struct.pack(code[0], number))
    return bool(upper % (1 << (code[2] - 1)) > INFINITIES[code[2]])


def differing(theirs: str, mine: str) -> list[tuple[float, float]]:
    """The numbers that differ, of two texts with as many; none if one has complex numbers."""
    if re.search(r"(\d|nan|inf)j\b", theirs):
        return []
    a, b = (numbers_of(text) for text in (theirs, mine))
    if len(a) != len(b):
        return []
    return [pair for pair in zip(a, b, strict=True) if is_unequal(*pair)]


def is_unequal(x: float, y: float) -> bool:
    return x != y and not (x != x and y != y)


def places_of_differences(detail: str) -> list[int]:
    """Where the numbers differ, counted in order, of which PyTorch and livegrad have as many."""
    theirs, _, mine = detail.partition(", livegrad ")
    a, b = (numbers_of(text) for text in (theirs, mine))
    if len(a) != len(b):
        return []
    return [i for i, pair in enumerate(zip(a, b, strict=True)) if is_unequal(*pair)]


def are_infinite_alike(theirs: str, mine: str) -> bool:
    """Whether numbers differ only where PyTorch's part of an infinite complex number is NaN."""
    a, b = ([complex(x) for x in re.findall(r"\(([^()]*j)\)", text)] for text in (theirs, mine))
    if not a or len(a) != len(b):
        return False
    differ = [(x, y) for x, y in zip(a, b, strict=True) if x != y and not (x != x and y != y)]
    return bool(differ) and all(
        cmath.isnan(x) and cmath.isinf(y) and (cmath.isinf(x) or has_two_infinities(y))
        for x, y in differ
    )


def has_two_infinities(x: complex) -> bool:
    """Whether both parts are infinite, of which multiplying by 1 leaves none."""
    return math.isinf(x.real) and math.isinf(x.imag)


def numbers_of(text: str) -> list[float]:
    """The real numbers in a text; integers are exact."""
    found = re.findall(r"(?<![\w.])-?(?:nan|inf|[\d.]+(?:e[-+]\d+)?)", text)
    return [int(x) if x.lstrip("-").isdigit() else float(x) for x in found]


def is_broken(x: Any) -> bool:
    """Whether the weights of a convolution are not finite."""
    return isinstance(x, torch.nn.Conv1d) and not x.weight.isfinite().all()


def is_view_made_leaf(x: Any) -> bool:
    """Whether a view collects a gradient, which its base does not require."""
    if not isinstance(x, torch.Tensor) or is_stale(x) or x._base is None:
        return False
    return x.is_leaf and x.requires_grad and not x._base.requires_grad


def has_lost_views(x: torch.Tensor, torchs: dict[str, Any]) -> bool:
    """Whether gradients of a view of what `x` is a view of go nowhere in PyTorch."""
    views = [y for y in torchs.values() if isinstance(y, torch.Tensor) and y._base is x._base]
    return any(
        not is_stale(y) and y.grad_fn is not None and y.grad_fn.next_functions == ((None, 0),)
        for y in views
    )


def has_lost_gradients_in(x: Any, leaf: Any, torchs: dict[str, Any]) -> bool:
    """Whether gradients that PyTorch has lost would have been added to `x`."""
    if not isinstance(x, torch.Tensor) or not is_view_made_leaf(leaf) or leaf.grad is None:
        return False
    return storage(leaf.grad) == storage(x) and has_lost_views(leaf, torchs)


def has_negative_zero(x: Any) -> bool:
    """Whether a tensor has a -0."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return False
    values = x.detach()
    return bool(((values == 0) & values.signbit()).any())


def has_length_of_zero(program: str, torchs: dict[str, Any], of: Any = None) -> bool:
    """Whether a variable is the length of something, and 0: a function `of` a leaf, if given."""
    lengths = re.findall(r"^(\w+) = .*\b(?:dist|(?:vector_)?norm)\(", program, re.MULTILINE)
    found = [torchs[name] for name in lengths if isinstance(torchs.get(name), torch.Tensor)]
    zero = [x for x in found if bool((x.detach() == 0).any())]
    if of is None:
        return bool(zero)
    return any(getattr(f, "variable", None) is of for f in functions_before(zero))


def is_prelu_of_zero(program: str, torchs: dict[str, Any]) -> bool:
    """Whether a prelu has been given a tensor with zeros."""
    modules = [name for name, x in torchs.items() if isinstance(x, torch.nn.PReLU)]
    given = re.findall(rf"\b(?:{'|'.join([*modules, 'F.prelu'])})\((\w+)", program)
    return any(bool((torchs[name].detach() == 0).any()) for name in given if name in torchs)


def has_zeros(program: str, torchs: dict[str, Any]) -> bool:
    """Whether a tensor that is compared by its direction, or brought to length 1, has zeros."""
    given = re.findall(r"(?:cosine_similarity|normalize)\((\w+)(?:, (\w+))?", program)
    found = [torchs.get(name) for pair in given for name in pair if name]
    return any(isinstance(x, torch.Tensor) and bool((x.detach() == 0).any()) for x in found)


def is_watched(program: str, torchs: dict[str, Any]) -> bool:
    """Whether what products returned retains its gradient, or has a hook."""
    modules = [name for name, x in torchs.items() if isinstance(x, torch.nn.Module)]
    repeated = r"\(?\w+\.repeat_interleave"
    functions = [r"\(?T\.tensordot", r"\(?T\.einsum", r"F\.linear", r"F\.(?:max|avg)_pool1d"]
    functions.append(r"F\.instance_norm")
    products = "|".join([*functions, repeated, *modules])
    found = re.findall(rf"\b(\w+) = (?:{products})\(", program)
    same = [x for name in found if (x := torchs.get(name)) is not None]
    found += [name for name, x in torchs.items() if name not in found and any(x is y for y in same)]
    for name in found:
        if re.search(rf"\b{name}\.(grad_fn\.)?(retain_grad|register_\w*hook)\(", program):
            return name not in torchs or is_part_of_hidden(torchs[name], torchs)
    return False


def is_part_of_hidden(x: torch.Tensor, torchs: dict[str, Any]) -> bool:
    """Whether PyTorch takes a tensor for a view of another than those of the program."""
    return x._base is not None and all(x._base is not y for y in torchs.values())
