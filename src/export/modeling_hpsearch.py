"""The encoder of hpsearch for transformers: norms before its parts and learnt positions; a linear map reads the vectors of texts or tokens.

    AutoModelForSequenceClassification.from_pretrained(DIR, trust_remote_code=True)

And by the class that config.json names: AutoModelForTokenClassification, AutoModelForQuestionAnswering, AutoModelForMaskedLM, AutoModel.
"""
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import (BaseModelOutput, MaskedLMOutput, QuestionAnsweringModelOutput, SequenceClassifierOutput,
                                           TokenClassifierOutput)


class HpsearchEncoderConfig(PretrainedConfig):
    model_type = "hpsearch-encoder"

    def __init__(self, vocab_size=1, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
                 hidden_act="gelu", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, layer_norm_eps=1e-12, pooling="cls", pad_token_id=0,
                 **others):
        self.vocab_size, self.max_position_embeddings, self.pooling = vocab_size, max_position_embeddings, pooling
        self.hidden_size, self.intermediate_size, self.hidden_act = hidden_size, intermediate_size, hidden_act
        self.num_hidden_layers, self.num_attention_heads, self.layer_norm_eps = num_hidden_layers, num_attention_heads, layer_norm_eps
        self.hidden_dropout_prob, self.attention_probs_dropout_prob = hidden_dropout_prob, attention_probs_dropout_prob
        super().__init__(pad_token_id=pad_token_id, **others)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.query, self.key, self.value, self.output = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(4))

    def forward(self, x, seen):
        batch, length, width = x.shape
        query, key, value = (part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        made = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=self.dropout if self.training else 0.0)
        return self.output(made.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner, self.outer = nn.Linear(config.hidden_size, config.intermediate_size), nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation, self.dropout = ACT2FN[config.hidden_act], nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x):
        return self.dropout(self.outer(self.activation(self.inner(x))))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = (nn.LayerNorm(config.hidden_size, config.layer_norm_eps) for _ in range(2))
        self.attention, self.feed_forward = Attention(config), FeedForward(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x, seen):
        x = x + self.dropout(self.attention(self.attention_norm(x), seen))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.dropout(self.word_embeddings(ids) + self.position_embeddings(places))


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x, seen):
        for layer in self.layer:
            x = layer(x, seen)
        return self.norm(x)


class HpsearchEncoderPreTrainedModel(PreTrainedModel):
    config_class = HpsearchEncoderConfig

    def __init__(self, config):
        super().__init__(config)
        self.embeddings, self.encoder, self.dropout = Embeddings(config), Encoder(config), nn.Dropout(config.hidden_dropout_prob)

    def encode(self, input_ids, attention_mask):
        """The vectors of tokens of texts that are padded on the right, and which of them are none of padding."""
        mask = (torch.ones_like(input_ids) if attention_mask is None else attention_mask).bool()
        return self.encoder(self.embeddings(input_ids), mask[:, None, None, :]), mask


class HpsearchEncoderModel(HpsearchEncoderPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **_):
        return BaseModelOutput(last_hidden_state=self.encode(input_ids, attention_mask)[0])


class HpsearchEncoderForTokenClassification(HpsearchEncoderPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None, **_):
        logits = self.classifier(self.dropout(self.encode(input_ids, attention_mask)[0]))
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


class HpsearchEncoderForQuestionAnswering(HpsearchEncoderPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, start_positions=None, end_positions=None, **_):
        x, mask = self.encode(input_ids, attention_mask)
        starts, ends = self.qa_outputs(x).masked_fill(~mask.unsqueeze(-1), -1e9).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (F.cross_entropy(starts, start_positions) + F.cross_entropy(ends, end_positions)) / 2
        return QuestionAnsweringModelOutput(loss=loss, start_logits=starts, end_logits=ends)


class Transform(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense, self.norm = nn.Linear(config.hidden_size, config.hidden_size), nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x):
        return self.norm(F.gelu(self.dense(x)))


class Bias(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))


class HpsearchEncoderForMaskedLM(HpsearchEncoderPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.head, self.decoder = Transform(config), Bias(config)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None, **_):
        x = self.head(self.encode(input_ids, attention_mask)[0])
        logits = F.linear(x, self.embeddings.word_embeddings.weight, self.decoder.bias)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return MaskedLMOutput(loss=loss, logits=logits)


class HpsearchEncoderForSequenceClassification(HpsearchEncoderPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None, **_):
        x, mask = self.encode(input_ids, attention_mask)
        share = mask.unsqueeze(-1).to(x.dtype)
        text = (x * share).sum(1) / share.sum(1) if self.config.pooling == "mean" else x[:, 0]
        logits = self.classifier(self.dropout(text))
        loss = None
        if labels is not None and self.config.problem_type == "regression":
            loss = F.mse_loss(logits.squeeze(-1), labels.squeeze(-1).to(logits.dtype))
        elif labels is not None and self.config.problem_type == "multi_label_classification":
            loss = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        elif labels is not None:
            loss = F.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
