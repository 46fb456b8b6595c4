"""What training programs do between steps: states, groups, clipping, averages; other dtypes."""

from __future__ import annotations

import torch

from .autograd import differentiable
from .pen import Pen, Stuck
from .training import any_optimizer, is_module, is_optimizer, made, whole_step

COPY = "__import__('copy').deepcopy"
MODULES = (
    "T.nn.BatchNorm1d(3)",
    "T.nn.BatchNorm1d(3, momentum=None)",
    "T.nn.InstanceNorm1d(2, affine=True, track_running_stats=True)",
    "T.nn.Sequential(T.nn.Linear(3, 3), T.nn.BatchNorm1d(3), T.nn.Tanh(), T.nn.Linear(3, 3))",
    "T.nn.GroupNorm(1, 3)",
    "T.nn.Linear(3, 3)",
    "T.nn.Bilinear(3, 3, 2)",
)


def statement(pen: Pen) -> str:
    make = pen.choose(
        *[whole_step, whole_step, accumulated, of_module, of_module, of_state, of_groups],
        *[of_groups, clipped, averaged, replaced, cast_automatically, cast_automatically],
        *[of_complex, of_complex, other_data, in_a_loop, transformed, new_module],
    )
    return str(make(pen))


def opening(pen: Pen) -> list[str]:
    """A module with statistics, data, and an optimiser with two groups where there are two."""
    m, x, o = pen.fresh(), pen.fresh(), pen.fresh()
    shape = pen.choose((2, 3), (4, 3), (3, 3))
    return [
        made(pen, m, MODULES),
        f"{x} = {pen.literal(shape, 'float32', pen.choose('', ', requires_grad=True'), True)}",
        f"{o} = {any_optimizer(pen, f'{m}.parameters()')}",
    ]


def new_module(pen: Pen) -> str:
    m = pen.fresh()
    if pen.named(is_module) and pen.chance(0.5):
        return f"{m} = {COPY}({pen.pick(is_module)})"
    return made(pen, m, MODULES)


def inputs(pen: Pen) -> str:
    return pen.tensor(lambda x: x.dtype == torch.float32 and x.dim() > 1)


def accumulated(pen: Pen) -> str:
    """Gradients of several parts, then one step."""
    m, o, x = pen.pick(is_module), pen.pick(is_optimizer), inputs(pen)
    after = pen.choose(f"; {o}.step()", f"; {o}.step(); {o}.zero_grad()", "")
    return f"[({m}({x} * i).sin().sum() / 2).backward() for i in (1, 2)]{after}"


def of_module(pen: Pen) -> str:
    """A call in another state of the module, or a view of what it holds."""
    m, name = pen.pick(is_module), pen.fresh()
    held = [n for n, _ in pen.value(m).named_buffers()] + [
        n for n, _ in pen.value(m).named_parameters()
    ]
    options = [
        f"{m}.train(); {name} = {m}({inputs(pen)})",
        f"{m}.eval(); {name} = {m}({inputs(pen)})",
        f"{name} = [p.grad for p in {m}.parameters()]",
        f"{name} = T.nn.utils.parameters_to_vector({m}.parameters())",
        f"{name} = list({m}.buffers())",
        f"{m}.requires_grad_({pen.choose('True', 'False')})",
    ]
    if held:
        key = pen.choose(*held)
        options += [f"{name} = {m}.state_dict()['{key}']"] * 2
        options.append(f"{name} = {m}.state_dict(keep_vars=True)['{key}']")
    return str(pen.choose(*options))


def of_state(pen: Pen) -> str:
    """States given and taken back, changed on the way."""
    if pen.named(is_optimizer) and pen.chance(0.4):
        o = pen.pick(is_optimizer)
        return f"{o}.load_state_dict({COPY}({o}.state_dict()))"
    m = pen.pick(is_module)
    others = [n for n in pen.named(is_module) if n != m]
    source = pen.choose(m, *others)
    vector = pen.fresh()
    states = "{k: v * 2 if v.is_floating_point() else v for k, v in " + source
    return str(
        pen.choose(
            f"{m}.load_state_dict({source}.state_dict())",
            f"{m}.load_state_dict({COPY}({source}.state_dict()))",
            f"{m}.load_state_dict({states}.state_dict().items()}})",
            f"{m}.load_state_dict({states}.state_dict().items()}}, assign=True)",
            f"{vector} = T.nn.utils.parameters_to_vector({source}.parameters()).detach() * 2; "
            f"T.nn.utils.vector_to_parameters({vector}, {m}.parameters())",
        )
    )


