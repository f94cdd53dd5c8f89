/* Two workers in C99. The host carries the packed records itself, as an engine with its own network would. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWorkers = 2, kSize = 1000 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, lockstep_last_error());
  return 1;
}

int main(void) {
  lockstep_monitor* monitors[kWorkers];
  lockstep_monitor_options options;
  void* records[kWorkers];
  size_t sizes[kWorkers];
  float gradient[kSize];

  lockstep_monitor_options_init(&options);
  options.world = kWorkers;
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    options.rank = rank;
    if (lockstep_monitor_create(&options, &monitors[rank]) != LOCKSTEP_OK) return fail("create");
  }
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    lockstep_segment segment = {0, LOCKSTEP_FLOAT32, 0, gradient, kSize};
    for (int i = 0; i < kSize; ++i) gradient[i] = rank == 0 ? 1.0F : (i % 2 == 0 ? 1.0F : 0.0F);
    lockstep_begin_step(monitors[rank], 0);
    lockstep_on_gradient(monitors[rank], &segment);
    lockstep_on_loss(monitors[rank], 1.0 + rank, 128);
    lockstep_end_step(monitors[rank]);

    records[rank] = malloc(lockstep_packed_size(&options));
    if (lockstep_pack_step(monitors[rank], records[rank], lockstep_packed_size(&options), &sizes[rank]) !=
        LOCKSTEP_OK) {
      return fail("pack");
    }
  }
  /* A real host sends records[rank] to rank 0 here. */
  if (lockstep_ingest_step(monitors[0], (const void* const*)records, sizes, kWorkers) != LOCKSTEP_OK)
    return fail("ingest");
  if (lockstep_flush(monitors[0], 10000) != LOCKSTEP_OK) return fail("flush");

  lockstep_step_stats stats = {.size = sizeof stats};
  if (lockstep_latest(monitors[0], &stats) != LOCKSTEP_OK) return fail("latest");
  printf("loss %.2f, std %.2f; gradient norms differ by %.1f %%; cosine %.3f +- %.3f (exact: 0.707)\n", stats.loss_mean,
         stats.loss_std, 100 * stats.norm_cv, stats.cosine_mean, stats.cosine_mean_error);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    lockstep_monitor_destroy(monitors[rank]);
    free(records[rank]);
  }
  return 0;
}
