/* A radix sort: threads count the digits of their keys, learn from all counts where theirs go, and write them there. Every
 * thread writes to all of the result.
 *
 *     sort THREADS [KEYS] */
#include <string.h>

#include "kernel.h"

enum { BITS = 8, DIGITS = 1 << BITS, KEY_BITS = 32 };

static long keys;
static uint32_t *from, *to;
static long (*counts)[DIGITS]; /* by thread */

static void work(long thread) {
  const long first = share(keys, thread, team.threads), end = share(keys, thread + 1, team.threads);
  const uint32_t* source = from;
  uint32_t* target = to;
  for (int shift = 0; shift < KEY_BITS; shift += BITS) {
    long mine[DIGITS] = {0};
    for (long i = first; i < end; ++i) ++mine[(source[i] >> shift) % DIGITS];
    memcpy(counts[thread], mine, sizeof mine);
    wait_for_all();
    long place = 0;
    for (int d = 0; d < DIGITS; ++d) {
      for (long t = 0; t < team.threads; ++t) {
        if (t == thread) mine[d] = place;
        place += counts[t][d];
      }
    }
    for (long i = first; i < end; ++i) target[mine[(source[i] >> shift) % DIGITS]++] = source[i];
    wait_for_all();
    const uint32_t* const written = target;
    target = source == from ? from : to;
    source = written;
  }
}

int main(int argc, char** argv) {
  const long threads = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  keys = argument(argc, argv, 2, "KEYS", 1 << 20, 1, 1L << 31);
  from = room((size_t)keys, sizeof *from);
  to = room((size_t)keys, sizeof *to);
  counts = room(MAX_THREADS, sizeof *counts);
  for (long i = 0; i < keys; ++i) from[i] = (uint32_t)mix((uint64_t)i);
  run_team(threads, work);
  for (long i = 1; i < keys; ++i) { /* an even number of digits: the last target is `from` */
    if (from[i - 1] > from[i]) {
      fprintf(stderr, "sort: WRONG at %ld\n", i);
      return 1;
    }
  }
  return report("sort", hash_bytes(HASH_BEGIN, from, (size_t)keys * sizeof *from));
}