def of_groups(pen: Pen) -> str:
    o = pen.pick(is_optimizer)
    group = f"{o}.param_groups[{pen.choose(0, -1)}]"
    options = [
        f"{group}['lr'] *= 0.5",
        f"{group}['weight_decay'] = 0.25",
        f"[g.update(lr=0.125) for g in {o}.param_groups]",
        f"{o}.param_groups.reverse()",
        f"{o}.zero_grad(set_to_none={pen.choose('True', 'False')})",
        f"{o}.state.clear()",
    ]
    leaves = pen.named(lambda x: isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad)
    if leaves:
        options.append(f"{o}.add_param_group({{'params': [{pen.choose(*leaves)}], 'lr': 0.25}})")
    if pen.named(is_module):
        options.append(
            f"{pen.fresh()} = {any_optimizer(pen, pen.pick(is_module) + '.parameters()')}"
        )
    return str(pen.choose(*options))


def clipped(pen: Pen) -> str:
    m, name = pen.pick(has_gradients), pen.fresh()
    there = f"[p.grad for p in {m}.parameters() if p.grad is not None]"
    kind = pen.choose("1.0", "0.25, 1.0", "0.5, float('inf')", "2.0, foreach=False")
    return str(
        pen.choose(
            f"{name} = T.nn.utils.clip_grad_norm_({m}.parameters(), {kind})",
            f"T.nn.utils.clip_grad_value_({m}.parameters(), 0.5)",
            f"{name} = T.nn.utils.get_total_norm({there})",
            f"[p.grad.mul_(0.5) for p in {m}.parameters() if p.grad is not None]",
            f"[setattr(p, 'grad', None) for p in {m}.parameters()]",
        )
    )


def has_gradients(x: object) -> bool:
    return isinstance(x, torch.nn.Module) and all(p.grad is not None for p in x.parameters())


def averaged(pen: Pen) -> str:
    """Parameters moved towards others, one by one or together."""
    m = pen.pick(is_module)
    n = pen.choose(*pen.named(is_module))
    both = f"zip({m}.parameters(), {n}.parameters())"
    lists = f"list({m}.parameters()), [p.detach() * 1 for p in {n}.parameters()]"
    return "with T.no_grad(): " + str(
        pen.choose(
            f"[p.mul_(0.5).add_(q, alpha=0.5) for p, q in {both}]",
            f"[p.lerp_(q, 0.25) for p, q in {both}]",
            f"[p.copy_(q) for p, q in {both}]",
            f"[p.sub_(p.grad * 0.5) for p in {m}.parameters() if p.grad is not None]",
            f"T._foreach_add_({lists}, alpha=0.5)",
            f"T._foreach_mul_(list({m}.parameters()), 0.5)",
            f"[b.add_(1) for b in {m}.buffers()]",
        )
    )


def replaced(pen: Pen) -> str:
    """A parameter in the place of another: tied, of a tensor, or a plain one."""
    m = pen.pick(is_module)
    own = pen.value(m)
    if not isinstance(getattr(own, "weight", None), torch.nn.Parameter):
        raise Stuck
    fitting = [
        n
        for n in pen.named(is_module)
        if getattr(getattr(pen.value(n), "weight", None), "shape", None) == own.weight.shape
    ]
    tensors = pen.named(
        lambda x: (
            isinstance(x, torch.Tensor) and x.shape == own.weight.shape and x.dtype == torch.float32
        )
    )
    options = [f"{m}.weight = {n}.weight" for n in fitting]
    options += [f"{m}.weight = T.nn.Parameter({x})" for x in tensors]
    options += [f"{m}.weight.data = {x}.detach()" for x in tensors]
    return str(pen.choose(*options))


def cast_automatically(pen: Pen) -> str:
    x, name = inputs(pen), pen.fresh()
    functions = ["{} @ {}.mT", "{} * 2", "{}.sum(0)", "{}.softmax(-1)", "{}.exp()"]
    functions += [
        "F.linear({}, {})",
        "T.cat([{}, {}])",
        "F.mse_loss({}, {} * 2)",
        "T.outer({}[0], {}[0])",
    ]
    functions += ["({} @ {}.mT).sum()", "({} @ {}.mT).log_softmax(-1)", "T.addmm({}, {}, T.eye(3))"]
    value = pen.choose(*functions)
    value = value.format(*[x] * value.count("{}"))
    if pen.named(is_module) and pen.chance(0.5):
        value = f"{pen.pick(is_module)}({x})"
    options = pen.choose("", "", ", enabled=False")
    return f"with T.autocast('cpu', dtype=T.bfloat16{options}): {name} = {value}"


