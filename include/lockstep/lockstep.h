/* The C interface of Lockstep, for C, and for every language that can call C.
 *
 * Handles are opaque. Option and result structs carry their own size first, so that a program built against an older
 * header works with a newer library: fill them with the *_init function, then change what you want. Functions return a
 * lockstep_status; after anything but LOCKSTEP_OK, lockstep_last_error() says what, where and what to do. No exception
 * leaves the library. Inside training nothing blocks, and the first failure only turns monitoring off. */
#ifndef LOCKSTEP_LOCKSTEP_H_
#define LOCKSTEP_LOCKSTEP_H_

#include <stddef.h>
#include <stdint.h>

#include "lockstep/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t lockstep_status;
enum {
  LOCKSTEP_OK = 0,
  LOCKSTEP_INVALID_ARGUMENT = 1,
  LOCKSTEP_FAILED_PRECONDITION = 2,
  LOCKSTEP_DEADLINE_EXCEEDED = 3,
  LOCKSTEP_UNAVAILABLE = 4,
  LOCKSTEP_CORRUPT = 5,
  LOCKSTEP_IO = 6,
  LOCKSTEP_UNSUPPORTED = 7,
  LOCKSTEP_INTERNAL = 8
};

/* Why the newest failed call of this thread failed; "" when none did. Valid until this thread's next call. */
LOCKSTEP_API const char* lockstep_last_error(void);
LOCKSTEP_API const char* lockstep_version(void);

/* ---- digest ---- */

enum { LOCKSTEP_FLOAT32 = 0, LOCKSTEP_FLOAT64 = 1, LOCKSTEP_BFLOAT16 = 2, LOCKSTEP_FLOAT16 = 3 };

/* A contiguous run of elements of one parameter; `data` has any alignment and is only read. */
typedef struct lockstep_segment {
  uint32_t parameter;
  uint32_t dtype;
  uint64_t offset; /* index in the parameter of the first element */
  const void* data;
  uint64_t count; /* elements */
} lockstep_segment;

typedef struct lockstep_digest_options {
  size_t size;
  uint32_t k;       /* sketch dimension: a power of two, 256 to 65536 */
  uint32_t threads; /* training owns the cores: 1 */
  uint64_t seed;    /* of the sketch; all ranks share it */
} lockstep_digest_options;

typedef struct lockstep_digest {
  size_t size;
  uint64_t count;
  double sum_squares;
  double max_abs;
  uint64_t nonfinite;
  uint64_t hash;
} lockstep_digest;

LOCKSTEP_API void lockstep_digest_options_init(lockstep_digest_options* options);

/* The digest of all segments together. `sketch` receives options->k numbers, or is NULL; `options` may be NULL. */
LOCKSTEP_API lockstep_status lockstep_digest_segments(const lockstep_segment* segments, size_t segment_count,
                                                      const lockstep_digest_options* options, lockstep_digest* out,
                                                      double* sketch);

/* The hash alone, added over the segments, at memory speed. */
LOCKSTEP_API lockstep_status lockstep_hash_segments(const lockstep_segment* segments, size_t segment_count,
                                                    uint32_t threads, uint64_t* out);

/* ---- monitor ---- */

typedef struct lockstep_monitor lockstep_monitor;
typedef struct lockstep_group lockstep_group; /* workers that are threads of one process */

enum {
  LOCKSTEP_STATE_WEIGHTS = 0,
  LOCKSTEP_STATE_BUFFERS = 1,
  LOCKSTEP_STATE_OPTIMIZER = 2,
  LOCKSTEP_STATE_RNG = 3,
  LOCKSTEP_STATE_CONFIG = 4
};

enum {
  LOCKSTEP_SET_INTERVAL = 0,
  LOCKSTEP_SET_SKETCH_INTERVAL = 1,
  LOCKSTEP_SET_EXACT_COSINE_INTERVAL = 2,
  LOCKSTEP_SET_STATE_INTERVAL = 3,
  LOCKSTEP_SET_DEADLINE_MS = 4,
  LOCKSTEP_SET_COSINE_MATRIX = 5
};

/* One step's metrics. NaN stands for "no verdict": the data cannot support the number. */
typedef struct lockstep_step_stats {
  size_t size;
  uint64_t step;
  uint32_t workers; /* whose records arrived; 0: no step was analysed yet */
  uint32_t missing;
  double loss_mean, loss_std, loss_range, token_loss;
  double norm_mean, norm_std, norm_cv;
  double cosine_mean, cosine_mean_error; /* error 0: exact */
  double cosine_pooled, cosine_pooled_sketch;
  double reduced_norm, mean_norm;
  double noise_ratio, noise_ratio_smooth;
  double reduction_gap, reduction_scale;
} lockstep_step_stats;

typedef struct lockstep_health {
  size_t size;
  int32_t enabled;
  int32_t reason; /* a lockstep_status: why it was disabled */
  uint64_t steps_begun, steps_sent, steps_analysed;
  uint64_t drops_queue, drops_late, missing_records;
  uint64_t rejected_records, rejected_calls, observer_failures, bytes_sent;
} lockstep_health;

