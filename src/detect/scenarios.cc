#include "detect/scenarios.h"

#include <cmath>
#include <limits>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

// A fault that begins at the onset and is visible at once.
Case at_onset(const Draw& draw, const SimulationOptions& base, Ranks ranks, Hook hook) {
  Case made;
  made.options = base;
  made.hook = [onset = draw.onset, hook = std::move(hook)](World& world, Point when) {
    if (world.step >= onset) hook(world, when);
  };
  made.ranks = std::move(ranks);
  made.known = draw.onset;
  made.steps = draw.onset + 30;
  return made;
}

// Visible when the state is hashed next.
Case at_next_state(Case made) {
  const std::uint64_t interval = made.options.state_interval;
  made.known = (made.known + interval - 1) / interval * interval;
  made.steps = made.known + 30;
  return made;
}

// Ranks that are named where no majority can tell who is right.
Ranks odd_or_all(const Draw& draw) {
  return draw.workers > 2 ? Ranks{draw.rank} : all_ranks(draw.workers);
}

Case with_patience(Case made, std::uint64_t patience) {
  made.patience = patience;
  made.steps = made.known + patience + 20;
  return made;
}

Case identical_pair(const Draw& d, const SimulationOptions& base) {
  Ranks ranks = {std::min(d.rank, d.other), std::max(d.rank, d.other)};
  return at_onset(d, base, ranks, [d](World& world, Point when) {
    if (when == Point::kBatch) world.samples[d.rank] = world.samples[d.other];
  });
}

Case identical_all(const Draw& d, const SimulationOptions& base) {
  Case made = at_onset(d, base, all_ranks(d.workers), {});
  made.hook = {};
  made.options.replicated = true;
  made.known = 0;
  return made;
}

Case identical_but_one(const Draw& d, const SimulationOptions& base) {  // S1-2, replicated
  Case made = identical_all(d, base);
  made.options.sampler_seeds.assign(d.workers, 42);
  made.options.sampler_seeds[0] = 1041;
  made.ranks = all_ranks(d.workers);
  made.ranks.erase(made.ranks.begin());
  return made;
}

Case identical_gradients(const Draw& d, const SimulationOptions& base) {
  Ranks ranks = {std::min(d.rank, d.other), std::max(d.rank, d.other)};
  Case made = at_onset(d, base, ranks, [d](World& world, Point when) {
    if (when != Point::kLocal) return;
    world.local[d.rank] = world.local[d.other];
    world.losses[d.rank] = world.losses[d.other];
  });
  made.options.fingerprints = false;
  return made;
}

Case overlap_one_told(const Draw& d, const SimulationOptions& base) {  // S1-2, sharded
  Case made = at_onset(d, base, odd_or_all(d), {});
  made.hook = {};
  made.options.sampler_facts = true;
  made.options.sampler_seeds.assign(d.workers, 42);
  made.options.sampler_seeds[d.rank] = 1041;
  made.known = 0;
  return made;
}

Case overlap_all_told(const Draw& d, const SimulationOptions& base) {  // S1-3, sharded
  Case made = overlap_one_told(d, base);
  made.options.sampler_seeds.clear();
  for (std::uint32_t rank = 0; rank < d.workers; ++rank) made.options.sampler_seeds.push_back(42 + 10 * rank);
  made.ranks = all_ranks(d.workers);
  return made;
}

Case overlap_one_ids(const Draw& d, const SimulationOptions& base) {
  Case made = overlap_one_told(d, base);
  made.options.sampler_facts = false;
  made.options.sample_ids = true;
  made.options.batch = 64 / d.workers;
  return with_patience(made, 45);
}

Case overlap_all_ids(const Draw& d, const SimulationOptions& base) {
  Case made = overlap_all_told(d, base);
  made.options.sampler_facts = false;
  made.options.sample_ids = true;
  made.options.batch = 64 / d.workers;
  return with_patience(made, 30);
}

Case overlap_all_content(const Draw& d, const SimulationOptions& base) {
  Case made = overlap_all_ids(d, base);
  made.options.sample_ids = false;
  made.options.duplicates = 0.002;
  return with_patience(made, 60);
}

Case epoch_not_set(const Draw& d, const SimulationOptions& base) {
  Case made = at_onset(d, base, all_ranks(d.workers), {});
  made.hook = {};
  made.options.dataset = 60ULL * d.workers * base.batch / 4;
  made.options.set_epoch = false;
  made.known = 15;
  made.steps = 40;
  return made;
}

