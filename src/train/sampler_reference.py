"""Prints what torch's own samplers give, one case per line, for sampler_test.cc.

Input lines:   distributed N REPLICAS RANK SEED EPOCH SHUFFLE DROP_LAST
               random N SEED EPOCH
Output lines:  the indices, separated by spaces.
Exit status 77: this Python has no torch.
"""
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
from torch.utils.data import DistributedSampler, RandomSampler

for line in sys.stdin:
    kind, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    if kind == "distributed":
        n, replicas, rank, seed, epoch, shuffle, drop_last = numbers
        sampler = DistributedSampler(range(n), num_replicas=replicas, rank=rank, shuffle=bool(shuffle), seed=seed,
                                     drop_last=bool(drop_last))
        sampler.set_epoch(epoch)
        order = list(sampler)
    else:
        n, seed, epoch = numbers
        sampler = RandomSampler(range(n), generator=torch.Generator().manual_seed(seed))
        for _ in range(epoch + 1):
            order = list(sampler)
    print(*order)
