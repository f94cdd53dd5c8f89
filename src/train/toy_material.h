// A model of a few thousand weights on made-up token sequences: trains in milliseconds. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "train/loaded_model.h"
#include "train/material.h"

namespace lockstep::train {

inline constexpr std::int32_t kToyVocab = 40;

inline ModelConfig toy_config() {
  ModelConfig config;
  config.vocab_size = kToyVocab;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.layers = 2;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 8;
  config.max_positions = 64;
  config.tied_embeddings = true;
  config.initializer_range = 0.1;
  config.pad_token_id = 0;
  return config;
}

// Sequences that count upwards from a random token, so that there is something to learn.
inline Dataset toy_data(std::int64_t rows, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Dataset data;
  data.seq = 32;
  for (std::int64_t row = 0; row < rows; ++row) {
    Example example;
    const auto length = static_cast<std::int32_t>(6 + random() % 10);
    auto token = static_cast<std::int32_t>(random() % kToyVocab);
    for (std::int32_t i = 0; i < length; ++i) example.ids.push_back(1 + token++ % (kToyVocab - 1));
    example.masked = 2;
    example.fingerprint = fingerprint_tokens(example.ids);
    data.examples.push_back(std::move(example));
  }
  return data;
}

inline Material toy_material(std::int64_t rows = 128, std::uint64_t seed = 1) {
  Material out;
  auto model = make_model(toy_config(), seed);
  EXPECT_TRUE(model.has_value());
  out.model = model->model;
  out.model_hash = model->hash;
  out.parameters = model->parameters;
  out.data = toy_data(rows, seed);
  out.data_hash = seed * 1000003 + static_cast<std::uint64_t>(rows);
  return out;
}

}  // namespace lockstep::train
