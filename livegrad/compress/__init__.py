"""Models made smaller and faster. Names of quantisation are those of `torch.ao.quantization`.

| module | holds |
|---|---|
| `quantize` | `quantize_dynamic`; `prepare`, `convert`; `prepare_qat`; `fuse_modules` |
| `observers`, `fake_quantize`, `qconfig` | which steps values are rounded to |
| `layers`, `recurrent` | layers of int8 weights |
| `structured` | neurons and channels that are taken out |
| `lora` | what is learnt beside a frozen model: `inject_lora`, `inject_adapters` |
| `lowrank` | products of two thin matrices in place of large ones |
| `distill` | `distillation_loss`, `distill` |
| `report` | `compare`: accuracy, size and time, before and after |

Masks are those of `livegrad.nn.utils.prune`.
"""

from livegrad.compress.distill import distill as distill, distillation_loss as distillation_loss
from livegrad.compress.fake_quantize import (
    FakeQuantize as FakeQuantize,
    FakeQuantizeBase as FakeQuantizeBase,
    default_fake_quant as default_fake_quant,
    default_per_channel_weight_fake_quant as default_per_channel_weight_fake_quant,
    default_weight_fake_quant as default_weight_fake_quant,
    disable_fake_quant as disable_fake_quant,
    disable_observer as disable_observer,
    enable_fake_quant as enable_fake_quant,
    enable_observer as enable_observer,
)
from livegrad.compress.lora import (
    Adapter as Adapter,
    LoRALinear as LoRALinear,
    added_state_dict as added_state_dict,
    inject_adapters as inject_adapters,
    inject_lora as inject_lora,
    load_added as load_added,
    merge_lora as merge_lora,
)
from livegrad.compress.lowrank import factorize as factorize
from livegrad.compress.observers import (
    HistogramObserver as HistogramObserver,
    MinMaxObserver as MinMaxObserver,
    MovingAverageMinMaxObserver as MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver as MovingAveragePerChannelMinMaxObserver,
    NoopObserver as NoopObserver,
    ObserverBase as ObserverBase,
    PerChannelMinMaxObserver as PerChannelMinMaxObserver,
    PlaceholderObserver as PlaceholderObserver,
)
from livegrad.compress.qconfig import (
    QConfig as QConfig,
    default_dynamic_qconfig as default_dynamic_qconfig,
    default_dynamic_quant_observer as default_dynamic_quant_observer,
    default_histogram_observer as default_histogram_observer,
    default_observer as default_observer,
    default_per_channel_qconfig as default_per_channel_qconfig,
    default_per_channel_weight_observer as default_per_channel_weight_observer,
    default_qat_qconfig as default_qat_qconfig,
    default_qconfig as default_qconfig,
    default_weight_observer as default_weight_observer,
    float_qparams_weight_only_qconfig as float_qparams_weight_only_qconfig,
    get_default_qat_qconfig as get_default_qat_qconfig,
    get_default_qconfig as get_default_qconfig,
    per_channel_dynamic_qconfig as per_channel_dynamic_qconfig,
)
from livegrad.compress.quantize import (
    DeQuantStub as DeQuantStub,
    QuantStub as QuantStub,
    QuantWrapper as QuantWrapper,
    add_quant_dequant as add_quant_dequant,
    convert as convert,
    fuse_modules as fuse_modules,
    prepare as prepare,
    prepare_qat as prepare_qat,
    propagate_qconfig_ as propagate_qconfig_,
    quantize as quantize,
    quantize_dynamic as quantize_dynamic,
    quantize_qat as quantize_qat,
)
from livegrad.compress.report import (
    Report as Report,
    compare as compare,
    size_on_disk as size_on_disk,
)
from livegrad.compress.schemes import (
    per_channel_affine as per_channel_affine,
    per_channel_symmetric as per_channel_symmetric,
    per_tensor_affine as per_tensor_affine,
    per_tensor_symmetric as per_tensor_symmetric,
    qint8 as qint8,
    qint32 as qint32,
    quint2x4 as quint2x4,
    quint4x2 as quint4x2,
    quint8 as quint8,
)
from livegrad.compress.structured import (
    prune_structured as prune_structured,
    remove_inputs as remove_inputs,
    remove_outputs as remove_outputs,
)
