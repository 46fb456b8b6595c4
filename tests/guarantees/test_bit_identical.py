"""Same program, same bits: any number of threads, any process, any cut, any vector unit."""

from __future__ import annotations

import json
import platform

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.graph.state import LOCAL, flush

LARGE = 1 << 20


def normal(*shape, dtype=np.float32, seed=0):
    return lg.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def bits(*tensors):
    return [x.detach().numpy().tobytes() for x in tensors]


@pytest.fixture
def with_threads():
    """Runs a function with each number of threads; the results."""
    before = lg.get_num_threads()

    def run(function, counts=(1, 2, 3)):
        results = []
        for count in counts:
            lg.set_num_threads(count)
            results.append(function())
        return results

    yield run
    lg.set_num_threads(before)


def training():
    lg.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(96, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 50)
    )
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    x, t = normal(512, 96), lg.tensor(np.arange(512) % 50)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
    return bits(loss, *model.parameters(), *[p.grad for p in model.parameters()])


def gradients(function, *shapes):
    inputs = [normal(*s, seed=i).requires_grad_() for i, s in enumerate(shapes)]
    y = function(*inputs)
    y.backward(normal(*y.shape, seed=9))
    return bits(y, *[x.grad for x in inputs])


PROGRAMS = {
    "elementwise": lambda: bits((normal(LARGE) * 3 + 1).exp().tanh()),
    "sum": lambda: bits(normal(LARGE).sum()),
    "float64 sum": lambda: bits(normal(LARGE, dtype=np.float64).sum()),
    "odd sum": lambda: bits(normal(LARGE + 12345).sum()),
    "rows": lambda: bits(normal(2048, 513).sum(1), normal(2048, 513).amax(1)),
    "few long rows": lambda: bits(normal(3, 300_001).sum(1), normal(3, 300_001).mean(1)),
    "columns": lambda: bits(normal(2049, 513).sum(0), normal(100_003, 3).sum(0)),
    "middle": lambda: bits(normal(65, 129, 67).sum(1)),
    "var": lambda: bits(normal(1025, 513).var(1), normal(1025, 513).std()),
    "softmax": lambda: gradients(lambda x: F.softmax(x, -1), (1025, 513)),
    "softmax of columns": lambda: gradients(lambda x: F.softmax(x, 0), (1025, 513)),
    "layer_norm": lambda: gradients(
        lambda x, w, b: F.layer_norm(x, (257,), w, b), (2049, 257), (257,), (257,)
    ),
    "cross_entropy": lambda: gradients(
        lambda x: F.cross_entropy(x, lg.tensor(np.arange(4097) % 129)), (4097, 129)
    ),
    "bias gradient": lambda: gradients(lambda x, b: (x + b).tanh(), (4097, 129), (129,)),
    "matmul": lambda: bits(normal(513, 257) @ normal(257, 385, seed=1)),
    "batched matmul": lambda: bits(normal(65, 33, 17) @ normal(65, 17, 29, seed=1)),
    "convolution": lambda: gradients(
        lambda x, w: F.conv2d(x, w, padding=1), (32, 20, 12, 13), (30, 20, 3, 3)
    ),
    "convolution of few images": lambda: gradients(
        lambda x, w: F.conv2d(x, w, stride=2), (5, 7, 32, 33), (30, 7, 3, 3)
    ),
    "embedding": lambda: gradients(
        lambda w: F.embedding(lg.tensor(np.arange(50_000) * 7 % 1000), w), (1000, 24)
    ),
    "random": lambda: (lg.manual_seed(5), bits(lg.randn(LARGE), lg.rand(777_777)))[1],
    "training": training,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads(with_threads, name):
    one, *more = with_threads(PROGRAMS[name])
    assert len(one) > 0
    assert all(result == one for result in more)


@pytest.mark.parametrize("name", PROGRAMS)
def test_again(name):
    assert PROGRAMS[name]() == PROGRAMS[name]()


# ----------------------------------------------------------------------------- cut differently


def random_expression(rng, dtype):
    """A random program: the values after each op, to be cut anywhere."""
    values = [normal(*s, dtype=dtype, seed=i) for i, s in enumerate([(7, 33), (33,), (7, 1)])]
    steps = []
    unary = [
        "exp",
        "tanh",
        "sigmoid",
        "abs",
        "neg",
        "sin",
        "log1p_abs",
        "softmax",
        "norm",
        "sqrt_abs",
    ]
    binary = ["add", "mul", "sub", "div", "maximum"]
    for _ in range(12):
        if rng.random() < 0.6:
            steps.append((str(rng.choice(unary)), int(rng.integers(0, len(values) + len(steps)))))
        else:
            pair = rng.integers(0, len(values) + len(steps), 2)
            steps.append((str(rng.choice(binary)), int(pair[0]), int(pair[1])))
    return values, steps


APPLY = {
    "exp": lambda x: (x.clamp(-5, 5)).exp(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "abs": lambda x: x.abs(),
    "neg": lambda x: -x,
    "sin": lambda x: x.sin(),
    "log1p_abs": lambda x: x.abs().log1p(),
    "sqrt_abs": lambda x: x.abs().sqrt(),
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: x - x.mean(-1, keepdim=True),
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "sub": lambda x, y: x - y,
    "div": lambda x, y: x / (y.abs() + 1),
    "maximum": lambda x, y: x.maximum(y),
}


def run_cut(leaves, steps, cut):
    """Runs the program, flushing after the steps in `cut`; values, and gradients of leaves."""
    leaves = [x.clone().requires_grad_() for x in leaves]
    values = list(leaves)
    for number, (name, *operands) in enumerate(steps):
        values.append(APPLY[name](*[values[i] for i in operands]))
        if number in cut:
            flush("a cut", values[-1]._node)
    total = values[-1].sum() + values[-2].sum() + values[-3].sum()
    if len(steps) in cut:
        flush("a cut", total._node)
    if total.requires_grad:
        total.backward()
    kept = [x.grad for x in leaves if x.grad is not None]
    return bits(total, *values[3:], *kept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(12))
def test_cut_differently(seed, dtype):
    rng = np.random.default_rng(seed)
    leaves, steps = random_expression(rng, dtype)
    whole = run_cut(leaves, steps, set())
    every = set(range(len(steps) + 1))
    assert run_cut(leaves, steps, every) == whole
    for _ in range(3):
        cut = {i for i in every if rng.random() < 0.4}
        assert run_cut(leaves, steps, cut) == whole


@pytest.mark.parametrize("dtype", [lg.float32, lg.float64, lg.bfloat16])
@pytest.mark.parametrize("length", [1, 8, 9, 10, 128, 143, 144, 145, 256, 257, 4001])
def test_folds_cut_differently(length, dtype):
    """Folds of a block, of several, and of part of one, fused with what is folded or not."""

    def run(cut):
        def maybe_cut(x):
            if cut:
                flush("a cut", x._node)
            return x

        x = normal(length, 19).to(dtype)
        rows = maybe_cut(maybe_cut(x * 3 + 1).sum(1))  # folded again by the kernel's tail
        columns = maybe_cut(x * 3 + 1).sum(0)
        variance = maybe_cut(maybe_cut(x * 3).var(0) + 1)
        along = maybe_cut(maybe_cut(x.t() * 3).sum(1))
        folded = (rows.sum(), rows.mean(), columns, along, variance, variance.sum(), along.sum())
        return bits(*[y.double() for y in folded])

    assert run(cut=True) == run(cut=False)


def test_position_in_a_larger_array_does_not_matter():
    # Masked tails compute as full vectors do.
    x = normal(1000)
    whole = ((x * 1.7).exp().tanh() / 3).numpy()
    for n in (1, 2, 3, 7, 15, 16, 17, 31, 33, 100):
        part = ((x[n : 2 * n] * 1.7).exp().tanh() / 3).numpy()
        assert part.tobytes() == whole[n : 2 * n].tobytes()


def test_row_does_not_depend_on_the_number_of_rows():
    x = normal(64, 301)
    whole = F.softmax(x, -1).numpy()
    sums = x.sum(-1).numpy()
    for n in (1, 2, 5, 63):
        assert F.softmax(x[:n], -1).numpy().tobytes() == whole[:n].tobytes()
        assert x[:n].sum(-1).numpy().tobytes() == sums[:n].tobytes()


# ------------------------------------------------------------------------------------ processes

PROGRAM = """
import hashlib, json, numpy as np, livegrad as lg, livegrad.nn.functional as F
from livegrad.runtime.cpu import jit
rng = np.random.default_rng(0)
def data(*shape, dtype=np.float32):
    return lg.tensor(rng.normal(size=shape).astype(dtype))
digest = lambda x: hashlib.sha256(x.detach().numpy().tobytes()).hexdigest()[:16]
out = {}
for dtype in (np.float32, np.float64):
    x, y = data(70, 133, dtype=dtype), data(133, dtype=dtype)
    for name, value in {
        "add": x + y, "mul": x * y, "div": x / (y * y + 1), "exp": x.exp(), "log": x.abs().log(),
        "tanh": x.tanh(), "erf": x.erf(), "gelu": F.gelu(x), "sin": x.sin(), "pow": x.abs() ** 1.7,
        "softmax": x.softmax(-1), "log_softmax": x.log_softmax(-1),
        "sum": x.sum(), "rows": x.sum(1),
        "columns": x.sum(0), "max": x.amax(1), "layer_norm": F.layer_norm(x, (133,)),
        "half": x.half() * 3, "bfloat16": x.bfloat16() + 1, "int": (x * 100).int() // 7,
    }.items():
        wide = value.float() if value.dtype is lg.bfloat16 else value
        out[f"{name} {np.dtype(dtype)}"] = digest(wide)
w = data(133, 9).requires_grad_()
F.cross_entropy(x.float() @ w, lg.arange(70) % 9).backward()
lg.manual_seed(0)
out["randn"] = digest(lg.randn(1000))
if "products" in MODE:
    out["gradient"] = digest(w.grad)
print(json.dumps([out, jit.host_target().cpu, jit.host_target().features]))
"""


def other_process(python, mode="", **env):
    return json.loads(python(f"MODE = {mode!r}\n" + PROGRAM, **env).stdout)


@pytest.mark.slow
def test_run_to_run(python):
    first, second = (other_process(python, "products")[0] for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_run_to_run_without_a_cache(python):
    a = other_process(python, "products")[0]
    b = other_process(python, "products", LIVEGRAD_CACHE_DIR="off")[0]
    assert a == b


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86 features")
@pytest.mark.parametrize(
    ("env", "lacks"),
    [
        pytest.param(
            {"LIVEGRAD_CPU_FEATURES": ",".join(
                f"-avx512{x}" for x in ("f", "vl", "bw", "dq", "cd", "fp16", "bf16", "vnni",
                                        "bitalg", "vbmi", "vbmi2", "ifma", "vpopcntdq")
            )},
            "+avx512f",
            id="avx2",
        ),
        pytest.param({"LIVEGRAD_CPU": "x86-64"}, "+avx", id="sse2"),
        pytest.param({"LIVEGRAD_CPU": "x86-64-v3"}, "+avx512f", id="x86-64-v3"),
    ],
)  # fmt: skip
def test_narrower_vector_units(python, env, lacks):
    wide, _, _ = other_process(python)
    narrow, cpu, features = other_process(python, **env)
    assert cpu == env.get("LIVEGRAD_CPU", cpu)
    if "LIVEGRAD_CPU" not in env:
        last = [f for f in features.split(",") if f[1:] == lacks[1:]][-1]
        assert last[0] == "-"
    different = [name for name in wide if narrow[name] != wide[name]]
    assert different == []


def test_state_is_left_clean():
    assert LOCAL.state.nodes == []


# ------------------------------------------------------------------------ threads of BLAS's own

NUMPY_STEPS = """
import hashlib
import numpy as np
import livegrad as lg
from livegrad import nn

rng = np.random.default_rng(0)
lg.manual_seed(0)

def show(name, *results):
    values = [np.ascontiguousarray(lg.view_as_real(x.detach()) if x.is_complex() else x.detach())
              for x in results]
    print(name, hashlib.sha256(b"".join([v.tobytes() for v in values])).hexdigest())

def normal(*shape):
    return lg.tensor(rng.normal(size=shape).astype(np.float32), requires_grad=True)

# The first call of SciPy's routines loads its BLAS, which has threads of its own.
a = normal(400, 400)
for name in ("lu", "inv", "cholesky", "qr", "eigvalsh", "svdvals", "matrix_exp", "slogdet"):
    a.grad = None
    square = a @ a.T + 400 * lg.eye(400)
    found = getattr(lg.linalg, name)(square / 800 if name == "matrix_exp" else square)
    found = found if isinstance(found, tuple) else (found,)
    sum([x.sin().sum() for x in found]).backward()
    show(name, *found, a.grad)
for kind in (nn.RNN, nn.LSTM, nn.GRU):
    layer, x = kind(31, 100), normal(4, 300, 31)
    y = layer(x)[0]
    (y * y).sum().backward()
    show(kind.__name__, y, x.grad, *[p.grad for p in layer.parameters()])
for layer in (nn.Conv2d(16, 32, 3), nn.ConvTranspose2d(16, 32, 3, stride=2)):
    x = normal(8, 16, 20, 20)
    y = layer(x)
    y.sin().sum().backward()
    show(type(layer).__name__, y, x.grad, layer.weight.grad)
p, q = normal(8, 50, 60), normal(8, 60, 70)
y = lg.einsum("bij,bjk->ik", p, q)
y.sin().sum().backward()
show("einsum", y, p.grad, q.grad)
z = lg.complex(normal(300, 300), normal(300, 300))
show("complex product", z @ z)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", "reference"])
def test_the_bits_do_not_depend_on_the_threads_of_blas(python, mode):
    settings = [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "4"}]
    settings += [{"OPENBLAS_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "3"}]
    if mode:
        settings = settings[:2]
    first, *others = [python(NUMPY_STEPS, LIVEGRAD_MODE=mode, **s).stdout for s in settings]
    assert len(first.splitlines()) == 15
    for other in others:
        assert other == first