Case double_sharding(const Draw& d, const SimulationOptions& base) {
  Case made = at_onset(d, base, all_ranks(d.workers), {});
  made.options.dataset = 20ULL * d.workers * base.batch;
  made.options.sampler_facts = true;
  const std::uint64_t size = made.options.dataset * d.workers;
  made.hook = [size](World& world, Point when) {
    if (when != Point::kRecord) return;
    for (Record& record : world.records) record.sampler.dataset_size = size;
  };
  made.known = 20;
  made.steps = 50;
  return made;
}

Case too_many_replicas(const Draw& d, const SimulationOptions& base) {
  Case made = at_onset(d, base, all_ranks(d.workers), {});
  made.options.sampler_facts = true;
  made.hook = [](World& world, Point when) {
    if (when != Point::kRecord) return;
    for (Record& record : world.records) record.sampler.replicas *= 2;
  };
  made.known = 0;
  return made;
}

Case sync_missing(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, all_ranks(d.workers), [](World& world, Point when) {
    if (when == Point::kReduced) world.reduced = world.local;
  });
}

Case sync_missing_clipped(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, all_ranks(d.workers), [](World& world, Point when) {
    if (when != Point::kReduced) return;
    world.reduced = world.local;
    for (auto& gradient : world.reduced) {
      double square = 0;
      for (const double element : gradient) square += element * element;
      for (double& element : gradient) element = static_cast<float>(element * 0.1 / std::sqrt(square));
    }
  });
}

Case sync_skipped_by_rank(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, {d.rank}, [d](World& world, Point when) {
    if (when == Point::kReduced) world.reduced[d.rank] = world.local[d.rank];
  });
}

Case sync_parameters_left_out(const Draw& d, const SimulationOptions& base) {
  const auto end = static_cast<std::size_t>(20 + 150 * d.size);
  return at_onset(d, base, all_ranks(d.workers), [end](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (std::size_t rank = 0; rank < world.local.size(); ++rank) {
      for (std::size_t i = 0; i < end; ++i) world.reduced[rank][i] = world.local[rank][i];
    }
  });
}

Case sync_some_micro_batches(const Draw& d, const SimulationOptions& base) {
  const double share = 0.25 + 0.5 * d.size;  // of the gradient that was not yet in the reduction
  return at_onset(d, base, all_ranks(d.workers), [share](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (std::size_t rank = 0; rank < world.local.size(); ++rank) {
      for (std::size_t i = 0; i < world.local[rank].size(); ++i) {
        world.reduced[rank][i] =
            static_cast<float>(share * world.local[rank][i] + (1 - share) * world.reduced[rank][i]);
      }
    }
  });
}

Case sync_in_groups(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, all_ranks(d.workers), [](World& world, Point when) {
    if (when != Point::kReduced) return;
    const std::size_t half = world.local.size() / 2;
    for (std::size_t begin : {std::size_t{0}, half}) {
      for (std::size_t i = 0; i < world.local[0].size(); ++i) {
        double sum = 0;
        for (std::size_t rank = begin; rank < begin + half; ++rank) sum += world.local[rank][i];
        for (std::size_t rank = begin; rank < begin + half; ++rank) {
          world.reduced[rank][i] = static_cast<float>(sum / static_cast<double>(half));
        }
      }
    }
  });
}

Case corrupted_on_rank(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, {d.rank}, [d](World& world, Point when) {
    if (when == Point::kReduced) world.reduced[d.rank][7] += 0.5 + d.size;
  });
}

Case zeros_on_rank(const Draw& d, const SimulationOptions& base) {
  const auto end = static_cast<std::size_t>(64 + 190 * d.size);
  return at_onset(d, base, {d.rank}, [d, end](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (std::size_t i = 0; i < end; ++i) world.reduced[d.rank][i] = 0;
  });
}

Case corrupted_everywhere(const Draw& d, const SimulationOptions& base) {
  const auto end = static_cast<std::size_t>(10 + 100 * d.size);
  return at_onset(d, base, all_ranks(d.workers), [end](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (auto& gradient : world.reduced) {
      for (std::size_t i = 0; i < end; ++i) gradient[i] = 0;
    }
  });
}

Case contribution_lost(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, {d.rank}, [d](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (auto& gradient : world.reduced) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>(gradient[i] - world.local[d.rank][i] / d.workers);
      }
    }
  });
}

