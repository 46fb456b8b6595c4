"""SummaryWriter: its files, taken apart by a reader of our own, and by TensorBoard if present."""

from __future__ import annotations

import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.utils.tensorboard import SummaryWriter
from livegrad.utils.tensorboard.records import crc32c

# ------------------------------------------------- an independent reader: bit by bit, no tables


def slow_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = slow_crc(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def records(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (first,) = struct.unpack_from("<I", data, at + 8)
        assert first == masked(data[at : at + 8])
        record = data[at + 12 : at + 12 + length]
        (second,) = struct.unpack_from("<I", data, at + 12 + length)
        assert second == masked(record)
        found.append(record)
        at += 16 + length
    assert at == len(data)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list]:
    """The fields of a message by number; what they are is known to who asks."""
    found: dict[int, list] = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            size, code = {1: (8, "<d"), 5: (4, "<f")}[kind]
            value, at = struct.unpack_from(code, data, at)[0], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


class Event:
    def __init__(self, record: bytes) -> None:
        self.fields = fields(record)
        self.time = self.fields[1][0]
        self.step = self.fields.get(2, [None])[0]
        summary = fields(self.fields[5][0]) if 5 in self.fields else {}
        self.values = [fields(value) for value in summary.get(1, [])]
        self.tags = [value[1][0].decode() for value in self.values]


def event_file(folder: Path) -> Path:
    (path,) = [p for p in folder.iterdir() if p.name.startswith("events.out.tfevents.")]
    return path


def events(folder: Path) -> list[Event]:
    return [Event(record) for record in records(event_file(folder))]


def the_value(folder: Path, tag: str) -> dict[int, list]:
    (value,) = [
        v for e in events(folder) for v, t in zip(e.values, e.tags, strict=True) if t == tag
    ]
    return value


def plugin(value: dict[int, list]) -> tuple[str, bytes]:
    data = fields(fields(value[9][0])[1][0])
    return data[1][0].decode(), data[2][0]


def decoded_png(data: bytes) -> np.ndarray:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        content = data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(name + content)
        chunks[name] = content
        at += 12 + length
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colour]
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8)
    rows = rows.reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()  # no filters
    return rows[:, 1:].reshape(height, width, channels)


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path) as made:
        yield made


# --------------------------------------------------------------------------------------- the tests


def test_checksums():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C
    random = np.random.default_rng(0)
    for size in (0, 1, 4095, 4096, 4097, 20_001):
        data = random.integers(0, 256, size, np.uint8).tobytes()
        assert crc32c(data) == slow_crc(data)


def test_the_file_begins_with_its_version(tmp_path):
    before = time.time()
    SummaryWriter(tmp_path, filename_suffix=".mine").close()
    (first,) = events(tmp_path)
    assert first.fields[3] == [b"brain.Event:2"]
    assert before <= first.time <= time.time()
    assert event_file(tmp_path).name.endswith(".mine")


def test_scalars(writer, tmp_path):
    writer.add_scalar("loss", lg.tensor(2.0) / 3, 7, walltime=123.5)
    writer.add_scalar("rate", np.float64(0.1))
    writer.add_scalar("big", 1e60, 1 << 40)
    writer.add_scalar("wide", 0.1, 1, double_precision=True)
    writer.add_scalar("new", 0.1, 1, new_style=True)
    writer.flush()
    found = {e.tags[0]: e for e in events(tmp_path)[1:]}
    loss = found["loss"]
    assert (loss.step, loss.time, loss.values[0][2]) == (7, 123.5, [np.float32(2 / 3)])
    assert found["rate"].step is None
    assert found["big"].step == 1 << 40
    assert found["big"].values[0][2] == [np.inf]
    assert fields(found["wide"].values[0][8][0])[6] == [0.1]
    assert plugin(found["wide"].values[0])[0] == "scalars"
    assert fields(found["new"].values[0][8][0])[5] == [np.float32(0.1)]
    with pytest.raises(ValueError, match="one number"):
        writer.add_scalar("many", lg.ones(3) * 2)


