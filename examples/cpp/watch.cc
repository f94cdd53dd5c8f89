// Four workers, threads of one process, on a least-squares problem. Worker 2 reads the batches of worker 1.
#include <lockstep/monitor.h>

#include <barrier>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

int main() {
  constexpr int kWorkers = 4, kSteps = 20, kSize = 10000;
  auto transports = lockstep::make_in_process_transports(kWorkers);
  std::vector<std::vector<float>> gradients(kWorkers, std::vector<float>(kSize));
  std::vector<float> mean(kSize);
  std::barrier everyone(kWorkers);

  const auto worker = [&](int rank) {
    auto monitor = lockstep::Monitor::create(rank, kWorkers, {}, std::move(transports[rank])).value();  // attach
    for (int step = 0; step < kSteps; ++step) {
      monitor->begin_step(step);
      std::mt19937 data(1000 * step + (rank == 2 ? 1 : rank));
      std::normal_distribution<float> noise;
      for (float& element : gradients[rank]) element = 0.5F + noise(data);
      monitor->on_gradient({0, 0, gradients[rank].data(), kSize, lockstep::DType::kFloat32});  // before the reduction
      everyone.arrive_and_wait();
      if (rank == 0) {
        for (int i = 0; i < kSize; ++i) {
          mean[i] = (gradients[0][i] + gradients[1][i] + gradients[2][i] + gradients[3][i]) / kWorkers;
        }
      }
      everyone.arrive_and_wait();
      monitor->on_reduced({0, 0, mean.data(), kSize, lockstep::DType::kFloat32});  // what the optimizer will use
      monitor->end_step();
    }
    if (!monitor->flush(std::chrono::seconds(10)).is_ok()) return;
    if (rank != 0) return;
    const lockstep::StepStats stats = monitor->latest();
    std::printf("step %llu: mean pairwise cosine %.3f +- %.3f; with the mean of the others:\n",
                static_cast<unsigned long long>(stats.step), *stats.cosine_mean, *stats.cosine_mean_error);
    for (const auto& one : stats.ranks)
      std::printf("  rank %u: norm %.1f, cosine %.3f\n", one.rank, *one.norm, *one.leave_one_out);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorkers; ++rank) threads.emplace_back(worker, rank);
  for (auto& thread : threads) thread.join();
}
