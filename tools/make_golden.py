#!/usr/bin/env python3
"""Golden fixtures of the trainer's model, made by Hugging Face transformers, and the check in the other direction.

    make_golden.py OUT_DIR           writes OUT_DIR/golden_<variant>/{config.json, model.safetensors, expected.safetensors}
    make_golden.py --verify DIR...   loads each folder that our writer saved and compares transformers' logits and loss
                                     with the expected.safetensors beside it

Needs torch >= 2, transformers >= 4.40 and safetensors; neither the build nor the tests do: the fixtures are committed
under src/train/testdata. Everything is fp32 on the CPU. The models are far smaller than any real one so that the whole
set stays below 400 KiB, and their weights far larger than a usual initialisation, so that a wrong rotation, mask or
head order moves the logits by much more than the tolerance.
"""

import argparse
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

VOCAB = 80
SEQUENCE = 10
TOLERANCE = 1e-5  # what the tests ask for in fp32, relative to the largest expected value
SHAPE = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0,
             initializer_range=0.25, bos_token_id=1, eos_token_id=2, pad_token_id=0, use_cache=False)


def variants():
    """Name -> transformers configuration. Every one has grouped-query attention (4 heads, 2 key/value heads)."""
    llama, mistral, qwen2 = transformers.LlamaConfig, transformers.MistralConfig, transformers.Qwen2Config
    wide = dict(SHAPE, head_dim=8, rope_theta=500000.0)  # head_dim that is not hidden_size / heads, as in openPangu
    return {
        "llama_plain_untied": llama(**SHAPE, attention_bias=False, tie_word_embeddings=False),
        "llama_plain_tied": llama(**SHAPE, attention_bias=False, tie_word_embeddings=True),
        "llama_bias_untied": llama(**SHAPE, attention_bias=True, tie_word_embeddings=False),
        "llama_bias_tied": llama(**wide, attention_bias=True, tie_word_embeddings=True),
        "mistral": mistral(**SHAPE, sliding_window=None, tie_word_embeddings=False),
        "qwen2": qwen2(**SHAPE, use_sliding_window=False, tie_word_embeddings=True),
    }


def make_model(config, seed):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        # Biases start at zero and norms at one, where a forgotten bias or norm weight would not show.
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.2)
            elif "norm" in name:
                parameter.normal_(1.0, 0.2)
    return model


def make_batch(seed):
    """Two rows: one full, one right-padded. Labels are -100 on the prompt and on the pads (response-only loss)."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCAB, (2, SEQUENCE), generator=generator)
    ids[:, 0] = 1
    mask = torch.ones_like(ids)
    ids[1, SEQUENCE - 3:] = 0
    mask[1, SEQUENCE - 3:] = 0
    labels = ids.clone()
    labels[0, :4] = -100
    labels[1, :3] = -100
    labels[mask == 0] = -100
    return ids, mask, labels


def rope_theta(config):
    parameters = getattr(config, "rope_parameters", None)  # transformers 5 keeps it there
    return float(parameters["rope_theta"] if parameters else config.rope_theta)


def write_variant(folder, config, seed):
    want_theta = 500000.0 if folder.name.endswith("bias_tied") else 10000.0
    if rope_theta(config) != want_theta:
        sys.exit(f"{folder.name}: transformers {transformers.__version__} ignored rope_theta")
    model = make_model(config, seed)
    ids, mask, labels = make_batch(seed)
    output = model(input_ids=ids, attention_mask=mask, labels=labels)
    output.loss.backward()
    expected = {"input_ids": ids, "attention_mask": mask, "labels": labels,
                "logits": output.logits.detach(), "loss": output.loss.detach().reshape(1)}
    for name, parameter in model.named_parameters():  # a tied weight is listed once, with the sum of both gradients
        expected["grad." + name] = parameter.grad
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, folder / "expected.safetensors")
    print(f"{folder}: loss {output.loss.item():.6f}, largest logit {output.logits.abs().max().item():.2f}")


def make(out_dir):
    for index, (name, config) in enumerate(variants().items()):
        write_variant(out_dir / f"golden_{name}", config, seed=1000 + index)
    size = sum(path.stat().st_size for path in out_dir.glob("golden_*/*"))
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "bytes": size}
    (out_dir / "golden_made_by.json").write_text(json.dumps(versions) + "\n")
    print(f"{size / 1024:.0f} KiB in all")
    if size > 400 * 1024:
        sys.exit("the fixtures exceed 400 KiB: shrink SHAPE")


def verify(folder):
    """True when transformers loads the folder cleanly and gives the logits (real tokens) and loss that are beside it."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True,
                                                                    attn_implementation="eager")
    model = model.float().eval()
    bad_keys = {key: sorted(map(str, info.get(key, []))) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if any(bad_keys.values()):
        print(f"{folder}: FAILED, {bad_keys}")
        return False
    expected = load_file(folder / "expected.safetensors")
    ids, mask, labels = expected["input_ids"], expected["attention_mask"], expected["labels"]
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=mask, labels=labels)
    real = mask.bool()
    want = expected["logits"][real]
    logit_error = ((output.logits[real] - want).abs().max() / want.abs().max()).item()
    loss_error = abs(output.loss.item() - expected["loss"].item()) / max(1.0, abs(expected["loss"].item()))
    good = logit_error <= TOLERANCE and loss_error <= TOLERANCE
    print(f"{folder}: {'ok' if good else 'FAILED'}, relative error of logits {logit_error:.1e}, of loss {loss_error:.1e}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verify", action="store_true", help="check folders that our writer saved")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.verify:
        sys.exit(0 if all([verify(folder) for folder in arguments.folders]) else 1)
    if len(arguments.folders) != 1:
        parser.error("name one output folder")
    make(arguments.folders[0])


if __name__ == "__main__":
    main()