def of_complex(pen: Pen) -> str:
    name = pen.fresh()
    found = pen.named(lambda x: isinstance(x, torch.Tensor) and x.is_complex())
    if not found or pen.chance(0.2):
        shape = pen.choose((3,), (2, 3), (3, 3))
        return f"{name} = {pen.literal(shape, 'complex64', pen.choose('', ', requires_grad=True'))}"
    z = pen.choose(*found)
    real = pen.choose(f"{z}.real", f"{z}.imag", f"{z}.abs()", f"T.view_as_real({z})")
    writes = (f"{z}.detach().real.mul_(2)", f"{z}.detach().imag.zero_()", f"{z}.detach().mul_(1j)")
    backward = f"({z} * {z}.conj()).real.sum().backward()"
    return str(
        pen.choose(
            f"{name} = {real}",
            f"{name} = {z} * {z}.conj()",
            f"{name} = {z}.conj()",
            f"{name} = {z} * (1 + 2j)",
            f"{name} = {z}.mean(0)",
            f"{name} = T.complex({z}.imag, {z}.real)",
            f"{name} = {z}.exp()",
            f"{name} = {z}.mH if {z}.dim() > 1 else {z}.conj()",
            f"{name} = {z}.resolve_conj()",
            *writes,
            backward if differentiable(pen.value(z)) else f"{name} = {z}.sum()",
        )
    )


def other_data(pen: Pen) -> str:
    """Values of another dtype or of another tensor in the place of a tensor's own."""
    x = pen.tensor(lambda x: x.is_floating_point())
    y = pen.tensor(lambda t: t.dtype == pen.value(x).dtype)
    m = pen.pick(is_module) if pen.named(is_module) else None
    options = [
        f"{x}.data = {x}.data.double()",
        f"{x}.data = {y}.detach()",
        f"{x}.data = {y}.data[:1]",
    ]
    options += [f"{x}.data.clamp_(-1, 1)", f"{x}.set_({y}.detach())", f"{x}.grad = None"]
    if m is not None:
        options += [f"{m}.double()", f"{m}.float()", f"{m}.to(T.bfloat16)", f"{m}.half().float()"]
    return str(pen.choose(*options))


def in_a_loop(pen: Pen) -> str:
    """Row by row, as programs that are not vectorised do it."""
    x, name = pen.tensor(lambda x: x.dim() > 0), pen.fresh()
    return str(
        pen.choose(
            f"{name} = T.stack([r * i for i, r in enumerate({x})])",
            f"[r.add_(1) for r in {x}.detach()]",
            f"{name} = [r for r in {x}]",
            f"{name} = sum(r for r in {x})",
            f"{name} = T.zeros_like({x}); [{name}[i].copy_(r) for i, r in enumerate({x})]",
            f"{name} = [float(v) for v in {x}.detach().flatten().float()]",
            f"{name} = {x}.clone(); [{name}.__setitem__(i, {x}[-i - 1]) for i in range(len({x}))]",
        )
    )


def transformed(pen: Pen) -> str:
    x, name = inputs(pen), pen.fresh()
    options = [
        f"{name} = T.func.vmap(lambda r: r.cumsum(0) * 2)({x})",
        f"{name} = T.func.grad(lambda t: (t.sin() * t).sum())({x})",
        f"{name} = T.func.jvp(lambda t: t.sin() * t, ({x}.detach(),), ({x}.detach(),))",
        f"{name} = T.func.vmap(T.func.grad(lambda r: (r * r).sum()))({x})",
        f"{name} = T.func.jacrev(lambda t: t.sum(0))({x})",
        f"{name} = T.utils.checkpoint.checkpoint(lambda t: t.sin() * t, {x}, use_reentrant=False)",
    ]
    if pen.named(is_module):
        m = pen.pick(is_module)
        state = f"{{k: v.detach() * 2 for k, v in {m}.state_dict().items()}}"
        options += [f"{name} = T.func.functional_call({m}, {state}, ({x},))"] * 2
    return str(pen.choose(*options))
