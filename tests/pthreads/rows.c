/* Relaxation of a grid: rows in shares, a barrier in a global, the largest change under a mutex; main() takes part. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSide = 130, kSteps = 20 };

static double* grid[2];
static int threads;
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double largest[kSteps];

static void relax(int id) {
  const int inner = kSide - 2;
  const int first = 1 + inner * id / threads, end = 1 + inner * (id + 1) / threads;
  for (int step = 0; step < kSteps; ++step) {
    const double* const from = grid[step % 2];
    double* const to = grid[(step + 1) % 2];
    double most = 0;
    for (int i = first; i < end; ++i) {
      for (int j = 1; j < kSide - 1; ++j) {
        const int at = i * kSide + j;
        to[at] = 0.25 * (from[at - 1] + from[at + 1] + from[at - kSide] + from[at + kSide]);
        most = fmax(most, fabs(to[at] - from[at]));
      }
    }
    pthread_mutex_lock(&lock);
    largest[step] = fmax(largest[step], most);
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&barrier);
  }
}

static void* run(void* argument) {
  relax((int)(long)argument);
  return NULL;
}

int main(int argc, char** argv) {
  threads = argc > 1 ? atoi(argv[1]) : 4;
  for (int g = 0; g < 2; ++g) {
    grid[g] = calloc(kSide * kSide, sizeof(double));
    for (int i = 0; i < kSide; ++i) grid[g][i] = 100, grid[g][i * kSide] = i;
  }
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  pthread_t names[64];
  for (long i = 1; i < threads; ++i) pthread_create(&names[i], NULL, run, (void*)i);
  relax(0);
  for (int i = 1; i < threads; ++i) pthread_join(names[i], NULL);
  double sum = 0;
  for (int i = 0; i < kSide * kSide; ++i) sum += grid[kSteps % 2][i];
  printf("rows: sum %.9f, last change %.9f\n", sum, largest[kSteps - 1]);
  return 0;
}
