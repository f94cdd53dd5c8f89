// Test only: N simulated workers, with gradient noise, losses, samplers, state and every class of fault.
//
// A gradient is a vector of a few hundred elements that stands for its own sketch; noise, heavy tails and scale follow
// what training shows. Reductions, weights and samplers are computed, not pretended: a fault is injected where it would
// happen, and its consequences follow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lockstep/stats.h"

namespace lockstep::detect {

struct World;

// Changes the world at a point of the step. `when` says which.
enum class Point { kStart, kBatch, kLocal, kReduced, kState, kRecord };
using Hook = std::function<void(World& world, Point when)>;

struct SimulationOptions {
  std::uint32_t workers = 8;
  std::uint64_t seed = 1;
  std::uint32_t batch = 8;  // samples per rank and step
  std::uint64_t dataset = 50000;
  double duplicates = 0;  // share of the samples that are copies of another
  bool fingerprints = true;
  bool sample_ids = false;  // else content
  bool sampler_facts = false;
  bool shuffle = true;
  bool set_epoch = true;
  std::vector<std::uint64_t> sampler_seeds;  // per rank; empty: all equal
  bool replicated = false;                   // every rank draws from the whole data set

  double cosine = 0.1;       // expected between two workers
  double norm_spread = 0.1;  // log-normal, per worker and step
  double tail = 0;           // Pareto index of rare long gradients; 0: none
  double loss_spread = 0.1;  // of the mean loss, at 100 tokens
  bool tokens = true;
  double token_spread = 0.3;  // log-normal
  bool dropout = false;       // forward draws; each rank its own stream
  bool reduce_in_bf16 = false;
  double clip = 0;  // of the reduced norm; 0: none
  bool sum_instead_of_mean = false;
  bool warmup = true;          // losses fall, norms shrink from 3x
  double spike_rate = 0;       // steps in which all norms and losses jump
  double hard_batch_rate = 0;  // steps in which one random rank has a hard batch
  std::uint32_t state_interval = 10;
  std::uint32_t sketch_interval = 1;
  double missing_rate = 0;  // records that do not arrive
  bool gradients = true;    // false: losses only, as from a log
};

// One step in the making. Hooks may change anything.
struct World {
  const SimulationOptions& options;
  std::uint64_t step = 0;
  std::mt19937_64& random;
  std::vector<Record> records;
  std::vector<std::vector<std::uint64_t>> samples;  // ids per rank
  std::vector<std::vector<double>> local;           // gradients
  std::vector<std::vector<double>> reduced;
  std::vector<double> losses;
  std::vector<double> tokens;
  std::vector<std::uint64_t>& weights;  // hashes of the state per rank, as the step begins
  std::vector<std::uint64_t>& buffers;
  std::vector<std::uint64_t>& optimizer;
  std::vector<std::uint64_t>& rng;
  std::vector<std::uint64_t>& config;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options, Hook hook = {});
  ~Simulation();

  // The next step, as rank 0 would analyse it.
  Step next();
  // Continues at an earlier step, as after a resume; data go on from there too.
  void go_back(std::uint64_t step);
  std::uint64_t epoch() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::detect
