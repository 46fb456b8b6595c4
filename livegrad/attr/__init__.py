"""Which parts of an input a model's answer comes from. Names and arguments are Captum's.

| module | holds |
|---|---|
| `slopes` | `Saliency`, `InputXGradient`, `GuidedBackprop`, `Deconvolution` |
| `paths` | `IntegratedGradients` |
| `noise` | `NoiseTunnel`: SmoothGrad and its relatives |
| `ablation` | `FeatureAblation`, `Occlusion` |
| `layers` | the same of a layer's values; `LayerGradCam`, `GuidedGradCam` |
| `neurons` | of one value of a layer |
| `pictures` | `visualize_image_attr` |
"""

from livegrad.attr.ablation import FeatureAblation as FeatureAblation, Occlusion as Occlusion
from livegrad.attr.layers import (
    GuidedGradCam as GuidedGradCam,
    LayerActivation as LayerActivation,
    LayerAttribution as LayerAttribution,
    LayerGradCam as LayerGradCam,
    LayerGradientXActivation as LayerGradientXActivation,
    LayerIntegratedGradients as LayerIntegratedGradients,
)
from livegrad.attr.neurons import (
    NeuronGradient as NeuronGradient,
    NeuronIntegratedGradients as NeuronIntegratedGradients,
)
from livegrad.attr.noise import NoiseTunnel as NoiseTunnel
from livegrad.attr.paths import IntegratedGradients as IntegratedGradients
from livegrad.attr.pictures import visualize_image_attr as visualize_image_attr
from livegrad.attr.slopes import (
    Deconvolution as Deconvolution,
    GuidedBackprop as GuidedBackprop,
    InputXGradient as InputXGradient,
    Saliency as Saliency,
)
