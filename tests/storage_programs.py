"""Programs about what shares memory with what, for PyTorch and for livegrad.

Each takes a namespace and returns what both must agree on. What PyTorch returns is kept in
storage_expected.json: `python -m tests.storage_programs` writes it anew, with PyTorch installed.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[[Any], Any]
PROGRAMS: list[Program] = []
EXPECTED = Path(__file__).with_name("storage_expected.json")


def program(function: Program) -> Program:
    """Registers a program."""
    PROGRAMS.append(function)
    return function


def expected() -> dict[str, Any]:
    """What PyTorch returned, by the name of the program."""
    found: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


def outcome(run: Program, namespace: Any) -> Any:
    """What a program returns, as it would come out of the file."""
    return json.loads(json.dumps(run(namespace)))


def facts(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape), x.stride(), x.storage_offset(), x.is_contiguous(), x.tolist()


# ----------------------------------------------------------------------------------- copies


@program
def contiguous_of_a_transpose_is_a_copy(T: Any) -> Any:
    x = T.arange(6.0).view(2, 3)
    y = x.t().contiguous()
    y.zero_()
    return x.tolist(), y.stride()


@program
def contiguous_of_what_is_contiguous_is_itself(T: Any) -> Any:
    x = T.arange(6.0).view(2, 3)
    x.contiguous().zero_()
    return x.tolist(), x.contiguous() is x, x[1:].contiguous().storage_offset()


@program
def reshape_copies_only_if_it_must(T: Any) -> Any:
    x = T.arange(24.0).view(2, 3, 4)
    for y in (x.reshape(6, 4), x.transpose(0, 1).reshape(6, 4), x.permute(2, 0, 1).reshape(4, 6)):
        y.add_(100)
    x.transpose(0, 2).flatten().zero_()
    x[:, :, :2].flatten(0, 1).mul_(2)
    return x.tolist()


@program
def ravel_copies_what_has_gaps(T: Any) -> Any:
    x = T.arange(6.0)
    x[::2].ravel().zero_()
    x.view(2, 3).ravel().add_(1)
    return x.tolist()


@program
def flatten_layer(T: Any) -> Any:
    x = T.arange(24.0).view(2, 3, 4)
    T.nn.Flatten()(x.transpose(1, 2)).zero_()
    T.nn.Flatten()(x).add_(1)
    return x.tolist()


@program
def snapshot_of_a_weight(T: Any) -> Any:
    w = T.arange(6.0).view(2, 3).requires_grad_()
    snapshot = w.detach().t().contiguous()
    (w * w).sum().backward()
    T.optim.SGD([w], lr=0.5).step()
    return snapshot.tolist(), w.tolist()


@program
def view_refuses(T: Any) -> Any:
    x = T.arange(6.0).view(2, 3).t()
    found = []
    for shape in ((6,), (3, 2), (3, 1, 2), (2, 3), (3, 2, 1)):
        try:
            found.append(x.view(shape).stride())
        except RuntimeError as error:
            found.append("view size is not compatible" in str(error))
    return found


@program
def formats(T: Any) -> Any:
    x = T.arange(120.0).view(2, 3, 4, 5)
    last = x.to(memory_format=T.channels_last)
    half = x[:, :, ::2]
    return [
        last.stride(),
        last.is_contiguous(),
        last.is_contiguous(memory_format=T.channels_last),
        (last + 1).stride(),
        (last + x).stride(),
        (x + last).stride(),
        last.clone().stride(),
        last.contiguous().stride(),
        last.float().stride(),
        last.double().stride(),
        last.double(memory_format=T.contiguous_format).stride(),
        T.zeros_like(last).stride(),
        T.empty_like(half).stride(),
        half.clone().stride(),
        half.to(T.float64).stride(),
        half.clone(memory_format=T.contiguous_format).stride(),
        last.relu().stride(),
        last.sum(1).stride(),
        (last > 0).stride(),
        T.where(last > 0, last, x).stride(),
    ]


# ------------------------------------------------------------------------------------ strides


@program
def strides_of_views(T: Any) -> Any:
    x = T.arange(120.0).view(2, 3, 4, 5)
    return [
        facts(y)
        for y in (
            x[1], x[:, 1:], x[..., ::2], x[:, None], x[1, :, None, 2:], x.mT,
            x.permute(3, 1, 0, 2), x.unsqueeze(-1), x.unsqueeze(2), x[:, :1].squeeze(1),
            x.diagonal(0, 1, 3), x.diagonal(-1, 2, 3), x.unfold(3, 2, 2), x.unfold(1, 3, 1),
            x.expand(2, 2, 3, 4, 5), x[:1].expand(3, 3, 4, 5), x.narrow(2, 1, 2), x.select(3, 4),
            x.movedim(0, 2), x.swapaxes(0, 3), x.flatten(1, 2), x.unflatten(3, (5, 1)),
            x.chunk(2, 2)[1], x.split([1, 4], 3)[1], x.unbind(1)[2], x.view(4, 30),
            x.as_strided((2, 3), (7, 2), 5), x.flatten(), x[0, 0, 0, 0], x[:0],
        )
    ]  # fmt: skip


@program
def strides_of_results(T: Any) -> Any:
    x = T.arange(24.0).view(2, 3, 4)
    y, z = x.transpose(0, 2), x[:, :, ::2]
    return [
        r.stride()
        for r in (
            y + 1, y * y, y.exp(), -y, z + 1, z.abs(), y[..., :1] + y, y + T.ones(2), y.sum(0),
            y.double(), y > 3, y.clone(), T.zeros_like(y), T.rand_like(z), y.softmax(-1),
            y.matmul(T.ones(2, 3)), T.cat([y, y]), T.stack([y, y]), y.flip(0),
            y.expand(2, 4, 3, 2) + 1,
            y.clamp(0, 1), y.pow(2), y.cumsum(0), y.mean(1, keepdim=True), T.where(y > 3, y, 0.0),
            y.transpose(0, 1).contiguous(), y.half(), y.to(T.float32), y.to(T.float32, copy=True),
        )
    ]  # fmt: skip


def _thin(T: Any) -> list[Any]:
    """Tensors with dims of size 1 and 0, in several orders of memory."""
    nothing = T.zeros(2, 0)
    return [
        T.ones(1, 3).t(), T.ones(3, 1).t(), T.ones(3, 1, 2).permute(2, 1, 0), T.ones(0, 1),
        nothing.t(), T.ones(3, 0, 1).permute(2, 1, 0), T.ones(4, 5)[:1, ::2], T.ones(4, 5)[:, 2:2],
        T.ones(1, 3, 2, 1).to(memory_format=T.channels_last), nothing[..., None],
        T.ones(2, 1, 4, 5).to(memory_format=T.channels_last), T.ones(1, 1, 2)[..., 0],
        T.ones(2, 3, 1, 1).to(memory_format=T.channels_last),
    ]  # fmt: skip


@program
def strides_of_dims_of_size_1_and_0(T: Any) -> Any:
    return [
        [
            x.stride(),
            *[
                r.stride()
                for r in (
                    x + 1, 1 + x, x * 2, x / 2, 2 / x, x**2, x**2.5, 2**x, x > 1, x + x, x.abs(),
                    x.clamp(0, 1), x.clamp(min=0), T.where(x > 0, x, 0.0), x % 2, x // 2, x.clone(),
                    x.double(), T.zeros_like(x), T.full_like(x, 2), x.bool() & True, x + T.ones(()),
                    x * x.sum(0, keepdim=True), T.nn.functional.elu(x), T.isclose(x, x), x.float(),
                    T.nn.functional.gelu(x), x.softmax(-1), x.cumsum(0), T.lerp(x, x, 0.5),
                    T.copysign(x, 2), T.nn.functional.leaky_relu(x), T.xlogy(x, 2),
                )
            ],
        ]
        for x in _thin(T)
    ]  # fmt: skip


def _permuted(T: Any) -> list[Any]:
    """Tensors of several dims whose elements lie in other orders than row-major."""
    x = T.arange(24.0).view(2, 3, 4)
    image = T.arange(120.0).view(2, 3, 4, 5).to(memory_format=T.channels_last)
    return [x.permute(2, 1, 0), x.transpose(0, 1), x[:, :, ::2].mT, x.expand(2, 2, 3, 4), image]


@program
def strides_of_rearrangements(T: Any) -> Any:
    return [
        [
            r.stride()
            for r in (
                x.repeat(*[2] * x.ndim), x.repeat(*[1] * x.ndim), x.repeat(2, *[1] * x.ndim),
                x.tile(2), x.repeat_interleave(2, 0), x.repeat_interleave(2), x.nonzero(),
                *x.sort(0), *x.sort(-1, descending=True), x.argsort(1), x.msort(), *x.topk(1, 1),
                *x.topk(x.shape[0], 0), *x.cummax(0), x.roll(1, 0), x.roll(1), T.diag_embed(x),
                T.kron(x, x), T.cat([x, x]), T.cat([x, x.contiguous()], 1), T.stack([x, x]),
                T.stack([x, x], 1), T.stack([x, x], -1), T.argwhere(x), x.flip(0), x.rot90(),
            )
        ]
        for x in [*_permuted(T), *_thin(T)[:3], _thin(T)[8]]
    ]  # fmt: skip


@program
def strides_of_composed_functions(T: Any) -> Any:
    F = T.nn.functional
    found = []
    for x in [*_permuted(T), *_thin(T)[:2], _thin(T)[6]]:
        y, other = x.sigmoid() / 2, x.contiguous() / 200
        made = [
            x.masked_fill(x > 1, 2.0), F.logsigmoid(x), T.deg2rad(x), T.nan_to_num(x), x.isreal(),
            T.frexp(x)[0], T.complex(x, x), T.gcd(x.int(), x.int()), F.glu(T.cat([x, x], 0), 0),
            T.special.zeta(x, 2.0), T.polygamma(2, x), F.softplus(x), F.normalize(x, dim=0),
            F.normalize(x, dim=-1), F.dropout(x, 0.5), T.ldexp(x, x.int()), F.softmin(x, 0),
            T.permute_copy(x, tuple(range(x.ndim))), T.unsqueeze_copy(x, 0), F.silu(x), F.mish(x),
            F.binary_cross_entropy_with_logits(x, y, T.ones(()), reduction="none"),
            *[
                loss(y, target, reduction="none")
                for target in (y, other)
                for loss in (
                    F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div,
                    F.binary_cross_entropy, F.binary_cross_entropy_with_logits,
                    F.soft_margin_loss, F.poisson_nll_loss, F.hinge_embedding_loss,
                )
            ],
        ]  # fmt: skip
        found.append([r.stride() for r in made])
    return found


@program
def strides_of_attention(T: Any) -> Any:
    attend = T.nn.functional.scaled_dot_product_attention
    q, bias = T.ones(2, 5, 3, 4).transpose(1, 2), T.zeros(5, 5)
    found = [
        attend(q, q, q), attend(q, q, q, is_causal=True), attend(q, q, q, bias),
        attend(q, q, q, bias > 0), attend(q, q, q, bias.t()), attend(q.contiguous(), q, q),
        attend(q, q, q[..., :2]), attend(q.mT, q.mT, q.mT), attend(q, q, q, dropout_p=0.5),
        attend(q, q, q, bias.requires_grad_()), attend(q[0], q[0], q[0]),
        attend(q[:, :, ::2], q, q), attend(q, q[:, :, :0], q[:, :, :0]),
    ]  # fmt: skip
    return [y.stride() for y in found], found[0].transpose(1, 2).view(2, 5, 12).stride()


@program
def strides_of_what_is_cut_and_padded(T: Any) -> Any:
    F = T.nn.functional
    given = [
        T.ones(2, 3, 4, 5).to(memory_format=T.channels_last),
        T.ones(2, 3, 1).mT.unfold(1, 1, 1),
    ]
    amounts = [(-1, 1), (-1, 2, 0, 1), (0, 0, 0, 0, -1, 1), (-1, 1, -1, 1), (0, 0, -1, 0)]
    return [F.pad(x, pad).stride() for x in given for pad in amounts]


@program
def strides_of_convolved_lines(T: Any) -> Any:
    found = []
    weight = T.ones(4, 2, 3)
    for x in (T.ones(2, 2, 8), T.ones(2, 8, 2).mT):
        for w in (weight, T.ones(4, 3, 2).mT, weight.transpose(0, 1).contiguous().transpose(0, 1)):
            found += [T.conv1d(x, w).stride(), T.conv1d(x, w, T.ones(4), 2, 1).stride()]
            found.append(T.conv_transpose1d(x, w[:2]).stride())
    thin = T.ones(2, 8, 1).mT
    return [*found, T.conv1d(thin, T.ones(4, 1, 3)).stride()]


@program
def strides_of_layers(T: Any) -> Any:
    F = T.nn.functional
    found = []
    image, w = T.arange(240.0).view(2, 3, 8, 5), T.ones(4, 3, 2, 2)
    last = T.channels_last
    for x in (image, image.to(memory_format=last), image.mT, image[:, :, ::2]):
        made = [
            F.conv2d(x, w), F.conv2d(x, w, T.ones(4), stride=2, padding=1), x.flatten(2).relu(),
            F.conv2d(x, w.to(memory_format=last)), F.conv_transpose2d(x, w.transpose(0, 1)),
            F.conv_transpose2d(x, T.ones(3, 4, 2, 2), T.ones(4)), F.max_pool2d(x, 2),
            F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2), F.adaptive_max_pool2d(x, 3),
            F.adaptive_avg_pool2d(x, 1), F.batch_norm(x, T.zeros(3), T.ones(3)), F.pad(x, (1, 1)),
            F.batch_norm(x, None, None, training=True), F.pad(x, (1, 1, 1, 1), "reflect"),
            F.interpolate(x, (3, 3)), F.interpolate(x, (9, 9), mode="bilinear"), F.pad(x, (0, 0)),
            *F.max_pool2d(x, 2, return_indices=True), T.nn.Conv2d(3, 2, 1)(x), F.dropout2d(x, 0.5),
            F.interpolate(x, (3, 3), mode="area"), T.nn.BatchNorm2d(3)(x), T.nn.ReLU()(x),
        ]  # fmt: skip
        found.append([r.stride() for r in made])
    product = T.addmm(T.ones(4, 2).t(), T.ones(2, 3), T.ones(3, 4))
    return [*found, [product.stride()]]


@program
def strides_of_copies_with_a_part_replaced(T: Any) -> Any:
    found = []
    for x in [*_permuted(T)[:2], *_thin(T)[:2]]:
        first, none = T.zeros_like(x, dtype=T.int64), T.zeros([0] * x.ndim, dtype=T.int64)
        at = T.zeros(1, dtype=T.int64)
        made = [
            x.scatter(0, first, 1.0), x.scatter(0, none, 1.0), x.scatter_add(0, first[:1], x[:1]),
            x.scatter_reduce(-1, first, x, "amax"), x.index_fill(0, at, 2.0), x.put(at, T.ones(1)),
            x.select_scatter(x[0], 0, 0), x.slice_scatter(x[:1], 0, 0, 1), x.renorm(2, 0, 1.0),
            x.diagonal_scatter(x.diagonal()), x.rot90(4), T.nn.functional.one_hot(first, 2),
            x.index_add(0, at, x[:1]), x.index_copy(0, at, x[:1]), x.masked_scatter(x > 0, x),
        ]  # fmt: skip
        found.append([r.stride() for r in made])
    return found


@program
def repeated_elements_are_apart(T: Any) -> Any:
    x = T.arange(3.0)
    y = x.repeat(2, 1).add_(T.arange(6.0).view(2, 3))
    z = T.arange(1.0).repeat_interleave(3).mul_(2).add_(T.arange(3.0))
    return y.tolist(), z.tolist(), x.tolist(), x.repeat(1).data_ptr() == x.data_ptr()


@program
def writes_to_what_is_empty(T: Any) -> Any:
    x = T.zeros(0, 3).expand(2, 0, 3)
    return x.mul_(-1).tolist(), T.zeros(2, 0).expand(2, 2, 0).add_(6).tolist(), x.stride()


@program
def as_strided_speaks_of_the_storage(T: Any) -> Any:
    x = T.arange(12.0).view(3, 4)
    part = x[1:, ::2]
    seen = [facts(part.as_strided((2, 2), (1, 3))), facts(part.as_strided((3,), (2,), 0))]
    part.as_strided((2, 2), (1, 3)).zero_()
    turned = x.t().clone()
    turned.as_strided((3,), (2,), 1).fill_(-1)
    return seen, x.tolist(), turned.tolist(), turned.stride()


@program
def addresses(T: Any) -> Any:
    x = T.zeros(4, 5)
    y = x[1:, 2:]
    return (
        x.data_ptr() == x.view(20).data_ptr() == x.detach().data_ptr(),
        y.data_ptr() - x.data_ptr(),
        x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr(),
        x.untyped_storage().nbytes(),
        y.untyped_storage().nbytes(),
        x.clone().data_ptr() == x.data_ptr(),
    )


@program
def bases(T: Any) -> Any:
    x = T.zeros(4, 5)
    row = x[1]
    return (
        x._base is None, row._base is x, row[1:]._base is x, x.detach()._base is None,
        x._is_view(), row._is_view(), x.detach()._is_view(), x.clone()._is_view(),
    )  # fmt: skip


@program
def versions(T: Any) -> Any:
    x = T.zeros(4)
    seen = [x._version]
    x.add_(1)
    view = x[1:]
    seen += [x._version, view._version]
    view.mul_(2)
    seen += [x._version, view._version, x.detach()._version]
    x[0] = 3
    seen += [x._version, view._version]
    return seen


@program
def versions_of_what_is_written_with_itself(T: Any) -> Any:
    x = T.zeros(4)
    x.copy_(x)
    row = x[1:3]
    row.copy_(row)
    wide = T.ones(1).expand(3)
    wide.copy_(wide)
    y = T.ones(2, requires_grad=True)
    return x._version, row._version, wide._version, error_of(lambda: y.copy_(y))


@program
def versions_of_data_that_takes_another_shape(T: Any) -> Any:
    x = T.zeros(1, 4)
    data = x.data
    data.squeeze_()
    seen = [x._version, data._version]
    data.add_(1)
    seen += [x._version, data._version]
    x.squeeze_()
    return seen, x._version, data._version


@program
def versions_after_sharing_another_storage(T: Any) -> Any:
    seen = []
    for share in (lambda x, y: x.set_(y), lambda x, y: setattr(x, "data", y)):
        x, y = T.zeros(4), T.ones(4)
        view = x[1:]
        x.add_(1)
        share(x, y)
        seen.append([x._version, view._version, y._version])
        x.add_(1)
        part = x[2:]
        part.add_(1)
        y.add_(1)
        seen.append([x._version, part._version, y._version, x.tolist()])
        del y, part
        x.add_(1)
        seen.append([x._version, x.tolist()])
    return seen


@program
def versions_after_growing(T: Any) -> Any:
    x = T.zeros(4)
    x.add_(1)
    view = x[1:]
    x.resize_(8)
    seen = [x._version, view._version]
    view.add_(1)
    return seen, x._version, view._version


@program
def versions_after_a_write_that_failed(T: Any) -> Any:
    seen = []
    for x in (T.zeros(3), T.zeros(4)[:3], T.zeros(4).data[:3]):
        at = T.ones(2, dtype=T.int64) * 5
        try:
            x.index_put_((at,), T.ones(()))
            x.tolist()
        except (IndexError, RuntimeError):
            seen.append([x._version, x.tolist()])
        x.add_(1)
        seen.append(x._version)
    return seen


# ------------------------------------------------------------------------------------- views


@program
def indexing_by_a_number_in_a_tensor_is_a_view(T: Any) -> Any:
    x = T.arange(6).view(3, 2)
    for i in T.tensor([2, 0]):
        row = x[i]
        row += 1
    x[T.tensor(1), T.tensor(-1)] += 50
    x[:, T.tensor(0)].mul_(10)
    return x.tolist()


@program
def bits_are_shared(T: Any) -> Any:
    x = T.tensor([1.0, 2.0, 3.0, 4.0])
    words = x.view(T.int32)
    words[0] = 0
    seen = [x.tolist()]
    x[1] = 0
    seen.append(words.tolist())
    doubles = x.view(T.float64)
    doubles.zero_()
    return seen, x.tolist(), doubles.shape == (2,), x.view(2, 2).view(T.uint8).stride()


@program
def parameters_share(T: Any) -> Any:
    x = T.zeros(2, 3)
    p = T.nn.Parameter(x)
    x.add_(1)
    seen = [p.tolist()]
    with T.no_grad():
        p.mul_(2)
    seen += [x.tolist(), x.requires_grad, p.requires_grad, p.is_leaf]
    for make in (lambda: T.optim.SGD([p], lr=0.5), lambda: T.optim.Adam([p], lr=0.5)):
        p.grad = None
        (p * p).sum().backward()
        make().step()
        seen.append(np.round(x.numpy(), 5).tolist())
    return seen


@program
def a_parameter_that_is_a_part_of_a_vector(T: Any) -> Any:
    flat = T.arange(6.0)
    q = T.nn.Parameter(flat[2:6].view(2, 2))
    optimizer = T.optim.SGD([q], lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        (q * q).sum().backward()
        optimizer.step()
    return np.round(flat.numpy(), 5).tolist(), np.round(q.detach().numpy(), 5).tolist()


@program
def resizing_keeps_aliases(T: Any) -> Any:
    x = T.arange(6.0)
    view = x[1:3]
    x.resize_(2)
    seen = [facts(x), facts(view)]
    x.resize_(8)
    x[1] = 50
    seen += [facts(view), x[:6].tolist()]
    view[1] = 60
    return seen, x[:6].tolist()


@program
def overlapping_windows_are_written_one_by_one(T: Any) -> Any:
    x = T.arange(6.0)
    windows = x.unfold(0, 3, 1)
    windows.add_(1)
    seen = [x.tolist()]
    windows.copy_(T.arange(12.0).view(4, 3))
    seen.append(x.tolist())
    x.as_strided((2, 3), (1, 1), 1).mul_(2)
    return seen, x.tolist()


@program
def expands(T: Any) -> Any:
    x = T.zeros(2, 3)
    x.expand_as(x).add_(1)
    b = T.zeros(2)
    v = b.expand(3, 2)
    seen: list[Any] = []
    for write in (lambda: v.add_(1), lambda: v.zero_(), lambda: v.copy_(T.ones(2))):
        try:
            write()
        except RuntimeError as error:
            seen.append("more than one element" in str(error))
        seen += [v.tolist(), b.tolist()]
    v[0, 1] = 7
    return seen, x.tolist(), v.tolist(), b.tolist()


@program
def deep_copies_of_views(T: Any) -> Any:
    x = T.arange(12.0).view(3, 4)
    seen = [
        (*facts(c), c.untyped_storage().nbytes(), c._is_view())
        for c in map(copy.deepcopy, (x[1:, :2], x.t(), x[:, ::2], x[:1].expand(3, 4), x))
    ]
    whole, row = copy.deepcopy([x, x[1]])
    row.zero_()
    part, again = copy.deepcopy((x[:, 1:], x))
    part.add_(1)
    p = T.nn.Parameter(x[:, ::2])
    seen.append((*facts(copy.deepcopy(p)), p.stride()))
    return seen, whole.tolist(), again.tolist(), x.tolist()


@program
def set_takes_a_storage(T: Any) -> Any:
    x, y = T.zeros(2, 3), T.arange(6.0)
    x.set_(y)
    y[0] = 9
    z = T.zeros(0)
    z.set_(y.untyped_storage(), 1, (2, 2), (2, 1))
    z.add_(1)
    return x.tolist(), z.tolist(), y.tolist()


@program
def data_shares(T: Any) -> Any:
    x, y = T.arange(3.0), T.zeros(3, requires_grad=True)
    y.data = x
    x.add_(1)
    return y.tolist(), y.is_leaf, y.requires_grad


@program
def data_that_it_shows_already_leaves_a_view_one(T: Any) -> Any:
    found = []
    for same in (lambda x: x, lambda x: x.detach().view(3, 1).view(3)):
        x = T.ones(3, requires_grad=True)
        y = x.view(3)
        y.data = same(x)
        try:
            y.add_(1)
        except RuntimeError:
            found.append("refused")
    z = T.tensor([1.0 + 2.0j])
    w = z.conj()
    w.data = z
    return found, w.imag.tolist()


# ---------------------------------------------------------------------- writes without history


def _graph(T: Any) -> Any:
    w = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    return w, w * 2


@program
def written_under_no_grad(T: Any) -> Any:
    w, y = _graph(T)
    with T.no_grad():
        y[0] = 100.0
    (y * T.tensor([1.0, 2.0, 3.0])).sum().backward()
    return w.grad.tolist(), y.tolist(), y.requires_grad, y.is_leaf


@program
def written_through_data_and_detach(T: Any) -> Any:
    seen = []
    for write in (
        lambda y: y.data.mul_(3),
        lambda y: y.detach().add_(1),
        lambda y: y.data[1:].zero_(),
        lambda y: y.detach()[0].fill_(9),
        lambda y: y.view(3, 1).detach().zero_(),
    ):
        w, y = _graph(T)
        write(y)
        (y * y).sum().backward()
        seen += [w.grad.tolist(), y.tolist(), y.requires_grad]
    return seen


@program
def parts_are_written_through_what_is_detached(T: Any) -> Any:
    seen: list[Any] = []
    wholes: list[Callable[[Any], Any]] = [
        lambda w: T.zeros(2, 3),
        lambda w: T.zeros(2, 3).requires_grad_(),
        lambda w: T.zeros(2, 3) * w,
        lambda w: T.zeros(4, 3)[1:3],
    ]
    shown: list[Callable[[Any], Any]] = [
        lambda x: x.data,
        lambda x: x.detach(),
        lambda x: x.data.detach(),
        lambda x: x.detach().data,
    ]
    for make, show, are_read, recorded in itertools.product(
        wholes, shown, (False, True), (False, True)
    ):
        w = T.ones(3, requires_grad=True)
        x, value = make(w), T.arange(2.0)
        kept, before = show(x), x * 2
        if are_read:
            seen += [x.sum().item(), value.sum().item()]
        with T.set_grad_enabled(recorded):
            show(x)[:, 0] = value
            kept[..., 1] = value + 1
            show(x)[1, 2] = 7
            show(x)[0, 2] = value.sum()
            kept[0][0] = 4
        (before * x * w).sum().backward()
        seen += [x.tolist(), kept.tolist(), before.tolist(), w.grad.tolist()]
        seen += [x._version, kept._version, x.requires_grad, kept.requires_grad, x.is_leaf]
        seen.append(None if not x.is_leaf or x.grad is None else x.grad.tolist())
    return seen


@program
def what_has_a_graph_is_written_through_what_is_detached(T: Any) -> Any:
    seen = []
    for show in (lambda x: x.data, lambda x: x.detach()):
        w, x = T.ones(2, requires_grad=True), T.zeros(2, 2)
        with T.no_grad():
            show(x)[:, 0] = w
            x[:, 1] = w * 2
        seen += [x.tolist(), x.requires_grad, x._version]
        kept = show(x)
        kept[0] = w * 3
        seen += [x.tolist(), x.requires_grad, kept.requires_grad, kept._version]
        (kept * kept).sum().backward()
        seen.append(w.grad.tolist())
        x.requires_grad_()
        seen += [show(x).requires_grad, kept.is_leaf]
    return seen


@program
def written_while_recording(T: Any) -> Any:
    seen = []
    for write in (
        lambda y, c: y.copy_(c),
        lambda y, c: y.zero_(),
        lambda y, c: y[1:].copy_(c[1:]),
        lambda y, c: y.mul_(c),
        lambda y, c: y.masked_fill_(c > 1, 5.0),
    ):
        w, y = _graph(T)
        write(y, T.tensor([1.0, 2.0, 3.0]))
        y.sum().backward()
        seen += [w.grad.tolist(), y.tolist(), y.requires_grad]
    return seen


@program
def overwritten_through_views_that_show_all(T: Any) -> Any:
    seen = []
    for view in (
        lambda y: y.view(3, 1),
        lambda y: y.squeeze(0),
        lambda y: y.unsqueeze(1).t(),
        lambda y: y.view(3, 1).detach(),
    ):
        w, y = _graph(T)
        view(y).copy_(T.tensor(3.0))
        y.sum().backward()
        seen += [w.grad.tolist(), y.tolist(), y.requires_grad]
    return seen


@program
def overwritten_with_what_has_a_gradient(T: Any) -> Any:
    seen = []
    for write in (
        lambda y, v: y.copy_(v),
        lambda y, v: y.fill_(v[0]),
        lambda y, v: y.view(3, 1).copy_(v.view(3, 1)),
        lambda y, v: y.copy_(y),
    ):
        w, y = _graph(T)
        v = T.ones(3, requires_grad=True)
        write(y, v)
        y.sum().backward()
        seen.append([w.grad.tolist(), v.grad if v.grad is None else v.grad.tolist(), y.tolist()])
    return seen


@program
def gradients_of_what_was_used_before_it_was_written(T: Any) -> Any:
    seen: list[Any] = []
    hooked: list[Any] = []
    for write in (lambda y: y.pow_(3), lambda y: y[0].fill_(9), lambda y: y.detach().zero_()):
        w, y = _graph(T)
        name = type(y.grad_fn).__name__
        y.retain_grad()
        before = y * 5
        with T.no_grad():
            write(y)
        y.register_hook(lambda g: hooked.append(g.tolist()))
        out = (before * before).sum() + (y * 3).sum()
        (g,) = T.autograd.grad(out, y, create_graph=True)
        seen.append([g.tolist(), T.autograd.grad(g.sum(), y, retain_graph=True)[0].tolist()])
        out.backward()
        seen += [y.retains_grad, y.grad.tolist(), w.grad.tolist()]
        seen.append(type(y.grad_fn).__name__ == name)
    return seen, hooked


@program
def a_view_in_place_under_no_grad(T: Any) -> Any:
    w, y = _graph(T)
    with T.no_grad():
        y.unsqueeze_(0)
    y.mul_(2)
    y.sum().backward()
    wide = T.ones(1).expand(3)
    return w.grad.tolist(), y.tolist(), y._is_view(), y._version, wide.unsqueeze_(0).stride()


@program
def no_view_in_place_is_recorded_under_no_grad(T: Any) -> Any:
    seen = []
    for change in (lambda y: y.t_(), lambda y: y.squeeze_(), lambda y: y.unsqueeze_(0)):
        for shape in ((2, 2), (2, 1)):
            w = T.ones(*shape, requires_grad=True)
            y = w * 2
            with T.no_grad():
                change(y)
            made = type(y.grad_fn).__name__
            out = (y * T.arange(float(y.numel())).view(y.shape)).sum()
            seen.append((made, refuses(out.backward), w.grad is not None and w.grad.tolist()))
    return seen


@program
def views_of_views_in_place_follow_under_no_grad(T: Any) -> Any:
    w = T.ones(2, 2, requires_grad=True)
    y = (w * 2)[:]
    hooked: list[Any] = []
    y.register_hook(lambda g: hooked.append(g.tolist()))
    with T.no_grad():
        y.t_()
    (y * T.arange(4.0).view(2, 2)).sum().backward()
    return w.grad.tolist(), hooked


@program
def deep_copies_of_conjugates(T: Any) -> Any:
    x = T.tensor([[1 + 2j, 3j]])
    views = x.conj(), x.conj()[:, 1:], x.conj().imag, x.mH, x.mH[1:]
    copies = [copy.deepcopy(y) for y in views]
    whole, part = copy.deepcopy((x, x.conj()))
    whole.zero_()
    return [(T.view_as_real(y + 0j).tolist(), y.stride()) for y in (*copies, part)]


@program
def views_keep_their_place_when_data_is_written(T: Any) -> Any:
    seen: list[Any] = []
    for make in (lambda w: w.view(3, 1), lambda w: (w * 2).view(3, 1)):
        w = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        e = make(w)
        g = e[None]
        g.data.mul_(2)
        g.data.add_(1)
        e.register_hook(lambda g: seen.append(g.tolist()))
        out = (g * g).sum()
        seen.append(T.autograd.grad(out, e, retain_graph=True)[0].tolist())
        out.backward()
        seen.append([w.grad.tolist(), e.tolist(), g.tolist()])
    return seen


@program
def a_written_view_has_a_new_place(T: Any) -> Any:
    seen = []
    for write in (lambda c: c.mul_(2), lambda c: c.zero_(), lambda c: c[0].fill_(3)):
        w = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        c = w[1:]
        before = (c * 7).sum()
        with T.no_grad():
            write(c)
        seen.append(
            error_of(lambda b=before, c=c: T.autograd.grad(b, c, retain_graph=True)) == "none"
        )
        (before + (c * 5).sum()).backward()
        seen += [T.autograd.grad((c * 3).sum(), c)[0].tolist(), w.tolist()]
    return seen


@program
def parameters_that_take_another_shape(T: Any) -> Any:
    p = T.nn.Parameter(T.tensor([1.0, 2.0]))
    with T.no_grad():
        p.unsqueeze_(0)
    part = p[0, 1:]
    p.detach().add_(5)
    (p * part).sum().backward()
    return p.tolist(), part.tolist(), p.grad.tolist(), p.is_leaf, part._base is p


@program
def a_written_view_that_requires_a_gradient(T: Any) -> Any:
    x = T.zeros(3)
    v = x.view(3)
    v.add_(1)
    v.requires_grad_()
    (v * 2).sum().backward()
    return x.requires_grad, v.is_leaf, v.tolist(), v.grad.tolist()


@program
def a_leaf_detached_in_place_gets_no_gradient(T: Any) -> Any:
    w = T.ones(3, requires_grad=True)
    y, part = w * 2, w[1]
    w.detach_()
    y.sum().backward()
    part.backward()
    return w.grad is None, w.requires_grad, w.is_leaf


@program
def chunks_of_nothing_are_views_of_one_another(T: Any) -> Any:
    y = T.zeros((2, 0), requires_grad=True) * 2
    first, second = y.chunk(2, 1)
    with T.no_grad():
        second.fill_(1)
    return error_of(lambda: first.is_leaf)[:9]


@program
def one_value_of_its_own_where_a_mask_says_so(T: Any) -> Any:
    x = T.tensor([3.0])
    x[T.tensor([True])] = x
    x.detach()[T.tensor([False])] = x
    return x.tolist(), error_of(lambda: x.__setitem__(T.tensor([0]), x))


@program
def leaves_are_refused_before_an_index(T: Any) -> Any:
    x = T.ones(2, 3, requires_grad=True)
    return [
        error_of(lambda: x[:0].__setitem__((T.tensor([5]), [0]), 1)),
        error_of(lambda: x[...].__setitem__((T.tensor([0, 0]), [0, 5]), 1)),
    ]


@program
def one_element_written_to_its_own_place(T: Any) -> Any:
    """What is broadcast has other strides, and is refused; what is one number fills."""
    x = T.tensor([1.0, 2.0])
    last = x[1:]
    seen = [refuses(lambda: last.__setitem__((slice(None), None), last))]
    seen.append(refuses(lambda: last.__setitem__((slice(None), None), last[0])))
    seen.append(refuses(lambda: last.__setitem__(slice(None), last)))
    return seen, T.tensor(1.0).expand(1, 1).stride(), x.tolist()


@program
def all_of_a_tensor_is_no_view_of_it(T: Any) -> Any:
    """What was overwritten has a gradient of zeros, which depends on nothing."""
    x = T.ones(3, requires_grad=True)
    keys = [slice(None), slice(0, 3), slice(0, 9), ..., (slice(None), ...), slice(0, 2), None]
    seen = []
    for key in keys:
        for value in (2.0, T.tensor(3.0, requires_grad=True)):
            y = x * 2
            y[key] = value
            (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
            seen.append([g.tolist(), g.requires_grad, y.tolist()])
    return seen


@program
def views_that_require_a_gradient_in_vain(T: Any) -> Any:
    """A view made before its base required a gradient takes part in no graph."""
    x = T.ones(2, 2)
    view = x.t()
    x.requires_grad_()
    unused = T.autograd.grad(view.sum(), [view], allow_unused=True)
    refused = refuses(lambda: T.autograd.grad((view * 2).sum(), [view]))
    return view.requires_grad, view.is_leaf, unused, refused


@program
def a_mask_that_is_one_number(T: Any) -> Any:
    mask = T.tensor(True)
    mask[None].index_put_((mask,), T.tensor(False))
    return mask.tolist()


@program
def no_view_of_itself(T: Any) -> Any:
    x, y = T.zeros(2, 3), T.zeros(2)
    x.t_()
    y.resize_(5)
    return x._is_view(), x._base is None, y._is_view(), x.detach_().shape


@program
def what_a_mask_of_its_own_is_written_with(T: Any) -> Any:
    x = T.tensor([True, False, True])
    refused = error_of(lambda: x.__setitem__(x, T.tensor([True, False])))
    x[x] = T.tensor(False)
    return x.tolist(), refused


@program
def sums_in_one_memory(T: Any) -> Any:
    x, w = T.arange(3.0), T.ones((), requires_grad=True)
    x.expand(2, 3).index_put_((T.tensor([-1, -2]),), T.tensor(0.5), accumulate=True)
    x.unfold(0, 2, 1).index_put_((T.tensor([0, 1, 1]),), w, accumulate=True)
    (x * T.arange(3)).sum().backward()
    return x.tolist(), w.grad.item(), x._version


@program
def diagonals_of_one_memory(T: Any) -> Any:
    rows, columns = T.arange(3.0), T.arange(3.0)
    rows.expand(3, 3).fill_diagonal_(7)
    columns[:2].unsqueeze(1).expand(2, 3).fill_diagonal_(7)
    return rows.tolist(), columns.tolist(), rows._version


@program
def several_views_of_an_array(T: Any) -> Any:
    y = T.ones(4, requires_grad=True) * 2
    array = y.detach().numpy()
    first, second = y.split(2)
    y.add_(1)
    refused = [error_of(lambda: first * 1)[:12], error_of(lambda: second.is_leaf)[:12]]
    return array.tolist(), refused, first.detach().tolist()


@program
def einsum_without_sums_is_a_view(T: Any) -> Any:
    x, y = T.zeros(2, 3), T.zeros(2, 2, 3)
    T.einsum("ij->ji", x)[0].fill_(1)
    T.einsum("...j->...j", x).add_(1)
    T.einsum("iij->ji", y).fill_(2)
    T.einsum("ij->i", x).zero_()
    return x.tolist(), y.tolist(), T.einsum("iij->ji", y).stride()


@program
def an_expanded_tensor_written_to_itself(T: Any) -> Any:
    x = T.arange(2.0).expand(2, 2)
    x[:] = x
    x[-2:, ...] = x
    return x.tolist(), refuses(lambda: x.__setitem__(slice(None), T.ones(2, 2)))


@program
def nan_beside_what_is_written_in_one_memory(T: Any) -> Any:
    x = T.tensor([[float("nan"), 1.0], [2.0, 3.0]])
    x.expand(3, 2, 2)[T.tensor([1]), T.tensor([0])] = T.tensor(5.0)
    return x.tolist()


@program
def strides_of_pooled_signals(T: Any) -> Any:
    x = T.ones(2, 3, 4).mT
    signals = x, x.contiguous(), x[:1], x[:, :, ::2], x[0]
    pool = T.nn.functional.avg_pool1d
    return [[pool(y, k).stride() for k in (1, 2)] for y in signals]


@program
def strides_of_scaled_numbers(T: Any) -> Any:
    column, nothing = T.ones(1, 3).mT, T.zeros(2, 0)[1:, ::2]
    wide = T.ones(2, 3, 4).permute(2, 0, 1)
    given = [(x, x) for x in (column, nothing, wide)]
    given += [(x, x.int()) for x in (column, nothing, wide, wide[:, :, ::2])]
    given += [(x, T.tensor(n)) for x in (column, nothing, wide) for n in (2, 2.0)]
    given += [(column, T.ones(3, 4)), (column, T.ones(3, 4).int()), (T.ones(3, 4), column.int())]
    return [T.ldexp(x, n).stride() for x, n in given]


@program
def strides_of_what_is_empty(T: Any) -> Any:
    x = T.zeros(2, 3, 4)[:, 2:2]
    layer = T.nn.PReLU()
    return [y.stride() for y in (x, T.ldexp(x, T.ones(4)), x * T.ones(4), layer(x))]


@program
def triangles_of_one_memory(T: Any) -> Any:
    rows, columns = T.tensor([[1.0, 2.0, 3.0]]), T.tensor([[1.0], [2.0], [3.0]])
    rows.expand(3, 3).triu_(1)
    columns.expand(3, 3).tril_(-1)
    return rows.tolist(), columns.tolist()


@program
def one_memory_with_a_history(T: Any) -> Any:
    seen = []
    for write in (
        lambda x: x.masked_fill_(T.eye(3) > 0, 7.0),
        lambda x: x.index_fill_(1, T.tensor([1]), 7.0),
        lambda x: x.triu_(1),
        lambda x: x.__setitem__(T.eye(3) > 0, 7.0),
    ):
        y = T.ones(3, 1, requires_grad=True) * T.tensor([[1.0], [2.0], [3.0]])
        write(y.expand(3, 3))
        seen.append(y.tolist())
    return seen


@program
def one_memory_gets_a_history(T: Any) -> Any:
    w, nothing = T.tensor([3.0], requires_grad=True), T.zeros(1, requires_grad=True)
    seen = []
    for x in (T.ones(1), T.ones(1).detach()):
        for g in (w, nothing):
            x.expand(3)[T.tensor([True, False, True])] += g.detach()
            y = x.detach()
            y.expand(3)[T.tensor([True, False, True])] += g
            seen.append((x.tolist(), x.requires_grad, y.requires_grad))
    return seen


@program
def modules_with_backward_hooks_share_memory(T: Any) -> Any:
    x = T.arange(8.0, requires_grad=True)
    h = (x * 2).view(2, 4)[:, ::2]
    thin = (x * 2).view(2, 2, 2)[::2, ::2]
    seen = []
    flat, same = T.nn.Flatten, T.nn.Identity
    for module, y in ((flat(0), x * 2), (same(), h), (flat(0), h), (same(), thin)):
        module.register_full_backward_hook(lambda m, gi, go: None)
        out = module(y)
        seen.append(out.stride())
        out.sum().backward(retain_graph=True)
        out.detach().add_(1)
        y.detach().add_(1)
        seen.append([y.detach().tolist(), out.detach().tolist(), x.grad.tolist()])
    return seen


@program
def what_a_function_returns_lies_as_forward_left_it(T: Any) -> Any:
    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x, y = T.zeros(0, 3, requires_grad=True), T.zeros(2, 3, requires_grad=True)
    return Same.apply(x[:, 1:2]).stride(), Same.apply(y.t()).stride()


@program
def a_layer_used_twice(T: Any) -> Any:
    layer = T.nn.Linear(2, 2)
    with T.no_grad():
        layer.weight.copy_(T.tensor([[1.0, 2.0], [3.0, 4.0]]))
        layer.bias.zero_()
    hidden = layer(T.ones(1, 2))
    with T.no_grad():
        hidden[0, 0] = 0.5
    layer(hidden).sum().backward()
    return layer.weight.grad.tolist(), layer.bias.grad.tolist()


@program
def a_detached_alias_with_a_history_of_its_own(T: Any) -> Any:
    _, y = _graph(T)
    d = y.detach()
    v = T.ones(3, requires_grad=True)
    d.add_(v)
    seen = [d.requires_grad, y.tolist()]
    y.mul_(2)
    (d * d).sum().backward()
    return seen, v.grad.tolist(), d.tolist()


@program
def other_shapes_without_gradients_then_written(T: Any) -> Any:
    seen = []
    writes = [
        lambda e: e,
        lambda e: e.mul_(2),
        lambda e: e.__setitem__(0, 1),
        lambda e: e.t().zero_(),
    ]
    for reshape in (lambda e: e.t_(), lambda e: e.unsqueeze_(0), lambda e: e.transpose_(0, 1)):
        for size in (2, 3):
            for write in writes:
                w = T.arange(2.0 * size).reshape(2, size).requires_grad_()
                e = w * w
                with T.no_grad():
                    reshape(e)
                    write(e if e.dim() == 2 else e[0])
                y = (e * T.arange(2.0 * size).reshape(e.shape)).sum()
                failed = error_of(y.backward) != "none"
                seen.append((failed, None if failed else w.grad.tolist(), e.tolist()))
    return seen


@program
def gradients_of_what_was_squeezed_without_one(T: Any) -> Any:
    seen = []
    shapes = [
        lambda e: e.squeeze_(),
        lambda e: e.unsqueeze_(0),
        lambda e: e.squeeze_().unsqueeze_(0),
    ]
    for reshape in shapes:
        for write in (lambda e: e, lambda e: e.mul_(2)):
            w = T.tensor([[1.5, -2.0]], requires_grad=True)
            e = (w * w).sum(1)
            with T.no_grad():
                write(reshape(e))
            failed = error_of(e.backward) != "none"
            seen.append((failed, None if failed else w.grad.tolist(), e.tolist()))
    return seen


@program
def gradients_of_views_pass_by_what_took_another_shape(T: Any) -> Any:
    found = []
    shapes = [
        lambda x: x.unsqueeze_(0),
        lambda x: x.t_(),
        lambda x: x.unsqueeze_(0).transpose_(0, 2),
    ]
    for reshape in shapes:
        for view in (lambda x: x.t(), lambda x: x[0], lambda x: x.view(-1)):
            seen: list[Any] = []
            w = T.tensor([[1.25, -1.0, 2.0], [0.25, -1.25, 3.0]], requires_grad=True)
            whole = w * 2
            part = view(whole)
            reshape(whole)
            whole.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
            whole.retain_grad()
            (part * part).sum().backward()
            with T.no_grad():
                part.mul_(2)
            found.append((seen, w.grad.tolist(), whole.grad.tolist(), whole.tolist()))
    return found


@program
def retained_gradients_stay_where_another_shape_was_taken(T: Any) -> Any:
    found = []
    shapes = [
        lambda x: x.unsqueeze_(0),
        lambda x: x.t_(),
        lambda x: x.as_strided_((6,), (1,)),
        lambda x: x.mul_(3).t_(),
        lambda x: x.t_().unsqueeze_(0),
    ]
    views = (lambda x: x, lambda x: x.view(2, 3), lambda x: x[:, :])
    for reshape in shapes:
        for view in views:
            w = T.tensor([[1.25, -1.0, 2.0], [0.25, -1.25, 3.0]], requires_grad=True)
            y = view(w * 2)
            y.retain_grad()
            reshape(y)
            y.retain_grad()
            (y * y).sum().backward()
            found.append((y.grad.tolist(), w.grad.tolist(), y.retains_grad, y.tolist()))
    w = T.tensor([1.0, 2.0], requires_grad=True)
    y = w * 2
    y.retain_grad()
    with T.no_grad():
        y.unsqueeze_(0)
    (y * y).sum().backward(retain_graph=True)
    (y * 3).sum().backward()
    found.append((y.grad.tolist(), w.grad.tolist(), y.retains_grad))
    return found


@program
def activations_in_place_do_not_pass_hooks(T: Any) -> Any:
    F = T.nn.functional
    names = ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh")
    names += ("hardswish", "hardsigmoid", "rrelu")
    writes = [partial(getattr(F, name), inplace=True) for name in names]
    writes += [getattr(F, name) for name in ("celu_", "elu_", "hardtanh_", "leaky_relu_")]
    writes += [F.relu_, F.rrelu_, F.selu_, partial(F.threshold_, threshold=-1.0, value=2.0)]
    writes += [partial(F.threshold, threshold=-1.0, value=2.0, inplace=True)]
    writes += [partial(F.dropout, p=1.0, inplace=True), partial(F.dropout1d, p=1.0, inplace=True)]
    found = []
    for write in writes:
        seen: list[Any] = []
        w = T.tensor([[-3.0, -2.0, -0.5], [0.5, 2.0, 7.0]], requires_grad=True)
        whole = w * 2
        part = whole[:, 1:]
        part.register_hook(lambda g, seen=seen: seen.append(("before", g.tolist())))
        write(part)
        part.register_hook(lambda g, seen=seen: seen.append(("after", g.tolist())))
        (part * 4).sum().backward()
        found.append((seen, w.grad.round(decimals=3).tolist()))
    x = T.tensor([-1.0, 2.0, -3.0])
    F.leaky_relu_(x.unfold(0, 2, 1), 0.5)
    found.append(x.tolist())
    return found


@program
def storages_of_conjugates(T: Any) -> Any:
    numbers = [1.0 + 2.0j, 3.0 - 1.0j, 0.5 + 1.0j, 2.0 + 2.0j]
    seen: list[Any] = []
    for is_conj in (False, True):
        for view in (lambda x: x, lambda x: x.conj(), lambda x: x.conj()[1:3], lambda x: x[1:3]):
            for given in ((), (1, (2,), (1,)), (0, (3,))):
                source = T.tensor(numbers)
                x = T.zeros(2, dtype=T.complex64)
                x = x.conj() if is_conj else x
                x.set_(view(source), *given)
                shown = T.view_as_real(x.resolve_conj()).tolist()
                x += 1j
                seen.append((shown, x.is_conj(), x.storage_offset(), x.stride()))
                seen.append(T.view_as_real(source).tolist())
    source = T.tensor(numbers)
    for size, step, offset in (((2,), (1,), 0), ((2,), (1,), 1), ((3,), (1,), 0)):
        for view in (lambda x: x.conj()[2:], lambda x: x.conj()[::2], lambda x: x.conj().conj()):
            x = view(source).as_strided(size, step, offset)
            seen.append((T.view_as_real(x.resolve_conj()).tolist(), x.is_conj()))
            x *= 2j
            seen.append(T.view_as_real(source).tolist())
    for part in (source[::2], source.view(2, 2).t()):
        try:
            T.zeros(2, dtype=T.complex64).set_(part, 0, (2,))
        except RuntimeError as error:
            seen.append(str(error)[:40])
    return seen


@program
def conjugates_that_overlap_are_written(T: Any) -> Any:
    views = [
        lambda x: x.unfold(0, 2, 1),
        lambda x: x.unfold(0, 2, 1).imag,
        lambda x: x.unfold(0, 2, 1).real,
        lambda x: x.as_strided((2,), (1,), 0),
        lambda x: x.as_strided((2,), (1,), 0).imag,
        lambda x: x[1:2].as_strided((2,), (1,), 1).imag,
    ]
    at = (T.tensor([0, 1, 1]), T.tensor([0, 0, 1]))
    writes = [
        lambda x: x.mul_(2),
        lambda x: x.copy_(T.full_like(x, 3)),
        lambda x: x.view_as(x).zero_(),
        lambda x: x.index_put_(at[: x.ndim], T.ones(3, dtype=x.dtype), accumulate=True),
        lambda x: x.masked_fill_(T.ones(x.shape) > 0, 7.0),
    ]
    seen: list[Any] = []
    for view in views:
        for write in writes:
            source = T.tensor([1.0 + 2.0j, 3.0 - 1.0j, 0.5 + 1.0j])
            part = view(source.conj())
            try:
                write(part)
            except RuntimeError:
                seen.append("refused")
            seen.append(T.view_as_real(source).tolist())
    return seen


@program
def writes_do_not_pass_hooks_of_what_somebody_made_a_leaf_of(T: Any) -> Any:
    seen: list[Any] = []
    w = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    part = (w * 2).unsqueeze(0)
    part.register_hook(lambda g: seen.append(g.tolist()))
    leaf = T.nn.Parameter(part)
    part.mT.reciprocal_()
    (part * 8).sum().backward()
    return seen, w.grad.tolist(), leaf.tolist(), leaf.grad


@program
def gradients_of_views_end_where_the_whole_was_detached_and_written(T: Any) -> Any:
    seen = []
    views = (lambda x: x[1:4], lambda x: x.view(2, 3), lambda x: x.view(3, 2).t())
    writes = [
        lambda x: x.mul_(3),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.detach().add_(1),
        lambda x: x.data.add_(1),
        lambda x: x[:1].zero_(),
    ]
    for view in views:
        for write in writes:
            for silent in (False, True):
                w = T.arange(6.0).requires_grad_()
                whole = w * 2
                part = view(whole)
                kept = part * 1
                whole.detach_()
                with T.set_grad_enabled(not silent):
                    write(whole)
                flags = part.requires_grad, part.is_leaf, whole.requires_grad
                (part * part).sum().backward(retain_graph=True)
                ended = w.grad is None
                kept.sum().backward()
                seen.append((flags, ended, w.grad.tolist(), part.tolist()))
    return seen


@program
def views_made_leaves_follow_a_base_that_is_one(T: Any) -> Any:
    seen = []
    for write in (lambda x: x.detach().mul_(2), lambda x: x.data.mul_(2), lambda x: None):
        base = T.tensor([1.0, 2.0, 3.0])
        part = base[:2].requires_grad_()
        base.requires_grad_()
        write(base)
        flags = part.is_leaf, part.requires_grad
        (part * part).sum().backward()
        grads = [None if x.grad is None else x.grad.tolist() for x in (base, part) if x.is_leaf]
        seen.append((flags, grads, part.tolist()))
    return seen


@program
def views_of_what_is_detached_in_place(T: Any) -> Any:
    seen = []
    views = [lambda x: x.reshape(-1), lambda x: x[0], lambda x: x.t()[..., None]]
    writes = [lambda x: x.mul_(2), lambda x: x.index_fill_(-1, T.tensor([0]), 0.5)]
    for view in views:
        for write in writes:
            w = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            whole = w * 2
            part = view(whole)
            whole.detach_()
            later = part[...]
            seen.append([error_of(partial(write, x)) for x in (part, later)])
            seen.append([(x.requires_grad, x.is_leaf) for x in (whole, part, later)])
            later.sum().backward()
            with T.no_grad():
                write(part)
            seen.append((w.grad.tolist(), whole.tolist(), later.tolist(), whole._version))
            seen.append((part.requires_grad, whole.requires_grad))
    return seen


@program
def writes_at_indices_do_not_pass_hooks(T: Any) -> Any:
    found = []
    keys = [(-1, T.tensor([5, 0])), T.tensor([0]), T.tensor([True]), (-1, 0)]
    for key in keys:
        for early in (True, False):
            seen: list[Any] = []
            w = T.tensor([[1.5, -2.0, 1.75], [1.5, 2.5, -1.0]], requires_grad=True)
            whole = w * 3
            view = whole.reshape(6, 1)
            part = view.narrow(0, 1, 2)
            value = whole.sum() if early else (w * w).sum()
            view.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
            view.permute(1, 0)[key] = value
            (part * T.arange(2).reshape(2, 1)).sum().backward()
            found.append((seen, w.grad.tolist()))
    return found


@program
def expanded_tensors_written_with_themselves(T: Any) -> Any:
    wide = T.tensor([2.0, 1.0]).expand(2, 2)
    wide[...] = wide
    wide.view(2, 2).detach()[...] = wide
    wide[:1] = wide[:1]
    seen = [error_of(lambda: wide.__setitem__(slice(None), wide.t()))]
    learnt = (T.tensor([2.0, 1.0], requires_grad=True) * 2).expand(2, 2)
    learnt.set_(learnt)
    return seen, wide.tolist(), learnt.tolist(), learnt.stride()


@program
def overlapping_elements_compared_in_place(T: Any) -> Any:
    seen = []
    for dtype in (T.bool, T.int32, T.float32):
        for other in (T.tensor(0.5), T.tensor([0.5] * 3, dtype=T.float64), T.tensor(1), 0.5, 1):
            for write in ("lt_", "eq_", "ge_", "ne_"):
                x = T.tensor([1, 0, 1, 1, 0, 1]).to(dtype)
                getattr(x.unfold(0, 3, 1), write)(other)
                seen.append(x.tolist())
    return seen


@program
def integers_among_the_bits_of_half_precisions(T: Any) -> Any:
    integers = [1, -1, 32641, 32704, 31745, -127, 32640, 32513]
    seen = []
    for dtype in (T.float16, T.bfloat16):
        shown = T.zeros(2, 8, dtype=dtype)[1].view(T.int16)
        for i, n in enumerate(integers):
            shown[i] += n
        whole = shown.view(dtype)
        moved = [
            whole.clone(),
            whole.flip(0).flip(0),
            T.cat([whole, whole])[8:],
            whole[T.arange(8)],
        ]
        seen.append([shown.tolist(), *[x.view(T.int16).tolist() for x in moved]])
    return seen


@program
def strides_of_results_of_one_element(T: Any) -> Any:
    x = T.arange(6.0).reshape(2, 3)
    F = T.nn.functional
    functions = [F.hardtanh, F.relu6, F.relu, F.leaky_relu, F.rrelu, F.elu, T.abs, T.exp]
    parts = [x[1:, 1:2], x[1:, 1], x.t(), x[:, ::2]]
    return [f(part).stride() for f in functions for part in parts]


@program
def refused_writes_at_indices_leave_no_trace(T: Any) -> Any:
    found = []
    for key in (T.tensor([True, False]), T.tensor([0]), 0):
        w = T.tensor([[1.5, -2.0]], requires_grad=True)
        (part,) = w.unbind(0)
        wide = part.view(2)
        part.retain_grad()
        seen = error_of(lambda: wide.__setitem__(key, 2.0))[:9]  # noqa: B023
        (wide * 3).sum().backward()
        found.append((seen, part.grad.tolist(), w.grad.tolist()))
    return found


@program
def arrays_of_expanded_tensors(T: Any) -> Any:
    w = T.tensor([2.0, 1.0], requires_grad=True)
    wide = w.expand(2, 2).detach()
    array = wide.numpy()
    other = T.from_numpy(array)
    wide.fill_(0.25)
    seen = [w.tolist(), wide.tolist(), array.tolist(), other.tolist()]
    other[0].fill_(3)
    return seen, w.tolist(), wide.tolist(), error_of(lambda: wide.add_(1))


# -------------------------------------------------------------------------------- refusals


def error_of(write: Callable[[], Any]) -> str:
    try:
        write()
    except RuntimeError as error:
        return str(error)[:40]
    return "none"


@program
def views_that_must_not_be_written(T: Any) -> Any:
    w, y = _graph(T)
    with T.no_grad():
        quiet = y[:2]
    seen = [quiet.requires_grad, quiet.is_leaf, error_of(lambda: quiet.add_(1))[:20]]
    first, _ = y.split(2)
    seen.append(error_of(lambda: first.add_(1))[:9])
    seen.append(error_of(lambda: y.unbind(0)[0].add_(1))[:9])
    seen.append(error_of(lambda: y.chunk(2)[0].add_(1))[:9])
    seen.append(error_of(lambda: w.add_(1)))
    seen.append(error_of(lambda: w[0].add_(1)))
    seen.append(error_of(lambda: w.detach()[0].add_(0)))
    plain = T.zeros(4).split(2)[0]
    plain.add_(1)
    return seen, y.tolist(), w.tolist(), plain.tolist()


def refuses(use: Callable[[], Any]) -> bool:
    return error_of(use) != "none"


@program
def views_that_were_given_up(T: Any) -> Any:
    """Those whose history cannot follow a write, once a gradient flows through what they show."""
    x = T.zeros(4)
    several, rest = x.split(2)
    with T.no_grad():
        quiet = x[:2]
    views = several, several[:1], quiet, quiet[:1], rest.view(1, 2)
    x.add_(1)
    seen = [[refuses(lambda v=v: v.is_leaf) for v in views]]
    x.requires_grad_()
    seen.append([refuses(lambda v=v: v.is_leaf) for v in (*views, x[:2], x.split(2)[0])])
    w = T.ones(4, requires_grad=True)
    first, second, third, fourth = list(w)
    w.requires_grad_(False)
    w.detach().add_(1)
    seen.append([refuses(lambda v=v: v * 1) for v in (first, second, third.detach())])
    return *seen, fourth.requires_grad, [v.tolist() for v in views]


@program
def views_that_require_a_gradient_of_their_own(T: Any) -> Any:
    x, w = T.zeros(3), T.ones(3, requires_grad=True)
    view, part = x.view(3), w[:2]
    view.requires_grad_()
    w.requires_grad_(False)
    seen = [refuses(lambda v=v: v.add_(1)) for v in (view, view[:1], part, part[:1], x, w)]
    return seen, x.tolist(), w.tolist()


@program
def functions_that_return_views(T: Any) -> Any:
    class Part(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:2]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return T.cat([g * 2, g])

    class Same(Part):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

    x = T.arange(4.0, requires_grad=True)
    y = x * 2
    part, same = Part.apply(y), Same.apply(y)
    part.sum().backward(retain_graph=True)
    square = same.view(2, 2)
    seen = [refuses(lambda v=v: v.add_(1)) for v in (part, part[:1], same, square)]
    with T.no_grad():
        part.add_(1)
        same[3] = 9
    seen += [refuses(lambda v=v: v.is_leaf) for v in (part, same, y)]
    seen.append(square.detach().tolist())
    plain = Part.apply(T.zeros(3)).add_(1)
    return seen, y.tolist(), same.tolist(), x.grad.tolist(), part._is_view(), plain.tolist()


@program
def written_outputs_of_modules_with_backward_hooks(T: Any) -> Any:
    x = T.ones(2, 3, requires_grad=True)
    module = T.nn.ReLU()
    module.register_full_backward_hook(lambda m, gi, go: None)
    y = module(x * 2)
    seen = [refuses(lambda v=v: v.add_(1)) for v in (y, y[0], y.clone(), y.detach())]
    return seen, refuses(lambda: y.is_leaf), y.tolist()


@program
def inference_tensors(T: Any) -> Any:
    with T.inference_mode():
        x = T.ones(3)
        y = x * 2
    seen = [x.is_inference(), y.is_inference(), T.ones(2).is_inference()]
    seen.append(error_of(lambda: y.add_(1))[:40])
    return seen


@program
def detached_inference_tensors(T: Any) -> Any:
    """They stay what they are, but count their own writes."""
    with T.inference_mode():
        x = T.ones(2)
    seen = [y.is_inference() for y in (x.detach(), x.data, x.detach()[:1], x.clone())]
    seen += [refuses(lambda y=y: y.requires_grad_()) for y in (x, x.detach(), x.data, x.clone())]
    seen += [refuses(lambda: T.nn.Parameter(x)), refuses(lambda: T.nn.Parameter(x.clone()))]
    shown = x.detach()
    shown.add_(1)
    written = shown._version, x.tolist()
    seen += [refuses(lambda y=y: y.add_(1)) for y in (shown[:1], shown[:1].detach(), x.data[:1])]
    return seen, written


@program
def views_of_inference_tensors(T: Any) -> Any:
    with T.inference_mode():
        x = T.tensor([1.0, 2.0])
        inside = x[:1]
    outside = x[1:]
    writes = [error_of(lambda y=y: y.add_(1)) for y in (x, inside, outside)]
    versions = [error_of(lambda y=y: y._version) for y in (x, inside, outside)]
    return (
        [y.is_inference() for y in (x, inside, outside)], writes, versions,
        error_of(lambda: x.requires_grad_()),
    )  # fmt: skip


@program
def inference_tensors_may_be_written_when_detached(T: Any) -> Any:
    with T.inference_mode():
        x = T.tensor([1.0, 2.0])
    d, data = x.detach(), x.data
    d.add_(1)
    data.mul_(2)
    return x.tolist(), d._version, data._version


@program
def inference_tensors_that_share_memory(T: Any) -> Any:
    ordinary = T.from_numpy(np.zeros(3))
    with T.inference_mode():
        x = T.ones(2, 2) * 2
        borrowed = T.from_numpy(np.zeros(2))
        ordinary.add_(1)
    array = x.numpy()
    part, unread, whole = x[0], x[1], x.detach()
    array[:] = 7
    whole.add_(1)
    seen = [part.tolist(), whole.tolist()]
    refused = [refuses(lambda y=y: y.add_(1)) for y in (x, part, whole[:1], ordinary)]
    del array
    tensors = x, part, unread, whole, borrowed, borrowed[:1], ordinary, ordinary[:1]
    return seen, refused, [y.is_inference() for y in tensors], ordinary.tolist()


@program
def ordinary_tensors_stay_so_in_inference_mode(T: Any) -> Any:
    x = T.zeros(3)
    part = x[1:]
    with T.inference_mode():
        x.add_(1)
        view = x[:2]
        view.add_(1)
    x.add_(1)
    part.add_(1)
    view.add_(1)
    return [(y.is_inference(), y._version, y.tolist()) for y in (x, part, view)]


# --------------------------------------------------------------------- memory that NumPy sees


@program
def numpy_sees_and_is_seen(T: Any) -> Any:
    a = np.zeros(3, np.float32)
    t = T.from_numpy(a)
    a[0] = 5
    seen = [t.tolist()]
    t += 1
    seen.append(a.tolist())
    y = t * 2
    a[1] = 100
    seen.append(y.tolist())
    v = t[1:]
    v.zero_()
    seen.append(a.tolist())
    a[2] = 3
    return seen, v.tolist(), (v + 1).tolist()


@program
def arrays_of_tensors(T: Any) -> Any:
    t = T.arange(4.0)
    n = t.numpy()
    n[0] = 9
    seen = [t.tolist()]
    t[1] = 8
    t.add_(1)
    m = t.view(2, 2).t().numpy()
    m[0, 1] = -1
    k = np.asarray(t)
    k[3] = 77
    return seen, t.tolist(), n.tolist(), m.strides, m.tolist()


@program
def arrays_of_parameters(T: Any) -> Any:
    w = T.ones(3, requires_grad=True)
    n = w.detach().numpy()
    (w * w).sum().backward()
    T.optim.SGD([w], lr=0.25).step()
    seen = [n.tolist(), w.tolist()]
    n[0] = 7
    w.grad = None
    (w * w).sum().backward()
    return seen, (w * 1).tolist(), w.grad.tolist()


@program
def arrays_in_other_orders(T: Any) -> Any:
    f = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    t = T.from_numpy(f)
    t[0, 1] = 50
    g = np.arange(10.0)[::2]
    s = T.from_numpy(g)
    s.mul_(2)
    return t.stride(), f.tolist(), s.stride(), g.tolist(), T.as_tensor(g).data_ptr() == s.data_ptr()


@program
def strides_of_arrays(T: Any) -> Any:
    seen = []
    for a in (
        np.zeros((3, 2)).T, np.zeros((2, 4, 3))[:, ::2].transpose(2, 1, 0), np.zeros((1, 3)).T,
        np.ones((4, 1))[::2], np.zeros((4, 4))[:0], np.zeros((4, 4))[:, 4:].T, np.ones((3, 1)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros(()),
    ):  # fmt: skip
        made = T.from_numpy(a), T.tensor(a), T.tensor(a, dtype=T.float32), T.as_tensor(a)
        seen.append([(x.stride(), (x + 1).stride(), x.tolist(), x.numpy().strides) for x in made])
    return seen, T.from_numpy(T.zeros(3)[::3].numpy()).stride()


@program
def flags_of_views_of_shared_memory(T: Any) -> Any:
    seen = []
    for detached in (False, True):
        for when in ("before", "after"):
            base = T.ones(6).detach() if detached else T.ones(6)
            array = base.numpy() if when == "before" else None
            view = base.view(2, 3)
            array = view.numpy() if when == "after" else array
            for flag in (True, False, True):
                base.requires_grad_(flag)
                seen.append((view.requires_grad, view.is_leaf, (view * 2).requires_grad))
                with T.no_grad():
                    base.mul_(2)
                seen.append((base.requires_grad, view.is_leaf, view.tolist()))
            array[...] = 5
            seen.append((base.tolist(), view.tolist(), view.requires_grad))
    return seen


@program
def parameters_of_arrays(T: Any) -> Any:
    seen = []
    for size in (0, 2):
        array = np.zeros((size, 3), np.float32)
        whole = T.from_numpy(array)
        flat = whole.reshape(-1)
        parameter = T.nn.Parameter(whole)
        flat.add_(7)
        parameter.detach().add_(8)
        parameter.sum().backward()
        T.optim.SGD([parameter], lr=0.5).step()
        seen.append((array.tolist(), flat.tolist(), parameter.tolist(), parameter.is_leaf))
    return seen


@program
def arrays_with_gaps_are_no_views(T: Any) -> Any:
    seen: list[Any] = []
    for array in (np.arange(6.0)[::2], np.arange(6.0).reshape(2, 3).T, T.arange(6.0)[::3].numpy()):
        t = T.from_numpy(array)
        part = t[1:]
        seen.append((t._base is None, part._base is t, t.detach_() is t))
        t.requires_grad_()
        seen.append((t.is_leaf, part.requires_grad, part.is_leaf))
        (t * t).sum().backward()
        seen.append(t.grad.tolist())
        t = T.from_numpy(array)
        w = T.ones(1, dtype=t.dtype, requires_grad=True)
        t[:1].mul_(w)
        (t * t).sum().backward()
        t.detach_()
        seen.append((w.grad.tolist(), t.is_leaf, t.requires_grad, t.tolist()))
    return seen


@program
def views_of_inference_mode_are_none(T: Any) -> Any:
    with T.inference_mode():
        made = T.ones(2, 3)
        part = made[0]
    plain = T.ones(2, 3)
    with T.inference_mode():
        row = plain[0]
        detached = plain[1].detach_().tolist()
    shown = [part, made[1], part.view(3, 1), made.unbind()[0], made.expand(2, 2, 3), row, row[1:]]
    seen = [(x._is_view(), x._base is None, x.is_inference()) for x in shown]
    for x in shown[:5]:
        x.detach_()
    with T.inference_mode():
        part.mul_(2)
    return seen, detached, made.tolist(), shown[3].tolist()


@program
def other_data_is_of_no_inference_mode(T: Any) -> Any:
    with T.inference_mode():
        x, y = T.ones(2), T.ones(2)
    x.data = T.arange(2.0)
    y.data = y[:1]
    x.requires_grad_()
    return x.is_inference(), y.is_inference(), x.is_leaf, (x * 2).requires_grad, x.tolist()


@program
def large_arrays(T: Any) -> Any:
    big = np.zeros((600, 600))
    t = T.from_numpy(big)
    r, s = t + 1, t.sum()
    big[0, 0] = 5
    w = T.full((600,), 2.0, dtype=T.float64, requires_grad=True)
    loss = (t * w).sum()
    big[0, 1] = 6
    loss.backward()
    t[1, 1] = 1
    return r[0, 0].item(), s.item(), loss.item(), t.sum().item(), float(big[1, 1])


@program
def buffers_and_dlpack(T: Any) -> Any:
    b = bytearray(8)
    t = T.frombuffer(b, dtype=T.uint8)
    t[0] = 3
    a = np.zeros(3)
    d = T.from_dlpack(a)
    d[1] = 5
    back = np.from_dlpack(T.arange(3.0))
    x = T.arange(3.0)
    y = np.from_dlpack(x)
    x[0] = 8
    return b[0], a.tolist(), back.tolist(), y.tolist()


@program
def what_is_turned_sorted_or_made_with_gaps_is_no_view(T: Any) -> Any:
    x, edges = T.arange(24.0).view(4, 6), T.tensor([0.0, 1.0, 2.0])
    made = [
        *[T.rot90(x, k) for k in range(4)],
        *[T.quantile(x, 0.5, dim, keepdim=keep) for dim in (0, 1) for keep in (False, True)],
        *[T.nanquantile(x, T.tensor([0.25, 0.5]), dim, True) for dim in (0, 1, None)],
        *[T.quantile(x, T.tensor([0.25, 0.5]), dim) for dim in (0, 1, None)],
        T.empty_strided((2, 2), (4, 1)).zero_(),
        x.new_empty_strided((2, 2), (1, 3)).zero_(),
        T.histogram(x, edges).bin_edges,
    ]
    spectra = T.stft(T.arange(8.0), 4, window=T.ones(4), return_complex=True)
    for y in made:
        y.detach_().add_(1)
    owned = [y._base is None for y in (*made, spectra)]
    return owned, [facts(y) for y in made], spectra.stride(), edges.tolist()


@program
def what_is_set_to_show_its_own_storage_stays_the_whole_of_its_views(T: Any) -> Any:
    def written(show: Callable[[Any], Any]) -> Any:
        x = T.arange(6.0).view(2, 3).clone()
        row, a = x[1], T.tensor(2.0, requires_grad=True)
        x.set_(show(x))
        row.mul_(a)
        (x * 2).sum().backward()
        return facts(x), row.tolist(), a.grad.item(), x._version, row._version, x._base is None

    shown: list[Callable[[Any], Any]] = [lambda x: x, lambda x: x.t(), lambda x: x.view(6)]
    return [written(show) for show in (*shown, lambda x: x.detach(), lambda x: x[:])]


@program
def views_are_views_of_what_took_another_shape_also_after_writes(T: Any) -> Any:
    def retained(directly: bool) -> Any:
        a = T.tensor([[2.0, 4.0, 8.0]], requires_grad=True)
        whole = (a * 3).t_()
        view = whole.view(3)
        view[0] = 3.0
        whole.retain_grad()
        other = whole.reshape(1, 3)
        (whole if directly else view).mul_(2)
        other.sum().backward()
        return whole.grad.tolist(), a.grad.tolist(), whole.tolist(), other.tolist()

    return retained(True), retained(False)


@program
def a_gradient_of_storage_is_shared_by_elements_in_one_place(T: Any) -> Any:
    whole = T.tensor([[2.0, -2.5, 3.0], [float("inf"), -1.75, 2.75]])
    x = T.nn.Parameter(whole.expand(2, 2, 3))
    y = x.as_strided((2, 2), (0, 3), 2)
    (y * T.arange(4.0).view(2, 2)).sum().backward()
    return x.grad.tolist(), y.tolist()


if __name__ == "__main__":
    import torch

    lines = [f"{json.dumps(p.__name__)}: {json.dumps(outcome(p, torch))}" for p in PROGRAMS]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
