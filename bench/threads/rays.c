/* A ray tracer: tiles of the picture come from a shared queue, and every ray takes its number from one counter under a
 * lock. So one lock is taken for each ray.
 *
 *     rays THREADS [WIDTH [SPHERES]] */
#include <math.h>

#include "kernel.h"

enum { TILE = 8, MAX_BOUNCES = 4 };

struct sphere {
  double centre[3], radius, shade, mirror;
};

static long width, spheres, tiles;
static struct sphere* sphere;
static unsigned char* picture;

static struct {
  pthread_mutex_t lock;
  long next;
} queue = {PTHREAD_MUTEX_INITIALIZER, 0};

static struct {
  pthread_mutex_t lock;
  long rays;
} count = {PTHREAD_MUTEX_INITIALIZER, 0};

static long next_tile(void) {
  pthread_mutex_lock(&queue.lock);
  const long tile = queue.next < tiles ? queue.next++ : -1;
  pthread_mutex_unlock(&queue.lock);
  return tile;
}

static double dot(const double* a, const double* b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* The first sphere on the way, or -1; `distance`: to it. */
static long hit(const double from[3], const double way[3], double* distance) {
  long first = -1;
  for (long s = 0; s < spheres; ++s) {
    double to[3];
    for (int d = 0; d < 3; ++d) to[d] = sphere[s].centre[d] - from[d];
    const double along = dot(to, way);
    const double rest = along * along - dot(to, to) + sphere[s].radius * sphere[s].radius;
    if (rest < 0) continue;
    const double at = along - sqrt(rest);
    if (at > 1e-6 && (first < 0 || at < *distance)) {
      first = s;
      *distance = at;
    }
  }
  return first;
}

static double trace(const double from[3], const double way[3], int bounces) {
  pthread_mutex_lock(&count.lock);
  ++count.rays;
  pthread_mutex_unlock(&count.lock);
  double distance = 0;
  const long s = hit(from, way, &distance);
  if (s < 0) return 0.2 + 0.2 * way[1];
  double at[3], normal[3];
  for (int d = 0; d < 3; ++d) {
    at[d] = from[d] + distance * way[d];
    normal[d] = (at[d] - sphere[s].centre[d]) / sphere[s].radius;
  }
  const double light[3] = {0.48, 0.64, -0.6};
  double bright = sphere[s].shade * (0.1 + 0.9 * fmax(0, dot(normal, light)));
  if (bounces < MAX_BOUNCES && sphere[s].mirror > 0) {
    double back[3];
    for (int d = 0; d < 3; ++d) back[d] = way[d] - 2 * dot(way, normal) * normal[d];
    bright += sphere[s].mirror * trace(at, back, bounces + 1);
  }
  return bright;
}

static void work(long thread) {
  (void)thread;
  const long across = width / TILE;
  for (long tile; (tile = next_tile()) >= 0;) {
    for (long p = 0; p < TILE * TILE; ++p) {
      const long x = tile % across * TILE + p % TILE, y = tile / across * TILE + p / TILE;
      const double from[3] = {0, 0, -3};
      double way[3] = {(double)x / (double)width - 0.5, 0.5 - (double)y / (double)width, 1};
      const double length = sqrt(dot(way, way));
      for (int d = 0; d < 3; ++d) way[d] /= length;
      const double bright = trace(from, way, 0);
      picture[y * width + x] = (unsigned char)(255 * fmin(1, fmax(0, bright)));
    }
  }
}

int main(int argc, char** argv) {
  const long threads = argument(argc, argv, 1, "THREADS", 1, 1, MAX_THREADS);
  width = argument(argc, argv, 2, "WIDTH", 256, TILE, 8192) / TILE * TILE;
  spheres = argument(argc, argv, 3, "SPHERES", 60, 1, 100000);
  tiles = width / TILE * (width / TILE);
  sphere = room((size_t)spheres, sizeof *sphere);
  picture = room((size_t)(width * width), 1);
  for (long s = 0; s < spheres; ++s) {
    const uint64_t n = (uint64_t)s * 8;
    for (int d = 0; d < 3; ++d) sphere[s].centre[d] = 2 * uniform(3, n + (uint64_t)d) - (d < 2 ? 1 : 0);
    sphere[s].radius = 0.05 + 0.15 * uniform(3, n + 3);
    sphere[s].shade = 0.3 + 0.5 * uniform(3, n + 4);
    sphere[s].mirror = uniform(3, n + 5) < 0.5 ? 0.4 : 0;
  }
  run_team(threads, work);
  uint64_t result = hash_bytes(HASH_BEGIN, picture, (size_t)(width * width));
  return report("rays", hash_bytes(result, &count.rays, sizeof count.rays));
}
