"""Tiny torch modules built and wired like the families of sim.ddp: names, shapes and orders as torch has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A residual block, basic or bottleneck."""

    def __init__(self, wide_in: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            rows = [(wide_in, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)]
        else:
            rows = [(wide_in, width, 3, stride), (width, width, 3, 1)]
        self.depth = len(rows)
        for number, (one, other, kernel, step) in enumerate(rows, start=1):
            self.add_module(f"conv{number}", nn.Conv2d(one, other, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{number}", nn.BatchNorm2d(other))
        self.downsample = None
        if stride > 1 or wide_in != rows[-1][1]:
            self.downsample = nn.Sequential(
                nn.Conv2d(wide_in, rows[-1][1], 1, stride, bias=False), nn.BatchNorm2d(rows[-1][1])
            )

    def forward(self, x: Any) -> Any:
        y = x
        for number in range(1, self.depth + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            y = functional.relu(y) if number < self.depth else y
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A ResNet with torchvision's names."""

    def __init__(self, blocks: tuple[int, ...], *, bottleneck: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        width_in = 64
        for stage, count in enumerate(blocks):
            width = 64 * 2**stage
            rows = []
            for block in range(count):
                rows.append(Block(width_in, width, 2 if stage and not block else 1, bottleneck=bottleneck))
                width_in = 4 * width if bottleneck else width
            self.add_module(f"layer{stage + 1}", nn.Sequential(*rows))
        self.fc = nn.Linear(width_in, 1000)

    def forward(self, x: Any) -> Any:
        x = functional.relu(self.bn1(self.conv1(x)))
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def _attend(query: Any, key: Any, value: Any) -> Any:
    return functional.scaled_dot_product_attention(query[:, None], key[:, None], value[:, None])[:, 0]


class LlamaBlock(nn.Module):
    """One layer of a Llama, its norms declared last as in Hugging Face's."""

    def __init__(self, hidden: int, ffn: int, narrow: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name, wide in (("q", hidden), ("k", narrow), ("v", narrow), ("o", hidden)):
            self.self_attn.add_module(f"{name}_proj", nn.Linear(hidden, wide, bias=False))
        self.mlp.gate_proj, self.mlp.up_proj = (nn.Linear(hidden, ffn, bias=False) for _ in range(2))
        self.mlp.down_proj = nn.Linear(ffn, hidden, bias=False)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)

    def forward(self, x: Any) -> Any:
        own, feed = self.self_attn, self.mlp
        y = self.input_layernorm(x)
        query, key, value = own.q_proj(y), own.k_proj(y), own.v_proj(y)
        repeats = query.shape[-1] // key.shape[-1]
        x = x + own.o_proj(_attend(query, key.repeat(1, 1, repeats), value.repeat(1, 1, repeats)))
        y = self.post_attention_layernorm(x)
        return x + feed.down_proj(functional.silu(feed.gate_proj(y)) * feed.up_proj(y))


class Llama(nn.Module):
    """A Llama with Hugging Face's names."""

    def __init__(self, layers: int, hidden: int, ffn: int, narrow: int, vocab: int) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocab, hidden)
        self.model.layers = nn.ModuleList([LlamaBlock(hidden, ffn, narrow) for _ in range(layers)])
        self.model.norm = nn.RMSNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))


class Conv1D(nn.Module):
    """A linear layer that stores (in, out), as GPT-2's."""

    def __init__(self, wide_out: int, wide_in: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(wide_in, wide_out)), nn.Parameter(torch.zeros(wide_out))

    def forward(self, x: Any) -> Any:
        return torch.addmm(self.bias, x.flatten(0, 1), self.weight).unflatten(0, x.shape[:2])


class Gpt2Block(nn.Module):
    """One layer of a GPT-2."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(hidden), nn.Module()
        self.attn.c_attn, self.attn.c_proj = Conv1D(3 * hidden, hidden), Conv1D(hidden, hidden)
        self.ln_2, self.mlp = nn.LayerNorm(hidden), nn.Module()
        self.mlp.c_fc, self.mlp.c_proj = Conv1D(4 * hidden, hidden), Conv1D(hidden, 4 * hidden)

    def forward(self, x: Any) -> Any:
        x = x + self.attn.c_proj(_attend(*self.attn.c_attn(self.ln_1(x)).chunk(3, -1)))
        return x + self.mlp.c_proj(functional.gelu(self.mlp.c_fc(self.ln_2(x))))


class Gpt2(nn.Module):
    """A GPT-2 with Hugging Face's names, its head tied to the embedding."""

    def __init__(self, layers: int, hidden: int, vocab: int, positions: int) -> None:
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte, self.transformer.wpe = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.transformer.h = nn.ModuleList([Gpt2Block(hidden) for _ in range(layers)])
        self.transformer.ln_f = nn.LayerNorm(hidden)

    def forward(self, tokens: Any) -> Any:
        own = self.transformer
        x = own.wte(tokens) + own.wpe(torch.arange(tokens.shape[1]))
        for layer in own.h:
            x = layer(x)
        return functional.linear(own.ln_f(x), own.wte.weight)


class BertLayer(nn.Module):
    """One layer of a BERT's encoder."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.attention, self.intermediate, self.output = nn.Module(), nn.Module(), nn.Module()
        self.attention.self, self.attention.output = nn.Module(), nn.Module()
        for name in ("query", "key", "value"):
            self.attention.self.add_module(name, nn.Linear(hidden, hidden))
        self.attention.output.dense, self.attention.output.LayerNorm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        self.intermediate.dense = nn.Linear(hidden, ffn)
        self.output.dense, self.output.LayerNorm = nn.Linear(ffn, hidden), nn.LayerNorm(hidden)

    def forward(self, x: Any) -> Any:
        own, out = self.attention.self, self.attention.output
        x = out.LayerNorm(out.dense(_attend(own.query(x), own.key(x), own.value(x))) + x)
        return self.output.LayerNorm(self.output.dense(functional.gelu(self.intermediate.dense(x))) + x)


class Bert(nn.Module):
    """A BertModel with Hugging Face's names."""

    def __init__(self, layers: int, hidden: int, ffn: int, vocab: int, positions: int) -> None:
        super().__init__()
        self.embeddings, self.encoder, self.pooler = nn.Module(), nn.Module(), nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(vocab, hidden)
        self.embeddings.position_embeddings = nn.Embedding(positions, hidden)
        self.embeddings.token_type_embeddings = nn.Embedding(2, hidden)
        self.embeddings.LayerNorm = nn.LayerNorm(hidden)
        self.encoder.layer = nn.ModuleList([BertLayer(hidden, ffn) for _ in range(layers)])
        self.pooler.dense = nn.Linear(hidden, hidden)

    def forward(self, tokens: Any) -> Any:
        own = self.embeddings
        x = own.word_embeddings(tokens) + own.token_type_embeddings(torch.zeros_like(tokens))
        x = own.LayerNorm(x + own.position_embeddings(torch.arange(tokens.shape[1])))
        for layer in self.encoder.layer:
            x = layer(x)
        return torch.tanh(self.pooler.dense(x[:, 0]))
