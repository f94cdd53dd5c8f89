#include "monitor/publication.h"

#include <fmt/format.h>

#include <array>

#include "base/bytes.h"

namespace lockstep::monitor {
namespace {

constexpr std::uint32_t kMagic = 0x50534b4c;  // "LKSP"
constexpr std::uint16_t kVersion = 1;

// Order is the format: new metrics go to the end and raise kVersion.
constexpr std::array kMetrics = {
    &StepStats::loss_mean,
    &StepStats::loss_std,
    &StepStats::loss_range,
    &StepStats::token_loss,
    &StepStats::norm_mean,
    &StepStats::norm_std,
    &StepStats::norm_cv,
    &StepStats::cosine_mean,
    &StepStats::cosine_mean_error,
    &StepStats::cosine_pooled,
    &StepStats::cosine_pooled_sketch,
    &StepStats::reduced_norm,
    &StepStats::mean_norm,
    &StepStats::noise_ratio,
    &StepStats::noise_ratio_smooth,
    &StepStats::reduction_gap,
    &StepStats::reduction_scale,
};
constexpr std::size_t kBytes = 4 + 2 + 2 + 8 + 4 + 4 + 4 + 8 * kMetrics.size();
static_assert(kBytes <= kMaxPublicationBytes);

}  // namespace

std::vector<std::byte> pack_publication(const StepStats& stats) {
  std::vector<std::byte> bytes(kBytes);
  base::ByteWriter out(bytes);
  out.u32(kMagic);
  out.u16(kVersion);
  out.u16(stats.cosine_exact ? 1 : 0);
  out.u64(stats.step);
  out.u32(stats.workers);
  out.u32(stats.missing);
  std::uint32_t present = 0;
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    if ((stats.*kMetrics[i]).has_value()) present |= 1U << i;
  }
  out.u32(present);
  for (auto metric : kMetrics) out.f64((stats.*metric).value_or(0.0));
  return bytes;
}

Result<StepStats> unpack_publication(std::span<const std::byte> bytes) {
  base::ByteReader in(bytes);
  if (bytes.size() != kBytes || in.u32() != kMagic || in.u16() != kVersion) {
    return Status(StatusCode::kCorrupt,
                  fmt::format("rank 0 published {} bytes that are no metrics of version {}", bytes.size(), kVersion));
  }
  StepStats stats;
  stats.cosine_exact = in.u16() != 0;
  stats.step = in.u64();
  stats.workers = in.u32();
  stats.missing = in.u32();
  const std::uint32_t present = in.u32();
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    const double value = in.f64();
    if (((present >> i) & 1U) != 0) stats.*kMetrics[i] = value;
  }
  return stats;
}

}  // namespace lockstep::monitor
