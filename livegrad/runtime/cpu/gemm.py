"""The kernel that calls BLAS: parts of matrix products as work items; blas.py has its block."""

from __future__ import annotations

from livegrad.compiler.builder import Builder
from livegrad.compiler.values import Value, bytes_of
from livegrad.runtime.cpu import blas

_ROW_MAJOR = 101


def generate_gemm(b: Builder, element: str, integer: str) -> None:
    """Writes the kernel for matrices of `element`, and a BLAS with these integers."""
    args, begin, end, _ = b.params

    def arg(slot: int, type: str = "i64") -> Value:
        return b.load(type, b.gep(args, "i64", slot))

    cblas, *matrices = [arg(slot, "ptr") for slot in range(1, 5)]
    m, n, k, *leading = [arg(slot) for slot in range(5, 11)]
    trans = [arg(11), arg(12)]
    cut, chunks = arg(13), arg(14)
    batch = [arg(slot) for slot in range(15, 18)]
    beta, alpha = arg(18, "double"), arg(19, "double")
    # A transposed matrix holds its rows as columns: neighbours are one element apart.
    row_of_a = b.select(b.icmp("eq", trans[0], blas.NO_TRANS), leading[0], 1)
    column_of_b = b.select(b.icmp("eq", trans[1], blas.NO_TRANS), 1, leading[1])
    by_rows, size = b.icmp("sgt", cut, 0), b.abs(cut)
    extent, other = b.select(by_rows, m, n), b.select(by_rows, n, m)
    steps = [b.select(by_rows, row_of_a, 0), b.select(by_rows, 0, column_of_b)]
    steps.append(b.select(by_rows, leading[2], 1))
    with b.loop(begin, end) as item:
        entry, first = b.udiv(item.index, chunks), b.mul(b.urem(item.index, chunks), size)
        part = b.smin(b.sub(extent, first), size)
        with b.if_(b.and_(b.icmp("sgt", part, 0), b.icmp("ne", other, 0))):
            height, width = b.select(by_rows, part, m), b.select(by_rows, n, part)
            x, y, out = [
                b.gep(b.gep(matrix, "i8", b.mul(entry, stride)), element, b.mul(first, step))
                for matrix, stride, step in zip(matrices, batch, steps, strict=True)
            ]
            with b.if_(b.icmp("ne", k, 0)):
                numbers = [b.trunc_int(i, integer) for i in (height, width, k, *leading)]
                kinds = [b.const("i32", _ROW_MAJOR), *[b.trunc_int(t, "i32") for t in trans]]
                scales = [b.fptrunc(alpha, element), b.fptrunc(beta, element)]
                places = [x, numbers[3], y, numbers[4], scales[1], out, numbers[5]]
                b.call_at(cblas, [*kinds, *numbers[:3], scales[0], *places])
            # An empty sum is zero, whatever cblas thinks of a leading dimension of 0.
            with (
                b.if_(b.and_(b.icmp("eq", k, 0), b.fcmp("ueq", beta, 0.0))),
                b.loop(0, height) as row,
            ):
                place = b.gep(out, element, b.mul(row.index, leading[2]))
                zero, known = b.const("i8", 0), b.const("i1", 0)
                nbytes = b.mul(width, bytes_of(element))
                b.call("void", "llvm.memset.p0.i64", [place, zero, nbytes, known])