Case own_order_of_sums(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, all_ranks(d.workers), [](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (std::size_t rank = 0; rank < world.reduced.size(); ++rank) {
      for (std::size_t i = rank; i < world.reduced[rank].size(); i += 7) {
        world.reduced[rank][i] = std::nextafter(static_cast<float>(world.reduced[rank][i]), 1e9F);
      }
    }
  });
}

Case clipped_on_one_rank(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, odd_or_all(d), [d](World& world, Point when) {
    if (when != Point::kReduced) return;
    for (double& element : world.reduced[d.rank]) element = static_cast<float>(element * (0.3 + 0.6 * d.size));
  });
}

Case init_mismatch(const Draw& d, const SimulationOptions& base) {
  Case made = at_onset(d, base, odd_or_all(d), {});
  made.hook = [d](World& world, Point when) {
    if (when == Point::kStart && world.step == 0) world.weights[d.rank] ^= 1;
  };
  made.known = 0;
  return made;
}

Case init_from_own_seeds(const Draw& d, const SimulationOptions& base) {
  Case made = init_mismatch(d, base);
  made.ranks = all_ranks(d.workers);
  made.hook = [](World& world, Point when) {
    if (when != Point::kStart || world.step != 0) return;
    for (std::size_t rank = 0; rank < world.weights.size(); ++rank) world.weights[rank] += rank;
  };
  return made;
}

template <std::vector<std::uint64_t>& (*Channel)(World&)>
Case diverged(const Draw& d, const SimulationOptions& base) {
  Draw later = d;
  later.onset = std::max<std::uint64_t>(d.onset, 1);
  return at_next_state(at_onset(later, base, odd_or_all(d), [later](World& world, Point when) {
    if (when == Point::kStart && world.step == later.onset) Channel(world)[later.rank] ^= 1;
  }));
}
std::vector<std::uint64_t>& weights(World& world) {
  return world.weights;
}
std::vector<std::uint64_t>& buffers(World& world) {
  return world.buffers;
}
std::vector<std::uint64_t>& rng(World& world) {
  return world.rng;
}

// Seen before the next update carries it into the weights: hashed every step.
Case optimizer_diverged(const Draw& d, const SimulationOptions& base) {
  Draw later = d;
  later.onset = std::max<std::uint64_t>(d.onset, 1);
  Case made = at_onset(later, base, odd_or_all(d), [later](World& world, Point when) {
    if (when == Point::kStart && world.step == later.onset) world.optimizer[later.rank] ^= 1;
  });
  made.options.state_interval = 1;
  return made;
}

Case config_mismatch(const Draw& d, const SimulationOptions& base) {
  Case made = init_mismatch(d, base);
  made.hook = [d](World& world, Point when) {
    if (when == Point::kStart && world.step == 0) world.config[d.rank] ^= 1;
  };
  return made;
}

Case rng_shared(const Draw& d, const SimulationOptions& base) {
  Case made = at_onset(d, base, all_ranks(d.workers), {});
  made.options.dropout = true;
  made.hook = [](World& world, Point when) {
    if (when == Point::kStart) world.rng.assign(world.rng.size(), world.rng[0]);
  };
  made.known = 0;
  return made;
}

Case nonfinite_gradient(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, {d.rank}, [d](World& world, Point when) {
    if (when != Point::kLocal) return;
    // From the next step on the weights are gone everywhere.
    for (std::uint32_t rank = 0; rank < d.workers; ++rank) {
      if (rank == d.rank || world.step > d.onset) world.local[rank][3] = std::numeric_limits<double>::quiet_NaN();
    }
  });
}

Case nonfinite_loss(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, {d.rank}, [d](World& world, Point when) {
    if (when == Point::kLocal && world.step == d.onset) world.losses[d.rank] = std::numeric_limits<double>::infinity();
  });
}

Case reduced_twice(const Draw& d, const SimulationOptions& base) {
  Draw later = d;
  later.onset += 5;
  Case made = at_onset(later, base, all_ranks(d.workers), [](World& world, Point when) {
    if (when != Point::kReduced) return;
    const double n = static_cast<double>(world.local.size());
    for (auto& gradient : world.reduced) {
      for (double& element : gradient) element = static_cast<float>(element * n * n);
    }
  });
  made.options.cosine = 0.5;
  return made;
}

