#!/usr/bin/env python3
"""Tokens per second of a Llama training step in Python's eager torch, written as transformers writes it, beside ours.

    bench_eager.py --against build/bin/train_model_bench [--setting small|large] [--precision fp32|bf16] [--rounds 3]

Both sides do the same work on the same machine in turn: forward, backward, clipping, AdamW; the ratio of each round is
printed, then its median. Runs with torch 1.13 (Debian's python3-torch) and later.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional as F

# hidden ffn layers heads kv_heads vocab batch positions steps: about 1 M and 25 M parameters
SETTINGS = {"small": (128, 344, 4, 4, 2, 1024, 2, 128, 40), "large": (512, 1408, 8, 8, 4, 2048, 2, 256, 8)}


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(dtype)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Block(nn.Module):
    def __init__(self, hidden, ffn, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, hidden // heads
        self.q, self.o = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.k, self.v = (nn.Linear(hidden, kv_heads * self.dim, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(hidden, ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(ffn, hidden, bias=False)
        self.norm1, self.norm2 = RMSNorm(hidden), RMSNorm(hidden)

    def forward(self, x, cos, sin, mask):
        batch, positions, _ = x.shape
        h = self.norm1(x)
        q, k, v = (layer(h).view(batch, positions, -1, self.dim).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.matmul(q, k.transpose(2, 3)) / self.dim ** 0.5 + mask
        mixed = torch.matmul(F.softmax(scores, -1, dtype=torch.float32).to(q.dtype), v)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, positions, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, hidden, ffn, layers, heads, kv_heads, vocab):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(Block(hidden, ffn, heads, kv_heads) for _ in range(layers))
        self.norm, self.dim = RMSNorm(hidden), hidden // heads
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0.0, 0.02)

    def forward(self, ids):
        positions = ids.shape[1]
        frequencies = 1.0 / 10000.0 ** (torch.arange(0, self.dim, 2).float() / self.dim)
        angles = torch.outer(torch.arange(positions).float(), frequencies)
        angles = torch.cat((angles, angles), -1)
        mask = torch.full((positions, positions), float("-inf")).triu(1)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin(), mask)
        return F.linear(self.norm(x), self.embedding.weight)


def eager_tokens_per_s(setting, precision, threads):
    *shape, batch, positions, steps = setting
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Llama(*shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    ids = torch.randint(0, shape[-1], (batch, positions))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].float().reshape(-1, shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(3):
        step()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return batch * positions * steps / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", required=True, help="train_model_bench")
    parser.add_argument("--setting", choices=SETTINGS, default="small")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    setting = SETTINGS[arguments.setting]
    ratios = []
    for _ in range(arguments.rounds):
        eager = eager_tokens_per_s(setting, arguments.precision, arguments.threads)
        command = [arguments.against, *map(str, setting), str(arguments.threads), arguments.precision]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tokens_per_s"]
        ratios.append(ours / eager)
        print(f"eager {eager:.0f} tokens/s, ours {ours:.0f} tokens/s, ratio {ratios[-1]:.2f}", flush=True)
    print(json.dumps({"setting": arguments.setting, "precision": arguments.precision, "torch": torch.__version__,
                      "threads": arguments.threads, "median_ratio": round(statistics.median(ratios), 3)}))


if __name__ == "__main__":
    main()
