"""`torch.utils.model_zoo`: the old name of what `hub` does with weights."""

from __future__ import annotations

from livegrad.hub import load_state_dict_from_url as load_url, tqdm as tqdm

__all__ = ["load_url"]