def test_logging_does_not_cut_a_step_in_two(writer, tmp_path, counted):
    model = nn.Linear(4, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = lg.randn(8, 4), lg.randint(0, 2, (8,))
    losses = []
    for step in range(3):
        with counted() as c:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            writer.add_scalar("loss", loss, step)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert c.flushes == 1
    writer.close()
    got = [(e.step, e.values[0][2][0]) for e in events(tmp_path)[1:]]
    assert got == list(enumerate(losses))


def test_several_scalars_in_one_chart(writer, tmp_path):
    writer.add_scalars("a/b", {"x": 1.0, "y": 2.0}, 3)
    writer.close()
    for name, value in (("x", 1.0), ("y", 2.0)):
        assert the_value(tmp_path / f"a_b_{name}", "a/b")[2] == [value]


@pytest.mark.parametrize("bins", ["tensorflow", "auto", 10])
def test_histograms(writer, tmp_path, bins):
    values = np.concatenate([np.random.default_rng(0).standard_normal(500), [0.0, 1e30, -7.0]])
    writer.add_histogram("h", lg.tensor(values), 1, bins=bins)
    writer.flush()
    found = fields(the_value(tmp_path, "h")[5][0])
    assert [found[i][0] for i in range(1, 6)] == pytest.approx(
        [-7.0, 1e30, 503, values.sum(), (values**2).sum()]
    )
    limits, counts = [np.frombuffer(found[i][0]) for i in (6, 7)]
    assert len(limits) == len(counts)
    assert counts.sum() == 503
    assert np.all(np.diff(limits) > 0)
    assert counts[0] == 0
    for place in range(1, len(counts)):  # each value is in the bucket that its limits say
        inside = (values >= limits[place - 1]) & (values < limits[place])
        if place == len(counts) - 1:
            inside |= values == limits[place]
        assert counts[place] == inside.sum()


def test_histograms_with_few_bins_or_values(writer, tmp_path):
    writer.add_histogram("few", np.arange(100), bins=50, max_bins=5)
    writer.add_histogram("none", np.zeros(0))
    writer.add_histogram_raw("raw", 0, 1, 2, 1.0, 1.0, [0.5, 1.0], [1, 1])
    with pytest.warns(UserWarning, match="1 of the 3 values of 'nan'"):
        writer.add_histogram("nan", np.array([1.0, np.nan, 2.0]))
    with pytest.raises(ValueError, match="as many"):
        writer.add_histogram_raw("raw", 0, 1, 2, 1.0, 1.0, [0.5], [1, 1])
    writer.flush()
    counts = np.frombuffer(fields(the_value(tmp_path, "few")[5][0])[7][0])
    assert counts.tolist() == [0, 20, 20, 20, 20, 20]
    assert fields(the_value(tmp_path, "nan")[5][0])[3] == [2]
    assert fields(the_value(tmp_path, "none")[5][0])[3] == [0]


def test_images(writer, tmp_path):
    random = np.random.default_rng(0)
    colours = random.integers(0, 256, (3, 5, 7), np.uint8)
    writer.add_image("colours", colours)
    writer.add_image("floats", lg.tensor([[0.0, 0.5], [1.0, 2.0]]), dataformats="HW")
    several = random.integers(0, 256, (10, 1, 2, 3), np.uint8)
    writer.add_images("grid", several)
    writer.flush()
    image = fields(the_value(tmp_path, "colours")[4][0])
    assert [image[i] for i in (1, 2, 3)] == [[5], [7], [3]]
    np.testing.assert_array_equal(decoded_png(image[4][0]), colours.transpose(1, 2, 0))
    floats = decoded_png(fields(the_value(tmp_path, "floats")[4][0])[4][0])
    assert floats[..., 0].tolist() == [[0, 127], [255, 255]]
    grid = decoded_png(fields(the_value(tmp_path, "grid")[4][0])[4][0])[..., 0]
    assert grid.shape == (4, 24)
    np.testing.assert_array_equal(grid[2:, 3:6], several[9, 0])
    with pytest.raises(ValueError, match="one letter"):
        writer.add_image("x", colours, dataformats="HW")
    with pytest.raises(ValueError, match="5 channels"):
        writer.add_image("x", np.zeros((5, 2, 2)))


def test_text_and_tensors(writer, tmp_path):
    writer.add_text("note", "**grüße**", 2)
    writer.add_tensor("t", lg.arange(6).reshape(2, 3))
    writer.flush()
    value = the_value(tmp_path, "note/text_summary")
    assert plugin(value)[0] == "text"
    inner = fields(value[8][0])
    assert (inner[1], inner[8]) == ([7], ["**grüße**".encode()])
    tensor = fields(the_value(tmp_path, "t")[8][0])
    assert [fields(d)[1] for d in fields(tensor[2][0])[2]] == [[2], [3]]
    assert np.frombuffer(tensor[4][0], "<f4").tolist() == [0, 1, 2, 3, 4, 5]


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.drop = nn.Dropout(0.5)

    def forward(self, x, y):
        x = self.inner(self.inner(x))
        return self.drop(x) + y


def test_graphs(writer, tmp_path, counted):
    model = Twice()
    with counted() as c:
        writer.add_graph(model, (lg.zeros(2, 4), lg.zeros(4)))
    assert c.flushes == 0
    assert model.drop.training
    writer.flush()
    graph = fields(events(tmp_path)[1].fields[4][0])
    nodes = {}
    for message in graph[1]:
        node = fields(message)
        nodes[node[1][0].decode()] = (node[2][0].decode(), [x.decode() for x in node.get(3, [])])
    for _, inputs in nodes.values():
        assert set(inputs) <= set(nodes)
    assert nodes["Twice/inner/0/linear"] == (
        "linear",
        ["input", "Twice/inner/0/weight", "Twice/inner/0/bias"],
    )
    # The second call has a scope of its own, and the same parameters.
    assert nodes["Twice/inner_1/0/linear"][1] == [
        "Twice/inner/1/relu",
        "Twice/inner/0/weight",
        "Twice/inner/0/bias",
    ]
    assert nodes["Twice/add"][1] == ["Twice/inner_1/1/relu", "input_1"]
    assert nodes["output"][1] == ["Twice/add"]
    shapes = {
        fields(a)[1][0]: fields(a)[2][0]
        for message in graph[1]
        if fields(message)[1] == [b"Twice/add"]
        for a in fields(message)[5]
    }
    dims = fields(fields(fields(shapes[b"_output_shapes"])[1][0])[7][0])[2]
    assert [fields(d)[1][0] for d in dims] == [2, 4]
    with pytest.raises(ValueError, match="input_to_model"):
        writer.add_graph(model)


def test_precision_recall_curves(writer, tmp_path):
    random = np.random.default_rng(0)
    labels, scores = random.integers(0, 2, 200), random.random(200)
    writer.add_pr_curve("pr", lg.tensor(labels), lg.tensor(scores), 1, num_thresholds=11)
    writer.flush()
    value = the_value(tmp_path, "pr")
    name, content = plugin(value)
    assert (name, fields(content)[2]) == ("pr_curves", [11])
    table = np.frombuffer(fields(value[8][0])[4][0], "<f4").reshape(6, 11)
    for i in range(11):
        said, yes = np.floor(scores * 10) >= i, labels == 1
        expected = [(said & yes), (said & ~yes), (~said & ~yes), (~said & yes)]
        assert table[:4, i].tolist() == [e.sum() for e in expected]
        assert table[5, i] == pytest.approx((said & yes).sum() / yes.sum())
    with pytest.raises(ValueError, match="as many"):
        writer.add_pr_curve("pr", labels, scores[1:])


def test_hyper_parameters(writer, tmp_path):
    params = {"lr": lg.tensor(0.25), "layers": 3, "name": "adam", "fast": True, "none": None}
    writer.add_hparams(params, {"accuracy": 0.5}, {"layers": [1, 3]}, run_name="one")
    found = events(tmp_path / "one")
    by_tag = {e.tags[0]: e.values[0] for e in found[1:]}
    assert by_tag["accuracy"][2] == [0.5]
    start = fields(fields(plugin(by_tag["_hparams_/session_start_info"])[1])[3][0])
    values = {fields(entry)[1][0].decode(): fields(fields(entry)[2][0]) for entry in start[1]}
    assert values == {
        "lr": {2: [0.25]}, "layers": {2: [3.0]}, "name": {3: [b"adam"]}, "fast": {4: [1]},
        "none": {3: [b"None"]},
    }  # fmt: skip
    experiment = fields(fields(plugin(by_tag["_hparams_/experiment"])[1])[2][0])
    kinds = {fields(info)[1][0].decode(): fields(info)[4] for info in experiment[4]}
    assert kinds == {"lr": [3], "layers": [3], "name": [1], "fast": [2], "none": [1]}
    assert fields(fields(experiment[5][0])[1][0])[2] == [b"accuracy"]
    end = fields(fields(plugin(by_tag["_hparams_/session_end_info"])[1])[4][0])
    assert end[1] == [1]
    with pytest.raises(ValueError, match="x is a list"):
        writer.add_hparams({"x": [1, 2]}, {})


def test_when_events_are_written(tmp_path):
    writer = SummaryWriter(tmp_path / "a", max_queue=3)
    for step in range(4):
        writer.add_scalar("x", step, step)
    assert len(events(tmp_path / "a")) == 4  # the version, and a full queue
    writer.flush()
    assert len(events(tmp_path / "a")) == 5
    writer.close()
    writer.add_scalar("x", 9, 9)  # opens another file
    writer.close()
    assert len(list((tmp_path / "a").iterdir())) == 2
    at_once = SummaryWriter(tmp_path / "b", flush_secs=0, purge_step=100)
    at_once.add_scalar("x", 1, 100)
    version, purge, scalar = events(tmp_path / "b")
    assert (purge.step, fields(purge.fields[7][0])[1]) == (100, [1])
    assert (scalar.step, version.step) == (100, None)
    at_once.close()


def test_default_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="-mine") as writer:
        pass
    assert writer.get_logdir().startswith("runs")
    assert writer.get_logdir().endswith("-mine")
    assert event_file(Path(writer.log_dir)).exists()


