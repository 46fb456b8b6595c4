"""Why samples fail and names are missing, in words, for docs/coverage.md."""

from __future__ import annotations

_OVERLAP = (
    "PyTorch refuses an `out` that shares memory with the input; here values never share memory, "
    "and the result is right"
)
_REFLECTED = (
    "calls the unbound method with a number as `self`; the harness calls the operator, which works"
)

# (op, column) -> reason; "*" stands for every column, or every op.
REASONS: dict[tuple[str, str], str] = {
    **{(name, "errors"): _OVERLAP for name in "bernoulli cat gather masked_select take".split()},
    **{(f"__r{name}__", "errors"): _REFLECTED for name in "add and div mul or xor".split()},
    ("nn.functional.linear", "out"): "an argument that PyTorch does not document",
    ("chalf", "*"): "there is no complex type of half precision: `chalf()` gives complex64",
    ("cov", "float64"): (
        "with weights of float32, PyTorch adds up their sum in float32; here in float64"
    ),
    ("masked.logaddexp", "second"): (
        "where both values are masked, -inf, PyTorch's second gradient is NaN; here 0"
    ),
    ("sparse.mm.reduce", "gradient"): (
        "the harness computes with CSR gradients in PyTorch, which refuses that"
    ),
    ("narrow_copy", "errors"): "a dim out of range is an IndexError, as for `narrow`",
    (
        "special.bessel_j0",
        "float64",
    ): "PyTorch's values are off by up to 5e-7; ours agree with SciPy's",
    (
        "special.bessel_y1",
        "float64",
    ): "PyTorch's values are off by up to 5e-7; ours agree with SciPy's",
}

# Beginning of a name -> why it is not there.
MISSING: dict[str, str] = {
    "hash_tensor": "a hash that is not documented",
    "jiterator": "compiles CUDA kernels from source text",
    "torch.ops.aten": "internal to PyTorch",
    "torch._scaled_mm": "internal to PyTorch: float8 products",
}
