"""What to use instead of names of torch that livegrad does not have."""

from __future__ import annotations

# By the beginning of the name; the longest one counts.
INSTEAD = {
    "torch._C": "what is private to PyTorch's C++ is not there; use the public functions",
    "torch._dynamo": "torch.compile() is accepted and needs no settings",
    "torch._inductor": "torch.compile() is accepted and needs no settings",
    "torch.ao": "of quantisation there is what is in livegrad.compress",
    "torch.cuda": "livegrad runs on the CPU; ask torch.cuda.is_available() first",
    "torch.distributed": "one process for now, which uses all cores",
    "torch.distributed.pipelining": "one process for now: call the stages one after another",
    "torch.export": "the module itself runs compiled; save its state_dict()",
    "torch.fx": "not there yet; change the module itself, or use hooks",
    "torch.jit": "decorated code runs as it is; save the module's state_dict()",
    "torch.nn.quantized": "layers of int8 weights are in torch.ao.nn.quantized",
    "torch.onnx": "export is not there yet; save the state_dict()",
    "torch.package": "save the state_dict(), and ship the code as a Python package",
    "torch.quantization": "of quantisation there is what is in livegrad.compress",
    "torch.quantize": "there are no quantised tensors; livegrad.compress has quantised layers",
    "torch.Tensor.to_mkldnn": "a dense tensor is all that kernels want; leave it out",
    "torch.utils.cpp_extension": "write the operation in Python: torch.library.custom_op",
    "torch.xpu": "livegrad runs on the CPU; ask torch.xpu.is_available() first",
    "torch.symeig": "torch.linalg.eigh (PyTorch has removed it too)",
    "torch.eig": "torch.linalg.eig (PyTorch has removed it too)",
    "torch.lstsq": "torch.linalg.lstsq (PyTorch has removed it too)",
    "torch.solve": "torch.linalg.solve (PyTorch has removed it too)",
    "torch.matrix_rank": "torch.linalg.matrix_rank (PyTorch has removed it too)",
    "torch.rfft": "torch.fft.rfft (PyTorch has removed it too)",
    "torch.irfft": "torch.fft.irfft (PyTorch has removed it too)",
}

# Packages that livegrad stands in for, or that are built on torch's C++ and run on nothing else.
PACKAGES = {
    "torchtext": "livegrad.text has vocabularies, tokenisers and language models (docs/text.md); "
    "Field and BucketIterator of old went with torchtext 0.12",
    "torchaudio": "its C++ needs PyTorch itself; torch.stft and scipy.io.wavfile read sound",
    "torchdata": "use torch.utils.data",
    "torchvision": "livegrad.vision has no such name. What of torchvision is Python runs here: "
    "pip install --no-deps torchvision pillow",
}


def instead_of(name: str) -> str:
    """What to use instead, in a few words; "" if nobody knows."""
    head = name.split(".")[0]
    if head in PACKAGES:
        return PACKAGES[head]
    fitting = [known for known in INSTEAD if name.startswith(known)]
    return INSTEAD[max(fitting, key=len)] if fitting else similar(name)


def similar(name: str) -> str:
    """The name there is that looks most like it."""
    import difflib
    import sys

    above, _, last = name.rpartition(".")
    module = sys.modules.get(above)
    found = difflib.get_close_matches(last, dir(module), 1, 0.8) if module else []
    return f"did you mean {above}.{found[0]}?" if found else ""