Case zero_gradient(const Draw& d, const SimulationOptions& base) {
  return at_onset(d, base, {d.rank}, [d](World& world, Point when) {
    if (when == Point::kLocal) world.local[d.rank].assign(world.local[d.rank].size(), 0.0);
  });
}

// Ranks and patience of a fault that only statistics see: two ranks cannot be told apart and need longer.
Case statistical(const Draw& d, const SimulationOptions& base, Hook hook) {
  return with_patience(at_onset(d, base, odd_or_all(d), std::move(hook)), d.workers == 2 ? 32 : 20);
}

Case scaled_rank(const Draw& d, const SimulationOptions& base) {
  const double factor = d.size < 0.5 ? 2 : 1.0 / d.workers;
  return statistical(d, base, [d, factor](World& world, Point when) {
    if (when != Point::kLocal) return;
    for (double& element : world.local[d.rank]) element = static_cast<float>(element * factor);
  });
}

Case skewed_rank(const Draw& d, const SimulationOptions& base) {
  return statistical(d, base, [d](World& world, Point when) {
    if (when == Point::kLocal) world.losses[d.rank] *= 1.4 + d.size;
  });
}

Case few_tokens(const Draw& d, const SimulationOptions& base) {
  Case made = statistical(d, base, [d](World& world, Point when) {
    if (when == Point::kLocal)
      world.tokens[d.rank] = std::max(1.0, std::floor(world.tokens[d.rank] / (4 + 4 * d.size)));
  });
  return made;
}

Case other_direction(const Draw& d, const SimulationOptions& base) {
  Case made = statistical(d, base, [d](World& world, Point when) {
    if (when != Point::kLocal) return;
    std::normal_distribution<double> normal;
    double square = 0;
    for (const double element : world.local[d.rank]) square += element * element;
    for (double& element : world.local[d.rank])
      element = static_cast<float>(normal(world.random) * std::sqrt(square) / 16);
  });
  made.options.cosine = 0.4;
  return made;
}

Case exponent_flips(const Draw& d, const SimulationOptions& base) {
  Draw later = d;
  later.onset = std::max<std::uint64_t>(d.onset, 3);
  Case made = at_onset(later, base, {d.rank}, [later](World& world, Point when) {
    if (when == Point::kLocal && world.step % 3 == later.onset % 3 && world.step < later.onset + 9) {
      world.local[later.rank][11] = static_cast<float>(1e6 * (1 + world.local[later.rank][11]));
    }
  });
  return made;
}

}  // namespace

const std::vector<Scenario>& fault_scenarios() {
  static const std::vector<Scenario> scenarios = {
      {"identical_pair", cause::kIdenticalBatches, true, 2, identical_pair},
      {"identical_all", cause::kIdenticalBatches, true, 2, identical_all},
      {"identical_but_rank_0", cause::kIdenticalBatches, true, 3, identical_but_one},
      {"identical_gradients", cause::kIdenticalBatches, true, 2, identical_gradients},
      {"overlap_one_seed_told", cause::kOverlap, true, 2, overlap_one_told},
      {"overlap_all_seeds_told", cause::kOverlap, true, 2, overlap_all_told},
      {"overlap_one_seed_by_ids", cause::kOverlap, true, 2, overlap_one_ids},
      {"overlap_all_seeds_by_ids", cause::kOverlap, true, 2, overlap_all_ids},
      {"overlap_all_seeds_by_content", cause::kOverlap, false, 2, overlap_all_content},
      {"epoch_not_set", cause::kEpochReplay, true, 2, epoch_not_set},
      {"double_sharding", cause::kCoverageLoss, true, 2, double_sharding},
      {"too_many_replicas", cause::kCoverageLoss, true, 2, too_many_replicas},
      {"sync_missing", cause::kSyncMissing, true, 2, sync_missing},
      {"sync_missing_clipped", cause::kSyncMissing, true, 2, sync_missing_clipped},
      {"sync_skipped_by_rank", cause::kSyncPartial, true, 2, sync_skipped_by_rank},
      {"sync_parameters_left_out", cause::kSyncPartial, true, 2, sync_parameters_left_out},
      {"sync_some_micro_batches", cause::kSyncPartial, true, 2, sync_some_micro_batches},
      {"sync_in_groups", cause::kSyncPartial, true, 4, sync_in_groups},
      {"corrupted_on_rank", cause::kSyncCorrupted, true, 2, corrupted_on_rank},
      {"zeros_on_rank", cause::kSyncCorrupted, true, 2, zeros_on_rank},
      {"corrupted_everywhere", cause::kSyncCorrupted, true, 2, corrupted_everywhere},
      {"contribution_lost", cause::kSyncCorrupted, true, 3, contribution_lost},
      {"own_order_of_sums", cause::kNondeterministic, true, 3, own_order_of_sums},
      {"clipped_on_one_rank", cause::kDiverged, true, 2, clipped_on_one_rank},
      {"init_mismatch", cause::kInitMismatch, true, 2, init_mismatch},
      {"init_from_own_seeds", cause::kInitMismatch, true, 2, init_from_own_seeds},
      {"weights_diverged", cause::kDiverged, true, 2, diverged<weights>},
      {"buffers_diverged", cause::kBuffersDiverged, true, 2, diverged<buffers>},
      {"optimizer_diverged", cause::kOptimizerDiverged, true, 2, optimizer_diverged},
      {"rng_diverged", cause::kRngDiverged, true, 2, diverged<rng>},
      {"rng_shared", cause::kRngShared, true, 2, rng_shared},
      {"config_mismatch", cause::kConfigMismatch, true, 2, config_mismatch},
      {"nonfinite_gradient", cause::kNonfinite, true, 2, nonfinite_gradient},
      {"nonfinite_loss", cause::kNonfinite, true, 2, nonfinite_loss},
      {"reduced_twice", cause::kImpossibleNorm, true, 2, reduced_twice},
      {"zero_gradient", cause::kRankMismatch, true, 2, zero_gradient},
      {"scaled_rank", cause::kRankMismatch, false, 2, scaled_rank},
      {"skewed_rank", cause::kDataSkew, false, 2, skewed_rank},
      {"few_tokens", cause::kTokenSkew, false, 2, few_tokens},
      {"other_direction", cause::kRankOutlier, false, 3, other_direction},
      {"exponent_flips", cause::kSdcSuspect, false, 2, exponent_flips},
  };
  return scenarios;
}