def test_figures(writer, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(2, 1), dpi=50)
    writer.add_figure("f", figure)
    writer.flush()
    assert decoded_png(fields(the_value(tmp_path, "f")[4][0])[4][0]).shape == (50, 100, 4)
    assert not plt.fignum_exists(figure.number)


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_it(writer, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer.add_scalar("loss", 0.5, 3)
    writer.add_histogram("h", np.arange(10.0))
    writer.add_image("i", np.zeros((1, 2, 3)))
    writer.add_text("t", "text")
    writer.add_graph(nn.Linear(2, 3), lg.zeros(1, 2))
    writer.flush()
    found = accumulator.EventAccumulator(str(tmp_path))
    found.Reload()
    tags = found.Tags()
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(3, 0.5)]
    assert sum(found.Histograms("h")[0].histogram_value.bucket) == 10
    assert found.Images("i")[0].width == 3
    assert tags["tensors"] == ["t/text_summary"]
    assert [node.name for node in found.Graph().node][-1] == "output"


# -------------------------------------------------------------------------------- embeddings


def unpng(data: bytes) -> np.ndarray:
    """The pixels of a PNG without filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    at = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[at - 4 : at])
    raw = zlib.decompress(data[at + 4 : at + 4 + length])
    rows = np.frombuffer(raw, np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_embedding(tmp_path: Path) -> None:
    points = lg.tensor([[0.1, 1.0], [2.0, -3.5], [4.0, 5.0]])
    pictures = lg.zeros(3, 3, 2, 4)
    for i in range(3):
        pictures[i] = (i + 1) / 4
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(points, ["a", "b", "c"], pictures, 3, "my/words")
        writer.add_embedding(points)
        writer.add_embedding(
            points.numpy(), [["x", 1], ["y", 2], ["é", 3]], tag="two", metadata_header=["n", "k"]
        )
    first = tmp_path / "00003" / "my%2fwords"
    text = (first / "tensors.tsv").read_text()
    assert text == "0.10000000149011612\t1.0\n2.0\t-3.5\n4.0\t5.0\n"
    assert (first / "metadata.tsv").read_text() == "a\nb\nc\n"
    labels = (tmp_path / "00000" / "two" / "metadata.tsv").read_text(encoding="utf-8")
    assert labels == "n\tk\nx\t1\ny\t2\né\t3\n"
    image = unpng((first / "sprite.png").read_bytes())
    assert image.shape == (8, 8, 3)  # two by two pictures of 2 by 4, made square
    assert (image[:2, :4, 0] == 63).all()
    assert (image[:2, 4:, 1] == 127).all()
    assert (image[2:4, :4, 2] == 191).all()
    assert not image[4:].any()
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert (
        config
        == """embeddings {
  tensor_name: "my/words:00003"
  metadata_path: "00003/my%2fwords/metadata.tsv"
  sprite {
    image_path: "00003/my%2fwords/sprite.png"
    single_image_dim: 4
    single_image_dim: 2
  }
  tensor_path: "00003/my%2fwords/tensors.tsv"
}
embeddings {
  tensor_name: "default:00000"
  tensor_path: "00000/default/tensors.tsv"
}
embeddings {
  tensor_name: "two:00000"
  metadata_path: "00000/two/metadata.tsv"
  tensor_path: "00000/two/tensors.tsv"
}
"""
    )


def test_embedding_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(AssertionError, match="#labels"):
            writer.add_embedding(lg.ones(3, 2), ["a"])
        with pytest.raises(AssertionError, match="#images"):
            writer.add_embedding(lg.ones(3, 2), label_img=lg.ones(2, 3, 4, 4), global_step=1)
        with pytest.raises(AssertionError, match="2D"):
            writer.add_embedding(lg.ones(3), global_step=2)
        with pytest.raises(AssertionError, match="header"):
            writer.add_embedding(
                lg.ones(1, 2), [["a", "b"]], global_step=3, metadata_header=["one"]
            )
        writer.add_embedding(lg.ones(3, 2), global_step=4)
        writer.add_embedding(lg.ones(3, 2), global_step=4)
        (tmp_path / "00005").mkdir()
        (tmp_path / "00005" / "default").write_text("")
        with pytest.raises(NotADirectoryError):
            writer.add_embedding(lg.ones(3, 2), global_step=5)
    assert "Embedding dir exists" in capsys.readouterr().out


def test_a_tag_in_the_projector_is_quoted(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(lg.ones(1, 2), tag='a"b\\é')
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "a\\"b\\\\\\303\\251:00000"' in config
