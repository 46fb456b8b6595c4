"""Language models, under Hugging Face's names of weights."""

from livegrad.text.models.base import Config as Config, Output as Output, Pretrained as Pretrained
from livegrad.text.models.bert import (
    BertConfig as BertConfig,
    BertForMaskedLM as BertForMaskedLM,
    BertForSequenceClassification as BertForSequenceClassification,
    BertModel as BertModel,
)
from livegrad.text.models.gpt2 import (
    GPT2Config as GPT2Config,
    GPT2LMHeadModel as GPT2LMHeadModel,
    GPT2Model as GPT2Model,
)
from livegrad.text.models.llama import (
    LlamaConfig as LlamaConfig,
    LlamaForCausalLM as LlamaForCausalLM,
    LlamaModel as LlamaModel,
)
from livegrad.text.models.t5 import (
    T5Config as T5Config,
    T5ForConditionalGeneration as T5ForConditionalGeneration,
)