const std::vector<HealthyKind>& healthy_kinds() {
  static const std::vector<HealthyKind> kinds = {
      {"plain", [](SimulationOptions&) {}},
      {"spikes", [](SimulationOptions& o) { o.spike_rate = 0.02; }},
      {"hard batches", [](SimulationOptions& o) { o.hard_batch_rate = 0.05; }},
      {"variable lengths", [](SimulationOptions& o) { o.token_spread = 1.2; }},
      {"no tokens told", [](SimulationOptions& o) { o.tokens = false; }},
      {"dropout", [](SimulationOptions& o) { o.dropout = true; }},
      {"bf16 reduction", [](SimulationOptions& o) { o.reduce_in_bf16 = true; }},
      {"small batches",
       [](SimulationOptions& o) { o.batch = 1, o.cosine = 0.005, o.norm_spread = 0.5, o.loss_spread = 0.5; }},
      {"large batches", [](SimulationOptions& o) { o.cosine = 0.9, o.norm_spread = 0.01; }},
      {"heavy tails", [](SimulationOptions& o) { o.tail = 1.7, o.norm_spread = 0.3; }},
      {"clipping", [](SimulationOptions& o) { o.clip = 0.3; }},
      {"sum instead of mean", [](SimulationOptions& o) { o.sum_instead_of_mean = true; }},
      {"many epochs", [](SimulationOptions& o) { o.dataset = 1003; }},
      {"many epochs told", [](SimulationOptions& o) { o.dataset = 1003, o.sampler_facts = true; }},
      {"tiny data set", [](SimulationOptions& o) { o.dataset = 70, o.batch = 2; }},
      {"natural duplicates", [](SimulationOptions& o) { o.duplicates = 0.02; }},
      {"many duplicates, many epochs", [](SimulationOptions& o) { o.duplicates = 0.1, o.dataset = 5000; }},
      {"ids", [](SimulationOptions& o) { o.sample_ids = true, o.dataset = 3001; }},
      {"not shuffled, told", [](SimulationOptions& o) { o.shuffle = false, o.sampler_facts = true, o.dataset = 2000; }},
      {"sketches now and then", [](SimulationOptions& o) { o.sketch_interval = 4; }},
      {"records missing", [](SimulationOptions& o) { o.missing_rate = 0.02; }},
      {"losses only", [](SimulationOptions& o) { o.gradients = false, o.fingerprints = false, o.state_interval = 0; }},
  };
  return kinds;
}

}  // namespace lockstep::detect
