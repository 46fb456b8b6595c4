"""Views that one function gives together are found again: they are what the first ones were."""

import pytest

import livegrad as lg
from livegrad.graph import views

WAYS = [
    ("chunk", lambda x: x.chunk(3, 1)),
    ("split", lambda x: x.split(4, 1)),
    ("unbind", lambda x: x.unbind(1)),
    ("chunk of rows", lambda x: x.chunk(2)),
]


@pytest.fixture(params=WAYS, ids=[name for name, _ in WAYS])
def cut(request):
    views._TOGETHER.clear()
    return request.param[1]


def made():
    x = lg.arange(20.0).reshape(2, 10).clone().requires_grad_()
    return x, x * 1.0


def described(parts):
    return [
        (p.tolist(), tuple(p.shape), p.stride(), p.storage_offset(), p.requires_grad, p._is_view())
        for p in parts
    ]


def test_the_same_parts_with_the_same_gradients(cut):
    found = []
    for _ in range(3):
        x, y = made()
        parts = cut(y)
        loss = sum([(i + 1) * (p * p).sum() for i, p in enumerate(parts)])
        loss.backward()
        names = [type(p.grad_fn).__name__ for p in parts]
        found.append((described(parts), names, x.grad.tolist()))
        assert all(p._base is y for p in parts)
    assert views._TOGETHER
    assert found[0] == found[1] == found[2]


def test_parts_may_not_be_written_where_gradients_flow(cut):
    messages = []
    for _ in range(2):
        _, y = made()
        with pytest.raises(RuntimeError) as error:
            cut(y)[0].add_(1)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_parts_show_what_is_written_to_the_whole(cut):
    for _ in range(2):
        x = lg.arange(20.0).reshape(2, 10).clone()
        parts = cut(x)
        x += 1
        after = cut(x)
        assert [p.tolist() for p in parts] == [p.tolist() for p in after]
        with lg.no_grad():
            quiet = cut(x)
            quiet[0].zero_()
        assert x.flatten()[0].item() == 0.0
        assert after[0].flatten()[0].item() == 0.0


def test_other_states_and_tensors_are_not_taken_for_known_ones(cut):
    _, y = made()
    expected = described(cut(y))
    with lg.no_grad():
        assert all(p._share.made == "no_grad" or not p.requires_grad for p in cut(y))
    with lg.inference_mode():
        assert all(p.is_inference() for p in cut(lg.ones(2, 10)))
    turned = lg.arange(20.0).reshape(10, 2).t()
    assert [p.tolist() for p in cut(turned)] == [p.tolist() for p in cut(turned.contiguous())]
    whole = lg.cat([y, y])
    part = whole[:2]
    for _ in range(2):
        nested = cut(part)
        assert [d[0] for d in described(nested)] == [d[0] for d in expected]
        assert all(p._base is whole for p in nested)
    assert described(cut(y)) == expected


def test_a_truth_value_is_no_number_of_parts():
    x = lg.arange(4.0)
    x.chunk(1, 0)  # and is not taken for one that was given before
    with pytest.raises(TypeError, match="must be int, not bool"):
        x.chunk(True, 0)
    with pytest.raises(TypeError, match="must be int, not bool"):
        x.chunk(False)
    with pytest.raises(IndexError):
        x.chunk(1, 1)


def test_parts_without_a_graph_are_found_again(cut):
    """In no_grad, and of what is itself a view: with its path, and what is written."""
    found = []
    for _ in range(3):
        whole = lg.arange(40.0)
        with lg.no_grad():
            parts = cut(whole[10:30].view(2, 10))
            known = len(views._TOGETHER)
            parts[-1].add_(100)
        assert all(p._base is whole and p._share.made == "no_grad" for p in parts)
        found.append((described(parts), whole.tolist(), parts[0]._version, known))
        whole.zero_()
        assert not any(p.any() for p in parts)
    assert found[0] == found[1] == found[2]
    assert found[0][-1]
    assert all(p._share.made != "no_grad" for p in cut(lg.arange(20.0).view(2, 10)))