/* Copies `bytes` bytes of `send` from every rank into `receive` (world x bytes, in rank order); 0 when it worked.
 * Called on the monitor's thread, by every rank, once per watched step. It must bound its own waiting. */
typedef int (*lockstep_all_gather)(const void* send, size_t bytes, void* receive, void* user);
typedef void (*lockstep_log)(const char* line, void* user);
/* Every analysed step, on rank 0, on the monitor's thread. */
typedef void (*lockstep_on_step)(const lockstep_step_stats* stats, void* user);

typedef struct lockstep_monitor_options {
  size_t size;
  uint32_t rank, world;
  uint32_t k, k_reduced, max_fingerprints;
  uint32_t threads;
  uint64_t seed;
  uint32_t queue_capacity, deadline_ms;
  uint32_t interval, sketch_interval, exact_cosine_interval, state_interval;
  uint32_t cosine_matrix;

  /* How records travel: the caller's all-gather, or a group of threads, or neither: then the host carries bytes itself
   * with lockstep_pack_step and lockstep_ingest_step. */
  lockstep_all_gather all_gather;
  void* all_gather_user;
  lockstep_group* group;

  lockstep_log log; /* NULL: standard error */
  void* log_user;
  lockstep_on_step on_step;
  void* on_step_user;
} lockstep_monitor_options;

LOCKSTEP_API void lockstep_monitor_options_init(lockstep_monitor_options* options);
LOCKSTEP_API lockstep_status lockstep_monitor_create(const lockstep_monitor_options* options, lockstep_monitor** out);
LOCKSTEP_API void lockstep_monitor_destroy(lockstep_monitor* monitor); /* NULL is allowed; safe in mid-step */

LOCKSTEP_API lockstep_status lockstep_group_create(uint32_t world, lockstep_group** out);
LOCKSTEP_API void lockstep_group_destroy(lockstep_group* group); /* monitors made from it live on */

/* The training thread's calls: they return nothing, cost little, and do nothing with a NULL or disabled monitor. */
LOCKSTEP_API void lockstep_begin_step(lockstep_monitor* monitor, uint64_t step);
LOCKSTEP_API void lockstep_on_gradient(lockstep_monitor* monitor, const lockstep_segment* segment);
LOCKSTEP_API void lockstep_on_reduced(lockstep_monitor* monitor, const lockstep_segment* segment);
LOCKSTEP_API void lockstep_on_direction_sum(lockstep_monitor* monitor, const lockstep_segment* segment);
LOCKSTEP_API void lockstep_on_batch(lockstep_monitor* monitor, const uint64_t* fingerprints, size_t count);
LOCKSTEP_API void lockstep_on_loss(lockstep_monitor* monitor, double loss, uint64_t tokens);
LOCKSTEP_API void lockstep_on_state_hash(lockstep_monitor* monitor, uint32_t channel, uint64_t hash);
LOCKSTEP_API void lockstep_on_state(lockstep_monitor* monitor, uint32_t channel, const lockstep_segment* segment);
LOCKSTEP_API void lockstep_end_step(lockstep_monitor* monitor);

LOCKSTEP_API int32_t lockstep_watching(const lockstep_monitor* monitor);
LOCKSTEP_API int32_t lockstep_wants_direction_sum(const lockstep_monitor* monitor);
LOCKSTEP_API int32_t lockstep_wants_state(const lockstep_monitor* monitor);
LOCKSTEP_API double lockstep_gradient_norm(const lockstep_monitor* monitor);

LOCKSTEP_API lockstep_status lockstep_set(lockstep_monitor* monitor, uint32_t setting, uint64_t value);
LOCKSTEP_API lockstep_status lockstep_get_health(const lockstep_monitor* monitor, lockstep_health* out);
/* The newest problem in words, "" when there was none; valid until this thread's next call. */
LOCKSTEP_API const char* lockstep_last_problem(const lockstep_monitor* monitor);
LOCKSTEP_API lockstep_status lockstep_latest(const lockstep_monitor* monitor, lockstep_step_stats* out);

/* For hosts that carry bytes themselves. Largest packed record of these options: */
LOCKSTEP_API size_t lockstep_packed_size(const lockstep_monitor_options* options);
/* The oldest ended step not taken yet; LOCKSTEP_UNAVAILABLE when there is none. *written gets its size; when that
 * exceeds capacity nothing is written and the call is LOCKSTEP_INVALID_ARGUMENT (the record is then lost: use
 * packed_size). */
LOCKSTEP_API lockstep_status lockstep_pack_step(lockstep_monitor* monitor, void* buffer, size_t capacity,
                                                size_t* written);
/* All ranks' packed records of one step, on the rank that analyses; size 0 stands for a missing rank. */
LOCKSTEP_API lockstep_status lockstep_ingest_step(lockstep_monitor* monitor, const void* const* records,
                                                  const size_t* sizes, size_t count);

LOCKSTEP_API lockstep_status lockstep_flush(lockstep_monitor* monitor, uint32_t timeout_ms);
LOCKSTEP_API lockstep_status lockstep_close(lockstep_monitor* monitor, uint32_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* LOCKSTEP_LOCKSTEP_H_ */
