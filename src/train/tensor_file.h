// Tensors to and from safetensors files.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/status.h"
#include "train/safetensors.h"

namespace lockstep::train {

using NamedTensor = std::pair<std::string, at::Tensor>;

// A tensor of the file in its own dtype. Refuses unsigned 16-bit and wider types, which libtorch does not have.
Result<at::Tensor> read_tensor(const SafetensorsReader& file, const TensorInfo& info);

// In the given order. Tensors are brought to contiguous CPU memory first where they are not.
Status write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                     const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::train
