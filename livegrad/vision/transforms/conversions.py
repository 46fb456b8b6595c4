"""Images as tensors, and tensors as images."""

from __future__ import annotations

from typing import Any

import numpy as np

import livegrad as lg
from livegrad import Tensor
from livegrad.vision import tv_tensors as tv
from livegrad.vision.pictures import is_pil, pil_to_tensor as pil_to_tensor, pillow

# Images of at most so many bytes become floats at once: recording a small one costs more than its
# values. Larger ones are recorded, so that what follows is the same pass over them.
_SMALL = 1 << 14


def to_tensor(pic: Any) -> Tensor:
    """Pillow's image, or an array (H, W, C), as a tensor (C, H, W); bytes become 0 to 1."""
    if is_pil(pic):
        array = np.asarray(pic)
        if array.dtype == bool:
            array = array * np.uint8(255)
    elif isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    dtype = lg.get_default_dtype()
    if array.dtype != np.uint8:
        return _channels_first(lg.tensor(array, device="cpu")).contiguous()
    if array.size > _SMALL or dtype not in (lg.float32, lg.float64):
        return (_channels_first(lg.tensor(array, device="cpu")).to(dtype) / 255).contiguous()
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    wide = np.float32 if dtype == lg.float32 else np.float64
    values: np.ndarray[Any, Any] = array.astype(wide, order="C")
    values /= 255
    return lg.tensor(values, device="cpu")


def _channels_first(image: Tensor) -> Tensor:
    return image.unsqueeze(0) if image.ndim == 2 else image.permute(2, 0, 1)


def to_image(inpt: Any) -> Any:
    """A tensor that says that it is an image, of Pillow's, an array (H, W, C), or a tensor."""
    if isinstance(inpt, np.ndarray):
        return tv.Image(lg.tensor(np.atleast_3d(inpt)).permute(2, 0, 1))
    if is_pil(inpt):
        return tv.Image(pil_to_tensor(inpt))
    if isinstance(inpt, Tensor):
        return tv.Image(inpt)
    raise TypeError(
        f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)}"
    )


_MODES = {(1, "uint8"): "L", (1, "int16"): "I;16", (1, "int32"): "I", (1, "float32"): "F"}
_MODES |= {(2, "uint8"): "LA", (3, "uint8"): "RGB", (4, "uint8"): "RGBA"}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W), or an array (H, W, C), as Pillow's image; floats are 0 to 1."""
    image = pillow()
    if isinstance(pic, Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        value = pic.as_subclass(Tensor).detach()
        value = value if value.ndim == 3 else value.unsqueeze(0)
        if value.shape[0] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {value.shape[0]} channels.")
        if value.is_floating_point() and mode != "F":
            value = (value * 255).to(lg.uint8)
        array = value.permute(1, 2, 0).contiguous().numpy()
    elif isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic if pic.ndim == 3 else pic[:, :, None]
        if array.shape[-1] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {array.shape[-1]} channels.")
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    channels, dtype = array.shape[2], array.dtype.name
    natural = _MODES.get((channels, dtype))
    if mode is None and natural is None:
        raise TypeError(f"Input type {dtype} with {channels} channels is not supported")
    allowed: dict[int, set[Any]] = {1: {natural}, 2: {"LA"}, 4: {"RGBA", "CMYK", "RGBX"}}
    allowed[3] = {"RGB", "YCbCr", "HSV"}
    if mode is not None and mode not in allowed[channels]:
        raise ValueError(
            f"Only modes {sorted(filter(None, allowed[channels]))} are supported for "
            f"{channels} channels"
        )
    flat = np.ascontiguousarray(array[:, :, 0] if channels == 1 else array)
    if mode in (None, natural):
        return image.fromarray(flat)
    return image.frombytes(mode, (flat.shape[1], flat.shape[0]), flat.tobytes())
