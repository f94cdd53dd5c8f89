#include "train/tensor_file.h"

#include <fmt/core.h>

#include <optional>

#include "train/json_text.h"
#include "train/torch_guard.h"

namespace lockstep::train {
namespace {

struct DtypePair {
  TensorDtype file;
  at::ScalarType torch;
};
constexpr DtypePair kPairs[] = {{TensorDtype::kBool, at::kBool},  {TensorDtype::kU8, at::kByte},
                                {TensorDtype::kI8, at::kChar},    {TensorDtype::kI16, at::kShort},
                                {TensorDtype::kF16, at::kHalf},   {TensorDtype::kBf16, at::kBFloat16},
                                {TensorDtype::kI32, at::kInt},    {TensorDtype::kF32, at::kFloat},
                                {TensorDtype::kF64, at::kDouble}, {TensorDtype::kI64, at::kLong}};

std::optional<at::ScalarType> torch_dtype(TensorDtype dtype) {
  for (const DtypePair& pair : kPairs) {
    if (pair.file == dtype) return pair.torch;
  }
  return std::nullopt;
}

std::optional<TensorDtype> file_dtype(at::ScalarType dtype) {
  for (const DtypePair& pair : kPairs) {
    if (pair.torch == dtype) return pair.file;
  }
  return std::nullopt;
}

}  // namespace

Result<at::Tensor> read_tensor(const SafetensorsReader& file, const TensorInfo& info) {
  const auto dtype = torch_dtype(info.dtype);
  if (!dtype) {
    return Status(StatusCode::kUnsupported, fmt::format("{}: tensor \"{}\" is {}, which libtorch does not have",
                                                        file.source(), printable(info.name), dtype_name(info.dtype)));
  }
  return guard_torch("read a tensor", [&]() -> Result<at::Tensor> {
    at::Tensor tensor = at::empty(info.shape, at::TensorOptions(*dtype));
    const std::span<std::byte> memory(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    if (Status status = file.read(info, memory); !status) return status;
    return tensor;
  });
}

Status write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                     const std::map<std::string, std::string>& metadata) {
  return guard_torch("write tensors", [&]() -> Status {
    std::vector<at::Tensor> held;  // keeps copies alive until they are written
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors) {
      const auto dtype = file_dtype(tensor.scalar_type());
      if (!dtype) {
        return {StatusCode::kUnsupported,
                fmt::format("{}: tensor \"{}\" is of a dtype that safetensors does not have", path.string(), name)};
      }
      const at::Tensor& ready = held.emplace_back(tensor.detach().to(at::kCPU).contiguous());
      list.push_back(
          {name, *dtype, ready.sizes().vec(), {static_cast<const std::byte*>(ready.data_ptr()), ready.nbytes()}});
    }
    return write_safetensors(path, list, metadata);
  });
}

}  // namespace lockstep::train
